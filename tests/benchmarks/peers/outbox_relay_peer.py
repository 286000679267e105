"""outbox-relay itself, by the same commands: an attempt row for every event, concurrency 1000."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from peer import ORDER, URI, chunks, main, note_start, payload

import outbox
import relays
from outbox.migrate import migrate

DESTINATION = "insert into outbox.destinations (name, sink, event_types) values ('bench', 'handler', '{bench}')"
CONCURRENCY = os.environ.get("BENCH_CONCURRENCY", "1000")  # noqa: TID251 - set by the benchmark that starts this script
KEYS = int(os.environ.get("BENCH_KEYS", "0"))  # noqa: TID251 - see above
WORK = [
    "-m",
    "relays",
    "--dsn",
    URI,
    "--app",
    "outbox_relay_peer",
    "--concurrency",
    CONCURRENCY,
    "--log-level",
    "error",
]


@relays.handler("bench")
async def bench(delivery):
    note_start(lambda: json.loads(delivery.body)["i"])


@relays.handler("many")
async def many(delivery):
    note_start(lambda: 0)


@relays.handler("pausing")
async def pausing(delivery):
    await asyncio.sleep(0.01)


@relays.handler("slow")
async def slow(delivery):
    await asyncio.sleep(10)


async def setup():
    with psycopg.connect(URI, autocommit=True) as connection:
        migrate(connection)
        connection.execute(DESTINATION)


async def preload(count):
    with psycopg.connect(URI) as connection:
        for numbers in chunks(count):
            outbox.record_events(
                connection, [outbox.Event("bench", payload(number), key=key(number)) for number in numbers]
            )
            connection.commit()


def key(number):
    return f"k{number % KEYS}" if KEYS else None


@asynccontextmanager
async def writer():
    async with await psycopg.AsyncConnection.connect(URI, autocommit=True) as connection:

        async def commit_one(number):
            async with connection.transaction():
                await connection.execute(ORDER)
                await outbox.arecord_event(connection, "bench", payload(number), key=key(number))

        yield commit_one


async def work():
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])])
    os.execve(sys.executable, [sys.executable, *WORK], {**os.environ, "PYTHONPATH": path})  # noqa: S606, TID251 - becomes the relay, its environment handed on


if __name__ == "__main__":
    main(setup, preload, writer, work)
