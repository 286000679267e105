"""Secrets in settings: by reference (`env:NAME`, `file:PATH`) or inline, and out of every text people see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from outbox.errors import ReferenceMissing
from outbox.settings import environment_value

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["REDACTED", "is_reference", "redact", "resolve_secret", "shown_secret"]

REDACTED = "[redacted]"
_SHORTEST_REDACTED = 4
_LARGEST_FILE = 64 * 1024


def is_reference(value: str) -> bool:
    """Return whether `value` says where a secret is, instead of being one."""
    return value.startswith(("env:", "file:"))


def resolve_secret(reference: str, name: str) -> str:
    """Return the secret that `reference` stands for: an environment variable, a file's text, or itself.

    One line break at the end of a file is not part of the secret: editors and mounted secrets add it.

    Raises:
        ReferenceMissing: the variable is unset or the file unreadable; names the setting `name` and the place.
    """
    if reference.startswith("env:"):
        variable = reference.removeprefix("env:")
        secret = _variable(variable)
        if secret is None:
            raise ReferenceMissing(f"{name}: the environment variable {variable} is not set in this process")
        return secret
    if reference.startswith("file:"):
        return _read(reference.removeprefix("file:"), name)
    return reference


def shown_secret(value: str) -> str:
    """Return what may be shown of a secret setting: a reference as it is, an inline secret not at all."""
    return value if is_reference(value) else REDACTED


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every occurrence of the `secrets` replaced; those shorter than 4 characters stay.

    Give the longest first: a secret may contain another one.
    """
    for secret in secrets:
        if secret in text and len(secret) >= _SHORTEST_REDACTED:
            text = text.replace(secret, REDACTED)
    return text


def _variable(name: str) -> str | None:
    try:
        return environment_value(name)
    except UnicodeEncodeError:  # no variable can have such a name
        return None


def _read(path: str, name: str) -> str:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            secret = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ReferenceMissing(f"{name}: cannot read the file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ReferenceMissing(f"{name}: cannot read the file {path}: not UTF-8 text") from None
    except ValueError:  # a NUL, or half of a surrogate pair
        raise ReferenceMissing(f"{name}: no file has the name {path!a}") from None
    if not secret or len(secret) > _LARGEST_FILE:
        raise ReferenceMissing(f"{name}: the file {path} is empty or larger than {_LARGEST_FILE} bytes")
    return secret.removesuffix("\n").removesuffix("\r")
