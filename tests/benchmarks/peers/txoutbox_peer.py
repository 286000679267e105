"""txoutbox with asyncpg, batch 1000, concurrency 200, NOTIFY on."""

import json
from contextlib import asynccontextmanager

import asyncpg
from peer import ORDER, URI, chunks, main, note_start, payload
from txoutbox import Relay, RelayConfig
from txoutbox.adapters.postgres import PostgresStorage


async def storage():
    pool = await asyncpg.create_pool(URI, min_size=2, max_size=10)
    return pool, PostgresStorage(pool, notify_channel="outboxn")


async def setup():
    _, store = await storage()
    await store.create_schema()


async def preload(count):
    pool, store = await storage()
    for numbers in chunks(count):
        async with pool.acquire() as connection, connection.transaction():
            for number in numbers:
                await store.insert(connection, "bench", payload(number))


@asynccontextmanager
async def writer():
    pool, store = await storage()
    async with pool.acquire() as connection:

        async def commit_one(number):
            async with connection.transaction():
                await connection.execute(ORDER)
                await store.insert(connection, "bench", payload(number))

        yield commit_one


async def work():
    _, store = await storage()

    async def publish(message):
        note_start(lambda: json.loads(message.payload)["i"])

    relay = Relay(store, publish, config=RelayConfig(batch_size=1000, concurrency=200))
    await store.listen(relay.wake)
    await relay.run()


main(setup, preload, writer, work)
