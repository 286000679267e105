"""Array literals: what PostgreSQL makes of them is tested where it runs (tests/db/test_array_literals.py)."""

from __future__ import annotations

from relays.arrays import numbers, texts
from relays.queries import query, statement


def test_numbers_and_booleans_are_written_plainly():
    assert numbers([1, -2, 0.5, None, True]) == "{1,-2,0.5,NULL,True}"


def test_texts_are_quoted_whatever_they_hold():
    assert (
        texts(["a", 'say "b"', "c\\d", "e,{f}", "", "NULL", None])
        == '{"a","say \\"b\\"","c\\\\d","e,{f}","","NULL",NULL}'
    )


def test_nothing_is_an_empty_array():
    assert numbers([]) == texts([]) == "{}"


def test_a_statement_numbers_each_named_parameter_once():
    claim = statement("claim")
    assert claim.names[0] == "destination_ids"
    assert len(set(claim.names)) == len(claim.names)
    assert b"%(" not in claim.text
    assert claim.text.count(b"$1::") == query("claim").count(b"%(destination_ids)s")
    assert claim.values({name: name.upper() for name in claim.names}) == [name.upper() for name in claim.names]


def test_a_doubled_per_cent_sign_is_one():
    assert b"%s" in statement("recover_lapsed").text
    assert b"%%" not in statement("recover_lapsed").text
