"""The SQL of the package, one statement per file, named like the function that runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Statement", "query", "statement"]

_PARAMETER = re.compile(rb"%\((\w+)\)s|%%")


@cache
def query(name: str) -> bytes:
    """Return the statement in `<name>.sql`, as bytes, which psycopg takes without a cast."""
    return files(__name__).joinpath(f"{name}.sql").read_bytes()


@dataclass(frozen=True, slots=True)
class Statement:
    """A query with numbered parameters, for psycopg's raw cursors.

    psycopg parses a query of more than 4 KiB again at each execution, which costs more than sending it.
    """

    text: bytes
    names: tuple[str, ...]

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        """Return the values of `parameters` in the order of their numbers."""
        return [parameters[name] for name in self.names]


@cache
def statement(name: str) -> Statement:
    """Return the query `name` with numbers for its named parameters."""
    names: list[str] = []

    def numbered(found: re.Match[bytes]) -> bytes:
        if found[0] == b"%%":
            return b"%"
        parameter = found[1].decode()
        if parameter not in names:
            names.append(parameter)
        return b"$%d" % (names.index(parameter) + 1)

    text = _PARAMETER.sub(numbered, query(name))
    return Statement(text, tuple(names))
