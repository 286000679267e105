"""oban (Python) with psycopg, limit 50."""

import asyncio

from oban import Oban, worker
from oban.schema import install
from peer import URI, chunks, main, note_first, payload
from psycopg_pool import AsyncConnectionPool


@worker(queue="default")
class Bench:
    async def process(self, job):
        note_first()


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


async def work():
    async with Oban(pool=await opened(), queues={"default": 50}):
        await asyncio.Event().wait()


main(setup, preload, work)
