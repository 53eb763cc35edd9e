"""Step 10 in the worker: job threads hand tool coroutines to one event loop, each under its deadline.

The loop owns every connection, so an MCP session outlives the call that opened it. Leases are renewed by one keeper
for all calls of the process. Nothing here writes an invocation. Source: DESIGN §3, §4 and §13.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import UUID

from toolsys import database, trace
from toolsys.departure import MAY_SEND, Departure
from toolsys.domain.calls import Claim
from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.context import CancellationToken, ToolExecutionContext
from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.domain.trust import TrustLevel
from toolsys.leases import LeaseKeeper
from toolsys.ports import Clock, NotAvailable, Tool

log = logging.getLogger("toolsys.execution")
# A coroutine that ignores its cancellation may not hold the job thread.
GRACE_SECONDS: Final = 2.0
# For what blocks; each may hold a connection while it works, and the pool has a place for it (config.databases).
LOOP_THREADS: Final = 8
_TOO_LARGE: Final = ToolFailure(
    kind=ToolFailureKind.OUTPUT_TOO_LARGE, reason_code="tool.output_too_large", detail="past the hard ceiling"
)


class LoopThreads(ThreadPoolExecutor):
    """The threads behind `asyncio.to_thread`: a database connection that a work took goes back when it ends.

    A tool is code that we did not write, and an idle thread would keep its place in the pool. On the loop's own thread
    Django refuses to ask the database.
    """

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        def released() -> T:
            try:
                return fn(*args, **kwargs)
            finally:
                database.release_connection()

        return super().submit(released)


class LoopThread:
    """One asyncio loop on one daemon thread. Connections live and die on it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(LoopThreads(LOOP_THREADS, "tool-loop"))
        self._thread = threading.Thread(target=self._serve, name="tool-loop", daemon=True)
        self._thread.start()

    def run[T](self, work: Coroutine[Any, Any, T], timeout_seconds: float) -> T:
        """Raises: TimeoutError; whatever the coroutine raises."""

        async def bounded() -> T:
            async with asyncio.timeout(timeout_seconds):
                return await work

        future = asyncio.run_coroutine_threadsafe(bounded(), self.loop)
        try:
            return future.result(timeout_seconds + GRACE_SECONDS)
        except FutureTimeout:
            future.cancel()
            raise TimeoutError from None
        except CancelledError:
            raise TimeoutError from None

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(GRACE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


class WorkerExecution:
    """Implements `ports.Execution` for a worker process."""

    def __init__(self, loop: LoopThread, keeper: LeaseKeeper, clock: Clock) -> None:
        self._loop = loop
        self._keeper = keeper
        self._clock = clock
        self._draining = threading.Event()
        self._claims: dict[UUID, Claim] = {}

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    def drain(self) -> None:
        """From now on nothing new is sent; what was sent may end."""
        self._draining.set()

    def elsewhere(self, tool: Tool) -> str:
        # Not isinstance: a runtime check of a protocol costs more than the call it guards.
        asked = getattr(tool, "elsewhere", None)
        found: str = asked() if asked is not None else ""
        return found

    @contextmanager
    def keeping(self, claim: Claim) -> Iterator[None]:
        self._keeper.hold(claim)
        self._claims[claim.invocation_id] = claim
        try:
            yield
        finally:
            self._keeper.drop(claim)
            self._claims.pop(claim.invocation_id, None)

    def may_send(self, claim: Claim) -> bool:
        return self._clock.boottime() < self._keeper.live_until(claim)

    def _left(self, context: ToolExecutionContext) -> float:
        """One deadline for the whole claim: what preparation took, execution does not have."""
        claim = self._claims.get(context.invocation_id)
        left = context.timeout_seconds
        if claim is not None:
            left = claim.claimed_at_boottime + claim.remaining_seconds - self._clock.boottime()
        return max(min(context.timeout_seconds, left), 0.0)

    def cancellation(self, claim: Claim) -> CancellationToken:
        return self._keeper.token(claim)

    def prepare(self, tool: Tool, context: ToolExecutionContext) -> None:
        # Not isinstance: a runtime check of a protocol costs more than the call it guards.
        prepare = getattr(tool, "prepare", None)
        if prepare is None:
            return
        try:
            self._loop.run(_contained(prepare, context), self._left(context))
        except (NotAvailable, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever it raises, it has sent nothing of the call.
            log.error("preparing tool %s raised %s", tool.spec.name, _kind_of(error))
            raise NotAvailable("tool.server_unreachable", _kind_of(error)) from None

    def execute(self, tool: Tool, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        claim = self._claims.get(context.invocation_id)
        departure = Departure(partial(self.may_send, claim)) if claim is not None else None
        started, begun = time.time(), time.perf_counter()
        try:
            return self._executed(tool, arguments, context, departure)
        finally:
            # Saved by the commit that ends this attempt: of who dies before it, the first byte stays unknown.
            first = departure.first_us if departure is not None else None
            trace.note(10, started, time.perf_counter() - begun, first_byte_us=first)

    def _executed(
        self, tool: Tool, arguments: JsonObject, context: ToolExecutionContext, departure: Departure | None
    ) -> ToolResult:
        try:
            found = self._loop.run(_fenced(tool, arguments, context, departure), self._left(context))
        except TimeoutError:
            return _failed(ToolFailureKind.TIMEOUT, f"no answer within {context.timeout_seconds:.1f} s")
        except OutputTooLarge as runaway:
            said = (TextPart(text=runaway.partial),) if runaway.partial else ()
            return ToolResult(ok=False, content=said, failure=_TOO_LARGE, output_trust=TrustLevel.EXTERNAL_UNTRUSTED)
        except NotAvailable as absence:
            failure = ToolFailure(
                kind=ToolFailureKind.TRANSPORT, reason_code=absence.reason_code, detail=absence.detail
            )
            return ToolResult(ok=False, failure=failure)
        except Exception as error:  # noqa: BLE001
            # A tool is code that we did not write: whatever it raises is its failure. The text may hold what it was
            # given or told, so only the exception's type is kept and logged.
            log.error("tool %s raised %s", tool.spec.name, _kind_of(error))
            return _failed(ToolFailureKind.INTERNAL, _kind_of(error))
        if not isinstance(found, ToolResult):
            # It has run, and nobody can read its answer.
            return _failed(ToolFailureKind.OUTPUT_INVALID, f"not a ToolResult: {type(found).__name__}")
        return found


async def _fenced(
    tool: Tool, arguments: JsonObject, context: ToolExecutionContext, departure: Departure | None
) -> object:
    """In a context of its own: whatever the tool sends asks for this claim's lease before its first byte."""
    if departure is not None:
        MAY_SEND.set(departure)
    return await _contained(tool.execute, arguments, context)


class _Ended(Exception):
    """A tool asked the whole process to end."""


async def _contained[**P, T](work: Callable[P, Awaitable[T]], *given: P.args, **named: P.kwargs) -> T:
    """What a tool asks of its process, nobody does: it would end the loop under the calls of all others."""
    try:
        return await work(*given, **named)
    except (SystemExit, KeyboardInterrupt) as wish:
        raise _Ended(type(wish).__name__) from None


def _kind_of(error: Exception) -> str:
    """Name an exception by its type: its text may hold what the tool was given or told."""
    return str(error) if isinstance(error, _Ended) else type(error).__name__


def _failed(kind: ToolFailureKind, detail: str) -> ToolResult:
    return ToolResult(ok=False, failure=ToolFailure(kind=kind, reason_code=f"tool.{kind}", detail=detail))
