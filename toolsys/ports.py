"""What toolsys needs from the rest of the house, as Protocols, and the one frozen `Runtime` that carries it.

`approvals` implements the policy and approval ports, `mcpcatalog` supplies tools, `config.wiring` builds the
`Runtime`. Tests hand the pipeline a `Runtime` of fakes. May import the domain only.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable
from uuid import UUID

from toolsys.domain.calls import (
    BoundedOutput,
    Claim,
    Decision,
    Disposition,
    Facts,
    Invocation,
    ProposedAction,
    ProposedCall,
    Retry,
)
from toolsys.domain.context import (
    ArtifactWriter,
    CancellationToken,
    CredentialResolver,
    ToolExecutionContext,
    WorkspaceHandle,
)
from toolsys.domain.results import ArtifactRef, ToolResult
from toolsys.domain.seats import Seat
from toolsys.domain.skills import OfferedSkill
from toolsys.domain.spec import STRICTEST, Classification, JsonObject, ToolSpec
from toolsys.domain.trust import TrustLevel


class Tool(Protocol):
    """One callable tool. `binding` is what an approval's digest covers beyond the spec (server, credential)."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def binding(self) -> str: ...

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult: ...


@runtime_checkable
class Preparable(Protocol):
    """A tool that acquires something (a connection) before the watermark. It must send nothing of the call."""

    async def prepare(self, context: ToolExecutionContext) -> None: ...


@runtime_checkable
class Placed(Protocol):
    """A tool whose call may belong to another worker: the one that holds its session's connection (DESIGN §7)."""

    def elsewhere(self) -> str:
        """Return that worker, or an empty string for this one. Asked in a worker, before the claim."""


class NotAvailable(Exception):
    """`prepare` or a provider found that the tool cannot be reached now. `reason_code` is in the table."""

    def __init__(self, reason_code: str, detail: str = "") -> None:
        super().__init__(reason_code)
        self.reason_code = reason_code
        self.detail = detail


class ToolProvider(Protocol):
    """A source of tools that are not built in; `domain` is the first segment of all its names."""

    @property
    def domain(self) -> str: ...

    def sources(self, tenant_id: str) -> frozenset[str]:
        """Return the ids of what is enabled now: what came from any other is not offered."""

    def specs(self, tenant_id: str) -> list[ToolSpec]:
        """Return what a new session may pin, from what is already discovered; reads only the database."""

    def withheld(self, tenant_id: str) -> list[ToolSpec]:
        """Return what `specs` leaves out because nobody has looked at it yet; reads only the database."""

    def refresh_keys(self, tenant_id: str) -> list[str]:
        """Return the ids whose discovery is stale and must be refreshed by a worker before pinning."""

    def refresh(self, tenant_id: str, key: str) -> None:
        """Look at one source again and record what it offers, or why not. Runs in a worker; raises nothing."""

    def note_pin(
        self, tenant_id: str, session_id: UUID, pinned: Sequence[ToolSpec], refreshed: Collection[str],
        withheld: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Record which sources a new session took at their remembered word, and the names that it was not given.

        Transaction: needs the session's.
        """

    def bind(self, tenant_id: str, pinned: ToolSpec, authz_epoch: int, session_id: UUID) -> Tool:
        """Return the tool behind a pinned spec under the live classification.

        Raises: NotAvailable (tool.withdrawn; whatever ended the tool's source for this session).
        """


type FindSkill = Callable[[str, UUID, str], OfferedSkill | None]
"""Return the skill of this tenant that a session may load by this name. Blocks: it reads the database."""


@runtime_checkable
class SkillReader(Protocol):
    """A provider whose sources offer skills as well."""

    async def read_skill(
        self, skill: OfferedSkill, arguments: Mapping[str, str], spec: ToolSpec, context: ToolExecutionContext
    ) -> ToolResult:
        """Return its text, sent for once. `spec` is that of the tool that loads it. Raises: NotAvailable."""


@runtime_checkable
class Inspectable(Protocol):
    """A provider that can show a person, step by step, whether one of its sources can be used."""

    def inspect(self, tenant_id: str, key: str) -> None:
        """Do the check with this id and record what it came to. Runs in a worker; raises nothing."""


class ToolRegistry(Protocol):
    def resolve(self, name: str, facts: Facts) -> Tool | None:
        """Return the pinned tool of the session, or None where the session offers no such name.

        Raises: NotAvailable.
        """


class PolicyGate(Protocol):
    def evaluate(self, action: ProposedAction, facts: Facts) -> Decision: ...


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """How a held call is decided: seats, when the decision expires, and how long an approval stays usable."""

    seats: tuple[Seat, ...]
    expires_seconds: float
    consume_seconds: float


class ApprovalDesk(Protocol):
    def terms(self, decision: Decision, facts: Facts) -> ApprovalTerms: ...


class Probe(Protocol):
    """Told of every commit point. The real one does nothing; a test's may kill the process there."""

    def reached(self, point: str, tool_name: str) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime: ...

    def boottime(self) -> float:
        """Return seconds since boot, suspended time included: it never jumps."""


class Ids(Protocol):
    def uuid(self) -> UUID: ...

    def nonce(self) -> str: ...


class Sealer(Protocol):
    """Envelope encryption: data keys under a ring of master keys, bound to where the bytes belong."""

    def seal(self, plain: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes: ...

    def open(self, sealed: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes: ...

    def digest(self, plain: bytes) -> str:
        """Return a keyed digest (HMAC-SHA256, hex) that stays meaningful after the payload is purged."""


class Credentials(Protocol):
    """Gives each tenant a resolver of its own, so that no reference leads into another tenant's store."""

    def of(self, tenant_id: str) -> CredentialResolver: ...


class Execution(Protocol):
    """Runs a tool on the worker's event loop from a job thread, each part with its own bound."""

    def elsewhere(self, tool: Tool) -> str:
        """Return the worker that this call belongs to, where it is another one; else an empty string."""

    def keeping(self, claim: Claim) -> AbstractContextManager[None]:
        """Renew the claim's lease while the block runs."""

    def prepare(self, tool: Tool, context: ToolExecutionContext) -> None:
        """Let the tool acquire what it needs. Raises: NotAvailable; TimeoutError."""

    def may_send(self, claim: Claim) -> bool:
        """Say by our own boottime clock whether the lease is still live: a thawed process must not send."""

    @property
    def is_draining(self) -> bool:
        """The process is to stop: what it has claimed and not sent it gives back."""

    def cancellation(self, claim: Claim) -> CancellationToken: ...

    def execute(self, tool: Tool, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        """Return the tool's result; a time-out and an exception become failures of kind timeout and internal."""


class CannotKeep(Exception):
    """A result could not be put into storage; nothing refers to it. `detail` is for operators."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class CannotRead(Exception):
    """The stored bytes of an artifact are missing, damaged, or not those that were recorded."""


class ArtifactStore(Protocol):
    """Keeps large results, sealed, keyed by invocation and claim epoch; step 13 adopts them."""

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        """Write bytes, then their row. Raises: CannotKeep."""

    def writer(self, claim: Claim) -> ArtifactWriter:
        """Return what the tool of this claim may write with; its artifacts are untrusted until `inherit`."""

    def inherit(self, claim: Claim, trust: TrustLevel) -> Mapping[UUID, ArtifactRef]:
        """Give everything that this attempt has written the result's label, and name it."""

    def read(self, *, tenant_id: str, artifact_id: UUID, storage_key: str, sha256: str) -> bytes:
        """Return the bytes, whole and checked against their digest. Raises: CannotRead."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """Step 5's result: the canonical arguments, their hash, and the key that the call has on every attempt."""

    canonical: bytes
    arguments_hash: str
    idempotency_key: str


@dataclass(slots=True)
class Case:
    """One call on its way through the pipeline. Each step adds what it found; nothing is added twice.

    `is_recorded`: the store has written this entry's decision, which later commits of the entry do not repeat.
    """

    call: ProposedCall
    facts: Facts
    tool: Tool | None = None
    arguments: JsonObject | None = None
    normalized: Normalized | None = None
    decision: Decision | None = None
    is_recorded: bool = False
    terms: ApprovalTerms | None = None
    claim: Claim | None = None
    result: ToolResult | None = None
    output: BoundedOutput | None = None

    @property
    def row(self) -> Invocation | None:
        return self.facts.invocation

    @property
    def spec(self) -> ToolSpec:
        assert self.tool is not None, "step 1 comes first"
        return self.tool.spec

    @property
    def classification(self) -> Classification:
        """The stricter of the live classification and the row's snapshot; unknown is the strictest."""
        live = self.tool.spec.classification if self.tool is not None else STRICTEST
        return live if self.row is None else live.stricter(self.row.classification)

    @property
    def origin_trust(self) -> TrustLevel:
        """Fixed by the step row once that is written; before, also capped by what this run has delivered."""
        if self.facts.step is not None:
            return self.facts.step.origin_trust
        return self.call.step.origin_trust.stricter(self.facts.run.delivered_trust)


@dataclass(frozen=True, slots=True)
class Fence:
    """The watermark's answer. Not `held` means: do not send; `why` says what no longer matched."""

    held: bool
    why: str = ""


class Store(Protocol):
    """The only writer of invocations: one method per commit point, each exactly one transaction.

    A `Disposition` instead of a row or a claim means that the call cannot go on here.
    """

    def read_facts(self, call: ProposedCall) -> Facts:
        """Raises: Problem (request.not_found)."""

    def commit_refusal(self, case: Case, reason_code: str, detail: str) -> Disposition: ...

    def commit_hold(self, case: Case) -> Disposition: ...

    def commit_intent(self, case: Case) -> Invocation | Disposition: ...

    def commit_claim(self, case: Case, row: Invocation) -> Claim | Disposition: ...

    def commit_watermark(self, claim: Claim) -> Fence: ...

    def commit_release(self, claim: Claim, retry: Retry) -> bool: ...

    def commit_result(self, case: Case) -> Disposition: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Deployment limits; seconds and bytes."""

    lease_seconds: float
    max_claims: int
    claim_cap_per_tenant: int
    parallel_cap: int
    max_attempts: int
    inline_maximum_bytes: int
    output_ceiling_bytes: int
    dispatch_grace_seconds: float = 2.0
    retry_base_seconds: float = 0.5
    retry_maximum_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything the pipeline may use. `execution` is None in the web process, which hands off at step 8."""

    store: Store
    registry: ToolRegistry
    policy: PolicyGate
    desk: ApprovalDesk
    sealer: Sealer
    artifacts: ArtifactStore
    credentials: Credentials
    clock: Clock
    ids: Ids
    probe: Probe
    limits: Limits
    providers: Mapping[str, ToolProvider]
    execution: Execution | None = None
    workspace_for: "WorkspaceFactory | None" = None


class WorkspaceFactory(Protocol):
    def __call__(self, tenant_id: str, run_id: UUID) -> WorkspaceHandle: ...
