"""procrastinate with psycopg, concurrency 20."""

import procrastinate
from peer import URI, chunks, main, note_first, payload

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URI, min_size=4, max_size=20))


@app.task(name="bench")
async def bench(i, note):
    note_first()


async def setup():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def preload(count):
    async with app.open_async():
        for numbers in chunks(count):
            await bench.batch_defer_async(*[payload(number) for number in numbers])


async def work():
    async with app.open_async():
        await app.run_worker_async(concurrency=20)


main(setup, preload, work)
