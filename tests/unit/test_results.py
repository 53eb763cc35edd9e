"""The two result shapes: what a tool may say, and what it may reach."""

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from tests.spec.requirements import gate
from toolsys.domain.context import SecretValue, ToolExecutionContext
from toolsys.domain.results import (
    OUTCOME_FIELDS,
    Remediation,
    TextPart,
    ToolFailure,
    ToolFailureKind,
    ToolOutcome,
    ToolResult,
)
from toolsys.domain.states import OutcomeStatus

FAILURE = ToolFailure(kind=ToolFailureKind.INTERNAL, reason_code="tool.internal")


@gate("result.shape")
def test_a_result_succeeded_or_carries_a_failure() -> None:
    assert ToolResult(ok=True, content=(TextPart(text="x"),)).failure is None
    assert ToolResult(ok=False, failure=FAILURE).failure == FAILURE
    for shape in ({"ok": True, "failure": FAILURE}, {"ok": False}):
        with pytest.raises(ValidationError, match="succeeded or carries a failure"):
            ToolResult(**shape)


@gate("result.shape")
@pytest.mark.parametrize("claim", ["status", "outcome_status", "denied", "uncertain", "unavailable"])
def test_a_result_cannot_state_a_status(claim: str) -> None:
    given: dict[str, Any] = {"ok": True, claim: "denied"}
    with pytest.raises(ValidationError, match="Extra inputs"):
        ToolResult(**given)
    assert not set(ToolResult.model_fields) & {"status", "outcome_status", "reason_code", "message"}


@gate("gate.4")
@pytest.mark.parametrize("status", list(OutcomeStatus))
def test_an_outcome_is_six_fields_for_every_status(status: OutcomeStatus) -> None:
    outcome = ToolOutcome(
        status=status, action="a.b", reason_code="x.y", message="m", retryable=False, remediation=Remediation.NONE
    )
    assert tuple(outcome.as_fields()) == OUTCOME_FIELDS == tuple(ToolOutcome.model_fields)
    with pytest.raises(ValidationError, match="Extra inputs"):
        ToolOutcome.model_validate({**outcome.as_fields(), "external_text": "x"})


def test_results_and_outcomes_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ToolResult(ok=True).ok = False  # type: ignore[misc]


@gate("context.fields")
def test_a_tool_reaches_exactly_what_the_specification_lists() -> None:
    fields = """invocation_id call_id run_id session_id tenant_id principal step_number attempt_number idempotency_key
        deadline_at timeout_seconds maximum_output_bytes target workspace artifacts credentials cancellation
        mark_effect_sent"""
    assert [field.name for field in dataclasses.fields(ToolExecutionContext)] == fields.split()
    assert not hasattr(ToolExecutionContext, "__dict__") or ToolExecutionContext.__slots__


def test_a_secret_prints_as_stars() -> None:
    secret = SecretValue("hunter2")
    assert {str(secret), repr(secret), f"{secret}"} == {"SecretValue(***)"}
    assert secret.reveal() == "hunter2"
