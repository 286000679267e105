"""Which addresses a request may be sent to. Pure functions over an own table, no I/O.

`ipaddress.is_global` is no such table: it is true for 168.63.129.16 (Azure's metadata), multicast, NAT64 and
IPv4-compatible forms. So IPv4 is refused by block, and IPv6 is refused unless it is known to be global.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["AddressRefused", "Guard", "parse_networks"]

Network = IPv4Network | IPv6Network

_REFUSED_IPV4 = tuple(
    (IPv4Network(block), kind)
    for block, kind in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier or cloud"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud metadata"),
        ("169.254.0.0/16", "link-local or cloud metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "reserved"),
        ("192.52.193.0/24", "reserved"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
    )
)

_GLOBAL_IPV6 = IPv6Network("2000::/3")
_REFUSED_IPV6 = tuple(
    (IPv6Network(block), kind)
    for block, kind in (
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("64:ff9b::/96", "NAT64, reaches IPv4"),
        ("64:ff9b:1::/48", "NAT64, reaches IPv4"),
        ("100::/64", "discard"),
        ("2001::/23", "Teredo or reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4, reaches IPv4"),
        ("2620:4f:8000::/48", "reserved"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)


class AddressRefused(Exception):
    """The guard refuses to dial; raised within the engines, which answer with a `Failure`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuses addresses that are not public, except in the networks the operator allows."""

    allowed: tuple[Network, ...] = ()

    def check(self, host: str, addresses: Iterable[str]) -> None:
        """Check everything `host` resolved to: one bad address refuses all, or the next dial might take it.

        Raises:
            AddressRefused: names the address, the name it came from and the remedy.
        """
        for address in addresses:
            if (refusal := self.refusal(host, address)) is not None:
                raise AddressRefused(refusal)

    def refusal(self, host: str, address: str) -> str | None:
        """Return why `address`, to which `host` resolved, is refused; None when it may be dialled."""
        found = _plain(address)
        if found is None:
            return f"address not allowed: {address}{_via(host, address)} has a zone or is no address"
        kind = _kind(found)
        if kind is None or any(found in network for network in self.allowed if network.version == found.version):
            return None
        return (
            f"address not allowed: {address}{_via(host, address)} is not public ({kind});"
            f' allow with allow_networks = ["{found}/{found.max_prefixlen}"]'
        )


def parse_networks(values: Iterable[object], name: str) -> tuple[Network, ...]:
    """Return the CIDR blocks in `values`.

    Raises:
        InvalidSettings: one is no block, or has host bits set; names `name`.
    """
    networks: list[Network] = []
    for value in values:
        try:
            networks.append(ip_network(str(value)))
        except ValueError as error:
            raise InvalidSettings(f"{name}: {value!r} is no network; write 10.0.0.0/8 or fd00::/8") from error
    return tuple(networks)


def _via(host: str, address: str) -> str:
    return "" if host.strip("[]") == address else f" via name {host}"


def _plain(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address that is really dialled: `::ffff:127.0.0.1` is 127.0.0.1."""
    try:
        found = ip_address(address)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return None if found.scope_id is not None else (found.ipv4_mapped or found)


def _kind(address: IPv4Address | IPv6Address) -> str | None:
    """Return what sort of non-public address this is, or None for a public one."""
    if isinstance(address, IPv4Address):
        return next((kind for block, kind in _REFUSED_IPV4 if address in block), None)
    if (kind := next((kind for block, kind in _REFUSED_IPV6 if address in block), None)) is not None:
        return kind
    return None if address in _GLOBAL_IPV6 else "reserved"
