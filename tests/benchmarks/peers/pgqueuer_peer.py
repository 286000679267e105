"""pgqueuer with asyncpg, batch_size 500 (its documented way to throughput)."""

import json
from contextlib import asynccontextmanager

import asyncpg
from peer import ORDER, URI, chunks, main, note_start, payload
from pgqueuer import AsyncpgDriver, PgQueuer, Queries


async def setup():
    await Queries(AsyncpgDriver(await asyncpg.connect(URI))).install()


async def preload(count):
    queries = Queries(AsyncpgDriver(await asyncpg.connect(URI)))
    for numbers in chunks(count):
        bodies = [json.dumps(payload(number)).encode() for number in numbers]
        await queries.enqueue(["bench"] * len(bodies), bodies, [0] * len(bodies))


@asynccontextmanager
async def writer():
    connection = await asyncpg.connect(URI)
    queries = Queries(AsyncpgDriver(connection))

    async def commit_one(number):
        async with connection.transaction():
            await connection.execute(ORDER)
            await queries.enqueue(["bench"], [json.dumps(payload(number)).encode()], [0])

    yield commit_one


async def work():
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(URI)))

    @queuer.entrypoint("bench")
    async def bench(job):
        note_start(lambda: json.loads(job.payload)["i"])

    await queuer.run(batch_size=500)


main(setup, preload, writer, work)
