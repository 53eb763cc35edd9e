"""Interleavings written down: what happens at a named moment of a worker's attempt, once, and clocks that jump."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from django.db import connections

from config.wiring import SystemClock
from tests.factories import Tenancy
from toolsys.domain.calls import Disposition
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction


class Died(BaseException):
    """The process ended here; nothing catches it."""


def die() -> None:
    raise Died


@dataclass
class At:
    """A probe that does something the first time that a point is reached."""

    point: str
    deed: Callable[[], object]
    is_done: bool = False
    reached_points: list[str] = field(default_factory=list)

    def reached(self, point: str, tool_name: str) -> None:
        self.reached_points.append(point)
        if point == self.point and not self.is_done:
            self.is_done = True
            self.deed()


def with_probe(runtime: Runtime, probe: At) -> Runtime:
    store = runtime.store
    assert isinstance(store, SqlStore)
    return replace(runtime, store=replace(store, probe=probe))


def at(runtime: Runtime, point: str, deed: Callable[[], object]) -> Runtime:
    return with_probe(runtime, At(point, deed))


def pass_lease(tenancy: Tenancy, call: Disposition) -> None:
    with tenant_transaction(tenancy.id):
        Invocation.objects.filter(pk=call.invocation_id).update(lease_expires_at="2020-01-01T00:00:00Z")


def row_of(tenancy: Tenancy, call: Disposition) -> Invocation:
    with tenant_transaction(tenancy.id):
        return Invocation.objects.get(pk=call.invocation_id)


class JumpingClock(SystemClock):
    """The system's clock; `boottime` can be moved on, as for a process that was frozen."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def boottime(self) -> float:
        return super().boottime() + self.ahead


class OwnWorker:
    """A worker's execution with a clock of its own; its heartbeat beats only while `is_beating`."""

    def __init__(self, runtime: Runtime, *, lease_seconds: float, is_beating: bool) -> None:
        self.clock = JumpingClock()
        self._loop = LoopThread()
        self._keeper = LeaseKeeper(self.clock, lease_seconds)
        self._is_beating = is_beating
        if is_beating:
            self._keeper.start()
        self.execution = WorkerExecution(self._loop, self._keeper, self.clock)
        store = runtime.store
        assert isinstance(store, SqlStore)
        limits = replace(store.limits, lease_seconds=lease_seconds)
        self.runtime = replace(
            runtime, execution=self.execution, limits=limits, clock=self.clock,
            store=replace(store, limits=limits, clock=self.clock),
        )  # fmt: skip

    def __enter__(self) -> "OwnWorker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_beating:
            self._keeper.stop()
        self._loop.stop()
        connections.close_all()
