"""Destinations over everything that can be drawn: one reading for all readers, no private address in any wrapping."""

import ipaddress
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.spec.requirements import gate
from toolsys.domain.destinations import EgressPolicy, EgressRefused, Origin, literal

WRAPPERS = ("::ffff:0:0", "::ffff:0:0:0", "::", "64:ff9b::", "64:ff9b:1::", "2002::")
pieces = st.sampled_from([
    "http", "https", "://", ":", "/", "//", "@", "\\", "?", "#", "[", "]", "::1", "%", "%25", ".", "-", "_", "1", "443",
    "127.0.0.1", "0x7f", "2130706433", "api", "example", "xn--a", "xn--pi-6kc", "\uff10", "\u3002", "\uff41", "\t", " ",
    "\x00", "é",
])  # fmt: skip
urls = st.builds(
    lambda scheme, rest: scheme + "".join(rest),
    st.sampled_from(["https://", "http://", ""]),
    st.lists(pieces, max_size=9),
)


@gate("egress.destinations")
@given(urls)
@example("https://api.example\\@127.0.0.1/")
@example("https://127。0。0。1/")
@example("https://xn--a/")
def test_a_url_that_has_an_origin_has_the_same_one_for_every_reader(url: str) -> None:
    try:
        origin = Origin.of(url)
    except EgressRefused:
        return
    ours = (origin.scheme, origin.host, origin.port)
    client, library = httpx2.URL(url), urlsplit(url)
    default = {"http": 80, "https": 443}[origin.scheme]
    assert (client.scheme, client.raw_host.decode(), client.port or default, client.userinfo) == (*ours, b"")
    assert (library.scheme, library.hostname, library.port or default, library.username) == (*ours, None)
    assert Origin.of(f"{origin}/") == origin
    assert b"\r" not in client.raw_path
    assert b"\n" not in client.raw_path


@gate("egress.addresses")
@given(st.ip_addresses(v=4), st.sampled_from(WRAPPERS))
def test_what_is_not_public_is_refused_in_every_wrapping(address: ipaddress.IPv4Address, wrapper: str) -> None:
    bits = int(address) << 80 if wrapper == "2002::" else int(address)
    wrapped = ipaddress.IPv6Address(int(ipaddress.IPv6Address(wrapper)) | bits)
    if address.is_global and not address.is_multicast:
        return
    for text in (str(address), str(wrapped)):
        with pytest.raises(EgressRefused) as refused:
            EgressPolicy().check_address(text)
        assert refused.value.reason == "address"


@gate("egress.pinned")
@given(st.ip_addresses())
def test_what_may_be_dialled_is_the_address_itself(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    opened = EgressPolicy(open_networks=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
    dialled = opened.check_answers("api.example", 443, [str(address), address.exploded])
    assert dialled == (str(address),)
    assert literal(dialled[0]) == address
