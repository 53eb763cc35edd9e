"""The operator's forward proxy: a tunnel through it to an address that was checked here, never to a name.

A network below the pinned one of `toolsys.dialling`: who asks for a connection has resolved and judged the address, so
that the proxy has nothing to resolve. Whatever goes wrong here comes before any byte of the request. Only
`toolsys.egress` imports this. Source: DESIGN §8 "optional forward proxy"; decision record 24.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Final

import httpcore2

from toolsys.dialling import CONNECT_SECONDS, MAXIMUM_DIALS, Resolver
from toolsys.domain.destinations import ForwardProxy, is_loopback, literal

MAXIMUM_ANSWER_BYTES: Final = 8_192
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r\n)")
_END: Final = b"\r\n\r\n"


class ProxyFailed(httpcore2.ConnectError):
    """There is no tunnel. Its text is ours: the proxy's own words and the setting are not in it."""


class ForwardNetwork(httpcore2.AsyncNetworkBackend):
    """Connects through the proxy; to this machine's own loopback, which would be another machine's there, directly."""

    def __init__(self, proxy: ForwardProxy, resolver: Resolver, network: httpcore2.AsyncNetworkBackend) -> None:
        self._proxy = proxy
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
        """`host` is an address. Raises: ProxyFailed; to this machine itself also what dialling raises."""
        if is_loopback(host):
            return await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        try:
            async with asyncio.timeout(CONNECT_SECONDS if timeout is None else timeout):
                stream = await self._reached(socket_options)
                try:
                    await self._ask_for(host, port, stream)
                except BaseException:
                    await stream.aclose()
                    raise
        except TimeoutError:
            raise ProxyFailed("the forward proxy opened no tunnel in time") from None
        return stream

    async def _reached(self, socket_options: Iterable[Any] | None) -> httpcore2.AsyncNetworkStream:
        """The proxy is the operator's own: its address is dialled as it is, in a private network as well."""
        host, port = self._proxy.host, self._proxy.port
        try:
            addresses = [host] if literal(host) is not None else await self._resolver(host, port)
        except (OSError, UnicodeError):
            raise ProxyFailed("the forward proxy has no address") from None
        for address in addresses[:MAXIMUM_DIALS]:
            try:
                return await self._network.connect_tcp(address, port, None, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        raise ProxyFailed("the forward proxy cannot be reached")

    async def _ask_for(self, host: str, port: int, stream: httpcore2.AsyncNetworkStream) -> None:
        try:
            await stream.write(_request(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", self._proxy))
            answer = b""
            while _END not in answer:
                if len(answer) >= MAXIMUM_ANSWER_BYTES:
                    raise ProxyFailed("the forward proxy answered without end")
                data = await stream.read(MAXIMUM_ANSWER_BYTES - len(answer))
                if not data:
                    raise ProxyFailed("the forward proxy ended before its answer")
                answer += data
        except (httpcore2.ReadError, httpcore2.WriteError):
            raise ProxyFailed("the forward proxy hung up") from None
        status = _STATUS.match(answer)
        if status is None:
            raise ProxyFailed("the forward proxy speaks no HTTP/1.1")
        if not status[1].startswith(b"2"):
            raise ProxyFailed(f"the forward proxy answered {status[1].decode()}")
        # Whoever is behind it speaks after us; what is here already would be taken for the target's first words.
        if answer.index(_END) != len(answer) - len(_END):
            raise ProxyFailed("the forward proxy said more than its answer")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


def _request(authority: str, proxy: ForwardProxy) -> bytes:
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user or proxy.password:
        word = b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {word}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")
