from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from relays.http import resolver
from relays.http.resolver import Resolver, lookup


def test_everybody_who_asks_at_once_shares_one_lookup():
    asked = []
    release = threading.Event()

    def ask(host):
        asked.append(host)
        release.wait(20)
        return ("192.0.2.1",)

    async def run():
        resolve = Resolver(ask).resolve
        tasks = [asyncio.create_task(resolve("a.test")) for _ in range(10)]
        await asyncio.sleep(0)
        release.set()
        answers = await asyncio.gather(*tasks)
        return [*answers, await resolve("a.test")]

    assert asyncio.run(run()) == [("192.0.2.1",)] * 11
    assert asked == ["a.test"]


def test_answer_is_asked_for_again_once_it_is_old(monkeypatch):
    monkeypatch.setattr(resolver, "KEEP_SECONDS", -1.0)
    answers = iter([("192.0.2.1",), ("192.0.2.2",)])

    async def run():
        resolve = Resolver(lambda _host: next(answers)).resolve
        return [await resolve("a.test"), await resolve("a.test")]

    assert asyncio.run(run()) == [("192.0.2.1",), ("192.0.2.2",)]


def test_failure_is_not_kept():
    answers = iter([OSError("no such name"), ("192.0.2.1",)])

    def ask(_host):
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def run():
        resolve = Resolver(ask).resolve
        with pytest.raises(OSError, match="no such name"):
            await resolve("a.test")
        return await resolve("a.test")

    assert asyncio.run(run()) == ("192.0.2.1",)


def test_name_that_hangs_ends_in_time_and_stops_no_other(monkeypatch):
    monkeypatch.setattr(resolver, "RESOLVE_SECONDS", 0.2)
    release = threading.Event()

    def ask(host):
        if host.startswith("slow"):
            release.wait(20)
        return ("192.0.2.1",)

    async def run():
        resolve = Resolver(ask).resolve
        slow = [asyncio.create_task(resolve(f"slow{n}.test")) for n in range(20)]
        quick = await resolve("quick.test")
        for task in slow:
            with pytest.raises(OSError, match=r"no answer within 0\.2 s"):
                await task
        return quick

    assert asyncio.run(run()) == ("192.0.2.1",)
    release.set()


def test_one_callers_cancellation_does_not_take_the_answer_from_another():
    release = threading.Event()

    def ask(_host):
        release.wait(20)
        return ("192.0.2.1",)

    async def run():
        resolve = Resolver(ask).resolve
        first, second = asyncio.create_task(resolve("a.test")), asyncio.create_task(resolve("a.test"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        release.set()
        return await second

    assert asyncio.run(run()) == ("192.0.2.1",)


def test_process_ends_while_a_lookup_hangs():
    code = (
        "import asyncio, time\n"
        "from relays.http import resolver\n"
        "resolver.RESOLVE_SECONDS = 0.1\n"
        "try:\n"
        "    asyncio.run(resolver.Resolver(lambda host: time.sleep(60)).resolve('a.test'))\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "no answer within 0.1 s\n"


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".test", "no-such-name.invalid"])
def test_what_cannot_be_looked_up_is_an_os_error(host):
    with pytest.raises(OSError):
        lookup(host)


def test_lookup_gives_each_address_once():
    addresses = lookup("localhost")
    assert "127.0.0.1" in addresses
    assert len(addresses) == len(set(addresses))


def test_name_without_an_address_is_an_os_error():
    with pytest.raises(OSError, match="has no address"):
        asyncio.run(Resolver(lambda _host: ()).resolve("empty.test"))


def test_names_that_were_slow_leave_threads_to_the_others(monkeypatch):
    monkeypatch.setattr("relays.http.resolver.RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr("relays.http.resolver.MOST_THREADS", 2)
    monkeypatch.setattr("relays.http.resolver.MOST_THREADS_OF_SLOW_NAMES", 1)
    may_answer, hanging = threading.Event(), threading.Event()

    def ask(host):
        if host == "good.test":
            return ("192.0.2.1",)
        if hanging.is_set():
            may_answer.wait(60)
        else:
            time.sleep(0.1)
        raise OSError("no name server answers")

    async def run():
        resolver = Resolver(ask)
        dead = [f"dead-{number}.test" for number in range(8)]
        await asyncio.gather(*(resolver.resolve(host) for host in dead), return_exceptions=True)
        if resolver._asking:
            await asyncio.wait(resolver._asking.values())
        hanging.set()
        await asyncio.gather(*(resolver.resolve(host) for host in dead), return_exceptions=True)
        monkeypatch.setattr("relays.http.resolver.RESOLVE_SECONDS", 60)
        try:
            return await resolver.resolve("good.test")
        finally:
            may_answer.set()

    assert asyncio.run(run()) == ("192.0.2.1",)
