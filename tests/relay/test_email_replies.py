"""What the mail server answers, at each step of the session, and what follows for delivery and destination (E01)."""

from __future__ import annotations

import pytest

from outbox.model import Certainty
from relays.health import blames_destination
from relays.results import Delivered, Refused
from tests.mail_deliveries import delivery, destination, send, send_all
from tests.mail_server import MailServer, drop, every, hang, raw, reply

# step, answer → dead?, charged?, hold
SESSION = [
    ("greeting", "421 4.3.2 closing", False, "held"),
    ("greeting", "450 4.7.0 later", False, "held"),
    ("greeting", "554 5.7.1 no service", False, "tripped"),
    ("EHLO", "421 4.3.2 closing", False, "held"),
    ("EHLO", "500 5.5.1 what", False, "tripped"),
    ("EHLO", "550 5.7.1 not you", False, "tripped"),
]
MESSAGE = [
    (step, answer, is_dead)
    for step in ("MAIL", "RCPT", "DATA", "FINAL")
    for answer, is_dead in (
        ("421 4.3.2 closing", False),
        ("450 4.2.0 greylisted", False),
        ("451 4.3.0 local error", False),
        ("452 4.2.2 full", False),
        ("454 4.7.0 later", False),
        ("500 5.5.1 what", True),
        ("550 5.7.1 policy", True),
        ("550 4.2.1 codes disagree: the basic one counts", True),
        ("450 5.1.1 codes disagree: the basic one counts", False),
        ("554 5.7.1 spam", True),
    )
]


@pytest.mark.parametrize(("step", "answer", "charged", "hold"), SESSION)
def test_e01_a_server_that_does_not_serve_is_held_and_burns_no_attempt(step, answer, charged, hold):
    with MailServer(**{step: every(reply(answer))}) as server:
        result = send(server)
    assert isinstance(result, Refused)
    assert (result.permanent, result.charged, result.hold.state) == (False, charged, hold)
    assert result.status == int(answer[:3])
    assert result.reason == f"smtp_{answer[:3]}"
    assert answer[4:] in result.detail


@pytest.mark.parametrize(("step", "answer", "is_dead"), MESSAGE)
def test_e01_replies_to_a_message_are_temporary_or_permanent_by_their_class(step, answer, is_dead):
    with MailServer(**{step: every(reply(answer))}) as server:
        result = send(server)
        assert server.mails == []
    assert isinstance(result, Refused)
    assert (result.permanent, result.charged, result.hold) == (is_dead, True, None)
    assert (result.status, result.certainty) == (int(answer[:3]), Certainty.ANSWERED)
    assert answer[4:] in result.detail


@pytest.mark.parametrize(
    ("step", "answer", "blamed"),
    [
        ("RCPT", "450 4.7.1 greylisted", None),
        ("RCPT", "451 try later", None),
        ("RCPT", "452 4.2.2 full", None),
        ("RCPT", "452 4.3.1 out of disk", True),
        ("RCPT", "421 4.7.0 too many", True),
        ("MAIL", "451 4.7.1 later", True),
        ("FINAL", "451 4.3.0 local error", True),
    ],
)
def test_what_is_about_one_mailbox_counts_nothing_against_the_destination(step, answer, blamed):
    with MailServer(**{step: every(reply(answer))}) as server:
        result = send(server)
    assert blames_destination(result) is blamed


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA", "FINAL"])
@pytest.mark.parametrize("code", [530, 534, 535, 538])
def test_e01_a_server_that_wants_a_login_later_is_tripped_not_the_mail(step, code):
    with MailServer(**{step: every(reply(f"{code} 5.7.0 log in first"))}) as server:
        result = send(server)
    assert (result.permanent, result.charged, result.hold.state) == (False, False, "tripped")


@pytest.mark.parametrize(
    ("answer", "is_dead"),
    [
        ("552 too many recipients", False),
        ("552 5.5.3 too many recipients", False),
        ("552 4.2.2 codes disagree", False),
        ("552 5.2.2 mailbox full", True),
        ("552 5.3.4 too big", True),
        ("552 5.7.1 policy", True),
        ("552-5.2.2 mailbox\r\n552 5.2.2 full", True),
    ],
)
def test_e01_552_to_a_recipient_is_temporary_unless_the_enhanced_code_says_why(answer, is_dead):
    with MailServer(RCPT=every(reply(*answer.split("\r\n")))) as server:
        assert send(server).permanent is is_dead


@pytest.mark.parametrize("code", [250, 251, 252])
def test_e01_every_accepting_reply_to_a_recipient_accepts(code):
    def fault(argument):
        async def accept(session):
            session.envelope.rcpt_tos.append("ada@example.com")
            await reply(f"{code} fine")(session)

        return accept

    with MailServer(RCPT=fault) as server:
        assert isinstance(send(server), Delivered)
        assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("550 5.1.1 unknown", "no such mailbox"),
        ("550 5.1.10 null mx", "no such mailbox"),
        ("550 unknown", "no such mailbox"),
        ("551 moved", "no such mailbox"),
        ("550 5.7.1 blocked", "refused by policy"),
    ],
)
def test_e01_the_history_says_whether_the_mailbox_or_the_policy_refused(answer, hint):
    with MailServer(RCPT=every(reply(answer))) as server:
        assert hint in send(server).detail


def test_e01_a_reply_of_many_lines_and_any_bytes_is_kept_clean():
    with MailServer(
        MAIL=every(raw(b"450-4.7.0 gr\xc3\xbc\xc3\x9fe\r\n450-4.7.0 \x1b[31m\xff\r\n450 4.7.0 end\r\n"))
    ) as server:
        result = send(server)
    assert result.status == 450
    assert "grüße" in result.detail
    assert result.detail.isprintable()


@pytest.mark.parametrize("step", ["greeting", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("answer", [b"hello there\r\n", b"9999 odd\r\n", b"\xff\xfe\r\n", b"150 wait\r\n"])
def test_e01_an_answer_that_is_no_smtp_is_tried_again(step, answer):
    with MailServer(**{step: every(raw(answer))}) as server:
        result = send(server)
    assert (result.reason, result.permanent, result.certainty) == ("not_smtp", False, Certainty.NOT_SENT)
    assert result.charged is (step in {"MAIL", "RCPT", "DATA"})


@pytest.mark.parametrize("step", ["greeting", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(("fault", "reason"), [(drop(), "disconnected"), (hang(), "timeout")])
def test_a_session_that_breaks_before_the_content_sent_nothing(step, fault, reason):
    with MailServer(**{step: every(fault)}) as server:
        result = send(server, command_timeout="300ms")
        assert server.mails == []
    assert (result.permanent, result.certainty) == (False, Certainty.NOT_SENT)
    if step == "greeting":
        assert result.reason in {"unreachable", "timeout"}
    else:
        assert result.reason == reason
    assert (result.charged, result.hold is None) == (
        (True, True) if step in {"MAIL", "RCPT", "DATA"} else (False, False)
    )


def test_a_server_that_is_not_there_holds_the_destination():
    with MailServer() as server:
        pass
    result = send(server)
    assert (result.reason, result.charged, result.hold.state) == ("unreachable", False, "held")
    assert result.hold.seconds > 0


def test_a_name_that_does_not_resolve_holds_the_destination():
    with MailServer() as server:
        result = send(server, host="no-such-host.invalid")
    assert (result.reason, result.charged, result.hold.state) == ("unreachable", False, "held")


def test_the_session_goes_on_after_a_refused_message():
    with MailServer(RCPT=[reply("550 5.1.1 unknown"), None], FINAL=[reply("554 5.7.1 spam"), None]) as server:
        to = destination(server)
        results = send_all(*[delivery(to) for _ in range(3)])
        assert [isinstance(result, Delivered) for result in results] == [False, False, True]
        assert server.sessions == 1


def test_accepted_keeps_what_the_server_said():
    with MailServer() as server:
        result = send(server)
    assert result == Delivered(status=250, detail=f"accepted by 127.0.0.1:{server.port}: 2.0.0 Ok: queued as T1")


def test_one_refused_recipient_of_several_means_nothing_is_sent_to_any():
    def fault(argument):
        return reply("550 5.1.1 unknown") if "bob" in argument else None

    with MailServer(RCPT=fault) as server:
        result = send(server, {"to": ["ada@example.com", "bob@example.com", "eve@example.com"]})
        assert server.mails == []
        assert server.count("DATA") == 0
    assert result.permanent
    assert "refused for 1 of 3 recipients, sent to none" in result.detail


def test_a_delivery_for_one_recipient_goes_to_that_one_and_shows_all():
    with MailServer() as server:
        to = destination(server)
        payload = {"to": ["Ada <ada@example.com>", "bob@example.com"], "bcc": [{"address": "eve@example.com"}]}
        recipients = ["Ada <ada@example.com>", '{"address": "eve@example.com"}', "{eve}@example.com"]
        send_all(*[delivery(to, payload, recipient=recipient) for recipient in recipients])
        first, second, third = server.mails
        assert third.recipients == ["{eve}@example.com"]
        assert (first.recipients, second.recipients) == (["ada@example.com"], ["eve@example.com"])
        assert first.content == second.content
        assert b"To: Ada <ada@example.com>, bob@example.com\r\n" in first.content
        assert b"eve" not in first.content
