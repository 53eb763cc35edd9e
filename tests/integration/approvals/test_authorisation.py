"""Who may decide which held call: forty cases, each of them by the service that every edge calls.

A refused decision leaves the request, its votes and the queue as they were; the reason says which condition failed.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from approvals import policy_services, selectors, services
from approvals.models import ApprovalVote
from tests.factories import Tenancy
from tests.integration.approvals.desk import (
    ADMIN,
    CLIENT,
    EXPERT,
    WRITE,
    Desk,
    ask_for,
    desk_of,
    hold,
    own_key,
    person,
    seats_of,
)
from tests.spec.requirements import gate
from toolsys import queue
from toolsys.domain.rejections import Rejection
from toolsys.domain.seats import Seat
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest, Membership
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

Case = Callable[[Tenancy, Tenancy], str]


def votes(desk: Desk) -> int:
    with tenant_transaction(desk.tenancy.id):
        return ApprovalVote.objects.filter(request=desk.request).count()


def refused(desk: Desk, user: Any, **changes: Any) -> str:
    """Return the code, after a look that nothing has changed."""
    before, kept, bells = desk.now, votes(desk), len(queue.call_queue().job_ids)
    code = desk.refusal(user, **changes)
    after = desk.now
    assert (after.status, after.votes, after.decided_at) == (before.status, before.votes, before.decided_at)
    assert (votes(desk), len(queue.call_queue().job_ids)) == (kept, bells)
    return code


def no_role(*roles: Role) -> Case:
    return lambda acme, globex: refused(hold(acme), person(acme, *roles))


def own_call_by_name(acme: Tenancy, globex: Tenancy) -> str:
    named = f"Pat-{uuid4().hex[:8]}"
    with tenant_transaction(acme.id):
        type(acme.principal).objects.filter(pk=acme.principal.pk).update(external_id=named.lower())
    return refused(hold(acme), person(acme, EXPERT, name=named))


def own_call_by_mail(acme: Tenancy, globex: Tenancy) -> str:
    mail = f"{uuid4().hex[:8]}@example.org"
    with tenant_transaction(acme.id):
        type(acme.principal).objects.filter(pk=acme.principal.pk).update(external_id=mail.upper())
    return refused(hold(acme), person(acme, EXPERT, email=mail))


def own_key_case(acme: Tenancy, globex: Tenancy) -> str:
    owner = person(acme, EXPERT)
    own_key(acme, owner)
    return refused(hold(acme), owner)


def own_key_rejected(acme: Tenancy, globex: Tenancy) -> str:
    owner = person(acme, EXPERT)
    own_key(acme, owner)
    return refused(hold(acme), owner, is_approval=False, note="no")


def key_given_to_the_approver_later(acme: Tenancy, globex: Tenancy) -> str:
    desk, owner = hold(acme), person(acme, EXPERT)
    own_key(acme, owner)
    return refused(desk, owner)


def own_rule(acme: Tenancy, globex: Tenancy) -> str:
    author = ask_for(acme, "expert", "expert", by=person(acme, EXPERT, ADMIN))
    return refused(hold(acme), author)


def answers_for_the_rule(acme: Tenancy, globex: Tenancy) -> str:
    owner = person(acme, EXPERT)
    policy_services.save_rule(
        tenant_id=acme.id, user=person(acme, ADMIN), owner=owner, name="mine", verdict="require_expert_approval",
        match={"tools": [WRITE]}, seats=["expert", "expert"],
    )  # fmt: skip
    return refused(hold(acme), owner)


def other_version_of_the_rule(acme: Tenancy, globex: Tenancy) -> str:
    """Whoever wrote the version after it is another pair of eyes."""
    ask_for(acme, "expert", "expert")
    desk, later = hold(acme), person(acme, EXPERT, ADMIN)
    ask_for(acme, "expert", "expert", by=later)
    return desk.decide(later).status


def both_seats(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "client")
    desk, both = hold(acme), person(acme, EXPERT, CLIENT)
    assert desk.decide(both).status == "pending"
    return refused(desk, both, seat=Seat.CLIENT)


def both_roles_one_seat_each(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "client")
    desk = hold(acme)
    desk.decide(person(acme, EXPERT, CLIENT), seat=Seat.CLIENT)
    decided = desk.decide(person(acme, EXPERT, CLIENT)).status
    assert sorted(seats_of(desk)) == ["client", "expert"]
    return decided


def seat_not_mine(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "client")
    return refused(hold(acme), person(acme, EXPERT), seat=Seat.CLIENT)


def seat_taken(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "client")
    desk = hold(acme)
    desk.decide(person(acme, EXPERT))
    return refused(desk, person(acme, EXPERT))


def seat_taken_but_may_reject(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "client")
    desk = hold(acme)
    desk.decide(person(acme, EXPERT))
    return desk.reject(person(acme, EXPERT)).status


def two_of_three(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk = hold(acme)
    people = [person(acme, EXPERT) for _ in range(3)]
    assert desk.decide(people[0]).status == "pending"
    assert desk.decide(people[2]).status == "approved"
    return refused(desk, people[1])


def voted_twice(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    return refused(desk, one)


def approved_and_then_rejected_by_the_same(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    return refused(desk, one, is_approval=False, note="no")


def withdrawn_and_voted_again(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    assert desk.withdraw(one).status == "pending"
    assert desk.decide(person(acme, EXPERT)).status == "pending", "a vote that was taken back does not count"
    return desk.decide(one).status


def withdrawn_twice(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    desk.withdraw(one)
    with pytest.raises(Problem) as problem:
        desk.withdraw(one)
    return problem.value.reason_code


def withdrawn_by_somebody_else(acme: Tenancy, globex: Tenancy) -> str:
    ask_for(acme, "expert", "expert")
    desk = hold(acme)
    desk.decide(person(acme, EXPERT))
    with pytest.raises(Problem) as problem:
        desk.withdraw(person(acme, EXPERT))
    return problem.value.reason_code


def approval_withdrawn(acme: Tenancy, globex: Tenancy) -> str:
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    return desk.withdraw(one).status


def rejection_withdrawn(acme: Tenancy, globex: Tenancy) -> str:
    desk, one = hold(acme), person(acme, EXPERT)
    desk.reject(one)
    with pytest.raises(Problem) as problem:
        desk.withdraw(one)
    return problem.value.reason_code


def vote_of_who_has_left(acme: Tenancy, globex: Tenancy) -> str:
    """Their seat is free again: two others are needed."""
    ask_for(acme, "expert", "expert")
    desk, gone = hold(acme), person(acme, EXPERT)
    desk.decide(gone)
    with tenant_transaction(acme.id):
        Membership.objects.filter(user=gone).delete()
    assert desk.decide(person(acme, EXPERT)).status == "pending"
    return desk.decide(person(acme, EXPERT)).status


def deactivated(acme: Tenancy, globex: Tenancy) -> str:
    """What the session still holds of them does not matter."""
    desk, gone = hold(acme), person(acme, EXPERT)
    get_user_model().objects.filter(pk=gone.pk).update(is_active=False)
    return refused(desk, gone)


def role_elsewhere(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(globex, EXPERT))


def foreign_tenant(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(globex, EXPERT), tenant_id=globex.id)


def no_such_id(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(acme, EXPERT), request_id=uuid4())


def id_of_a_call(acme: Tenancy, globex: Tenancy) -> str:
    desk = hold(acme)
    return refused(desk, person(acme, EXPERT), request_id=desk.held.invocation_id)


def stale_form(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(acme, EXPERT), digest="0" * 64)


def digest_of_another_call(acme: Tenancy, globex: Tenancy) -> str:
    other = hold(acme, "another")
    return refused(hold(acme), person(acme, EXPERT), digest=other.request.digest)


def two_tabs(acme: Tenancy, globex: Tenancy) -> str:
    desk, one = hold(acme), person(acme, EXPERT)
    desk.decide(one)
    return refused(desk, one)


def second_approver(acme: Tenancy, globex: Tenancy) -> str:
    desk = hold(acme)
    desk.decide(person(acme, EXPERT))
    return refused(desk, person(acme, EXPERT))


def after_expiry(acme: Tenancy, globex: Tenancy) -> str:
    desk = hold(acme)
    with tenant_transaction(acme.id):
        ApprovalRequest.objects.filter(pk=desk.request.pk).update(expires_at=F("created_at"))
    return refused(desk, person(acme, EXPERT))


def no_password(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(acme, EXPERT), is_reauthenticated=False)


def rejected_without_password(acme: Tenancy, globex: Tenancy) -> str:
    return hold(acme).reject(person(acme, EXPERT), is_reauthenticated=False).status


def rejected_without_reason(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(acme, EXPERT), is_approval=False, note=" ")


def approved_with_a_reject_code(acme: Tenancy, globex: Tenancy) -> str:
    return refused(hold(acme), person(acme, EXPERT), rejection=Rejection.NOT_NOW)


CASES: dict[str, tuple[Case, str]] = {
    "no role": (no_role(), "auth.forbidden"),
    "tenant admin": (no_role(ADMIN), "auth.forbidden"),
    "developer": (no_role(Role.DEVELOPER), "auth.forbidden"),
    "auditor": (no_role(Role.TENANT_AUDITOR), "auth.forbidden"),
    "client for an expert's seat": (no_role(CLIENT), "auth.forbidden"),
    "own call by user name": (own_call_by_name, "approval.own_call"),
    "own call by mail": (own_call_by_mail, "approval.own_call"),
    "own key": (own_key_case, "approval.own_key"),
    "own key rejected": (own_key_rejected, "approval.own_key"),
    "key given later": (key_given_to_the_approver_later, "approval.own_key"),
    "own rule": (own_rule, "approval.own_policy"),
    "answers for the rule": (answers_for_the_rule, "approval.own_policy"),
    "another version of the rule": (other_version_of_the_rule, "pending"),
    "both seats": (both_seats, "approval.already_voted"),
    "both roles, a seat each": (both_roles_one_seat_each, "approved"),
    "a seat that is not theirs": (seat_not_mine, "auth.forbidden"),
    "seat taken": (seat_taken, "approval.seat_taken"),
    "seat taken, rejecting": (seat_taken_but_may_reject, "rejected"),
    "two of three": (two_of_three, "approval.decided"),
    "voted twice": (voted_twice, "approval.already_voted"),
    "approved, then rejected": (approved_and_then_rejected_by_the_same, "approval.already_voted"),
    "withdrawn and voted again": (withdrawn_and_voted_again, "approved"),
    "withdrawn twice": (withdrawn_twice, "approval.no_vote"),
    "withdrawn by somebody else": (withdrawn_by_somebody_else, "approval.no_vote"),
    "approval withdrawn": (approval_withdrawn, "voided"),
    "rejection withdrawn": (rejection_withdrawn, "approval.decided"),
    "vote of who has left": (vote_of_who_has_left, "approved"),
    "deactivated": (deactivated, "auth.forbidden"),
    "role in another tenant": (role_elsewhere, "auth.forbidden"),
    "another tenant": (foreign_tenant, "request.not_found"),
    "no such id": (no_such_id, "request.not_found"),
    "id of a call": (id_of_a_call, "request.not_found"),
    "stale form": (stale_form, "approval.changed"),
    "digest of another call": (digest_of_another_call, "approval.changed"),
    "two tabs": (two_tabs, "approval.decided"),
    "second approver": (second_approver, "approval.decided"),
    "after expiry": (after_expiry, "approval.expired"),
    "no password": (no_password, "approval.password_needed"),
    "rejected without password": (rejected_without_password, "rejected"),
    "rejected without a reason": (rejected_without_reason, "request.invalid"),
    "approved with a reject code": (approved_with_a_reject_code, "request.invalid"),
}


@gate("approvals.authorisation")
@pytest.mark.parametrize("case", CASES)
def test_who_may_decide(acme: Tenancy, globex: Tenancy, case: str) -> None:
    played, expected = CASES[case]
    assert played(acme, globex) == expected


def bulk(acme: Tenancy, user: Any, *desks: Desk, **changes: Any) -> list[services.Decided]:
    given = {
        "tenant_id": acme.id, "user": user, "is_approval": True, "note": "", "is_reauthenticated": True,
        "sealer": acme.runtime.sealer,
    }  # fmt: skip
    shown = [(desk.request.id, desk.request.digest) for desk in desks]
    return services.decide_many(**{**given, "shown": shown, **changes})


@gate("approvals.authorisation")
def test_bulk_never_approves_high_risk_and_rejects_anything(acme: Tenancy) -> None:
    desks, expert = [hold(acme, "a"), hold(acme, "b")], person(acme, EXPERT)
    with pytest.raises(Problem, match=r"approval\.bulk_mixed"):
        bulk(acme, expert, *desks)
    assert [desk.now.status for desk in desks] == ["pending", "pending"]
    done = bulk(acme, expert, *desks, is_approval=False, note="no", rejection=Rejection.NOT_NOW)
    assert [each.status for each in done] == ["rejected", "rejected"]


def medium(acme: Tenancy, *names: str) -> list[Desk]:
    """Hold calls of medium risk: reads of the workspace that a rule asks people for."""
    return [desk_of(acme, acme.propose((name, {"path": "a.txt", "text": "x"}))[0]) for name in names]


@gate("approvals.authorisation")
def test_bulk_over_mixed_rows_decides_each_by_itself(acme: Tenancy, globex: Tenancy) -> None:
    policy_services.save_rule(
        tenant_id=acme.id, user=person(acme, ADMIN), name="writes", verdict="require_expert_approval",
        match={"tools": ["workspace.write_text"]},
    )  # fmt: skip
    first, second, third = medium(acme, *["workspace.write_text"] * 3)
    expert = person(acme, EXPERT)
    second.decide(person(acme, EXPERT))
    third.request.digest = "0" * 64
    done = bulk(acme, expert, first, second, third)
    assert [(each.status, each.reason_code) for each in done] == [
        ("approved", None), (None, "approval.decided"), (None, "approval.changed"),
    ]  # fmt: skip
    with pytest.raises(Problem, match=r"approval\.bulk_mixed"):
        bulk(acme, expert, third, hold(globex))
    with pytest.raises(Problem, match=r"request\.invalid"):
        bulk(acme, expert, *[first] * 11)


@gate("inbox.queries", "inbox.four_eyes")
def test_how_many_wait_for_somebody_is_asked_in_two_queries_for_every_page(acme: Tenancy, globex: Tenancy) -> None:
    """Whatever four eyes keep from them: their rule, their call, their key, a vote; what they took back waits again."""
    hold(globex)
    one, developer = person(acme, EXPERT, ADMIN), person(acme, Role.DEVELOPER)
    hold(acme, "free")
    ask_for(acme, "expert", "expert", by=one)
    hold(acme, "of their rule")
    ask_for(acme, "expert", "expert")
    voted, taken_back = hold(acme, "voted"), hold(acme, "taken back")
    for desk in (voted, taken_back):
        desk.decide(one)
    taken_back.withdraw(one)
    own_call, own_key_only = person(acme, EXPERT, name=f"Pat-{uuid4().hex[:8]}"), person(acme, EXPERT)
    with tenant_transaction(acme.id):
        type(acme.principal).objects.filter(pk=acme.principal.pk).update(external_id=own_call.get_username().casefold())
    own_key(acme, own_key_only)
    expected = [(one, 2, 2), (own_call, 0, 2), (own_key_only, 0, 2), (person(acme, EXPERT), 4, 2), (developer, 0, 1)]
    for user, waiting, queries in expected:
        with tenant_transaction(acme.id), CaptureQueriesContext(connections["default"]) as asked:
            assert selectors.waiting_count(user) == waiting
        assert len(asked) == queries
