"""procrastinate with psycopg, concurrency 20."""

from contextlib import asynccontextmanager

import procrastinate
from peer import URI, chunks, main, note_start, payload

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URI, min_size=4, max_size=20))


@app.task(name="bench")
async def bench(i, note):
    note_start(lambda: i)


async def setup():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def preload(count):
    async with app.open_async():
        for numbers in chunks(count):
            await bench.batch_defer_async(*[payload(number) for number in numbers])


@asynccontextmanager
async def writer():
    async with app.open_async():

        async def commit_one(number):
            """Defer in a transaction of its own: its connector cannot join the caller's."""
            await bench.defer_async(**payload(number))

        yield commit_one


async def work():
    async with app.open_async():
        await app.run_worker_async(concurrency=20)


main(setup, preload, writer, work)
