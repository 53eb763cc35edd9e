"""Everything that leaves over HTTP: what may be dialled, and the transport that dials exactly that.

A policy is an exact allowlist. A name is resolved once, every address is checked, one bad address refuses the name,
and the checked address is what gets connected (Host and SNI keep the name). No redirects, no ambient proxies, no
compression, bounded bytes. It retries nothing. Not a general client: callers are the builtins, `mcpcatalog.sdk` and
later token endpoints and webhooks. Only here, in `mcpcatalog/sdk/` and `toolsys/client/` is httpx2 imported.
"""

import asyncio
import ipaddress
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import httpcore2
import httpx2

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network
type Resolver = Callable[[str, int], Awaitable[list[str]]]

KEEPALIVE_SECONDS: Final = 120.0
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_EARLY: Final = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout, httpcore2.UnsupportedProtocol)
_LATE: Final = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


class EgressError(Exception):
    """A request that did not end in a response. `was_sent` false proves that no byte of it left.

    `reason` is stable and short: it goes to operators and metrics, never to a model.
    """

    def __init__(self, reason: str, *, was_sent: bool, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.was_sent = was_sent


class EgressRefused(EgressError):
    """Policy said no: not_allowed, plain_http, userinfo, address, redirect, encoding, too_large."""

    def __init__(self, reason: str, detail: str = "", *, was_sent: bool = False) -> None:
        super().__init__(reason, was_sent=was_sent, detail=detail)


class EgressFailed(EgressError):
    """The network said no: unreachable (before anything was sent), connection_lost, timeout."""


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Origin":
        """Raises: EgressRefused (not_allowed) for what is no absolute http(s) URL, (userinfo) for one with a user."""
        try:
            parsed = httpx2.URL(url)
        except httpx2.InvalidURL:
            raise EgressRefused("not_allowed", "not a URL") from None
        if parsed.userinfo:
            raise EgressRefused("userinfo")
        if parsed.scheme not in _DEFAULT_PORTS or not parsed.host:
            raise EgressRefused("not_allowed", f"scheme {parsed.scheme!r}")
        return cls(parsed.scheme, parsed.host, parsed.port or _DEFAULT_PORTS[parsed.scheme])

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What may be dialled: exact origins, private networks that an operator opened, and the `host:port` pairs that
    may speak plain HTTP.
    """

    allowed: frozenset[Origin]
    open_networks: tuple[Network, ...] = ()
    plain_http_hosts: frozenset[str] = frozenset()

    def check_url(self, url: str) -> Origin:
        """Raises: EgressRefused."""
        origin = Origin.of(url)
        if origin not in self.allowed:
            raise EgressRefused("not_allowed", str(origin))
        if origin.scheme == "http" and f"{origin.host}:{origin.port}" not in self.plain_http_hosts:
            raise EgressRefused("plain_http", str(origin))
        return origin

    def check_address(self, text: str) -> None:
        """Refuse what is not public, also where IPv6 only wraps an IPv4 address.

        Raises: EgressRefused (address).
        """
        address = _parse(text)
        for candidate in (address, _unwrapped(address)):
            if any(candidate.version == network.version and candidate in network for network in self.open_networks):
                return
        if not (_is_public(address) and _is_public(_unwrapped(address))):
            raise EgressRefused("address", f"{address} is not public")


def policy_for(
    urls: Iterable[str], *, open_networks: Iterable[str] = (), plain_http_hosts: Iterable[str] = ()
) -> EgressPolicy:
    """Build the policy that allows exactly the origins of these URLs.

    Raises: EgressRefused for a URL that has no origin.
    """
    networks = tuple(ipaddress.ip_network(network) for network in open_networks)
    return EgressPolicy(frozenset(Origin.of(url) for url in urls), networks, frozenset(plain_http_hosts))


def _parse(text: str) -> Address:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        raise EgressRefused("address", "not an address") from None


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that a mapped, 6to4, NAT64 or compatible address leads to, else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _NAT64 or address in _IPV4_COMPATIBLE):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.is_site_local:
            return False
        # These wrappers are not "global" by the registry and still lead to public IPv4 hosts; those are checked too.
        if address in _NAT64 or address.ipv4_mapped is not None:
            return True
    return address.is_global and not (address.is_multicast or address.is_link_local)


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the one context of this process: building it costs 20 ms, twelve times a warm call."""
    return ssl.create_default_context()


class _PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Resolve once, check every address, dial the address and never the name."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = resolver
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError("no address")
        for address in await self._checked_addresses(host, port, timeout):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _checked_addresses(self, host: str, port: int, seconds: float | None) -> list[str]:
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._resolver(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("name resolution") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"name resolution: {error.strerror}") from error
        for address in addresses:
            self._policy.check_address(address)
        return addresses

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PinnedTransport(httpx2.AsyncBaseTransport):
    """One pool of connections under one policy. Every failure is an `EgressError`."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        maximum_bytes: int,
        resolver: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
        maximum_connections: int = 16,
    ) -> None:
        self._policy = policy
        self._maximum_bytes = maximum_bytes
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or ssl_context(), max_connections=maximum_connections,
            max_keepalive_connections=maximum_connections, keepalive_expiry=KEEPALIVE_SECONDS, http1=True, http2=False,
            retries=0, network_backend=_PinnedBackend(policy, resolver),
        )  # fmt: skip

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self.exchange(request, self._maximum_bytes)

    async def exchange(self, request: httpx2.Request, maximum_bytes: int | None) -> httpx2.Response:
        """Send one request. `maximum_bytes` None is for streams that live as long as their connection.

        Raises: EgressError.
        """
        self._policy.check_url(str(request.url))
        request.headers["accept-encoding"] = "identity"
        with _translated():
            answer = await self._pool.handle_async_request(_outgoing(request))
        headers = httpx2.Headers(answer.headers)
        refusal = _refusal(answer.status, headers, maximum_bytes)
        if refusal is not None:
            await answer.aclose()
            raise refusal
        return httpx2.Response(
            answer.status, headers=headers, stream=_BoundedBody(answer, maximum_bytes), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _outgoing(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _refusal(status: int, headers: httpx2.Headers, maximum_bytes: int | None) -> EgressRefused | None:
    if 300 <= status < 400 and status != 304:
        return EgressRefused("redirect", f"status {status}", was_sent=True)
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        return EgressRefused("encoding", was_sent=True)
    declared = headers.get("content-length", "")
    if maximum_bytes is not None and declared.isdecimal() and int(declared) > maximum_bytes:
        return EgressRefused("too_large", f"{declared} bytes declared", was_sent=True)
    return None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _EARLY as error:
        raise EgressFailed("unreachable", was_sent=False, detail=type(error).__name__) from error
    except httpcore2.TimeoutException as error:
        raise EgressFailed("timeout", was_sent=True, detail=type(error).__name__) from error
    except _LATE as error:
        raise EgressFailed("connection_lost", was_sent=True, detail=type(error).__name__) from error


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response, maximum_bytes: int | None) -> None:
        self._answer = answer
        self._maximum_bytes = maximum_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        with _translated():
            async for chunk in self._answer.aiter_stream():
                received += len(chunk)
                if self._maximum_bytes is not None and received > self._maximum_bytes:
                    raise EgressRefused("too_large", f"more than {self._maximum_bytes} bytes", was_sent=True)
                yield chunk

    async def aclose(self) -> None:
        await self._answer.aclose()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: bytes


async def post_json(
    url: str,
    body: Any,
    *,
    policy: EgressPolicy,
    timeout_seconds: float,
    maximum_bytes: int,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Post one JSON document and return whatever status came back. Sends at most once.

    Raises: EgressError; after `timeout_seconds` an `EgressFailed("timeout")` that counts as sent.
    """
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    transport = PinnedTransport(policy, maximum_bytes=maximum_bytes, maximum_connections=1)
    fields = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
    try:
        async with asyncio.timeout(timeout_seconds), transport:
            request = httpx2.Request("POST", url, headers=fields, content=content)
            response = await transport.handle_async_request(request)
            try:
                return HttpAnswer(response.status_code, await response.aread())
            finally:
                await response.aclose()
    except TimeoutError:
        raise EgressFailed("timeout", was_sent=True) from None
