"""PostgreSQL reads the array literals back as they were meant, whatever the values hold."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.arrays import numbers, texts


@pytest.fixture(scope="module")
def connection(server):
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection


def read_back(connection, literal: str, kind: str):
    return connection.execute(f"select %s::{kind}[]", [literal]).fetchone()[0]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_texts_are_read_back(connection, values):
    assert read_back(connection, texts(values), "text") == values


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_are_read_back(connection, values):
    assert read_back(connection, numbers(values), "bigint") == values


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_fractions_are_read_back(connection, values):
    assert read_back(connection, numbers(values), "double precision") == values


def test_booleans_are_read_back(connection):
    assert read_back(connection, numbers([True, False, None]), "boolean") == [True, False, None]
