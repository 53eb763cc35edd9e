"""Deduplication on the way in: the five cases of step 8, and a conflict of bodies told from a replay."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys import steps
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus
from toolsys.ports import Case, Runtime
from toolsys.problems import Problem

ID = UUID(int=7)
WEB, WORKER = (cast("Runtime", SimpleNamespace(execution=execution)) for execution in (None, object()))
TERMINAL = {
    InvocationStatus.SUCCEEDED: (OutcomeStatus.SUCCEEDED, "tool.succeeded"),
    InvocationStatus.FAILED: (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable"),
    InvocationStatus.DENIED: (OutcomeStatus.DENIED, "policy.scope.missing"),
    InvocationStatus.UNCERTAIN: (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown"),
}


def case(status: InvocationStatus | None, **changes: Any) -> Case:
    """A call whose row stands so; only what deduplication reads is there."""
    given: dict[str, Any] = {
        "is_lease_live": False,
        "suspended_kind": None,
        "cancel_requested_at": None,
        "outcome": (None, None),
    }
    given |= {"approval": None, "body_hash": "same"} | changes
    row = None
    if status is not None:
        row = SimpleNamespace(
            id=ID, status=status, is_lease_live=given["is_lease_live"], suspended_kind=given["suspended_kind"],
            cancel_requested_at=given["cancel_requested_at"], outcome_status=given["outcome"][0],
            reason_code=given["outcome"][1],
        )  # fmt: skip
    run = SimpleNamespace(is_cancelled=False, is_expired=False)
    facts = SimpleNamespace(step=SimpleNamespace(body_hash="same"), invocation=row, approval=given["approval"], run=run)
    call = SimpleNamespace(step=SimpleNamespace(body_hash=given["body_hash"]))
    return cast("Case", SimpleNamespace(facts=facts, call=call, row=row))


@gate("dedup.cases")
def test_a_call_that_nobody_knows_goes_on() -> None:
    assert steps.standing_of(case(None), WEB) is None
    assert steps.standing_of(case(None), WORKER) is None


@gate("dedup.cases", "dedup.replay")
@pytest.mark.parametrize("status", TERMINAL)
@pytest.mark.parametrize("runtime", [WEB, WORKER], ids=["web", "worker"])
def test_a_terminal_row_gives_its_recorded_outcome_as_a_replay(status: InvocationStatus, runtime: Runtime) -> None:
    known = case(status, outcome=TERMINAL[status], is_lease_live=True)
    assert steps.standing_of(known, runtime) == Disposition(ID, Progress.SETTLED, *TERMINAL[status], is_replay=True)


@gate("dedup.cases")
@pytest.mark.parametrize("runtime", [WEB, WORKER], ids=["web", "worker"])
def test_a_call_under_a_live_lease_is_left_to_its_worker(runtime: Runtime) -> None:
    running = case(InvocationStatus.RUNNING, is_lease_live=True)
    assert steps.standing_of(running, runtime) == Disposition(ID, Progress.IN_FLIGHT)


@gate("dedup.cases")
def test_a_call_whose_lease_has_lapsed_is_the_workers_to_recover_and_the_webs_to_hand_off() -> None:
    lapsed = case(InvocationStatus.RUNNING)
    assert steps.standing_of(lapsed, WORKER) is None, "the recovery table is asked"
    assert steps.standing_of(lapsed, WEB) == Disposition(ID, Progress.HANDED_OFF)


@gate("dedup.cases")
def test_a_suspended_call_is_no_dead_worker() -> None:
    suspended = case(InvocationStatus.RUNNING, suspended_kind="user_input")
    assert steps.standing_of(suspended, WORKER) == Disposition(ID, Progress.SUSPENDED)


@gate("dedup.cases")
@pytest.mark.parametrize("runtime", [WEB, WORKER], ids=["web", "worker"])
def test_a_held_call_keeps_its_approval(runtime: Runtime) -> None:
    approval = SimpleNamespace(status=ApprovalStatus.PENDING, is_expired=False)
    held = case(InvocationStatus.WAITING_FOR_APPROVAL, approval=approval)
    assert steps.standing_of(held, runtime) == Disposition(ID, Progress.HELD)


@gate("dedup.cases")
@pytest.mark.parametrize(
    ("status", "is_expired"), [(ApprovalStatus.APPROVED, False), (ApprovalStatus.REJECTED, False),
                               (ApprovalStatus.PENDING, True)],
)  # fmt: skip
def test_a_held_call_that_was_decided_goes_on_in_a_worker(status: ApprovalStatus, is_expired: bool) -> None:
    approval = SimpleNamespace(status=status, is_expired=is_expired)
    held = case(InvocationStatus.WAITING_FOR_APPROVAL, approval=approval)
    assert steps.standing_of(held, WORKER) is None
    assert steps.standing_of(held, WEB) == Disposition(ID, Progress.HELD)


@gate("steps.conflict")
@pytest.mark.parametrize("status", [None, *InvocationStatus])
def test_another_body_is_a_conflict_whatever_became_of_the_first(status: InvocationStatus | None) -> None:
    with pytest.raises(Problem) as refused:
        steps.standing_of(case(status, body_hash="other"), WORKER)
    assert refused.value.reason_code == "step.conflict"
