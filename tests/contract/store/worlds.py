"""Two worlds for one contract: the real store over PostgreSQL, and the in-memory one.

A world has a store and does what is not the store's: others decide and cancel, time passes, tables are looked into.
In both, time passes by moving a moment of the row into the past, so that neither waits.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from toolsys.domain.calls import Claim
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, RunStatus
from toolsys.ports import Limits, Store

LIMITS = Limits(
    lease_seconds=60.0, max_claims=3, claim_cap_per_tenant=2, parallel_cap=2, max_attempts=3, inline_maximum_bytes=4096,
    output_ceiling_bytes=1_048_576, dispatch_grace_seconds=5.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as its tables tell of it."""

    status: InvocationStatus
    outcome_status: OutcomeStatus | None
    reason_code: str | None
    claim_epoch: int
    claimed_by: str | None
    lease_expires_at: datetime | None
    operation_deadline: datetime | None
    effect_sent_at: datetime | None
    dispatch_after: datetime | None
    approval: ApprovalStatus | None
    events: tuple[str, ...]
    payloads: frozenset[str]
    decisions: int
    is_step_closed: bool
    run_status: RunStatus
    delivered_trust: str


class World(Protocol):
    """`tenant_id`, `run_id` and `key_id` are what a proposed call names."""

    tenant_id: str
    run_id: UUID
    key_id: UUID

    def store(self, limits: Limits = LIMITS, worker: str = "w1") -> Store: ...

    def seen(self, row_id: UUID) -> Seen: ...

    def row_count(self) -> int: ...

    def pass_lease(self, row_id: UUID) -> None: ...

    def pass_operation_deadline(self, row_id: UUID) -> None: ...

    def end_soon(self, row_id: UUID, seconds: float) -> datetime:
        """Let the operation deadline be that far away, and the lease end before it; return the deadline."""

    def pass_dispatch(self, row_id: UUID) -> None: ...

    def pass_expiry(self, row_id: UUID) -> None: ...

    def pass_consumption(self, row_id: UUID) -> None: ...

    def pass_run_deadline(self) -> None: ...

    def age_step(self, row_id: UUID, seconds: float = 86_400.0) -> None:
        """Let the step and the endings of its calls lie so much further back; by default well before any grace."""

    def age_ring(self, row_id: UUID, seconds: float) -> None:
        """Let the last ring for the step lie so much further back."""

    def decide(self, row_id: UUID, *, is_approval: bool, digest: str | None = None) -> None: ...

    def grant(self, uses: int) -> UUID:
        """Have a standing grant in force with so many uses left."""

    def uses_left(self, grant: UUID) -> int: ...

    def resolve(self, row_id: UUID, *, has_happened: bool) -> None:
        """A person records what became of an uncertain call."""

    def cancel_run(self) -> None: ...

    def mark_only_the_run(self) -> None:
        """Cancel the run as one would by hand in the database: its calls are not marked."""

    def cancel_call(self, row_id: UUID) -> None: ...

    def suspend(self, row_id: UUID) -> None: ...

    def limit_calls(self, count: int) -> None:
        """Give the run a budget of calls."""

    def switch_tenant(self, *, on: bool) -> None: ...

    def switch_platform(self, *, on: bool) -> None: ...

    def raise_database_epoch(self) -> None: ...

    def renew(self, claims: Collection[Claim]) -> set[UUID]: ...

    def sweep(self) -> set[tuple[str, UUID]]:
        """Return what a sweep names of this tenant: (kind, id of the call or of the step)."""
