"""A real worker process is frozen at six points for half a lease, one and a half, and five, and thaws.

Frozen past its lease before the watermark: that claim never sends. After the watermark: it never persists, and what
another worker has concluded stands. The scheduler and a second worker go on meanwhile.
"""

import signal
import time
from typing import Any

import psycopg
import pytest

from tests.races.crew import Crew
from tests.races.ground import until
from tests.races.tools import tool_name
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition

BEFORE_WATERMARK = ("after_claim", "before_prepare", "after_prepare")
AFTER_WATERMARK = ("after_watermark", "after_effect")
LEASES = [0.5, 1.5, 5.0]
pytestmark = pytest.mark.long


def frozen(crew: Crew, kind: str, point: str) -> tuple[Disposition, int]:
    """Propose a call; stop whoever brings it to the point, and nobody else."""
    tenancy = crew.tenancy()
    crew.ground.close_gate(point, tool_name(kind))
    call = crew.propose(tenancy, kind)
    victim = crew.ground.victim_at(point)
    crew.ground.signal(victim, signal.SIGSTOP)
    crew.ground.open_gate(point)
    return call, victim


def thawed(crew: Crew, call: Disposition, victim: int, leases: float) -> dict[str, Any]:
    """Wait for the given time, and past a lease for the other worker's conclusion; return the row as it then was."""
    time.sleep(leases * crew.ground.lease_seconds)
    concluded = crew.ended(call) if leases > 1 else crew.row(call)
    crew.ground.signal(victim, signal.SIGCONT)
    until(lambda: victim in crew.jobs(call, "done"), "the thawed worker has left the call")
    return concluded


def is_the_victim_s(row: dict[str, Any], victim: int) -> bool:
    return bool(row["claimed_by"]) and str(victim) in row["claimed_by"].split(":")


@gate("race.zombies")
@pytest.mark.parametrize("kind", ["once", "repeatable"])
@pytest.mark.parametrize("leases", LEASES)
@pytest.mark.parametrize("point", BEFORE_WATERMARK)
def test_frozen_before_the_watermark_past_its_lease_a_claim_never_sends(
    crew: Crew, point: str, leases: float, kind: str
) -> None:
    call, victim = frozen(crew, kind, point)
    concluded = thawed(crew, call, victim, leases)
    row = crew.ended(call)
    assert crew.faults(call, kind) == []
    assert (row["status"], len(crew.sends(call)) == 1 or kind != "once") == ("succeeded", True)
    if leases > 1:
        assert victim not in crew.sends(call)
        assert concluded == row
        assert row["claim_epoch"] > 1


@gate("race.zombies")
@pytest.mark.parametrize("kind", ["once", "repeatable"])
@pytest.mark.parametrize("leases", LEASES)
@pytest.mark.parametrize("point", AFTER_WATERMARK)
def test_frozen_after_the_watermark_past_its_lease_a_claim_never_persists(
    crew: Crew, point: str, leases: float, kind: str
) -> None:
    call, victim = frozen(crew, kind, point)
    concluded = thawed(crew, call, victim, leases)
    row = crew.ended(call)
    assert crew.faults(call, kind) == []
    if leases > 1:
        assert concluded == row, "what the other worker concluded stands"
        assert not is_the_victim_s(row, victim)
        assert row["status"] == ("uncertain" if kind == "once" else "succeeded")
        assert crew.sends(call).count(victim) == (1 if point == "after_effect" else 0)


@gate("race.zombies")
@pytest.mark.parametrize("kind", ["once", "repeatable"])
@pytest.mark.parametrize("leases", LEASES)
def test_frozen_while_its_settlement_is_with_the_database_a_call_ends_once(
    crew: Crew, leases: float, kind: str
) -> None:
    """The statement is no longer in the frozen process's hands: it commits, and the other worker finds it so."""
    tenancy = crew.tenancy()
    crew.ground.close_gate("before_result", tool_name(kind))
    call = crew.propose(tenancy, kind)
    victim = crew.ground.victim_at("before_result")
    with crew.ground.superuser() as link, link.transaction():
        link.execute("SELECT 1 FROM run_steps WHERE run_id = %s FOR UPDATE", [tenancy.run.id])
        crew.ground.open_gate("before_result")
        until(lambda: _is_waited_for(link), "the settlement waits for the step's row")
        crew.ground.signal(victim, signal.SIGSTOP)
        time.sleep(leases * crew.ground.lease_seconds)
    row = crew.ended(call)
    crew.ground.signal(victim, signal.SIGCONT)
    until(lambda: victim in crew.jobs(call, "done"), "the thawed worker has left the call")
    assert crew.faults(call, kind) == []
    assert row == crew.row(call)
    assert (row["status"], row["claim_epoch"], crew.sends(call)) == ("succeeded", 1, [victim])


def _is_waited_for(link: "psycopg.Connection[Any]") -> bool:
    mine = "SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    return link.execute(mine).fetchone() is not None
