"""Single settings, as a file holds them or the command line types them. Pure, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["choice", "listed", "switch", "text"]

Chosen = TypeVar("Chosen", bound=str)


def switch(settings: Mapping[str, Any], name: str) -> bool:
    """Return whether the setting is on; off when not given."""
    match settings.get(name, False):
        case True | "true":
            return True
        case False | "false":
            return False
        case value:
            raise InvalidSettings(f"{name}: {value!r} is neither true nor false")


def listed(settings: Mapping[str, Any], name: str) -> list[Any]:
    """Return the setting's values: a list, or a text with commas; empty when not given."""
    match settings.get(name):
        case None | "":
            return []
        case str(text):
            return [part.strip() for part in text.split(",")]
        case list() | tuple() as values:
            return list(values)
        case int(value):
            return [value]
        case _:
            raise InvalidSettings(f'{name}: is not a list; write ["…", "…"]')


def choice(settings: Mapping[str, Any], name: str, choices: tuple[Chosen, ...], default: Chosen) -> Chosen:
    """Return which of `choices` the setting is."""
    value = settings.get(name, default)
    if value not in choices:
        raise InvalidSettings(f"{name}: {value!r} is not known; write {', '.join(choices)}")
    return choices[choices.index(value)]


def text(settings: Mapping[str, Any], name: str) -> str | None:
    """Return the setting's text, None when not given."""
    value = settings.get(name)
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise InvalidSettings(f"{name}: is not a text")
    return value
