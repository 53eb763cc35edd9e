"""The witness: what really happened, kept apart from the tables, and the invariants judged by it.

It is told of every read, claim, fence, send and ending at the moment it happens, and of every change that somebody
else made. It shares no rule with the store or the pipeline. Source: issue 3 "Invariants checked after every run".
"""

from dataclasses import dataclass, field
from uuid import UUID

from tests.contract.memory_tables import CallRow, Tables
from toolsys.domain.calls import Claim
from toolsys.domain.recovery import effective_class
from toolsys.domain.spec import IdempotencyClass, SideEffectClass, ToolSpec
from toolsys.domain.states import ApprovalStatus, InvocationStatus

AttemptKey = tuple[UUID, int]


class Violation(AssertionError):
    """An invariant does not hold; the message says which and where."""


@dataclass(frozen=True, slots=True)
class Send:
    attempt: AttemptKey
    key: str
    at_move: int


@dataclass
class Witness:
    """`moves` counts what the scheduler did; changes and reads are placed by it."""

    tables: Tables
    moves: int = 0
    sends: list[Send] = field(default_factory=list)
    specs: dict[UUID, ToolSpec] = field(default_factory=dict)
    facts_read_at: dict[str, int] = field(default_factory=dict)
    claims: dict[UUID, list[int]] = field(default_factory=dict)
    fences: dict[AttemptKey, tuple[int, int]] = field(default_factory=dict)
    endings: dict[UUID, tuple[int, bool]] = field(default_factory=dict)
    changes: list[tuple[int, str]] = field(default_factory=list)
    draining: dict[str, int] = field(default_factory=dict)
    prepared_at: dict[str, int] = field(default_factory=dict)
    violation: str = ""
    _ended: dict[UUID, tuple[object, ...]] = field(default_factory=dict)

    # -- what is told

    def read(self, actor: str) -> None:
        self.facts_read_at[actor] = self.moves

    def changed(self, what: str) -> None:
        self.changes.append((self.moves, what))

    def drained(self, actor: str) -> None:
        self.draining.setdefault(actor, self.moves)

    def prepared(self, actor: str) -> None:
        """From here to the fence there is no more look at the drain."""
        self.prepared_at[actor] = self.moves

    def asked_to_send(self, actor: str) -> None:
        drained = self.draining.get(actor)
        is_late = drained is not None and drained < self.prepared_at[actor]
        self._require(not is_late, "a draining worker goes on to the watermark")

    def taken_back(self, what: str) -> None:
        self.changes = [(move, known) for move, known in self.changes if known != what]

    def claimed(self, row: CallRow, *, was_live: bool) -> None:
        before = self.claims.setdefault(row.id, [])
        self._require(not was_live, "claimed while another's lease was live")
        self._require(not before or row.claim_epoch > before[-1], f"claim epoch {row.claim_epoch} after {before}")
        before.append(row.claim_epoch)

    def fenced(self, actor: str, claim: Claim) -> None:
        """The fence held: the claim may send now."""
        row = self.tables.calls[claim.invocation_id]
        is_present = row.claim_epoch == claim.epoch and row.has_live_lease(self.tables.clock.now())
        self._require(is_present, "the fence held for a claim that is not the present one, or whose lease has passed")
        self.fences.setdefault((claim.invocation_id, claim.epoch), (self.facts_read_at[actor], self.moves))

    def consumed(self, row: CallRow, was: ApprovalStatus) -> None:
        request, now = self.tables.approvals[row.id], self.tables.clock.now()
        self._require(was is ApprovalStatus.APPROVED, f"an approval that was {was} is consumed")
        self._require(request.consume_by is not None and now < request.consume_by, "an approval is consumed too late")

    def renewed(self, row: CallRow) -> None:
        is_in_time = row.operation_deadline is not None and self.tables.clock.now() < row.operation_deadline
        self._require(is_in_time, "a lease is renewed past the operation's deadline")

    def ended(self, row: CallRow, epoch: int, *, holds_claim: bool, was_live: bool) -> None:
        self._require(row.id not in self.endings, f"{row.call_id} ended twice")
        self._require(epoch == row.claim_epoch, f"{row.call_id} ended by claim {epoch}, not by {row.claim_epoch}")
        self._require(holds_claim or not was_live, f"{row.call_id} ended from outside while its lease was live")
        self.endings[row.id] = (epoch, holds_claim)

    def sent(self, claim: Claim, spec: ToolSpec, key: str) -> None:
        """A tool touches the world now. Judged at once."""
        row, attempt = self.tables.calls[claim.invocation_id], (claim.invocation_id, claim.epoch)
        self.specs[row.id] = spec
        earlier = [send for send in self.sends if send.attempt[0] == row.id]
        self.sends.append(Send(attempt, key, self.moves))
        self._require(key == row.idempotency_key, "a send carries another key than its row")
        self._require(all(send.key == key for send in earlier), "two sends of one call carry different keys")
        if effect_of(spec, row) is SideEffectClass.NONE:
            return
        self._require(not (earlier and is_once(spec, row)), f"a second effect of {spec.name}, a non-idempotent call")
        self._require(row.effect_sent_at is not None, "an effect without a watermark")
        self._require(
            row.claim_epoch == claim.epoch and row.has_live_lease(self.tables.clock.now()),
            "an effect by a claim whose lease has passed",
        )
        self._judge_fence(attempt)
        request = self.tables.approvals.get(row.id)
        self._require(
            request is None or request.status is ApprovalStatus.CONSUMED, "an effect without its approval consumed"
        )

    def _judge_fence(self, attempt: AttemptKey) -> None:
        self._require(attempt in self.fences, "an effect whose fence did not hold")
        read, fenced = self.fences[attempt]
        between = [what for move, what in self.changes if read < move <= fenced]
        self._require(not between, f"an effect after {between} that came between the facts and the watermark")

    def crashed(self, row: CallRow) -> None:
        """A worker died while this row was in hand."""
        spec = self.specs.get(row.id)
        is_felt = spec is not None and effect_of(spec, row) is not SideEffectClass.NONE
        if row.effect_sent_at is None and row.database_epoch == self.tables.database_epoch:
            self._require(not is_felt, "an effect before the crash, and no watermark")

    # -- what is looked at

    def look(self) -> None:
        """After every move: what has ended stays as it ended."""
        for row in self.tables.calls.values():
            if not row.status.is_terminal:
                self._require(row.id not in self._ended, f"{row.call_id} is {row.status} again")
                continue
            now = (row.status, row.outcome_status, row.reason_code, row.completed_at, row.claim_epoch)
            self._require(self._ended.setdefault(row.id, now) == now, f"{row.call_id} changed after its end")

    def judge_end(self) -> None:
        """After the calm: everything has ended, once, and says what is known."""
        for step in self.tables.steps.values():
            rows = self.tables.of_step(step)
            open_calls = [f"{row.call_id} {row.status}" for row in rows if not row.status.is_terminal]
            self._require(not open_calls, f"still open after the calm: {open_calls}")
            self._require(len(rows) == step.call_count, f"{len(rows)} rows of {step.call_count} calls")
            self._require(len({row.call_id for row in rows}) == len(rows), "two rows of one call")
            self._require(step.completed_at is not None, "a step with only ended calls is still open")
        for row in self.tables.calls.values():
            self._require(f"settled:{row.id}" in self.tables.events, f"no event of the end of {row.call_id}")
            self._judge_outcome(row)

    def _judge_outcome(self, row: CallRow) -> None:
        spec, sends = self.specs.get(row.id), [send for send in self.sends if send.attempt[0] == row.id]
        if row.status is InvocationStatus.SUCCEEDED:
            self._require(bool(sends), "succeeded, and nothing was ever sent")
        if spec is None or not sends or effect_of(spec, row) is SideEffectClass.NONE:
            return
        epoch, holds_claim = self.endings[row.id]
        is_recorded = holds_claim and epoch in {send.attempt[1] for send in sends}
        if effect_of(spec, row).is_write or is_once(spec, row):
            self._require(
                is_recorded or row.status is InvocationStatus.UNCERTAIN,
                f"sent, its outcome not recorded, and yet {row.status} ({row.reason_code})",
            )

    def _require(self, holds: bool, what: str) -> None:
        """Raises: Violation; kept as well, because on an actor's thread the execution catches what a tool raises."""
        if not holds:
            self.violation = self.violation or f"at move {self.moves}: {what}"
            raise Violation(self.violation)


def effect_of(spec: ToolSpec, row: CallRow) -> SideEffectClass:
    """What a call may do in the world: the most that was ever said of its tool."""
    return spec.classification.stricter(row.classification).side_effect


def is_once(spec: ToolSpec, row: CallRow) -> bool:
    """Say whether a second effect of this call would be a wrong one."""
    declared = spec.idempotency.stricter(row.classification.idempotency)
    passes_key = spec.passes_idempotency_key
    return effective_class(declared, passes_key=passes_key) is IdempotencyClass.NON_IDEMPOTENT
