"""pgqueuer with asyncpg, batch_size 500 (its documented way to throughput)."""

import json

import asyncpg
from peer import URI, chunks, main, note_first, payload
from pgqueuer import AsyncpgDriver, PgQueuer, Queries


async def setup():
    await Queries(AsyncpgDriver(await asyncpg.connect(URI))).install()


async def preload(count):
    queries = Queries(AsyncpgDriver(await asyncpg.connect(URI)))
    for numbers in chunks(count):
        bodies = [json.dumps(payload(number)).encode() for number in numbers]
        await queries.enqueue(["bench"] * len(bodies), bodies, [0] * len(bodies))


async def work():
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(URI)))

    @queuer.entrypoint("bench")
    async def bench(job):
        note_first()

    await queuer.run(batch_size=500)


main(setup, preload, work)
