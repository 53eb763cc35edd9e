"""The lease is asked for at the write of a request's first byte into the pipe, and in the sender's own context."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from mcpcatalog.remote import ServerUnreachable
from mcpcatalog.sdk.record import CALL, CallRecord
from mcpcatalog.sdk.stdio import Outlet
from tests.integration.mcp.conftest import PEER, Bench, peer
from tests.integration.processes import child_process, eventually
from tests.spec.requirements import gate
from toolsys.departure import MAY_SEND

pytestmark = pytest.mark.slow

CAPACITY = 4_096
LEASE_SECONDS = 0.3
CALLED = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={"name": "t"}))
TOLD = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/x", params={"text": "x" * 3 * CAPACITY}))


@dataclass
class Pipe:
    """A pipe of one page with nobody reading but the test."""

    outlet: Outlet
    reading: int
    writing: int
    record: CallRecord = field(default_factory=CallRecord)
    is_live: bool = True

    async def call(self) -> None:
        MAY_SEND.set(lambda: self.is_live)
        CALL.set(self.record)
        await self.outlet.send(CALLED)

    def fill(self) -> None:
        os.write(self.writing, b"-" * CAPACITY)

    async def read_until(self, task: "asyncio.Task[None]") -> bytes:
        found = b""
        while not task.done():
            await asyncio.sleep(0.02)
            found += self.read()
        return found + self.read()

    def read(self) -> bytes:
        try:
            return os.read(self.reading, 64 * CAPACITY)
        except BlockingIOError:
            return b""


def played[T](scene: Callable[[Pipe], Coroutine[Any, Any, T]]) -> T:
    async def play() -> T:
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe2(os.O_NONBLOCK)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, CAPACITY)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(writing, "wb", 0)
        )
        try:
            outlet = Outlet(asyncio.StreamWriter(transport, protocol, None, loop))
            return await asyncio.wait_for(scene(Pipe(outlet, reading, writing)), 20)
        finally:
            transport.abort()
            os.close(reading)

    return asyncio.run(play())


@gate("egress.departure")
@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("obstacle", ["full", "another_writes"])
def test_a_call_that_waited_for_the_pipe_is_asked_when_it_is_written(obstacle: str, *, is_live: bool) -> None:
    """What the kernel did not take at once would leave later, whoever was frozen meanwhile."""

    async def scene(pipe: Pipe) -> tuple[bool, bool, bool]:
        first = asyncio.create_task(pipe.outlet.send(TOLD)) if obstacle == "another_writes" else None
        if first is None:
            pipe.fill()
        await asyncio.sleep(0.05)
        call = asyncio.create_task(pipe.call())
        await asyncio.sleep(0.05)
        assert not pipe.record.was_sent, "nothing of it has left"
        pipe.is_live = is_live
        found = await pipe.read_until(call)
        if not is_live:
            error = call.exception()
            assert isinstance(error, ServerUnreachable)
            assert error.effect == "not_applied"
        return call.exception() is None, pipe.record.was_sent, b"tools/call" in found

    assert played(scene) == (is_live, is_live, is_live)


@gate("egress.departure")
def test_what_is_no_request_may_always_leave() -> None:
    async def scene(pipe: Pipe) -> bytes:
        MAY_SEND.set(lambda: False)
        return await pipe.read_until(asyncio.create_task(pipe.outlet.send(TOLD)))

    assert played(scene).endswith(b"}\n")


@gate("egress.departure")
def test_a_connection_outlives_the_lease_in_whose_context_it_was_opened(bench: Callable[..., Bench]) -> None:
    """Its handshake and what it answers by itself belong to no call; another call's lease is its own."""
    here, config = bench(), peer()
    token = MAY_SEND.set(lambda: False)
    try:
        here.connect(config)
    finally:
        MAY_SEND.reset(token)
    assert set(here.call(config, "ask").structured) == {"sampling/createMessage", "roots/list", "elicitation/create"}


FROZEN = f"""
    import asyncio, json, os, signal, time
    from mcpcatalog.remote import CallSpec, RemoteError, ServerConfig, StdioCommand, Transport
    from mcpcatalog.sdk.pool import ConnectionPool
    from mcpcatalog.sdk.wire import TappedDispatcher
    from toolsys.departure import MAY_SEND

    given = TappedDispatcher.send_raw_request

    async def stopped(self, method, *rest, **named):
        if method == "tools/call" and MAY_SEND.get() is not None:
            os.kill(os.getpid(), signal.SIGSTOP)
        return await given(self, method, *rest, **named)

    async def main():
        TappedDispatcher.send_raw_request = stopped
        command = StdioCommand(({sys.executable!r}, {PEER!r}))
        config = ServerConfig("acme", "peer", Transport.STDIO, "peer", command=command)
        connection = await ConnectionPool(lambda _config: None).acquire(config, "s", None)
        until = time.clock_gettime(time.CLOCK_BOOTTIME) + {LEASE_SECONDS}
        MAY_SEND.set(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) < until)
        effect = "answered"
        try:
            await connection.call(CallSpec("environment", {{}}, 30.0))
        except RemoteError as error:
            effect = error.effect
        MAY_SEND.set(None)
        seen = (await connection.call(CallSpec("calls", {{}}, 30.0))).structured["calls"]
        print(json.dumps([effect, seen]), flush=True)

    asyncio.run(main())
"""


@gate("race.zombies")
def test_frozen_between_the_sdk_and_the_pipe_past_its_lease_a_process_never_sends() -> None:
    command = [sys.executable, "-c", textwrap.dedent(FROZEN)]
    worker = child_process(command, stdout=subprocess.PIPE, text=True)
    try:
        eventually(lambda: _is_stopped(worker.pid), "it stands before the pipe", 60)
        time.sleep(2 * LEASE_SECONDS)
        os.kill(worker.pid, signal.SIGCONT)
        said, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.wait()
    assert said.strip() == '["not_applied", ["calls"]]'


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
