"""`outbox record`: from arguments, files and pipes, refused in one line, and as a role that may only record."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.commands import outbox


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def test_every_option_arrives(database, connection):
    done = outbox(
        *("record", "order.paid", '{"n": 1.10}', "--key", "k", "--idempotency-key", "i", "--header", "x-a=b=c"),
        *("--header", "x-b=", "--due-at", "2126-12-01T09:30:00+01:00", "--json"),
        dsn=database.dsn,
    )
    assert done.code == 0, done.output
    [row] = connection.execute("select id::text, type, payload::text, key, headers from outbox.events").fetchall()
    assert row == (done.json["id"], "order.paid", '{"n": 1.10}', "k", {"x-a": "b=c", "x-b": ""})


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_a_payload_comes_from_a_file_or_a_pipe_in_any_locale(database, connection, tmp_path, mark):
    content = mark + '{"name": "Zoë"}'.encode()
    file = tmp_path / "order.json"
    file.write_bytes(content)
    assert outbox("record", "order.paid", f"@{file}", dsn=database.dsn, LC_ALL="C", PYTHONUTF8="0").code == 0
    command = [sys.executable, "-m", "outbox", "record", "order.paid", "-", "--dsn", database.dsn]
    assert subprocess.run(command, input=content, check=True, env={"LC_ALL": "C", "PYTHONUTF8": "0"}).returncode == 0
    assert connection.execute("select payload from outbox.events").fetchall() == [({"name": "Zoë"},)] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("@/nowhere/order.json",), "the payload cannot be read from '/nowhere/order.json': No such file or directory"),
        (("@/",), "the payload cannot be read from '/': Is a directory"),
        (("",), "the payload is not JSON"),
        (('{"a": NaN}',), "NaN is no number"),
        (("[" * 50_000 + "]" * 50_000,), "the payload is nested too deeply"),
        (('{"a": "\\u0000"}',), "payload: $.a: NUL"),
        (('{"a": "\\ud800"}',), "payload: $.a: a lone surrogate"),
        (('{"a": 1e999999}',), "the payload cannot be stored: value overflows numeric format"),
        (("{}", "--header", "a=1", "--header", "a=2"), "--header 'a' is given more than once"),
        (("{}", "--header", "host=1"), 'headers: "host" is set by the relay'),
        (("{}", "--key", ""), "key: 0 characters"),
        (("{}", "--due-at", "2126-12-01 09:30"), "--due-at '2126-12-01 09:30' is not a time with an offset"),
        (("{}", "--due-at", "tomorrow"), "--due-at 'tomorrow' is not a time with an offset"),
        (("{}", "--due-at", "2126-12-01T09:30Z", "--delay", "5m"), "due_at: is given together with delay"),
        (("{}", "--delay", "-5m"), "--delay: '-5m' is not a duration"),
    ],
    ids=range(15),
)
def test_a_refusal_is_one_line_and_exit_code_2(database, connection, arguments, says):
    done = outbox("record", "order.paid", *arguments, dsn=database.dsn)
    assert (done.code, len(done.stderr.splitlines())) == (2, 1), done.output
    assert says in done.stderr
    assert connection.execute("select count(*) from outbox.events").fetchone() == (0,)


def test_a_payload_that_is_no_text_is_refused(database, tmp_path):
    file = tmp_path / "order.bin"
    file.write_bytes(b'{"a": "\xff"}')
    done = outbox("record", "order.paid", f"@{file}", dsn=database.dsn)
    assert (done.code, done.stderr) == (2, "outbox: the payload is not UTF-8: byte 7; JSON is\n")


def test_x02_a_role_that_may_only_record_needs_no_other_right(database, admin_of_roles, login):
    writer = login("outbox_writer")
    done = outbox("record", "order.paid", dsn=database.dsn_as(writer.info.user))
    assert done.code == 0, done.output
    assert admin_of_roles.execute("select id::text from outbox.events").fetchall() == [(done.stdout.strip(),)]


def test_x02_a_role_that_may_not_record_is_told_the_remedy(database, login):
    user = login(None).info.user
    done = outbox("record", "order.paid", dsn=database.dsn_as(user))
    expected = f"outbox: role {user} may not record events; run: GRANT outbox_writer TO {user}\n"
    assert (done.code, done.stderr) == (1, expected)


def test_a_missing_or_older_schema_is_exit_code_4(empty_database):
    done = outbox("record", "order.paid", dsn=empty_database.dsn)
    assert (done.code, done.stderr) == (4, "outbox: the schema outbox is missing; run: outbox migrate\n")
    with empty_database.connect() as connection:
        connection.execute("create schema outbox")
    done = outbox("record", "order.paid", dsn=empty_database.dsn)
    assert done.code == 4
    assert done.stderr == "outbox: outbox.record_event is missing, or older than this code; run: outbox migrate\n"


def test_json_for_machines_is_the_id_alone(database):
    done = outbox("record", "order.paid", "--json", dsn=database.dsn)
    assert list(json.loads(done.stdout)) == ["id"]
