"""A forward proxy that speaks CONNECT, well and badly, and leads what it is asked for to ports of this machine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from toolsys.egress import ForwardProxy
from toolsys.execution import LoopThread

OK = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"
ANSWERS: dict[str, bytes] = {
    "407": b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n",
    "403": b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 5\r\n\r\nhello",
    "302": b"HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1/\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n",
    "first-words-of-the-target": OK + b"HTTP/1.1 200 OK\r\n\r\n",
    "another-protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "http-0.9": b"<html>hello</html>",
    "a-status-too-long": b"HTTP/1.1 2000 OK\r\n\r\n",
    "nothing": b"",
}  # fmt: skip


@dataclass
class Proxy:
    """Leads each authority of `routes` to a port of this machine; `answer` is what it says instead, where it is set."""

    routes: dict[str, int]
    answer: bytes | None = None
    habit: str = ""
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    serving: list[asyncio.Task[Any] | None] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        return [head.split(b" ", 2)[1].decode() for head in self.heads]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.append(asyncio.current_task())
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"CONNECT "), head
                self.heads.append(head)
                await self._answer(head.split(b" ", 2)[1].decode(), reader, writer)
        finally:
            await closed(writer)
            self.ended.set()

    async def _answer(self, authority: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.habit == "stalls":
            await reader.read()
        while self.habit == "has-no-end":
            writer.write(b"x-filler: " + b"a" * 1_000 + b"\r\n")
            await writer.drain()
        while self.habit == "drips":
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)
        if self.answer is not None or authority not in self.routes:
            writer.write(ANSWERS["502"] if self.answer is None else self.answer)
            await writer.drain()
            return
        inner = await asyncio.open_connection("127.0.0.1", self.routes[authority])
        writer.write(OK)
        await asyncio.gather(_copied(reader, inner[1]), _copied(inner[0], writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
    finally:
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@contextmanager
def standing(proxy: Proxy) -> Iterator[ForwardProxy]:
    """Serve on a loop of its own thread while entered; nobody is there afterwards."""
    loop = LoopThread()

    async def start() -> asyncio.Server:
        return await asyncio.start_server(proxy.serve, "127.0.0.1", 0)

    async def stop() -> None:
        server.close()
        for task in proxy.serving:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in proxy.serving if task is not None), return_exceptions=True)

    server = loop.run(start(), 5.0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield ForwardProxy("127.0.0.1", proxy.port, "toolsys", "proxy-pass:word/1")
    finally:
        loop.run(stop(), 5.0)
        loop.stop()
