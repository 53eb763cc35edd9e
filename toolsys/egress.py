"""Everything that leaves over HTTP: the one client, and the transport that dials exactly what policy checked.

A name is resolved once, every address is judged, and the judged address is what gets connected (Host and SNI keep the
name): nothing can change between check and dial. No redirects, ambient proxies, netrc, cookies or compression; bounded
head, body and time; it retries nothing. Callers are the builtins, `mcpcatalog.sdk`, token endpoints and webhooks.
Only here, in `mcpcatalog/sdk/` and `toolsys/client/` is httpx2 imported. Source: DESIGN §8.
"""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from typing import Any, Final

import httpcore2
import httpx2

from toolsys.departure import MAY_SEND
from toolsys.dialling import MAXIMUM_HEAD_BYTES, Mark, PinnedBackend, Resolver, Watch, WatchedNetwork, resolve
from toolsys.domain.destinations import (
    DEFAULT_PORTS,
    EgressError,
    EgressPolicy,
    EgressRefused,
    ForwardProxy,
    Origin,
    policy_for,
)
from toolsys.forwarding import ForwardNetwork, ProxyFailed

__all__ = (
    "EgressClient", "EgressCounts", "EgressError", "EgressFailed", "EgressPolicy", "EgressRefused",
    "ForwardProxy", "HttpAnswer", "Mark", "Origin", "PinnedTransport", "Resolver", "Watch", "policy_for", "post_json",
    "resolve", "retry_after_seconds", "ssl_context",
)  # fmt: skip

KEEPALIVE_SECONDS: Final = 120.0
MAXIMUM_FIELDS: Final = 128
MAXIMUM_RETRY_AFTER_SECONDS: Final = 86_400.0
# Chunks of one byte cost six on the wire; more than that is no framing but a way to keep us reading.
_FRAMING_FACTOR: Final = 8
_READ_BYTES: Final = 65_536
# Chunks that are already here come without a pause; a flood of small ones may not hold the loop and its deadlines.
_CHUNKS_A_TURN: Final = 64
_EARLY: Final = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout, httpcore2.UnsupportedProtocol)
_LATE: Final = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


class EgressFailed(EgressError):
    """The network said no: unreachable, proxy (both before anything was sent), connection_lost, timeout."""


class EgressCounts:
    """How the exchanges of one process ended: `answered`, `cancelled`, or the reason of an `EgressError`.

    The composition root makes one and hands it to whoever dials; metrics read it. Safe to share among threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, outcome: str) -> None:
        with self._lock:
            self._counts[outcome] += 1

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the one context of this process: building it costs 20 ms, twelve times a warm call."""
    return ssl.create_default_context()


class _Exchange:
    """One request on its way: its bounds, whether a byte of it left, and how it ended, which is counted once."""

    def __init__(self, maximum_bytes: int | None, total_seconds: float | None, counts: EgressCounts | None) -> None:
        self.maximum_bytes = maximum_bytes
        self.deadline = None if total_seconds is None else asyncio.get_running_loop().time() + total_seconds
        self.was_sent = False
        self._may_send = MAY_SEND.get()
        self._counts = counts

    def traced(self) -> dict[str, Any]:
        """Only where our own time or our lease can run out does anybody look at the first byte."""
        return {} if self.deadline is None and self._may_send is None else {"trace": self._note}

    async def _note(self, event: str, _info: object) -> None:
        """The connection stands and its TLS too; what comes next is the first byte of the request."""
        if event.endswith("send_request_headers.started"):
            if self._may_send is not None and not self._may_send():
                raise EgressFailed("unreachable", was_sent=False, detail="the lease had passed")
            self.was_sent = True

    def ended(self, outcome: str) -> None:
        if self._counts is not None:
            self._counts.add(outcome)
            self._counts = None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what the network raises into an `EgressError`, and count it."""
        try:
            try:
                yield
            except TimeoutError:
                raise EgressFailed("timeout", was_sent=self.was_sent, detail="the time for the whole") from None
            except ProxyFailed as error:
                raise EgressFailed("proxy", was_sent=False, detail=str(error)) from error
            except _EARLY as error:
                raise EgressFailed("unreachable", was_sent=False, detail=type(error).__name__) from error
            except httpcore2.TimeoutException as error:
                raise EgressFailed("timeout", was_sent=True, detail=type(error).__name__) from error
            except _LATE as error:
                raise EgressFailed("connection_lost", was_sent=True, detail=type(error).__name__) from error
        except EgressError as error:
            self.ended(error.reason)
            raise
        except asyncio.CancelledError:
            self.ended("cancelled")
            raise


class PinnedTransport(httpx2.AsyncBaseTransport):
    """One pool of connections under one policy. Every failure is an `EgressError`.

    `total_seconds` bounds an exchange from name resolution to the last byte of its body; None is for callers that keep
    deadlines of their own. `network` is what dials; a test's observes.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        maximum_bytes: int,
        total_seconds: float | None = None,
        counts: EgressCounts | None = None,
        resolver: Resolver = resolve,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        maximum_connections: int = 16,
        watch: Watch | None = None,
    ) -> None:
        # Pure, and a connection mostly asks for one URL; what is refused is not kept.
        self._check_url = lru_cache(maxsize=64)(policy.check_url)
        self._maximum_bytes = maximum_bytes
        self._total_seconds = total_seconds
        self._counts = counts
        network = network or httpcore2.AnyIOBackend()
        if policy.proxy is not None:
            network = ForwardNetwork(policy.proxy, resolver, network)
        if watch is not None:
            resolver = watch.resolving(resolver)
            network = WatchedNetwork(network, watch, has_proxy=policy.proxy is not None)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or ssl_context(), max_connections=maximum_connections,
            max_keepalive_connections=maximum_connections, keepalive_expiry=KEEPALIVE_SECONDS, http1=True, http2=False,
            retries=0, network_backend=PinnedBackend(policy, resolver, network),
        )  # fmt: skip

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self.exchange(request, self._maximum_bytes)

    async def exchange(self, request: httpx2.Request, maximum_bytes: int | None) -> httpx2.Response:
        """Send one request. `maximum_bytes` None is for streams that live as long as their connection.

        Raises: EgressError.
        """
        exchange = _Exchange(maximum_bytes, self._total_seconds, self._counts)
        with exchange.translated():
            origin = self._check_url(str(request.url))
            async with asyncio.timeout_at(exchange.deadline):
                answer = await self._pool.handle_async_request(_outgoing(request, origin, exchange))
                headers = httpx2.Headers(answer.headers)
                refusal = _refusal(answer.status, headers, maximum_bytes)
                if refusal is not None:
                    await answer.aclose()
                    raise refusal
        stream = answer.extensions["network_stream"]
        stream.watch(_surplus_of(answer))
        stream.allow(None if maximum_bytes is None else maximum_bytes * _FRAMING_FACTOR + _READ_BYTES)
        return httpx2.Response(
            answer.status, headers=headers, stream=_BoundedBody(answer, exchange), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _outgoing(request: httpx2.Request, origin: Origin, exchange: _Exchange) -> httpcore2.Request:
    """Take the destination from what policy checked; of the request only method, target, fields and body."""
    is_default = origin.port == DEFAULT_PORTS[origin.scheme]
    request.headers["host"] = origin.authority.rpartition(":")[0] if is_default else origin.authority
    request.headers["accept-encoding"] = "identity"
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=request.url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions={"timeout": request.extensions.get("timeout", {}), **exchange.traced()},
    )


def _refusal(status: int, headers: httpx2.Headers, maximum_bytes: int | None) -> EgressError | None:
    fields = headers.raw
    if len(fields) > MAXIMUM_FIELDS or sum(len(name) + len(value) + 4 for name, value in fields) > MAXIMUM_HEAD_BYTES:
        return EgressRefused("too_large", "the head", was_sent=True)
    if status < 200:
        return EgressFailed("connection_lost", was_sent=True, detail=f"status {status}")
    if 300 <= status < 400 and status != 304:
        location = headers.get("location", "")[:2_048]
        return EgressRefused("redirect", f"status {status}", was_sent=True, location=location)
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        return EgressRefused("encoding", was_sent=True)
    declared = headers.get("content-length", "")
    if maximum_bytes is not None and declared.isdecimal() and int(declared) > maximum_bytes:
        return EgressRefused("too_large", f"{declared} bytes declared", was_sent=True)
    return None


def _surplus_of(answer: httpcore2.Response) -> Callable[[], bool]:
    """Ask the parser what it holds beyond this answer; httpcore2 looks only at the socket, and h11 reads ahead."""
    body: Any = answer.stream
    parser = body._stream._connection._h11_state
    return lambda: bool(parser.trailing_data[0])


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response, exchange: _Exchange) -> None:
        self._answer = answer
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, number = self._exchange.maximum_bytes, 0
        async with aclosing(self._answer.aiter_stream()) as chunks:
            while (chunk := await self._next(chunks, number)) is not None:
                number += 1
                if left is not None and len(chunk) > left:
                    yield chunk[:left]
                    self._exchange.ended("too_large")
                    raise EgressRefused("too_large", f"more than {self._exchange.maximum_bytes} bytes", was_sent=True)
                left = None if left is None else left - len(chunk)
                yield chunk

    async def _next(self, chunks: AsyncIterator[bytes], number: int) -> bytes | None:
        with self._exchange.translated():
            async with asyncio.timeout_at(self._exchange.deadline):
                if number % _CHUNKS_A_TURN == _CHUNKS_A_TURN - 1:
                    await asyncio.sleep(0)
                return await anext(chunks, None)

    async def aclose(self) -> None:
        await self._answer.aclose()
        self._exchange.ended("answered")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`fields` are by lower-case name; not `is_whole` means that the body was cut at the bound."""

    status: int
    body: bytes
    fields: Mapping[str, str]
    is_whole: bool = True


class EgressClient:
    """Sends single requests under one policy, each on a connection of its own; nothing is shared between callers."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        counts: EgressCounts | None = None,
        resolver: Resolver = resolve,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._counts = counts
        self._resolver = resolver
        self._network = network
        self._tls = tls

    async def send(
        self,
        method: str,
        url: str,
        *,
        timeout_seconds: float,
        maximum_bytes: int,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        keeps_partial: bool = False,
    ) -> HttpAnswer:
        """Send at most once and return whatever status came back. `keeps_partial` returns a body that is too large
        as far as it was read, where nothing announced its size.

        Raises: EgressError.
        """
        request = self._request(method, url, headers or {}, content)
        transport = PinnedTransport(
            self._policy, maximum_bytes=maximum_bytes, total_seconds=timeout_seconds, counts=self._counts,
            resolver=self._resolver, network=self._network, tls=self._tls, maximum_connections=1,
        )  # fmt: skip
        async with transport:
            response = await transport.handle_async_request(request)
            try:
                body, is_whole = await _collected(response, keeps_partial=keeps_partial)
            finally:
                await response.aclose()
        return HttpAnswer(response.status_code, body, dict(response.headers), is_whole)

    def _request(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> httpx2.Request:
        """Judge the URL as it was written, before a more forgiving reader rewrites what is wrong with it."""
        try:
            self._policy.check_url(url)
            return httpx2.Request(method, url, headers=dict(headers), content=content)
        except EgressRefused as refused:
            if self._counts is not None:
                self._counts.add(refused.reason)
            raise


async def _collected(response: httpx2.Response, *, keeps_partial: bool) -> tuple[bytes, bool]:
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
    except EgressRefused as refused:
        if refused.reason != "too_large" or not keeps_partial:
            raise
        return bytes(body), False
    return bytes(body), True


async def post_json(
    url: str,
    body: Any,
    *,
    policy: EgressPolicy,
    timeout_seconds: float,
    maximum_bytes: int,
    headers: Mapping[str, str] | None = None,
    counts: EgressCounts | None = None,
) -> HttpAnswer:
    """Post one JSON document and return whatever status came back. Sends at most once.

    Raises: EgressError.
    """
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    fields = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
    return await EgressClient(policy, counts=counts).send(
        "POST", url, headers=fields, content=content, timeout_seconds=timeout_seconds, maximum_bytes=maximum_bytes
    )


def retry_after_seconds(field: str, now: datetime) -> float | None:
    """Read a Retry-After field, seconds or a date; at most a day, None where it says nothing usable."""
    text = field.strip()
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), MAXIMUM_RETRY_AFTER_SECONDS)
    try:
        moment = parsedate_to_datetime(text[:64])
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAXIMUM_RETRY_AFTER_SECONDS)
