from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.errors import InvalidSettings
from relays.http.addresses import AddressRefused, Guard, parse_networks

REFUSED = """
127.0.0.1 127.0.0.53 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1
100.100.100.200 169.254.169.254 169.254.170.2 168.63.129.16 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1
192.88.99.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 0:0:0:0:0:0:0:1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1
::ffff:a9fe:a9fe ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b:1::a9fe:a9fe 2002:7f00:1::
2002:a9fe:a9fe:: 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:db8::1 3fff::1 5f00::1 100::1 fc00::1 fd00:ec2::254 fe80::1
fe80::1%eth0 fec0::1 ff02::1 4000::1 1::1 2620:4f:8000::1
""".split()  # noqa: SIM905 - a table

PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
168.63.129.15 2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 2001:200::1 3ffe::1
""".split()  # noqa: SIM905 - a table


@pytest.mark.parametrize("address", REFUSED)
def test_address_that_is_not_public_is_refused(address):
    assert Guard().refusal("hooks.test", address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_next_to_a_refused_block_passes(address):
    assert Guard().refusal("hooks.test", address) is None


def test_refusal_names_address_name_and_remedy():
    assert Guard().refusal("x.test", "127.0.0.1") == (
        "address not allowed: 127.0.0.1 via name x.test is not public (loopback);"
        ' allow with allow_networks = ["127.0.0.1/32"]'
    )


def test_one_bad_address_refuses_the_whole_answer():
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1 via name mixed\.test"):
        Guard().check("mixed.test", ["8.8.8.8", "10.0.0.1"])


def test_allowed_network_lets_its_addresses_pass_and_no_others():
    guard = Guard(parse_networks(["10.1.0.0/16", "fd00::/8"], "allow_networks"))
    guard.check("a.test", ["10.1.2.3", "fd00::1", "::ffff:10.1.2.3", "8.8.8.8"])
    for address in ("10.2.0.1", "127.0.0.1", "fe80::1", "fd00::1%eth0", "64:ff9b::a01:203"):
        assert guard.refusal("a.test", address) is not None, address


def test_mapped_address_is_what_it_maps_to():
    assert "127.0.0.1/32" in (Guard().refusal("x", "::ffff:127.0.0.1") or "")


@pytest.mark.parametrize("text", ["", "x", "127.1", "2130706433", "0x7f.1", "1.2.3.4.5", "::g", "127.0.0.1 ", "[::1]"])
def test_what_is_no_address_is_refused(text):
    assert Guard().refusal("x", text) is not None


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_global_unicast_passes(address):
    is_global = address in ip_network("2000::/3") or address.ipv4_mapped is not None
    assert is_global or Guard().refusal("x", str(address)) is not None


@given(
    st.sampled_from(["0:0:0:0:0:ffff:", "0:0:0:0:ffff:0:", "64:ff9b::"]), st.ip_addresses(v=4, network="127.0.0.0/8")
)
def test_no_form_that_reaches_ipv4_loopback_passes(prefix, address):
    embedded = IPv6Address(int(IPv6Address(prefix.rstrip(":") + "::" if "::" not in prefix else prefix)) | int(address))
    assert Guard().refusal("x", str(embedded)) is not None


@given(st.ip_addresses(v=4))
def test_guard_refuses_at_least_what_the_standard_library_calls_private(address):
    if (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
    ):
        assert Guard().refusal("x", str(address)) is not None


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_plain_and_mapped_forms_are_judged_alike(address):
    plain, mapped = (Guard().refusal("x", text) for text in (str(address), f"::ffff:{address}"))
    assert (plain is None) == (mapped is None)


@pytest.mark.parametrize("value", ["10.0.0.1/8", "example.com", "10.0.0.0/33", "", "fe80::/10%eth0", 7.5])
def test_what_is_no_network_is_refused_by_name(value):
    with pytest.raises(InvalidSettings, match="allow_networks"):
        parse_networks([value], "allow_networks")
