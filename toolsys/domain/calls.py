"""The values that travel through the pipeline: the proposed call, the facts it is judged by, how it ended.

Plain frozen records without behaviour of their own. Facts are one snapshot, the authorization epoch read first;
they are never refreshed while a call is in hand. Source: DESIGN §3 and §4.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from toolsys.domain.context import Principal
from toolsys.domain.repetition import Alarm
from toolsys.domain.results import ToolOutcome
from toolsys.domain.seats import Seat, seat_of
from toolsys.domain.spec import Classification, JsonObject
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus
from toolsys.domain.trust import TrustLevel


@dataclass(frozen=True, slots=True)
class StepDraft:
    """The `run_steps` row that the first commit of a step writes. `body` is sealed."""

    id: UUID
    number: int
    body_hash: str
    body: bytes
    call_count: int
    context_trust: tuple[TrustLevel, ...]
    origin_trust: TrustLevel
    parallel_group: UUID | None
    correlation_id: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A `tool_invocations` row as the pipeline needs it."""

    id: UUID
    status: InvocationStatus
    tool_name: str
    tool_version: str
    arguments_hash: str
    idempotency_key: str
    classification: Classification
    claim_epoch: int
    is_lease_live: bool
    effect_sent_at: datetime | None
    attempt_number: int
    verdict: PolicyVerdict
    outcome_status: OutcomeStatus | None = None
    reason_code: str | None = None
    suspended_kind: str | None = None
    cancel_requested_at: datetime | None = None
    predates_database_epoch: bool = False

    @property
    def effect_sent(self) -> bool:
        """A row of an older database epoch counts as sent: its watermark may have been lost."""
        return self.effect_sent_at is not None or self.predates_database_epoch


@dataclass(frozen=True, slots=True)
class Approval:
    """The request of a held call. `seats` were asked for; `held` are those whose voters still may sit there."""

    id: UUID
    status: ApprovalStatus
    digest: str
    verdict: PolicyVerdict
    is_expired: bool
    is_consumable: bool
    seats: tuple[Seat, ...] = ()
    held: tuple[Seat, ...] = ()
    rejection_code: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """`calls_left`: how many more calls may begin; None where nobody set a budget."""

    id: UUID
    status: RunStatus
    deadline_at: datetime
    is_expired: bool
    is_cancelled: bool
    manifest: tuple[str, ...] | None
    delivered_trust: TrustLevel
    alarms: tuple[Alarm, ...] = ()
    previous_step: int | None = None
    calls_left: int | None = None


@dataclass(frozen=True, slots=True)
class StepFacts:
    id: UUID
    body_hash: str
    origin_trust: TrustLevel
    parallel_group: UUID | None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    id: UUID
    tool_schema_sha256: str
    profile: str
    environment: str
    is_closed: bool


@dataclass(frozen=True, slots=True)
class AgentFacts:
    id: UUID
    name: str
    is_enabled: bool
    enabled_tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyFacts:
    id: UUID
    is_live: bool
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    tenant_id: str
    authz_epoch: int
    database_epoch: int
    now: datetime
    is_platform_enabled: bool
    is_tenant_enabled: bool
    is_tool_calling_enabled: bool
    run: RunFacts
    session: SessionFacts
    agent: AgentFacts
    principal: Principal
    key: KeyFacts
    step: StepFacts | None = None
    invocation: Invocation | None = None
    approval: Approval | None = None

    @property
    def scopes(self) -> frozenset[str]:
        return self.key.scopes & self.principal.scopes


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """One call of one step. `raw_hash` is set where the arguments have no canonical form.

    `prefetched` is what the store read together with the step; it serves one entry into the pipeline. Of a call that
    `is_unreadable` only the row is known: what was stored of its arguments cannot be opened.
    """

    tenant_id: str
    invocation_id: UUID
    run_id: UUID
    step: StepDraft
    call_id: str
    call_index: int
    name: str
    arguments: Any
    raw_hash: str | None
    argument_trust: dict[str, TrustLevel]
    api_key_id: UUID
    prefetched: JsonObject | None = field(default=None, compare=False, repr=False)
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """What policy judges: the call after steps 1 to 5, with its trust labels. `binding` is its tool's."""

    tool_name: str
    tool_version: str
    server_id: str | None
    classification: Classification
    arguments: JsonObject
    arguments_hash: str
    origin_trust: TrustLevel
    argument_trust: dict[str, TrustLevel]
    binding: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason. `rule` names the row that decided (`matrix` or a rule's id and version).

    `seats` are asked for by a rule; without any, the verdict's own. `grant` stands in for people, one use of it.
    """

    verdict: PolicyVerdict
    reason_code: str
    risk: str
    rule: str
    matched: JsonObject = field(default_factory=dict)
    seats: tuple[Seat, ...] = ()
    grant: UUID | None = None

    @property
    def needed_seats(self) -> tuple[Seat, ...]:
        return (self.seats or seat_of(self.verdict)) if self.verdict.needs_approval else ()


@dataclass(frozen=True, slots=True)
class Claim:
    """The worker's right to one attempt. Every later commit is fenced by `epoch`."""

    invocation_id: UUID
    tenant_id: str
    tool_name: str
    epoch: int
    authz_epoch: int
    lease_seconds: float
    claimed_at_boottime: float
    operation_deadline: datetime
    remaining_seconds: float
    effect_sent_at: datetime | None
    attempt_number: int


@dataclass(frozen=True, slots=True)
class BoundedOutput:
    """What steps 11 and 12 leave to persist. `payload` is canonical JSON and is sealed by the store."""

    outcome_status: OutcomeStatus
    reason_code: str
    payload: JsonObject
    redacted: Any
    error_detail: str
    output_bytes: int
    truncated: bool
    artifact_id: UUID | None
    trust: TrustLevel
    retry_after_seconds: float | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """How a claim is given back: the attempt that comes next, how long it waits (seconds), and what went wrong."""

    attempt_number: int
    wait_seconds: float = 0.0
    error: JsonObject | None = None


class Progress(StrEnum):
    """How far one entry into the pipeline brought a call. Only `settled` is an end.

    `handed_off` and `released` ask for a ring: what is committed waits for nothing but somebody to go on with it.
    """

    SETTLED = "settled"
    HANDED_OFF = "handed_off"
    RELEASED = "released"
    HELD = "held"
    IN_FLIGHT = "in_flight"
    SUSPENDED = "suspended"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Disposition:
    """Where the call stands after this entry. `stale`: what we read no longer held at the commit. `worker` is to be
    rung where a call is handed off to that one.
    """

    invocation_id: UUID
    state: Progress
    outcome_status: OutcomeStatus | None = None
    reason_code: str | None = None
    outcome: ToolOutcome | None = None
    is_replay: bool = False
    worker: str = ""

    @property
    def is_settled(self) -> bool:
        return self.state is Progress.SETTLED
