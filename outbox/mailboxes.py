"""Mail addresses, read strictly: what could be read in two ways, or could end a line early, is refused. No I/O here."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from outbox.errors import InvalidEvent

__all__ = ["Mailbox", "has_controls", "parse_mailbox"]

LONGEST_NAME = 255
LONGEST_LOCAL_BYTES = 64
LONGEST_DOMAIN = 253

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NAMED = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")
_QUOTED = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"')
_LOCAL = re.compile(r'[^\s<>()\[\],;:\\"@]+')
_DOMAIN = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One mail address with the name shown for it. The domain is ASCII (IDNA); the local part may be UTF-8."""

    local: str
    domain: str
    name: str = ""

    @property
    def address(self) -> str:
        """The address without the name, as SMTP carries it."""
        return f"{self.local}@{self.domain}"


def has_controls(text: str) -> bool:
    """Tell whether `text` holds a line break or another control character, which no header may."""
    return _CONTROLS.search(text) is not None


def parse_mailbox(value: object, path: str) -> Mailbox:
    """Return the mailbox in `value`: `ada@example.com`, `Ada <ada@example.com>`, or an object of address and name.

    Raises:
        InvalidEvent: it is none, or could break out of its header or command; names `path`, never the address.
    """
    address, name = _split(value, path)
    if has_controls(address) or has_controls(name):
        raise InvalidEvent(f"{path}: has a line break or another control character; remove it")
    if len(name) > LONGEST_NAME:
        raise InvalidEvent(f"{path}: the name is longer than {LONGEST_NAME} characters")
    local, _, domain = address.rpartition("@")
    return Mailbox(_local(local, path), _domain(domain, path), name)


def _split(value: object, path: str) -> tuple[str, str]:
    if isinstance(value, dict):
        address, name = value.get("address"), value.get("name", "")
        if value.keys() - {"address", "name"} or not isinstance(address, str) or not isinstance(name, str):
            raise InvalidEvent(f'{path}: is no mailbox; give {{"address": "ada@example.com", "name": "Ada"}}')
        return address, name
    if not isinstance(value, str):
        raise InvalidEvent(f"{path}: is no mailbox; give a string like Ada <ada@example.com>")
    found = _NAMED.fullmatch(value.strip(" "))
    return (value.strip(" "), "") if found is None else (found["address"], _name(found["name"].strip(" "), path))


def _name(text: str, path: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted["text"])
    if "@" in text:  # ada@example.com, Bob <bob@example.com>: Ada would get nothing, and nobody would notice
        raise InvalidEvent(f"{path}: holds more than one address; give a list")
    return text


def _local(local: str, path: str) -> str:
    local = unicodedata.normalize("NFC", local)
    if not _LOCAL.fullmatch(local):
        raise InvalidEvent(f"{path}: is not an address like ada@example.com")
    if len(local.encode()) > LONGEST_LOCAL_BYTES:
        raise InvalidEvent(f"{path}: the part before the @ is longer than {LONGEST_LOCAL_BYTES} bytes")
    return local


def _domain(domain: str, path: str) -> str:
    try:
        ascii_domain = domain.lower() if domain.isascii() else _idna(domain)
    except ValueError:
        ascii_domain = ""
    if not _DOMAIN.fullmatch(ascii_domain) or len(ascii_domain) > LONGEST_DOMAIN:
        raise InvalidEvent(f"{path}: the part after the @ is not a domain name")
    return ascii_domain


def _idna(domain: str) -> str:
    import idna  # not the standard library's codec: that is IDNA 2003 and sends straße.example to strasse.example

    return idna.encode(domain, uts46=True).decode("ascii")  # IDNAError is a ValueError
