"""What holds after every run, whatever was killed: asserted over the rows, the events and the world's own log.

Each function returns sentences about what does not hold; none means that all is well. Reads as the superuser: row-level
security hides nothing from a check.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tests.crash.expected import Class
from tests.crash.lane import Lane
from tests.crash.points import Role

# What the machine may take on top, from the ring to the claim: two cores are shared by six lanes.
TOLERANCE_SECONDS: Final = 0.25
SETTLED: Final = """SELECT i.id FROM tool_invocations i WHERE i.tenant_id = %s AND i.completed_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM tool_events e
        WHERE e.tenant_id = i.tenant_id AND e.derivation_key = 'settled:' || i.id)"""
OVERDUE: Final = """SELECT i.id FROM tool_invocations i JOIN runs r ON r.tenant_id = i.tenant_id AND r.id = i.run_id
    WHERE i.tenant_id = %s AND i.completed_at IS NULL AND i.suspended_kind IS NULL
      AND coalesce(i.operation_deadline, r.deadline_at) < clock_timestamp() - make_interval(secs => %s)"""
HELD_TOO_LONG: Final = """SELECT a.id FROM approval_requests a WHERE a.tenant_id = %s AND a.status = 'pending'
    AND a.expires_at < clock_timestamp() - make_interval(secs => %s)"""
UNSPENT: Final = """SELECT a.id FROM approval_requests a JOIN tool_invocations i ON i.tenant_id = a.tenant_id
    AND i.id = a.invocation_id
    WHERE a.tenant_id = %s AND i.completed_at IS NOT NULL AND a.status IN ('pending', 'approved')"""
STARTED: Final = """SELECT split_part(derivation_key, ':', 3)::int AS epoch, extract(epoch FROM created_at)::float AS at
    FROM tool_events WHERE invocation_id = %s AND type = 'tool.call.started' ORDER BY id"""
UNADOPTED: Final = """SELECT i.id FROM tool_invocations i WHERE i.tenant_id = %s AND i.artifact_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM artifacts a WHERE a.tenant_id = i.tenant_id AND a.id = i.artifact_id
        AND a.invocation_id = i.id AND a.claim_epoch = i.claim_epoch AND a.adopted_at IS NOT NULL)"""
UNKEPT: Final = """SELECT i.id FROM tool_invocations i WHERE i.tenant_id = %s AND i.status = 'succeeded'
    AND NOT EXISTS (SELECT 1 FROM invocation_payloads y
        WHERE y.tenant_id = i.tenant_id AND y.invocation_id = i.id AND y.kind = 'result')"""
UNCOUNTED: Final = """SELECT g.id FROM standing_grants g WHERE g.tenant_id = %s AND g.uses <> (
    SELECT count(*) FROM grant_uses u JOIN tool_invocations i ON i.tenant_id = u.tenant_id AND i.id = u.invocation_id
    WHERE u.tenant_id = g.tenant_id AND u.grant_id = g.id)"""
UNENDED: Final = "SELECT s.id FROM run_steps s WHERE s.tenant_id = %s AND s.completed_at IS NULL"
WAITING: Final = "SELECT r.id FROM runs r WHERE r.tenant_id = %s AND r.status = 'waiting_for_approval'"


@dataclass(frozen=True, slots=True)
class AtKill:
    """What stood when a process was killed: the row (None: not written yet), and what the world had received."""

    moment: float
    row: Any
    sends: int
    victim: Role

    @property
    def has_claim(self) -> bool:
        return self.row is not None and self.row["status"] == "running"

    @property
    def is_marked(self) -> bool:
        return self.row is not None and self.row["effect_sent_at"] is not None


def of_call(
    lane: Lane, tenant: str, row: Any, lines: list[dict[str, Any]], kind: Class, kills: list[AtKill]
) -> list[str]:
    """The call under test: its effects, its key, its epochs."""
    acts, sends = sum(line["acted"] for line in lines), len(lines)
    marked = row["effect_sent_at"]
    unmarked = [at for at in kills if not at.is_marked]
    epochs = [found["epoch"] for found in lane.rows(STARTED, row["id"])]
    broken = {
        f"a non-idempotent call was felt {acts} times": kind is Class.ONCE and acts > 1,
        f"felt, not recorded, and not uncertain: {row['status']}": kind is Class.ONCE
        and acts > 0
        and row["status"] not in {"succeeded", "uncertain"},
        "a request carried another key than the row's": bool(
            {line["key"] for line in lines} - {row["idempotency_key"]}
        ),
        "sent without a watermark": marked is None and sends > 0,
        "sent before the watermark": marked is not None and any(line["at"] < marked.timestamp() for line in lines),
        "no watermark at the crash, and something had been sent": any(at.sends for at in unmarked),
        f"no crash saw a watermark, and {sends} requests were sent": len(unmarked) == len(kills)
        and row["status"] == "succeeded"
        and sends != 1,
        f"claim epochs {epochs}, the row's {row['claim_epoch']}": epochs != list(range(1, row["claim_epoch"] + 1)),
    }
    held = [at.row["claim_epoch"] for at in kills if at.has_claim]
    if row["status"] == "succeeded" and any(epoch >= row["claim_epoch"] for epoch in held):
        broken[f"a claim of epoch {held} was taken over without a higher one"] = True
    return [what for what, is_so in broken.items() if is_so]


def of_tenant(lane: Lane, tenant: str, *, calls: int) -> list[str]:
    """Everything that a cell left: nothing open, nothing lost, nothing without its event."""
    sweeps = 2 * lane.timing.sweep_seconds
    late = lane.timing.lease_seconds + sweeps
    questions = {
        "a terminal row has no event": (SETTLED, ()),
        "a row is open past deadline, lease and two sweeps": (OVERDUE, (late,)),
        "a hold has outlived its expiry by two sweeps": (HELD_TOO_LONG, (sweeps,)),
        "a call has ended, and its approval could be used again": (UNSPENT, ()),
        "an artifact is referred to and not adopted": (UNADOPTED, ()),
        "a success has no stored result": (UNKEPT, ()),
        "a grant counts other uses than its calls": (UNCOUNTED, ()),
        "a step has not ended": (UNENDED, ()),
        "a run waits for a person who has decided": (WAITING, ()),
    }
    faults = [what for what, (statement, more) in questions.items() if lane.rows(statement, tenant, *more)]
    (count,) = lane.rows("SELECT count(*) AS n FROM tool_invocations WHERE tenant_id = %s", tenant)
    if count["n"] != calls:
        faults.append(f"{calls} calls were accepted, and there are {count['n']} rows")
    return faults


def afterwards(lane: Lane) -> list[str]:
    """Look at every finished cell of a lane once more: nothing has changed since, and nothing came late."""
    faults = []
    for tenant, left in lane.finished.items():
        if len(lane.effects(tenant)) != left.sends:
            faults.append(f"{tenant}: {left.sends} requests when it ended, {len(lane.effects(tenant))} now")
        faults += [f"{tenant}: {what}" for what in of_tenant(lane, tenant, calls=left.calls)]
    return faults


@dataclass(frozen=True, slots=True)
class Recovery:
    """Until a killed worker's call was claimed again, in seconds: since the kill, and since it was due.

    It is due when its lease ends: one lease after the claim or its last renewal, by the database's clock. Where another
    worker was killed before it could claim it (`is_bare`), both count from that kill, and nobody is left: a lane begins
    the next worker after the kill, so that its start is part of the time.
    """

    since_kill: float
    since_due: float
    is_bare: bool = False


def of_recovery(lane: Lane, found: list[Recovery]) -> list[str]:
    """A killed worker's call is claimed again within one sweep of its lease's end, by whoever lives, and always within
    lease and sweep."""
    sweep = lane.timing.sweep_seconds + TOLERANCE_SECONDS
    bound = lane.timing.lease_seconds + sweep
    late = [each for each in found if each.since_kill > bound or (each.since_due > sweep and not each.is_bare)]
    return [f"claimed again {each.since_due} s after it was due, {each.since_kill} s after the kill" for each in late]


def recoveries(lane: Lane, invocation_id: UUID, kills: list[AtKill]) -> list[Recovery]:
    """Return one for each claim that its worker was killed with, and that another one then took."""
    claimed = [at for at in kills if at.victim is Role.WORKER and at.has_claim]
    last = {at.row["claim_epoch"]: at for at in claimed}
    epochs = [at.row["claim_epoch"] for at in claimed]
    found = []
    for epoch, at in last.items():
        later = [each["at"] for each in lane.rows(STARTED, invocation_id) if each["epoch"] > epoch]
        due = max(at.row["lease_expires_at"].timestamp(), at.moment)
        is_bare = epochs.count(epoch) > 1
        found += [Recovery(round(later[0] - at.moment, 3), round(later[0] - due, 3), is_bare)] if later else []
    return found
