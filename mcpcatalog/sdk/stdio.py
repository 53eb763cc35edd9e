"""Our own stdio transport: constructed environment, a keeper of its own, bounded lines, no child left behind.

The SDK's transport always passes HOME, PATH, USER and others on, has no bound on a line, and leaves a server's own
children alive. A line that is no JSON-RPC message is noise and is dropped. Only `mcpcatalog.sdk` imports it.
"""

import asyncio
import os
import select
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from mcpcatalog.remote import ServerUnreachable
from mcpcatalog.sdk.launch import END_NOW
from mcpcatalog.sdk.messages import admitted
from mcpcatalog.sdk.record import CALL
from toolsys.departure import may_leave

LAUNCHER: Final = str(Path(__file__).with_name("launch.py"))
SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
CHUNK_BYTES: Final = 65_536
STDERR_CHUNKS: Final = 16
GRACE_SECONDS: Final = 2.0
# How long a pipe that is full is left alone before it is looked at again.
FULL_SECONDS: Final = 0.01
# Lines in a row that are no messages: some servers greet people on their standard output, none does so for ever.
MAXIMUM_NOISE: Final = 10_000


@dataclass(slots=True)
class Child:
    """The process behind one connection: the keeper of its server. Outside the owner task, for `kill` only."""

    process: Process | None = None
    stderr: deque[bytes] = field(default_factory=lambda: deque(maxlen=STDERR_CHUNKS))
    overflowed: bool = False
    secrets: tuple[str, ...] = ()

    def kill(self) -> None:
        if self.process is not None:
            _tell(self.process, END_NOW)

    def last_words(self) -> str:
        return b"".join(self.stderr)[-2_000:].decode("utf-8", "replace")


def constructed_environment(home: str, declared: Mapping[str, str]) -> dict[str, str]:
    """Build a child's environment from nothing. Source: DESIGN §7, TS "A stdio server's credential"."""
    temporary = str(Path(home, "tmp"))
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "TZ": "UTC", "HOME": home, "TMPDIR": temporary, **declared}


@asynccontextmanager
async def stdio_streams(
    argv: tuple[str, ...], declared: Mapping[str, str], child: Child, *, maximum_bytes: int
) -> AsyncIterator[Any]:
    """Start the server and yield the stream pair; on the way out end it with all that it started, and reap it."""
    home = await asyncio.to_thread(_private_home)
    try:
        transport, process = await _spawn(argv, constructed_environment(home, declared), home)
        child.process = process
        try:
            async with _pumped(process, child, maximum_bytes) as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            # From here on the number may belong to somebody else.
            child.process = None
            transport.close()
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _private_home() -> str:
    home = tempfile.mkdtemp(prefix="mcp-")
    Path(home, "tmp").mkdir(mode=0o700)
    return home


async def _spawn(
    argv: tuple[str, ...], environment: dict[str, str], home: str
) -> tuple[asyncio.SubprocessTransport, Process]:
    loop = asyncio.get_running_loop()
    command = (sys.executable, "-I", "-S", LAUNCHER, str(os.getpid()), *argv)
    # `create_subprocess_exec` hides the transport, and only its `close` frees pipes that a grandchild keeps open.
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=CHUNK_BYTES, loop=loop),
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, cwd=home, start_new_session=True,
    )  # fmt: skip
    return transport, Process(transport, protocol, loop)


@asynccontextmanager
async def _pumped(process: Process, child: Child, maximum_bytes: int) -> AsyncIterator[Any]:
    into_session, from_child = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    assert process.stdin is not None
    outlet = Outlet(process.stdin)
    async with anyio.create_task_group() as pumps:
        pumps.start_soon(_read, process, child, into_session, maximum_bytes)
        pumps.start_soon(_collect, process, child)
        try:
            yield from_child, outlet
        finally:
            for stream in (into_session, from_child):
                stream.close()
            pumps.cancel_scope.cancel()


class Outlet:
    """The session's end of the child's standard input. It writes in the sender's own context: there is its lease.

    A pump would write in a task of its own, which knows of no call, and some time after the sender was asked.
    """

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe
        # Whoever has written waits until the kernel has it all: what comes next then leaves when it is written.
        pipe.transport.set_write_buffer_limits(high=0)
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write one line, as soon as the pipe takes it. A request whose lease has passed by then is not written.

        Raises: ServerUnreachable (`not_applied`); anyio.ClosedResourceError.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        # A child that is gone is noticed by the reader; the session must not see the pipe's error.
        async with self._turn:
            if self._is_closed:
                raise anyio.ClosedResourceError
            with suppress(OSError):
                await self._pipe.drain()
                await self._has_room()
                if isinstance(item.message, JSONRPCRequest):
                    _depart()
                self._pipe.write(line)
                await self._pipe.drain()

    async def _has_room(self) -> None:
        """Wait for the kernel: a line that it does not take at once would leave later, whoever was frozen meanwhile."""
        room = select.poll()
        room.register(self._pipe.get_extra_info("pipe"), select.POLLOUT)
        while not room.poll(0):  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(FULL_SECONDS)

    async def aclose(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> "Outlet":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _depart() -> None:
    """The last question before a request's first byte. Raises: ServerUnreachable, where its lease has passed."""
    if not may_leave():
        raise ServerUnreachable("the lease had passed", effect="not_applied")
    record = CALL.get()
    if record is not None:
        record.was_sent = True  # a pipe does not tell how much of a line was read


async def _read(process: Process, child: Child, sink: Any, maximum_bytes: int) -> None:
    """Forward whole lines. End of file closes the stream, which is how the session learns of a dead child."""
    assert process.stdout is not None
    pending = bytearray()
    noise = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with sink:
            while chunk := await process.stdout.read(CHUNK_BYTES):
                pending += chunk
                *lines, rest = pending.split(b"\n")
                pending = bytearray(rest)
                if len(pending) > maximum_bytes or any(len(line) > maximum_bytes for line in lines):
                    noise = MAXIMUM_NOISE
                for line in lines[: MAXIMUM_NOISE - noise]:
                    noise = 0 if await _forward(bytes(line), sink) else noise + 1
                if noise >= MAXIMUM_NOISE:
                    child.overflowed = True
                    child.kill()
                    return
                # What is here already is read without a pause; a flood may not hold the loop and its deadlines.
                await asyncio.sleep(0)


async def _forward(line: bytes, sink: Any) -> bool:
    """Say whether it was a message."""
    try:
        found = admitted(line, None)
        message = jsonrpc_message_adapter.validate_json(found.data if found else line, by_name=False)
    except ValueError:
        return False
    await sink.send(SessionMessage(message))
    return True


async def _collect(process: Process, child: Child) -> None:
    assert process.stderr is not None
    while chunk := await process.stderr.read(4_096):
        child.stderr.append(chunk)


async def _end(process: Process) -> None:
    """Leave politely, then not. Whatever descends from the server ends with it: that is its keeper's work."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, END_NOW, signal.SIGKILL):
        if number is not None:
            _tell(process, number)
        with anyio.move_on_after(GRACE_SECONDS):
            await process.wait()
        if process.returncode is not None:
            break


def _tell(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)
