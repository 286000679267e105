"""faststream-outbox with asyncpg, 20 workers, fetch and flush batches of 100."""

import asyncio
from contextlib import asynccontextmanager

from faststream_outbox import OutboxBroker, make_outbox_table
from peer import ORDER, URI, chunks, main, note_start, payload
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

metadata = MetaData()
table = make_outbox_table(metadata, table_name="outbox")
engine = create_async_engine(URI.replace("postgresql://", "postgresql+asyncpg://"), pool_size=20, max_overflow=10)
broker = OutboxBroker(engine, outbox_table=table, logger=None)
sessions = async_sessionmaker(engine, expire_on_commit=False)


@broker.subscriber(
    "bench", max_workers=20, fetch_batch_size=100, min_fetch_interval=0.05, terminal_flush_batch_size=100
)
async def bench(body: dict) -> None:
    note_start(lambda: body["i"])


async def setup():
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)


async def preload(count):
    for numbers in chunks(count):
        async with sessions() as session, session.begin():
            await broker.publish_batch(*[payload(number) for number in numbers], queue="bench", session=session)


@asynccontextmanager
async def writer():
    async def commit_one(number):
        async with sessions() as session, session.begin():
            await session.execute(text(ORDER))
            await broker.publish(payload(number), queue="bench", session=session)

    yield commit_one


async def work():
    async with broker:
        await broker.start()
        await asyncio.Event().wait()


main(setup, preload, writer, work)
