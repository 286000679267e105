"""The URL of a receiver, read strictly: what a library might read differently is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from outbox.errors import InvalidSettings

__all__ = ["Url", "parse_url"]

LONGEST_URL = 2048
LONGEST_NAME = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FREE_PORTS = range(1024, 65536)
_OTHER_PROTOCOLS = frozenset(
    (1433, 1521, 2049, 3306, 3389, 5432, 5672, 5900, 5984, 6000, 6379, 6667, 9042, 9092, 11211, 25565, 27017)
)
_SHAPE = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^/?#:@\[\]\\%]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?",
    re.IGNORECASE | re.ASCII,
)
_PLAIN = re.compile(r"[!-~]*")
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?")
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")


@dataclass(frozen=True, slots=True)
class Url:
    """A receiver's URL. `target` (path and query) may be a credential, so only `shown` is for people."""

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def is_literal(self) -> bool:
        """Whether the host is an address: there is no name to resolve."""
        return self.host.startswith("[") or _NUMERIC.fullmatch(self.host) is not None

    @property
    def authority(self) -> str:
        """Host and, unless it is the scheme's own, port: what the `host` header carries."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without its path and query."""
        return f"{self.scheme}://{self.authority}/{'…' if self.target != '/' else ''}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(value: object, name: str) -> Url:
    """Return the URL in `value`.

    Raises:
        InvalidSettings: it is not an absolute http(s) URL with a plain host, port and path. The message never
            contains the URL: its path or query may be a secret.
    """
    if not isinstance(value, str) or not value:
        raise InvalidSettings(f"{name}: give the URL to post to, like https://shop.example/hooks")
    _refuse_what_is_read_differently(value, name)
    found = _SHAPE.fullmatch(value)
    if found is None:
        raise InvalidSettings(f"{name}: is not an absolute URL like https://shop.example/hooks")
    scheme = found["scheme"].lower()
    port = int(found["port"]) if found["port"] else _DEFAULT_PORTS[scheme]
    _refuse_port(port, name)
    return Url(scheme, _host(found["host"], name), port, (found["path"] or "/") + (found["query"] or ""))


def _refuse_what_is_read_differently(value: str, name: str) -> None:
    scheme, _, rest = value.partition("://")
    if scheme.lower() not in _DEFAULT_PORTS:
        raise InvalidSettings(f"{name}: begins with neither https:// nor http://")
    if len(value) > LONGEST_URL:
        raise InvalidSettings(f"{name}: is longer than {LONGEST_URL} characters")
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        raise InvalidSettings(f"{name}: has a user name or password; put an authorization header into headers")
    if "#" in value:
        raise InvalidSettings(f"{name}: has a fragment (#), which is never sent; remove it")
    path = rest[len(re.split(r"[/?#]", rest, maxsplit=1)[0]) :]
    if "\\" in value or not _PLAIN.fullmatch(path) or any(character <= " " for character in value):
        raise InvalidSettings(f"{name}: has spaces, control characters, \\ or others to be written as %XX")


def _refuse_port(port: int, name: str) -> None:
    is_usual = port in _DEFAULT_PORTS.values()
    if not is_usual and (port not in _FREE_PORTS or port in _OTHER_PROTOCOLS):
        raise InvalidSettings(f"{name}: port {port} is not for HTTP; use 80, 443 or one from 1024 to 65535")


def _host(text: str, name: str) -> str:
    """Return the host in its one spelling: an address as `ipaddress` writes it, or a lower-case name."""
    host = text.lower()
    try:
        if host.startswith("["):
            return f"[{IPv6Address(host[1:-1])}]"
        if not host.isascii():
            host = _ascii(host)
        if _NUMERIC.fullmatch(host):  # 0x7f.1, 2130706433 and 127.1 fail here: libraries disagree on them
            return str(IPv4Address(host))
    except ValueError as error:
        raise InvalidSettings(f"{name}: host {text!r} is neither a name nor a plainly written address") from error
    if not _NAME.fullmatch(host) or len(host) > LONGEST_NAME:
        raise InvalidSettings(f"{name}: host {text!r} is neither a name nor a plainly written address")
    return host


def _ascii(host: str) -> str:
    import idna

    return idna.encode(host, uts46=True).decode("ascii")  # IDNAError is a ValueError
