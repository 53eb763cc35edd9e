"""Makes a process of the product report its moments, from the outside, and gives it the tools under test.

The store and the artifacts report their moments by themselves. Around everything else that persists or speaks (rings,
wake-ups, lease renewals, sweeps, decisions) this wraps the public name in the running process; there are no doubles.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from approvals import services as approvals
from config import wiring
from config.management.commands import worker as worker_command
from tests.crash.points import Role
from tests.crash.tools import World, crash_tools
from toolsys import database, decisions, jobs, queue, services, sweeper, wakeups
from toolsys.execution import WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.models import RunStep
from toolsys.ports import Clock, Limits, Tool
from toolsys.probes import PausingProbe
from toolsys.tenancy import tenant_transaction

# How long an authorized row waits before a sweep names it; the product's default is two seconds.
GRACE_SECONDS: Final = 0.5
_job = threading.local()


def report(role: Role, world: World) -> None:
    """Wrap what this process uses. Called once, before anything is composed."""
    probe = PausingProbe(world.gates / role)
    _compose(world, probe)
    around(queue, "ring_all", probe, "ring", lambda arguments: _whose(arguments[0]))
    for job in ("advance_call", "advance_step"):
        around(jobs, job, probe, "job", lambda arguments: _begin(str(arguments[1])), after=_is_over)
    around(
        wakeups, "wake", probe, "wake", lambda _arguments: getattr(_job, "tenant", ""), before=_is_over, after=_is_over
    )
    _leases(probe)
    around(WorkerExecution, "drain", probe, "drain", lambda _arguments: "")
    around(services, "_request_cancel", probe, "marks", lambda arguments: str(arguments[0]))
    if role is Role.SCHEDULER:
        _sweeps(probe)
    if role is Role.APPROVER:
        _decisions(probe)


def around(
    owner: Any, name: str, probe: PausingProbe, moment: str, tenant_of: Callable[[tuple[Any, ...]], str], *,
    before: Callable[[str], bool] = lambda _tenant: True, after: Callable[[str], bool] = lambda _tenant: True,
) -> None:  # fmt: skip
    """Report `before_<moment>` and `after_<moment>` of a function, with the tenant that it acts for."""
    original = getattr(owner, name)

    def told(*arguments: Any, **named: Any) -> Any:
        tenant = tenant_of(arguments)
        if before(tenant):
            probe.reached(f"before_{moment}", tenant)
        found = original(*arguments, **named)
        if after(tenant):
            probe.reached(f"after_{moment}", tenant)
        return found

    put(owner, name, told)


def _is_over(tenant: str) -> bool:
    """Say whether the tenant's step has ended: a second ring's job ends, and wakes, while the first one's is at it."""
    with tenant_transaction(tenant):
        return not RunStep.objects.filter(completed_at=None).exists()


def _whose(bells: Sequence[str]) -> str:
    """Return the tenant of the first bell: a lane plays one cell at a time."""
    return bells[0].split(queue.SEPARATOR)[1] if bells else ""


def _begin(tenant: str) -> str:
    """Remember whose job this thread does: a wake-up does not say."""
    _job.tenant = tenant
    return tenant


def _compose(world: World, probe: PausingProbe) -> None:
    builtins, limits = wiring.builtins, wiring.limits

    def with_crash_tools(clock: Clock) -> list[Tool]:
        return [*builtins(clock), *crash_tools(world, probe)]

    def impatient() -> Limits:
        return replace(limits(), dispatch_grace_seconds=GRACE_SECONDS)

    put(wiring, "builtins", with_crash_tools)
    put(wiring, "limits", impatient)
    put(wiring, "probe", lambda: probe)


def _leases(probe: PausingProbe) -> None:
    class ToldKeeper(LeaseKeeper):
        def renew(self) -> None:
            is_holding = bool(self._held)
            if is_holding:
                probe.reached("before_renew", "")
            super().renew()
            if is_holding:
                probe.reached("after_renew", "")

    put(worker_command, "LeaseKeeper", ToldKeeper)


def _sweeps(probe: PausingProbe) -> None:
    ask, sweep = database.call, sweeper.sweep

    def told_call(statement: str, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
        rows = ask(statement, *arguments, **named)
        if "toolsys_sweep(" in statement:
            for row in rows:
                probe.reached("during_sweep", row[1])
        return rows

    def told_sweep(grace_seconds: float) -> list[sweeper.Due]:
        probe.reached("before_sweep", "")
        found = sweep(grace_seconds)
        for due in found:
            probe.reached("after_sweep", due.tenant_id)
        return found

    put(database, "call", told_call)
    put(sweeper, "sweep", told_sweep)


def _decisions(probe: PausingProbe) -> None:
    record = decisions.record_decision

    def told(request: Any, *rest: Any, **named: Any) -> Any:
        found = record(request, *rest, **named)
        probe.reached("decision_uncommitted", request.tenant_id)
        return found

    put(decisions, "record_decision", told)
    keep, decide = approvals._keep, approvals.decide

    def told_vote(request: Any, *rest: Any, **named: Any) -> None:
        keep(request, *rest, **named)
        probe.reached("vote_uncommitted", request.tenant_id)

    def told_decide(**named: Any) -> Any:
        found = decide(**named)
        probe.reached("vote_committed", named["tenant_id"])
        return found

    put(approvals, "_keep", told_vote)
    put(approvals, "decide", told_decide)


def put(owner: Any, name: str, value: Any) -> None:
    """Replace an attribute that exists: a renamed one must not go unnoticed."""
    assert hasattr(owner, name), f"{owner.__name__} no longer has {name}"
    setattr(owner, name, value)
