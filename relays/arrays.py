"""Arrays as PostgreSQL reads them from text: adapting a list value by value costs more than the rest of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["numbers", "texts"]


def numbers(values: Iterable[float | None]) -> str:
    """Return an array literal of numbers or booleans."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def texts(values: Iterable[str | None]) -> str:
    """Return an array literal of texts (or enums, or timestamps), each in quotes."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if '"' in value:
        value = value.replace('"', '\\"')
    return f'"{value}"'
