"""txoutbox with asyncpg, batch 1000, concurrency 200, NOTIFY on."""

import asyncpg
from peer import URI, chunks, main, note_first, payload
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


async def work():
    _, store = await storage()

    async def publish(message):
        note_first()

    relay = Relay(store, publish, config=RelayConfig(batch_size=1000, concurrency=200))
    await store.listen(relay.wake)
    await relay.run()


main(setup, preload, work)
