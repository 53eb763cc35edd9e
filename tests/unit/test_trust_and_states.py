"""Trust labels, and the one map from outcomes to invocations. Orders and values are wire format."""

from enum import StrEnum

import pytest

from tests.spec.requirements import gate
from toolsys.domain import spec, states
from toolsys.domain.ordered import strictest
from toolsys.domain.states import InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus
from toolsys.domain.trust import TrustLevel, lowered, lowest

RUNS = "running waiting_for_approval waiting_for_user waiting_for_child completed failed cancelled expired"
ROLES = "operator platform_auditor tenant_admin expert_approver client_approver tenant_auditor developer anonymous"
PLATFORM, CONFIGURATION, USER, INTERNAL, EXTERNAL = TrustLevel


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TrustLevel, "platform trusted_configuration user internal_tool external_untrusted"),
        (spec.SideEffectClass, "none workspace_read workspace_write network_read external_read external_write"),
        (spec.RiskLevel, "low medium high"),
        (spec.IdempotencyClass, "read_only idempotent conditionally_idempotent non_idempotent"),
        (spec.ToolKind, "capability control"),
        (spec.ToolSource, "builtin mcp device sandbox"),
        (InvocationStatus, "proposed authorized waiting_for_approval running succeeded failed denied uncertain"),
        (OutcomeStatus, "succeeded failed denied unavailable uncertain"),
        (RunStatus, RUNS),
        (states.ApprovalStatus, "pending approved consumed rejected expired voided"),
        (PolicyVerdict, "allow observe require_expert_approval require_client_approval block"),
        (states.Role, ROLES),
    ],
)  # fmt: skip
def test_values_and_their_order_never_change(kind: type[StrEnum], values: str) -> None:
    assert [str(member) for member in kind] == values.split()


def test_the_stricter_is_the_one_declared_later() -> None:
    order = list(TrustLevel)
    for index, label in enumerate(order):
        assert [label.stricter(other) for other in order] == [order[max(index, n)] for n in range(len(order))]
    assert TrustLevel.strictest_member() is EXTERNAL
    assert strictest([USER, EXTERNAL, PLATFORM], PLATFORM) is EXTERNAL


@gate("trust.lowest")
def test_origin_trust_is_the_lowest_label_and_untrusted_without_any() -> None:
    assert lowest([PLATFORM, USER, CONFIGURATION]) is USER
    assert lowest([USER, EXTERNAL, PLATFORM]) is EXTERNAL
    assert lowest([]) is EXTERNAL
    assert lowest([], PLATFORM) is PLATFORM


@gate("result.trust_lowers")
def test_a_component_may_lower_its_trust_and_never_raise_it() -> None:
    claimed = {label: lowered(INTERNAL, label) for label in TrustLevel}
    assert claimed == {
        PLATFORM: INTERNAL, CONFIGURATION: INTERNAL, USER: INTERNAL, INTERNAL: INTERNAL, EXTERNAL: EXTERNAL,
    }  # fmt: skip
    assert lowered(INTERNAL, None) is INTERNAL


@gate("states.total")
def test_every_outcome_has_one_terminal_invocation_status() -> None:
    assert {status: status.invocation_status for status in OutcomeStatus} == {
        OutcomeStatus.SUCCEEDED: InvocationStatus.SUCCEEDED,
        OutcomeStatus.FAILED: InvocationStatus.FAILED,
        OutcomeStatus.DENIED: InvocationStatus.DENIED,
        OutcomeStatus.UNAVAILABLE: InvocationStatus.FAILED,
        OutcomeStatus.UNCERTAIN: InvocationStatus.UNCERTAIN,
    }
    assert {status for status in InvocationStatus if status.is_terminal} == {
        status.invocation_status for status in OutcomeStatus
    }


def test_a_run_takes_steps_until_it_has_ended() -> None:
    ended = {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED}
    assert {status for status in RunStatus if not status.accepts_steps} == ended


def test_exactly_two_verdicts_need_people() -> None:
    assert [str(verdict) for verdict in PolicyVerdict if verdict.needs_approval] == [
        "require_expert_approval", "require_client_approval",
    ]  # fmt: skip
