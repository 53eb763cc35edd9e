"""The five events of approvals: each once, as it ends, beside those of its call; and what an event carries."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from django.utils import timezone

from tests.factories import Tenancy, events_of
from tests.integration.approvals.desk import EXPERT, Desk, hold, person
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition
from toolsys.models import ApprovalRequest, ToolEvent
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

HELD: Final = ["tool.call.proposed", "approval.requested"]
CARRIED: Final = {
    "invocation_id", "run_id", "step_number", "call_id", "tool_name", "tool_source", "tool_version", "outcome_status",
    "reason_code", "idempotency_class", "effect_sent", "duration_ms", "output_bytes", "truncated", "parallel_group",
}  # fmt: skip


def approved(desk: Desk, expert: Any) -> None:
    desk.decide(expert)


def rejected(desk: Desk, expert: Any) -> None:
    desk.reject(expert)


def taken_back(desk: Desk, expert: Any) -> None:
    desk.decide(expert)
    desk.withdraw(expert)


def run_out(desk: Desk, expert: Any) -> None:
    with tenant_transaction(desk.tenancy.id):
        ApprovalRequest.objects.filter(pk=desk.request.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def unused(desk: Desk, expert: Any) -> None:
    desk.decide(expert)
    with tenant_transaction(desk.tenancy.id):
        ApprovalRequest.objects.filter(pk=desk.request.pk).update(consume_by=timezone.now() - timedelta(seconds=1))


# Nobody is at the other end of the write, so that it fails once it was begun.
ENDS: Final[dict[str, tuple[Callable[[Desk, Any], None], list[str]]]] = {
    "approved": (approved, ["approval.approved", "tool.call.authorized", "tool.call.started", "tool.call.failed"]),
    "rejected": (rejected, ["approval.rejected", "tool.call.denied"]),
    "taken back": (taken_back, ["approval.approved", "approval.voided", "tool.call.denied"]),
    "run out": (run_out, ["approval.expired", "tool.call.denied"]),
    "unused": (unused, ["approval.approved", "approval.voided", "tool.call.denied"]),
}


def payloads(tenancy: Tenancy, held: Disposition) -> list[dict[str, Any]]:
    with tenant_transaction(tenancy.id):
        found = ToolEvent.objects.filter(invocation_id=held.invocation_id).order_by("id")
        return list(found.values_list("payload", flat=True))


@gate("approvals.events")
@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_held_call_is_one_event_before_the_calls_own(acme: Tenancy, worker: Runtime, end: str) -> None:
    deed, events = ENDS[end]
    desk = hold(acme)
    assert events_of(acme, desk.held) == HELD
    deed(desk, person(acme, EXPERT))
    acme.work(worker, desk.held)
    acme.work(worker, desk.held)
    assert events_of(acme, desk.held) == [*HELD, *events]


@gate("events.payload")
def test_an_event_carries_identity_and_classification_and_no_value(acme: Tenancy, worker: Runtime) -> None:
    desk = hold(acme, "a line that no event repeats")
    desk.reject(person(acme, EXPERT), note="a note that no event repeats")
    acme.work(worker, desk.held)
    (done,) = acme.propose(("demo.echo", {"text": "a text that no event repeats"}))
    acme.work(worker, done)
    found = payloads(acme, desk.held) + payloads(acme, done)
    assert len(found) == 4 + 4
    assert {frozenset(each) for each in found} == {frozenset(CARRIED)}
    assert "no event repeats" not in str(found)
    assert found[3] | {"duration_ms": 0} == {
        "invocation_id": str(desk.held.invocation_id), "run_id": str(acme.run.id), "step_number": 1,
        "call_id": found[0]["call_id"], "tool_name": "demo.external_write", "tool_source": "builtin",
        "tool_version": found[0]["tool_version"], "outcome_status": "denied",
        "reason_code": "policy.approval.expert_rejected", "idempotency_class": "non_idempotent", "effect_sent": False,
        "duration_ms": 0, "output_bytes": None, "truncated": False, "parallel_group": None,
    }  # fmt: skip
