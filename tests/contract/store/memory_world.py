"""The contract's world in memory."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from tests.contract.memory_store import MemoryStore
from tests.contract.memory_tables import ManualClock, RunRow, Tables
from tests.contract.store.worlds import LIMITS, Seen
from toolsys.domain.calls import AgentFacts, Claim, KeyFacts, SessionFacts
from toolsys.domain.context import Principal
from toolsys.ports import Limits, Store
from toolsys.probes import NoProbe

SCOPES = frozenset({"demo.write"})
DAY = timedelta(days=1)


class CountedIds:
    """Implements `ports.Ids`: the same ids in the same order, every time."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count)

    def nonce(self) -> str:
        return f"{self.uuid().int:016x}"


def new_tables(clock: ManualClock, ids: CountedIds, *, deadline_seconds: float = 600.0) -> Tables:
    """Return one tenant's tables with one open run."""
    run = RunRow(ids.uuid(), clock.now() + timedelta(seconds=deadline_seconds))
    return Tables(
        clock=clock,
        tenant_id="acme",
        session=SessionFacts(ids.uuid(), "sha", "default", "production", is_closed=False),
        agent=AgentFacts(ids.uuid(), "assistant", is_enabled=True, enabled_tools=("*",)),
        principal=Principal(ids.uuid(), "user-1", SCOPES),
        key=KeyFacts(ids.uuid(), is_live=True, scopes=SCOPES),
        runs={run.id: run},
    )


class MemoryWorld:
    """Implements `worlds.World`."""

    def __init__(self) -> None:
        self._ids = CountedIds()
        self.clock = ManualClock()
        self.tables = new_tables(self.clock, self._ids)
        self.tenant_id = self.tables.tenant_id
        (self.run_id,) = self.tables.runs
        self.key_id = self.tables.key.id

    def store(self, limits: Limits = LIMITS, worker: str = "w1") -> Store:
        return MemoryStore(self.tables, self.clock, self._ids, limits, NoProbe(), worker)

    def seen(self, row_id: UUID) -> Seen:
        row, run = self.tables.calls[row_id], self.tables.runs[self.run_id]
        request = self.tables.approvals.get(row_id)
        return Seen(
            row.status, row.outcome_status, row.reason_code, row.claim_epoch, row.claimed_by, row.lease_expires_at,
            row.operation_deadline, row.effect_sent_at, row.dispatch_after, request.status if request else None,
            tuple(kind for owner, kind in self.tables.events.values() if owner == row_id),
            frozenset(kind for owner, kind in self.tables.payloads if owner == row_id),
            sum(owner == row_id for owner, _ in self.tables.decisions), row.step.completed_at is not None,
            run.status, run.delivered_trust,
        )  # fmt: skip

    def row_count(self) -> int:
        return len(self.tables.calls)

    def pass_lease(self, row_id: UUID) -> None:
        self.tables.calls[row_id].lease_expires_at = self.clock.now() - DAY

    def pass_operation_deadline(self, row_id: UUID) -> None:
        self.tables.calls[row_id].operation_deadline = self.clock.now() - DAY

    def end_soon(self, row_id: UUID, seconds: float) -> datetime:
        row = self.tables.calls[row_id]
        row.operation_deadline = self.clock.now() + timedelta(seconds=seconds)
        row.lease_expires_at = self.clock.now() + timedelta(seconds=seconds / 2)
        return row.operation_deadline

    def pass_dispatch(self, row_id: UUID) -> None:
        self.tables.calls[row_id].dispatch_after = self.clock.now() - DAY

    def pass_expiry(self, row_id: UUID) -> None:
        self.tables.approvals[row_id].expires_at = self.clock.now() - DAY

    def pass_consumption(self, row_id: UUID) -> None:
        self.tables.approvals[row_id].consume_by = self.clock.now() - DAY

    def pass_run_deadline(self) -> None:
        self.tables.runs[self.run_id].deadline_at = self.clock.now() - DAY

    def age_step(self, row_id: UUID, seconds: float = 86_400.0) -> None:
        step, by = self.tables.calls[row_id].step, timedelta(seconds=seconds)
        step.created_at -= by
        for row in self.tables.of_step(step):
            row.completed_at = row.completed_at - by if row.completed_at else None

    def age_ring(self, row_id: UUID, seconds: float) -> None:
        step = self.tables.calls[row_id].step
        assert step.rung_at is not None
        step.rung_at -= timedelta(seconds=seconds)

    def decide(self, row_id: UUID, *, is_approval: bool, digest: str | None = None) -> None:
        assert self.tables.decide(row_id, is_approval=is_approval, digest=digest)

    def grant(self, uses: int) -> UUID:
        found = self._ids.uuid()
        self.tables.grants[found] = uses
        return found

    def uses_left(self, grant: UUID) -> int:
        return self.tables.grants[grant]

    def resolve(self, row_id: UUID, *, has_happened: bool) -> None:
        self.tables.resolve(row_id, has_happened=has_happened)

    def cancel_run(self) -> None:
        self.tables.cancel_run(self.run_id)

    def mark_only_the_run(self) -> None:
        self.tables.runs[self.run_id].cancel_requested_at = self.tables.clock.now()

    def cancel_call(self, row_id: UUID) -> None:
        self.tables.cancel_call(row_id)

    def suspend(self, row_id: UUID) -> None:
        self.tables.calls[row_id].suspended_kind = "question"

    def limit_calls(self, count: int) -> None:
        self.tables.runs[self.run_id].call_budget = count

    def switch_tenant(self, *, on: bool) -> None:
        self.tables.switch_tenant(on=on)

    def switch_platform(self, *, on: bool) -> None:
        self.tables.switch_platform(on=on)

    def raise_database_epoch(self) -> None:
        self.tables.raise_database_epoch()

    def renew(self, claims: Collection[Claim]) -> set[UUID]:
        store = self.store()
        assert isinstance(store, MemoryStore)
        return store.renew(claims, LIMITS.lease_seconds)

    def sweep(self) -> set[tuple[str, UUID]]:
        return {(due.kind, due.id) for due in self.tables.sweep(LIMITS.dispatch_grace_seconds)}
