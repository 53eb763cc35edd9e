"""How a connection is made: resolve once, judge every address, dial the address and never the name.

Between what was checked and what is dialled nothing can change, because the dial gets an address. The stream that comes
of it counts what the peer makes us read. Only `toolsys.egress` and `toolsys.forwarding` import this.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import httpcore2

from toolsys.domain.destinations import EgressPolicy, EgressRefused, is_loopback, literal

type Resolver = Callable[[str, int], Awaitable[list[str]]]

# One address that does not answer may not spend the time of the others.
CONNECT_SECONDS: Final = 10.0
MAXIMUM_DIALS: Final = 4
MAXIMUM_LOOKUPS: Final = 32
MAXIMUM_HEAD_BYTES: Final = 32_768


@cache
def _resolving() -> ThreadPoolExecutor:
    """Threads of its own: a lookup that hangs cannot be cancelled, and may not hold up what else uses threads."""
    return ThreadPoolExecutor(MAXIMUM_LOOKUPS, thread_name_prefix="resolve")


async def resolve(host: str, port: int) -> list[str]:
    look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_resolving(), look)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


@contextmanager
def _as_lost(lost: type[httpcore2.NetworkError]) -> Iterator[None]:
    """httpcore2 lets an error of TLS pass that comes after the handshake; nobody above would know it."""
    try:
        yield
    except ssl.SSLError as error:
        raise lost(type(error).__name__) from error


class MeteredStream(httpcore2.AsyncNetworkStream):
    """Bounds what a peer can make us read, however little of it is content: interim answers, trailers, framing.

    Each write begins a new exchange and allows one head; the exchange allows its body when it has seen the head.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._left: int | None = None
        self._has_surplus: Callable[[], bool] = lambda: False

    def watch(self, has_surplus: Callable[[], bool]) -> None:
        """`has_surplus` says whether more was read than the answer: the next request may not take it for its own."""
        self._has_surplus = has_surplus

    def allow(self, amount: int | None) -> None:
        self._left = amount

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's
        if self._left is not None and self._left <= 0:
            raise EgressRefused("too_large", "more around the answer than in it", was_sent=True)
        with _as_lost(httpcore2.ReadError):
            data = await self._inner.read(max_bytes, timeout)
        if self._left is not None:
            self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore2's
        self._left = MAXIMUM_HEAD_BYTES
        with _as_lost(httpcore2.WriteError):
            await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return MeteredStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            # httpcore2 closes it on an error only: a handshake that is given up would keep its socket until somebody
            # collects it.
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        # The pool lets a connection go that has something to read before it was asked anything.
        if info == "is_readable" and self._has_surplus():
            return True
        return self._inner.get_extra_info(info)


@dataclass(slots=True)
class Mark:
    """One part of a dial: `resolve`, `connect` or `secure`, how long it took, and whether it ended well.

    `fact` is what was found, or what OpenSSL says is wrong with a certificate; nothing that the peer wrote.
    `is_tunnelled`: it was the operator's forward proxy that was asked for the connection.
    """

    part: str
    seconds: float
    is_done: bool
    fact: str = ""
    is_tunnelled: bool = False


@dataclass(slots=True)
class Watch:
    """Notes the parts of a dial, for whoever explains to a person why one does not succeed. Changes nothing.

    `at` is the part that is tried now; `told` hears of each beginning and end, on the loop, and must not block.
    """

    marks: list[Mark] = field(default_factory=list)
    told: Callable[[], object] = lambda: None
    at: str = ""

    @contextmanager
    def noting(self, part: str) -> Iterator[Mark]:
        begun, mark = time.monotonic(), Mark(part, 0.0, is_done=False)
        self.at = part
        self.told()
        try:
            yield mark
            mark.is_done = True
        except BaseException as error:  # also cancellation: noted, and raised on
            mark.fact = mark.fact or _verify_message(error)
            raise
        finally:
            mark.seconds = time.monotonic() - begun
            self.marks.append(mark)
            self.at = ""
            self.told()

    def resolving(self, resolver: Resolver) -> Resolver:
        async def resolve_noted(host: str, port: int) -> list[str]:
            with self.noting("resolve") as mark:
                found = await resolver(host, port)
                mark.fact = ", ".join(found[:MAXIMUM_DIALS])
            return found

        return resolve_noted


def _verify_message(error: BaseException | None) -> str:
    """Return OpenSSL's own words about a certificate, wherever in the chain of causes they are."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return ""


class WatchedNetwork(httpcore2.AsyncNetworkBackend):
    def __init__(self, inner: httpcore2.AsyncNetworkBackend, watch: Watch, *, has_proxy: bool = False) -> None:
        self._inner = inner
        self._watch = watch
        self._has_proxy = has_proxy

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        with self._watch.noting("connect") as mark:
            mark.is_tunnelled = self._has_proxy and not is_loopback(host)
            mark.fact = f"{host} port {port}" + (", by the forward proxy" if mark.is_tunnelled else "")
            stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _WatchedStream(stream, self._watch)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _WatchedStream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore2's
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's
    ) -> httpcore2.AsyncNetworkStream:
        with self._watch.noting("secure") as mark:
            secured = await self._inner.start_tls(ssl_context, server_hostname, timeout)
            mark.fact = _certificate(secured.get_extra_info("ssl_object"))
        return _WatchedStream(secured, self._watch)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _certificate(connection: Any) -> str:
    found = connection.getpeercert() if connection is not None else None
    return f"{connection.version()}, certificate valid until {found['notAfter']}" if found else ""


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """`network` is what dials: the real one, or one that a test watches."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver, network: httpcore2.AsyncNetworkBackend) -> None:
        self._policy = policy
        self._resolver = resolver
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        seconds = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        answers = [host] if literal(host) is not None else await self._resolved(host, port, seconds)
        failure: Exception = httpcore2.ConnectError("no address")
        for address in self._policy.check_answers(host, port, answers)[:MAXIMUM_DIALS]:
            try:
                stream = await self._network.connect_tcp(address, port, seconds, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
            else:
                return MeteredStream(stream)
        raise failure

    async def _resolved(self, host: str, port: int, seconds: float) -> list[str]:
        try:
            async with asyncio.timeout(seconds):
                return await self._resolver(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("name resolution") from None
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("name resolution") from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
