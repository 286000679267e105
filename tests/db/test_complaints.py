"""What ends a command is one line with cause and remedy, also when a relay cannot even start."""

from __future__ import annotations

import psycopg
import pytest

from outbox.complaints import complaint
from tests.commands import outbox
from tests.processes import relay_process
from tests.queues import add_destination, record


def test_without_rights_a_relay_says_what_to_grant(database, login):
    stranger = login(None)
    with relay_process(database.dsn_as(stranger.info.user)) as relay:
        assert relay.ended() == 1
    [line] = relay.lines
    assert line.startswith("outbox-relay: permission denied for ")
    assert "grant outbox_reader for looking, outbox_relay for sending" in line


def test_a_schema_that_is_not_whole_is_exit_code_4(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        connection.execute("drop view outbox.open_states cascade")
    done = outbox("status", "--check", dsn=database.dsn)
    assert (done.code, len(done.stderr.splitlines())) == (4, 1)
    assert 'relation "outbox.open_states" does not exist: the schema is not whole' in done.stderr


@pytest.mark.parametrize(
    ("statement", "says", "code"),
    [
        ("set statement_timeout = 1; select pg_sleep(10)", "statement_timeout of this role", 1),
        ("begin read only; create table t ()", "connect to the primary", 1),
        ("select pg_terminate_backend(pg_backend_pid())", "the database went away: ", 3),
        ("select 1 / 0", "division by zero", 1),
    ],
)
def test_each_kind_of_refusal_has_its_remedy_and_exit_code(database, statement, says, code):
    with database.connect() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(statement)
    line, exit_code = complaint(caught.value)
    assert says in line
    assert (exit_code, "\n" in line) == (code, False)


def test_a_note_on_the_error_is_said_and_replaces_the_general_remedy(database):
    with database.connect() as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as caught:
        connection.execute("begin read only; create table t ()")
    caught.value.add_note("do this")
    line, _ = complaint(caught.value)
    assert line.endswith("transaction; do this")


def test_a_fault_of_the_program_is_not_hidden():
    assert complaint(KeyError("x")) is None
