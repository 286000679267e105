"""The SQL of the demo, one statement per file, named like the function that runs it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["query"]


@cache
def query(name: str) -> bytes:
    """Return the statement in `<name>.sql`, as bytes, which psycopg takes without a cast."""
    return files(__name__).joinpath(f"{name}.sql").read_bytes()
