"""oban (Python) with psycopg, limit 50."""

import asyncio
from contextlib import asynccontextmanager

from oban import Oban, worker
from oban.schema import install
from peer import ORDER, URI, chunks, main, note_start, payload
from psycopg_pool import AsyncConnectionPool


@worker(queue="default")
class Bench:
    async def process(self, job):
        note_start(lambda: job.args["i"])


async def opened():
    pool = AsyncConnectionPool(conninfo=URI, min_size=2, max_size=10, open=False)
    await pool.open()
    return pool


async def setup():
    pool = await opened()
    await install(pool)
    await pool.close()


async def preload(count):
    pool = await opened()
    client = Oban(pool=pool)
    for numbers in chunks(count):
        await client.enqueue_many(*[Bench.new(payload(number)) for number in numbers])
    await pool.close()


@asynccontextmanager
async def writer():
    pool = await opened()
    client = Oban(pool=pool)
    async with pool.connection() as connection:

        async def commit_one(number):
            async with connection.transaction():
                await connection.execute(ORDER)
                await client.enqueue(Bench.new(payload(number)), conn=connection)

        yield commit_one
    await pool.close()


async def work():
    async with Oban(pool=await opened(), queues={"default": 50}):
        await asyncio.Event().wait()


main(setup, preload, writer, work)
