"""Sessions: kept, repeated when stale, dropped when in doubt; ambiguous ends; deadlines (E02)."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from outbox.model import Certainty
from relays.results import Delivered
from relays.sinks.email import EmailSink, pool, session
from tests.mail_deliveries import delivery, destination, send, send_all
from tests.mail_server import MailServer, drop, every, hang, raw, reply


def test_one_session_carries_many_mails():
    with MailServer() as server:
        to = destination(server)
        assert all(isinstance(result, Delivered) for result in send_all(*[delivery(to) for _ in range(5)]))
        assert server.sessions == 1
        server.wait_until(lambda: server.count("QUIT") == 1, "a polite end")


def test_a_session_ends_after_so_many_messages(monkeypatch):
    monkeypatch.setattr(pool, "MESSAGES_PER_SESSION", 2)
    with MailServer() as server:
        to = destination(server)
        send_all(*[delivery(to) for _ in range(5)])
        assert [mail.session for mail in server.mails] == [1, 1, 2, 2, 3]


def test_an_idle_session_ends_by_itself(monkeypatch):
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.05)
    with MailServer() as server:
        to = destination(server)
        ended = lambda: server.wait_until(lambda: not server.wires[0].is_open, "the end of the idle session")  # noqa: E731
        mails = [delivery(to), delivery(to)]
        send_all(*mails, between=ended)
        assert [mail.session for mail in server.mails] == [1, 2]
        assert [mail.repeats for mail in mails] == [(), ()]


@pytest.mark.parametrize("last_words", [b"", b"421 4.4.2 idle too long\r\n"])
def test_e02_a_session_closed_while_idle_costs_nothing(last_words):
    with MailServer() as server:
        to = destination(server)
        results = send_all(delivery(to), delivery(to), delivery(to), between=lambda: server.end_sessions(last_words))
        assert all(isinstance(result, Delivered) for result in results)
        assert len(server.mails) == 3


@pytest.mark.parametrize("fault", [reply("421 4.4.2 too many messages", close=True), reply("421 4.7.0 bye"), drop()])
def test_e02_a_stale_session_is_repeated_once_at_once_uncharged(fault):
    with MailServer(MAIL=[None, fault, None]) as server:
        to = destination(server)
        repeated = delivery(to)
        results = send_all(delivery(to), repeated)
        assert all(isinstance(result, Delivered) for result in results)
        assert len(server.mails) == 2
        [repeat] = repeated.repeats
        assert (repeat.charged, repeat.permanent) == (False, False)
        assert server.sessions == 2


def test_e02_a_limit_of_messages_per_session_marks_no_mail():
    counts = {}

    def limit(_argument):
        counts["mail"] = counts.get("mail", 0) + 1
        return reply("421 4.7.0 limit of 5 messages", close=True) if counts["mail"] % 6 == 0 else None

    with MailServer(MAIL=limit) as server:
        to = destination(server)
        results = send_all(*[delivery(to) for _ in range(20)])
        assert all(isinstance(result, Delivered) for result in results)
        assert len(server.mails) == 20


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_answer_that_comes_at_once_is_heard_by_every_event_loop(loop_factory):
    with MailServer(MAIL=[None, None, reply("421 4.4.2 idle", close=True)], FINAL=[raw(b"354 again\r\n")]) as server:
        to = destination(server)
        results = send_all(*[delivery(to) for _ in range(50)], loop_factory=loop_factory)
        assert results[0].reason == "not_smtp"
        assert all(isinstance(result, Delivered) for result in results[1:])
        assert len(server.mails) == 50


def test_a_new_session_that_is_closed_is_not_repeated():
    with MailServer(MAIL=every(drop())) as server:
        result = send(server)
        assert result.reason == "disconnected"
        assert server.sessions == 1


def test_a_second_421_on_the_new_session_is_the_outcome():
    with MailServer(MAIL=[None, drop(), reply("421 4.3.2 closing")]) as server:
        to = destination(server)
        repeated = delivery(to)
        result = send_all(delivery(to), repeated)[1]
        assert (result.reason, result.permanent, len(repeated.repeats)) == ("smtp_421", False, 1)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (drop(), "disconnected"),
        (drop(stores=False), "disconnected"),
        (hang(), "timeout"),
        (raw(b"okay\r\n"), "not_smtp"),
        (raw(b"354 again\r\n"), "not_smtp"),
    ],
)
def test_an_answer_lost_after_the_whole_message_is_ambiguous_and_tried_again(fault, reason):
    with MailServer(FINAL=[fault]) as server:
        result = send(server, final_dot_timeout="300ms")
        assert (result.reason, result.permanent, result.certainty) == (reason, False, Certainty.AMBIGUOUS)
        assert result.charged


@pytest.mark.parametrize("fault", [drop(), hang()])
def test_with_hold_an_ambiguous_end_waits_for_people(fault):
    with MailServer(FINAL=[fault]) as server:
        result = send(server, final_dot_timeout="300ms", on_ambiguous="hold")
        assert (result.reason, result.permanent, result.certainty) == ("ambiguous", True, Certainty.AMBIGUOUS)
        assert "redrive" in result.detail
        assert "discard" in result.detail


def test_with_hold_nothing_is_sent_again_after_the_relay_died_in_an_attempt():
    with MailServer() as server:
        result = send(server, values={"attempt": 2, "interruptions": 1}, on_ambiguous="hold")
        assert (result.reason, result.permanent) == ("ambiguous", True)
        assert server.sessions == 0
        assert isinstance(send(server, values={"attempt": 2, "interruptions": 1}), Delivered)


def test_a_refusal_after_the_whole_message_is_not_ambiguous():
    with MailServer(FINAL=[reply("451 4.3.0 disk"), reply("421 4.3.2 closing", close=True)]) as server:
        to = destination(server, on_ambiguous="hold")
        results = send_all(delivery(to), delivery(to))
        assert [result.reason for result in results] == ["smtp_451", "smtp_421"]
        assert {result.certainty for result in results} == {Certainty.ANSWERED}


def test_the_sink_answers_before_the_deadline_so_that_hold_is_obeyed():
    with MailServer(FINAL=[hang()]) as server:
        to = destination(server, on_ambiguous="hold")
        result = asyncio.run(_within(delivery(to, seconds=1.0), 1.0))
        assert (result.reason, result.certainty) == ("ambiguous", Certainty.AMBIGUOUS)


async def _within(one, seconds):
    sink = EmailSink()
    try:
        async with asyncio.timeout(seconds):
            return await sink.send(one)
    finally:
        await sink.close()


async def _cancelled(server, one, step: str):
    """Start sending, cancel once the server plays the fault, and return how the attempt ended and the next one."""
    sink = EmailSink()
    task = asyncio.create_task(sink.send(one))
    await asyncio.to_thread(server.wait_until, lambda: server.count(step), f"{step} on the wire")
    task.cancel()
    [first] = await asyncio.gather(task, return_exceptions=True)
    second = await sink.send(delivery(one.destination))
    await sink.close()
    return first, second


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
def test_a_cancelled_attempt_leaves_no_session_behind_that_mixes_up_answers(step):
    with MailServer(**{step: [hang()]}) as server:
        first, second = asyncio.run(_cancelled(server, delivery(destination(server)), step))
        assert isinstance(first, asyncio.CancelledError)
        assert isinstance(second, Delivered)
        assert [mail.session for mail in server.mails] == [2]


def _late(seconds: float):
    async def play(session):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)

    async def answer(session):
        try:
            await play(session)
        except TimeoutError:
            await reply("250 2.0.0 late")(session)

    return answer


def test_a_cancelled_attempt_still_hears_the_answer_to_a_whole_message():
    with MailServer(FINAL=[_late(0.4)]) as server:
        first, second = asyncio.run(_cancelled(server, delivery(destination(server)), "."))
        assert isinstance(first, Delivered)
        assert isinstance(second, Delivered)
        assert len(server.mails) == 2


@pytest.mark.parametrize(("on_ambiguous", "is_answered"), [("retry", False), ("hold", True)])
def test_a_cancelled_attempt_without_an_answer_is_given_back_or_held(monkeypatch, on_ambiguous, is_answered):
    monkeypatch.setattr(session, "LAST_WAIT_SECONDS", 0.2)
    with MailServer(FINAL=[hang()]) as server:
        to = destination(server, on_ambiguous=on_ambiguous)
        first, _ = asyncio.run(_cancelled(server, delivery(to), "."))
        if is_answered:
            assert (first.reason, first.permanent) == ("ambiguous", True)
        else:
            assert isinstance(first, asyncio.CancelledError)


def test_no_more_sessions_than_connections():
    async def run(server, count: int):
        sink = EmailSink()
        to = destination(server, connections=3)
        results = await asyncio.gather(*(sink.send(delivery(to)) for _ in range(count)))
        await sink.close()
        return results

    with MailServer() as server:
        results = asyncio.run(run(server, 40))
        assert all(isinstance(result, Delivered) for result in results)
        assert server.sessions == 3
        assert len(server.mails) == 40


def test_waiting_for_a_connection_too_long_burns_no_attempt():
    async def run(server):
        sink = EmailSink()
        to = destination(server, connections=1, final_dot_timeout="2s")
        results = await asyncio.gather(*(sink.send(delivery(to, seconds=1.0)) for _ in range(2)))
        await sink.close()
        return results

    with MailServer(FINAL=every(hang())) as server:
        ambiguous, busy = asyncio.run(run(server))
        assert ambiguous.certainty is Certainty.AMBIGUOUS
        assert (busy.reason, busy.charged, busy.certainty) == ("connections_busy", False, Certainty.NOT_SENT)


def test_changed_settings_take_new_sessions():
    with MailServer() as first, MailServer() as second:
        send_all(delivery(destination(first)), delivery(destination(second)))
        assert (len(first.mails), len(second.mails)) == (1, 1)
        first.wait_until(lambda: first.count("QUIT") == 1, "the old session's end")
