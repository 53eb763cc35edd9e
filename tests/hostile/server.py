"""The hostile HTTP server: raw asyncio sockets, a thread of its own, and a script for each request that it gets.

`/{era}/{name}`: the era says how it shakes hands where no script does; the name says whose scripts. It is well-behaved
until it is armed. `ports` are listeners that misbehave before any request. Imports nothing of ours but `scripts`.
"""

import asyncio
import json
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tests.hostile.scripts import (
    DROP,
    MODERN,
    RESET,
    STALL,
    Act,
    Drop,
    Pause,
    Script,
    Stage,
    Stall,
    answer,
    http,
    result,
)

TOOLS: Final = [{"name": "t", "description": "d", "inputSchema": {"type": "object"}}]
DIALS: Final[dict[str, list[Act]]] = {
    "close": [DROP],
    "reset": [RESET],
    "banner": [b"SSH-2.0-OpenSSH_9.2\r\n", STALL],
    "mute": [STALL],
}


def friendly(stage: Stage, era: str) -> Script:
    """What a server that is well does."""
    modern = MODERN if era == "modern" else {}
    if stage is Stage.DISCOVER and modern:
        return answer({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **modern})
    if stage is Stage.DISCOVER:
        return http(status="400 Bad Request", kind=None)
    if stage is Stage.INITIALIZE:
        info = {"name": "hostile", "version": "0"}
        found = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        return answer(found, **{"Mcp-Session-Id": "S-1"})
    if stage is Stage.LIST:
        return answer({"tools": TOOLS, **modern})
    if stage is Stage.CALL:
        return answer(result())
    refused = {Stage.STREAM: "405 Method Not Allowed", Stage.RESUME: "405 Method Not Allowed"}
    return http(status=refused.get(stage, "202 Accepted"), kind=None)


@dataclass(frozen=True, slots=True)
class Request:
    stage: Stage
    era: str
    name: str
    headers: Mapping[str, str]
    message: Any

    @property
    def identifier(self) -> str:
        return json.dumps(self.message.get("id") if isinstance(self.message, dict) else None)


@dataclass
class Hostile:
    """`scripts` are by name and stage; a list of scripts is used up one a request, the last for ever."""

    scripts: dict[str, Mapping[Stage, Script | Sequence[Script]]] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    armed: set[str] = field(default_factory=set)
    ports: dict[str, int] = field(default_factory=dict)
    used: dict[tuple[str, Stage], int] = field(default_factory=dict)

    def calls(self, name: str, stage: Stage = Stage.CALL) -> int:
        return sum(1 for request in self.seen if (request.name, request.stage) == (name, stage))

    def url(self, name: str, era: str, dial: str = "http") -> str:
        scheme, port = ("https" if dial.startswith("tls-") else "http"), self.ports[dial.removeprefix("tls-")]
        return f"{scheme}://127.0.0.1:{port}/{era}/{name}"

    def script_for(self, request: Request) -> Script:
        given = self.scripts.get(request.name, {}).get(request.stage) if request.name in self.armed else None
        if given is None:
            return friendly(request.stage, request.era)
        if callable(given):
            return given
        key = request.name, request.stage
        self.used[key] = self.used.get(key, 0) + 1
        return given[min(self.used[key], len(given)) - 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                request = await _read(reader)
                self.seen.append(request)
                if not await _perform(self.script_for(request)(request.identifier), reader, writer):
                    break
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    message = json.loads(body) if body else {}
    _, era, name = path.split("/", 2)
    return Request(_stage(method, headers, message), era, name, headers, message)


def _stage(method: str, headers: Mapping[str, str], message: Any) -> Stage:
    if method == "GET":
        return Stage.RESUME if "last-event-id" in headers else Stage.STREAM
    if method == "DELETE":
        return Stage.FAREWELL
    found = message.get("method")
    return Stage(found) if found in set(Stage) else Stage.ANSWER


async def _perform(given: Sequence[Act], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Play the acts; say whether the connection goes on."""
    for act in given:
        if isinstance(act, Stall | Drop):
            await _end(act, reader, writer)
            return False
        if isinstance(act, Pause):
            await asyncio.sleep(act.seconds)
        elif isinstance(act, bytes):
            await _write(writer, act)
        else:
            while True:
                await _write(writer, act.chunk)
                await asyncio.sleep(act.pause)
    return True


async def _end(act: Stall | Drop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if isinstance(act, Stall):
        while await reader.read(65_536):
            pass
    elif act.is_reset:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


@contextmanager
def serving() -> Iterator[Hostile]:
    """Run it in a thread; on the way out everything that it holds is closed.

    A thread that writes without end would make the client wait five milliseconds for each of its turns.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    hostile, loop = Hostile(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="hostile server", daemon=True)
    thread.start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    with _full() as full, _closed() as closed:
        listeners = [listener]
        hostile.ports = {"http": listener.getsockname()[1], "full": full, "closed": closed}
        asyncio.run_coroutine_threadsafe(asyncio.start_server(hostile.serve, sock=listener), loop).result(10)
        for name, given in DIALS.items():
            listeners.append(socket.create_server(("127.0.0.1", 0)))
            hostile.ports[name] = listeners[-1].getsockname()[1]
            asyncio.run_coroutine_threadsafe(_start(given, listeners[-1]), loop).result(10)
        try:
            yield hostile
        finally:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            for each in listeners:
                each.close()
            loop.close()
            sys.setswitchinterval(interval)


async def _start(given: Sequence[Act], listener: socket.socket) -> None:
    async def dialled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await _perform(given, reader, writer)
        writer.close()

    await asyncio.start_server(dialled, sock=listener)


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def _closed() -> Iterator[int]:
    """A port at which nobody listens, and which nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def _full() -> Iterator[int]:
    """A listener that accepts nobody and whose queue is full: a dial gets no answer at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port, waiting = listener.getsockname()[1], []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", port))
        yield port
        for each in waiting:
            each.close()
