"""States of invocations, outcomes, runs and approvals, and the one map from invocation to outcome.

Source: TS "The two result shapes", DESIGN §2. Values are wire format and never renamed.
"""

from enum import StrEnum

from toolsys.domain.ordered import Ordered


class InvocationStatus(StrEnum):
    PROPOSED = "proposed"
    AUTHORIZED = "authorized"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    UNCERTAIN = "uncertain"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({
    InvocationStatus.SUCCEEDED, InvocationStatus.FAILED, InvocationStatus.DENIED, InvocationStatus.UNCERTAIN,
})  # fmt: skip


class OutcomeStatus(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"
    UNCERTAIN = "uncertain"

    @property
    def invocation_status(self) -> InvocationStatus:
        """`unavailable` has no invocation status of its own: it is a failed row with a reason."""
        return InvocationStatus.FAILED if self is OutcomeStatus.UNAVAILABLE else InvocationStatus(self.value)


class RunStatus(StrEnum):
    RUNNING = "running"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_USER = "waiting_for_user"
    WAITING_FOR_CHILD = "waiting_for_child"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def accepts_steps(self) -> bool:
        return self in OPEN_RUNS


OPEN_RUNS = frozenset({
    RunStatus.RUNNING, RunStatus.WAITING_FOR_APPROVAL, RunStatus.WAITING_FOR_USER, RunStatus.WAITING_FOR_CHILD,
})  # fmt: skip


class ApprovalStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    CONSUMED = "consumed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    VOIDED = "voided"


class PolicyVerdict(Ordered):
    ALLOW = "allow"
    OBSERVE = "observe"
    REQUIRE_EXPERT_APPROVAL = "require_expert_approval"
    REQUIRE_CLIENT_APPROVAL = "require_client_approval"
    BLOCK = "block"

    @property
    def needs_approval(self) -> bool:
        return self in {PolicyVerdict.REQUIRE_EXPERT_APPROVAL, PolicyVerdict.REQUIRE_CLIENT_APPROVAL}


class Role(StrEnum):
    OPERATOR = "operator"
    PLATFORM_AUDITOR = "platform_auditor"
    TENANT_ADMIN = "tenant_admin"
    EXPERT_APPROVER = "expert_approver"
    CLIENT_APPROVER = "client_approver"
    TENANT_AUDITOR = "tenant_auditor"
    DEVELOPER = "developer"
    ANONYMOUS = "anonymous"
