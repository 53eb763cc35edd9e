"""Who may decide a held call, and what a decision does."""

import threading
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from django.utils import timezone

from approvals import services
from approvals.models import ApprovalVote
from tests.factories import Tenancy, events_of
from toolsys import provisioning
from toolsys.domain.calls import Disposition
from toolsys.domain.states import InvocationStatus, Role
from toolsys.models import ApiKey, ApprovalRequest
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction


@dataclass
class Held:
    tenancy: Tenancy
    disposition: Disposition
    request: ApprovalRequest

    def decide(self, user: Any, **changes: Any) -> ApprovalRequest:
        given = {
            "tenant_id": self.tenancy.id, "request_id": self.request.id, "user": user, "is_approval": True, "note": "",
            "digest": self.request.digest, "is_reauthenticated": True, "sealer": self.tenancy.runtime.sealer,
        }  # fmt: skip
        return services.decide(**{**given, **changes})


def person(tenancy: Tenancy, *roles: Role) -> Any:
    user = get_user_model().objects.create_user(username=f"user-{uuid.uuid4().hex[:10]}")
    for role in roles:
        provisioning.add_member(tenancy.id, user, role)
    return user


@pytest.fixture
def held(acme: Tenancy) -> Held:
    (disposition,) = acme.propose(("demo.external_write", {"line": "x"}))
    with tenant_transaction(acme.id):
        return Held(acme, disposition, ApprovalRequest.objects.get(invocation_id=disposition.invocation_id))


def refusal(held: Held, user: Any, **changes: Any) -> str:
    with pytest.raises(Problem) as refused:
        held.decide(user, **changes)
    with tenant_transaction(held.tenancy.id):
        assert ApprovalRequest.objects.get(pk=held.request.pk).status == held.request.status
        assert not ApprovalVote.objects.filter(request=held.request).exists()
    return refused.value.reason_code


def test_an_approval_is_recorded_with_its_vote_and_event_and_the_call_goes_on(held: Held, worker: Runtime) -> None:
    approver = person(held.tenancy, Role.EXPERT_APPROVER)
    decided = held.decide(approver, note="fine")
    assert (decided.status, decided.decided_by_id) == ("approved", approver.pk)
    assert decided.consume_by is not None
    with tenant_transaction(held.tenancy.id):
        vote = ApprovalVote.objects.get(request=held.request)
    assert (vote.seat, vote.is_approval, vote.note) == ("expert", True, "fine")
    held.tenancy.work(worker, held.disposition)
    assert "approval.approved" in events_of(held.tenancy, held.disposition)
    assert held.tenancy.call(held.disposition).effect_sent


def test_a_rejection_needs_a_reason_and_denies(held: Held, worker: Runtime) -> None:
    approver = person(held.tenancy, Role.EXPERT_APPROVER)
    assert refusal(held, approver, is_approval=False) == "request.invalid"
    held.decide(approver, is_approval=False, note="not today")
    held.tenancy.work(worker, held.disposition)
    call = held.tenancy.call(held.disposition)
    assert (call.status, call.reason_code) == (InvocationStatus.DENIED, "policy.approval.expert_rejected")


@pytest.mark.parametrize("roles", [(), (Role.TENANT_ADMIN,), (Role.CLIENT_APPROVER,), (Role.TENANT_AUDITOR,)])
def test_only_the_seats_role_decides(held: Held, roles: tuple[Role, ...]) -> None:
    assert refusal(held, person(held.tenancy, *roles)) == "auth.forbidden"


def test_whoever_answers_for_the_key_cannot_decide(held: Held) -> None:
    owner = person(held.tenancy, Role.EXPERT_APPROVER)
    with tenant_transaction(held.tenancy.id):
        ApiKey.objects.filter(pk=held.tenancy.key.pk).update(owner=owner)
    assert refusal(held, owner) == "approval.own_key"


def test_what_was_shown_must_be_what_is_decided(held: Held) -> None:
    assert refusal(held, person(held.tenancy, Role.EXPERT_APPROVER), digest="0" * 64) == "approval.changed"


def test_an_expired_request_cannot_be_decided(held: Held) -> None:
    with tenant_transaction(held.tenancy.id):
        ApprovalRequest.objects.filter(pk=held.request.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert refusal(held, person(held.tenancy, Role.EXPERT_APPROVER)) == "approval.expired"


def test_another_tenants_request_does_not_exist(held: Held, globex: Tenancy) -> None:
    stranger = person(globex, Role.EXPERT_APPROVER)
    assert refusal(held, stranger, tenant_id=globex.id) == "request.not_found"


def test_of_two_decisions_at_once_one_wins(held: Held) -> None:
    people = [person(held.tenancy, Role.EXPERT_APPROVER) for _ in range(4)]
    results: list[str] = []
    barrier = threading.Barrier(len(people))

    def decide(user: Any) -> None:
        barrier.wait(10)
        try:
            held.decide(user)
            results.append("decided")
        except Problem as problem:
            results.append(problem.reason_code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=decide, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) == ["approval.decided"] * 3 + ["decided"]
