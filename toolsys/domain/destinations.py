"""What may be dialled: the grammar of a destination, the ranges that are not public, and the policy over both.

Pure: it resolves and dials nothing; `toolsys.egress` asks it before it does either. The grammar is narrower than any
URL parser's, so that no two readers of one URL can see two hosts in it. Deny is the default. Source: DESIGN §8.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from urllib.parse import unquote

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
MAXIMUM_URL: Final = 8_192
MAXIMUM_ADDRESSES: Final = 64
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?\Z")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
_PROXY: Final = re.compile(r"[^/?#@]+:[0-9]{1,5}\Z")
_LOGIN: Final = re.compile(r"[^/?#@\s]+\Z")
_PROXY_FORM: Final = "must be http://host:port or http://user:password@host:port, percent-encoded"

_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_IPV4_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
# Global by the registry, or unknown to the tables of some Python, and never a host that anybody means to reach.
_SPECIAL: Final = tuple(ipaddress.ip_network(text) for text in (
    "168.63.129.16/32",  # the host's own service in one large cloud
    "192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20",
))  # fmt: skip
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


class EgressError(Exception):
    """A request that did not end in a response. `was_sent` false proves that no byte of it left.

    `reason` is stable and short: it goes to operators and metrics, never to a model.
    """

    def __init__(self, reason: str, *, was_sent: bool, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.was_sent = was_sent


class EgressRefused(EgressError):
    """Policy said no: malformed, userinfo, not_allowed, denied, plain_http, address, redirect, encoding, too_large.

    `location` is where a redirect pointed, as the peer wrote it: text from outside.
    """

    def __init__(self, reason: str, detail: str = "", *, was_sent: bool = False, location: str = "") -> None:
        super().__init__(reason, was_sent=was_sent, detail=detail)
        self.location = location


class Origin(NamedTuple):
    """`host` is a lower-case ASCII name or a canonical address, without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Origin":
        """Raises: EgressRefused (malformed, not_allowed for another scheme, userinfo)."""
        if len(url) > MAXIMUM_URL or _CONTROL.search(url):
            raise EgressRefused("malformed", "too long, or holds a space or a control character")
        scheme, mark, rest = url.partition("://")
        if not mark:
            raise EgressRefused("malformed", "not absolute")
        scheme = scheme.lower()
        if scheme not in DEFAULT_PORTS:
            raise EgressRefused("not_allowed", "neither http nor https")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if "@" in authority:
            raise EgressRefused("userinfo")
        found = _AUTHORITY.match(authority)
        if found is None:
            raise EgressRefused("malformed", "not a host and a port")
        return cls(scheme, _host(found["host"]), _port(found["port"], scheme))

    @property
    def authority(self) -> str:
        """Return `host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


def _port(text: str | None, scheme: str) -> int:
    port = int(text) if text is not None else DEFAULT_PORTS[scheme]
    if not 0 < port < 65_536:
        raise EgressRefused("malformed", "port out of range")
    return port


def _host(text: str) -> str:
    """Return the one spelling of a host.

    What ends in a number is an address or nothing: resolvers read 127.1, 0x7f000001 and 2130706433 as addresses.
    """
    if text.startswith("["):
        found = _address(text[1:-1], "malformed")
        if isinstance(found, ipaddress.IPv4Address):
            raise EgressRefused("malformed", "brackets around what is no IPv6 address")
        return str(found)
    host = text.lower()
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        raise EgressRefused("malformed", "not a host name")
    return str(_address(host, "malformed")) if _NUMBER.match(labels[-1]) else host


def _address(text: str, reason: str = "address") -> Address:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise EgressRefused(reason, "not an address") from None
    if isinstance(found, ipaddress.IPv6Address) and found.scope_id is not None:
        raise EgressRefused(reason, "an address with a zone")
    return found


def literal(host: str) -> Address | None:
    """Return the address that a host of an `Origin` is, None for a name."""
    is_address = ":" in host or _NUMBER.match(host.rpartition(".")[2])
    return _address(host) if is_address else None


def is_loopback(text: str) -> bool:
    """Say whether an address is this machine itself, whichever machine reads it."""
    found = (_address(text), _unwrapped(_address(text)))
    return any(address.is_loopback or address.is_unspecified for address in found)


@dataclass(frozen=True, slots=True)
class ForwardProxy:
    """The operator's proxy, through which what leaves is tunnelled. Its password stands in no representation of it."""

    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> Self:
        """Read `http://[user[:password]@]host:port`, user and password percent-encoded.

        Raises: ValueError, which does not repeat the text.
        """
        scheme, _, rest = url.removesuffix("/").partition("://")
        login, mark, authority = rest.rpartition("@")
        user, _, password = login.partition(":")
        user, password = unquote(user), unquote(password)
        if scheme.lower() != "http" or not _PROXY.match(authority) or (mark and not _LOGIN.match(login)):
            raise ValueError(_PROXY_FORM)
        if ":" in user or _CONTROL.search(user + password):
            raise ValueError(_PROXY_FORM)
        try:
            origin = Origin.of(f"http://{authority}")
        except EgressRefused:
            raise ValueError(_PROXY_FORM) from None
        return cls(origin.host, origin.port, user, password)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What may be dialled: exact origins, the private networks that an operator opened, and the `host:port` pairs
    that may speak plain HTTP, which stays within those networks.

    What an operator denies is denied whatever is allowed: a host with everything below it, a network. Without
    arguments nothing may be dialled. `proxy` is the way out, where an operator sets one; it changes nothing of what may
    be dialled.
    """

    allowed: frozenset[Origin] = frozenset()
    open_networks: tuple[Network, ...] = ()
    plain_http_hosts: frozenset[str] = frozenset()
    denied_hosts: frozenset[str] = frozenset()
    denied_networks: tuple[Network, ...] = ()
    proxy: ForwardProxy | None = None

    def check_url(self, url: str) -> Origin:
        """Raises: EgressRefused (malformed, userinfo, not_allowed, denied, plain_http, address)."""
        origin = Origin.of(url)
        if origin not in self.allowed:
            raise EgressRefused("not_allowed", str(origin))
        if any(origin.host == host or origin.host.endswith(f".{host}") for host in self.denied_hosts):
            raise EgressRefused("denied", str(origin))
        if origin.scheme == "http" and origin.authority not in self.plain_http_hosts:
            raise EgressRefused("plain_http", str(origin))
        if literal(origin.host) is not None:
            self.check_address(origin.host)
        return origin

    def check_address(self, text: str) -> Address:
        """Return the address, which is what to dial. Judges also the IPv4 address that an IPv6 address leads to.

        Raises: EgressRefused (address).
        """
        address = _address(text)
        if any(_is_within(address, network) for network in self.denied_networks):
            raise EgressRefused("address", f"{address} is denied")
        if not (self._is_open(address) or (_is_public(address) and _is_public(_unwrapped(address)))):
            raise EgressRefused("address", f"{address} is not public")
        return address

    def check_answers(self, host: str, port: int, answers: Sequence[str]) -> tuple[str, ...]:
        """Return what may be dialled for a name that resolved to these. One bad address refuses the name.

        Raises: EgressRefused (address, plain_http).
        """
        if len(answers) > MAXIMUM_ADDRESSES:
            raise EgressRefused("address", f"{len(answers)} answers")
        addresses = [self.check_address(answer) for answer in answers]
        plain = Origin("http", host, port)
        speaks_plain = plain in self.allowed and plain.authority in self.plain_http_hosts
        if speaks_plain and not all(self._is_open(address) for address in addresses):
            raise EgressRefused("plain_http", "plain HTTP stays within the networks that an operator opened")
        return tuple(dict.fromkeys(str(address) for address in addresses))

    def _is_open(self, address: Address) -> bool:
        return any(_is_within(address, network) for network in self.open_networks)


def policy_for(
    urls: Iterable[str],
    *,
    open_networks: Iterable[str] = (),
    plain_http_hosts: Iterable[str] = (),
    denied_hosts: Iterable[str] = (),
    denied_networks: Iterable[str] = (),
    proxy: ForwardProxy | None = None,
) -> EgressPolicy:
    """Build the policy that allows exactly the origins of these URLs.

    Raises: EgressRefused for a URL that has no origin.
    """
    return EgressPolicy(
        frozenset(Origin.of(url) for url in urls),
        tuple(ipaddress.ip_network(network) for network in open_networks),
        frozenset(host.lower() for host in plain_http_hosts),
        frozenset(host.lower().strip(".") for host in denied_hosts),
        tuple(ipaddress.ip_network(network) for network in denied_networks),
        proxy,
    )


def _is_within(address: Address, network: Network) -> bool:
    return any(
        candidate.version == network.version and candidate in network
        for candidate in (address, _unwrapped(address))
    )  # fmt: skip


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that a mapped, translated, compatible, 6to4 or NAT64 address leads to, else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and any(address in network for network in (_NAT64, _IPV4_COMPATIBLE, _IPV4_TRANSLATED)):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def _is_public(address: Address) -> bool:
    if any(address.version == network.version and address in network for network in _SPECIAL):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    # These two lead to IPv4 hosts, which are judged as well.
    if address in _NAT64 or address.ipv4_mapped is not None:
        return True
    is_tunnel = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    return address in _GLOBAL_UNICAST and address.is_global and not is_tunnel
