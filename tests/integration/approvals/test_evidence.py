"""An approver is shown what the approval is bound to: rows that somebody altered are seen and never approved."""

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from approvals import evidence, grants, policy_services
from approvals.evidence import Alteration
from tests.factories import Tenancy
from tests.integration.approvals.desk import (
    ADMIN,
    CLIENT,
    EXPERT,
    Desk,
    as_owner,
    ask_for,
    desk_of,
    hold,
    person,
)
from tests.integration.console.people import INBOX, page_of
from tests.integration.console.people import person as visitor
from tests.spec.requirements import gate
from toolsys import database
from toolsys.domain import canonical, redaction
from toolsys.models import ApprovalRequest, Invocation, InvocationPayload, StandingGrant
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

ALTERED: dict[str, tuple[Any, dict[str, Any], Alteration]] = {
    "another value": (Invocation, {"arguments": {"line": "pay 10 to Ann"}}, Alteration.ARGUMENTS),
    "one more member": (Invocation, {"arguments": {"line": "x", "note": "harmless"}}, Alteration.ARGUMENTS),
    "no member": (Invocation, {"arguments": {}}, Alteration.ARGUMENTS),
    "another hash": (Invocation, {"normalized_arguments_hash": "0" * 64}, Alteration.FACTS),
    "another tool": (Invocation, {"tool_name": "demo.echo"}, Alteration.FACTS),
    "another version": (Invocation, {"tool_version": "9"}, Alteration.FACTS),
    "a milder risk": (Invocation, {"risk": "low"}, Alteration.FACTS),
    "a milder effect": (Invocation, {"side_effect": "external_read"}, Alteration.FACTS),
    "an unknown effect": (Invocation, {"side_effect": "kind"}, Alteration.FACTS),
    "another repetition": (Invocation, {"idempotency_class": "idempotent"}, Alteration.FACTS),
    "another server": (ApprovalRequest, {"binding": "elsewhere"}, Alteration.FACTS),
    "no server": (ApprovalRequest, {"binding": None}, Alteration.FACTS),
    "another tool for grants": (ApprovalRequest, {"tool_digest": "0" * 64}, Alteration.FACTS),
    "what is sealed": (InvocationPayload, {"sealed": b"\1" * 120}, Alteration.UNREADABLE),
    "nothing sealed": (InvocationPayload, {"sealed": None}, Alteration.UNREADABLE),
}


def alter(desk: Desk, model: Any, changes: dict[str, Any]) -> None:
    field = "pk" if model is Invocation else "invocation_id"
    with tenant_transaction(desk.tenancy.id):
        assert model.objects.filter(**{field: desk.held.invocation_id}).update(**changes) == 1


def seen(desk: Desk) -> list[Alteration]:
    with tenant_transaction(desk.tenancy.id):
        return evidence.alterations(desk.now, desk.tenancy.runtime.sealer)


@gate("approvals.evidence")
@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_in_the_database_is_shown_and_can_only_be_rejected(acme: Tenancy, what: str) -> None:
    model, changes, expected = ALTERED[what]
    desk, expert = hold(acme), person(acme, EXPERT)
    assert seen(desk) == []
    alter(desk, model, changes)
    assert expected in seen(desk)
    assert desk.refusal(expert) == "approval.altered"
    assert desk.now.status == "pending"
    assert desk.reject(expert).status == "rejected"


@gate("approvals.evidence")
def test_the_page_says_that_it_was_altered_and_offers_no_approval(acme: Tenancy) -> None:
    desk, expert = hold(acme), visitor((acme, EXPERT))
    path = page_of(INBOX, desk.request.pk)
    assert 'value="approve"' in expert.text(path)
    alter(desk, Invocation, {"arguments": {"line": "pay 10 to Ann"}})
    page = expert.text(path)
    assert "Altered since it was held" in page
    assert ('value="approve"' in page, 'value="reject"' in page) == (False, True)


@gate("approvals.evidence")
@pytest.mark.parametrize("what", ALTERED)
def test_no_standing_grant_is_drawn_from_a_call_that_was_altered(acme: Tenancy, what: str) -> None:
    model, changes, _ = ALTERED[what]
    desk, admin = hold(acme), person(acme, ADMIN)
    given: dict[str, Any] = {
        "tenant_id": acme.id, "user": admin, "request_id": desk.request.pk, "maximum_uses": 2, "note": "nightly",
        "conditions": [{"pointer": "/line", "operator": "eq", "value": "x"}], "expires_seconds": 3600.0,
        "sealer": acme.runtime.sealer,
    }  # fmt: skip
    grants.propose_grant(**given)
    alter(desk, model, changes)
    with pytest.raises(Problem, match=r"approval\.altered"):
        grants.propose_grant(**given)
    with tenant_transaction(acme.id):
        assert StandingGrant.objects.count() == 1


def proposed_grant(desk: Desk, **changes: Any) -> StandingGrant:
    given: dict[str, Any] = {
        "tenant_id": desk.tenancy.id, "user": person(desk.tenancy, ADMIN), "request_id": desk.request.pk,
        "conditions": [{"pointer": "/line", "operator": "eq", "value": "x"}], "maximum_uses": 2, "note": "nightly",
        "expires_seconds": 3600.0, "sealer": desk.tenancy.runtime.sealer,
    }  # fmt: skip
    return grants.propose_grant(**{**given, **changes})


def confirmed(desk: Desk, grant: StandingGrant, user: Any = None) -> StandingGrant:
    return grants.confirm_grant(
        tenant_id=desk.tenancy.id, grant_id=grant.pk, user=user or person(desk.tenancy, EXPERT),
        sealer=desk.tenancy.runtime.sealer, is_reauthenticated=True,
    )  # fmt: skip


def is_in_force(desk: Desk, grant: StandingGrant) -> bool:
    with tenant_transaction(desk.tenancy.id):
        return StandingGrant.objects.get(pk=grant.pk).activated_at is not None


@gate("approvals.evidence")
@pytest.mark.parametrize("what", ALTERED)
def test_no_standing_grant_is_confirmed_whose_call_was_altered_after_it_was_proposed(acme: Tenancy, what: str) -> None:
    model, changes, _ = ALTERED[what]
    desk = hold(acme)
    grant = proposed_grant(desk)
    alter(desk, model, changes)
    with pytest.raises(Problem, match=r"approval\.altered"):
        confirmed(desk, grant)
    assert not is_in_force(desk, grant)


REWORDED: dict[str, str] = {
    "no condition": "conditions = '[]'",
    "a wider condition": """conditions = '[{"pointer": "/line", "operator": "prefix", "value": ""}]'""",
    "more uses": "maximum_uses = 1000",
    "a longer time": "expires_at = expires_at + interval '20 days'",
    "everybody": "principal_id = NULL",
    "another tool": "tool_name = 'demo.echo'",
    "another version": "tool_digest = repeat('0', 64)",
    "fewer seats": "seats = '[\"expert\"]'",
    "no such seat": "seats = '[\"king\", 7]'",
    "a less trusted room": "origin_trust = 'internal_tool'",
    "another reason": "note = 'harmless'",
    "another proposer": "proposed_by_id = (SELECT max(id) FROM auth_user)",
    "what binds it": "words_digest = repeat('0', 64)",
    "nothing binds it": "words_digest = ''",
}


@gate("approvals.evidence")
@pytest.mark.parametrize("what", REWORDED)
def test_no_standing_grant_is_confirmed_that_was_altered_after_it_was_proposed(acme: Tenancy, what: str) -> None:
    """Two people read the same words: what one of them proposed is what the other one confirms."""
    ask_for(acme, "expert", "client")
    desk = hold(acme)
    grant, client, expert = proposed_grant(desk), person(acme, CLIENT), visitor((acme, EXPERT))
    path = f"/admin/toolsys/standinggrant/{grant.pk}/change/"
    assert ("Confirm it" in expert.text(path), "Altered since" in expert.text(path)) == (True, False)
    confirmed(desk, grant, client)
    as_owner(acme, f"UPDATE standing_grants SET {REWORDED[what]} WHERE id = %s", grant.pk)
    with pytest.raises(Problem, match=r"approval\.altered"):
        confirmed(desk, grant)
    assert not is_in_force(desk, grant)
    assert ("Confirm it" in expert.text(path), "Altered since" in expert.text(path)) == (False, True)


@gate("approvals.evidence", "console.grants")
@pytest.mark.parametrize("change", ["maximum_uses = 9", "conditions = '[{\"no\": 1}]'", "conditions = '7'"], ids=str)
def test_a_grant_in_force_that_was_altered_is_shown_to_stand_for_nothing(acme: Tenancy, change: str) -> None:
    desk, expert = hold(acme), visitor((acme, EXPERT))
    grant = confirmed(desk, proposed_grant(desk))
    path, listed = f"/admin/toolsys/standinggrant/{grant.pk}/change/", "/admin/toolsys/standinggrant/"
    for each in (path, listed):
        assert ("in force" in expert.text(each), "altered" in expert.text(each)) == (True, False)
    as_owner(acme, f"UPDATE standing_grants SET {change} WHERE id = %s", grant.pk)
    for each in (path, listed):
        assert ("in force" in expert.text(each), "altered" in expert.text(each)) == (False, True)
    assert "It stands for nothing" in expert.text(path)
    assert expert.post(path, revoke="1").status_code == 302
    assert "revoked" in expert.text(listed)


@gate("approvals.evidence")
@pytest.mark.parametrize("value", [1e300, -3, 0.1, 2.0, True, None, "e\N{COMBINING ACUTE ACCENT}", 2**53 - 1])
def test_a_grant_that_nobody_altered_is_confirmed_whatever_its_condition_compares(acme: Tenancy, value: Any) -> None:
    desk = hold(acme)
    grant = proposed_grant(desk, conditions=[{"pointer": "/line", "operator": "ne", "value": value}])
    desk.decide(person(acme, EXPERT))
    assert confirmed(desk, grant).activated_at is not None, "also after its call was decided"


@gate("approvals.evidence")
def test_of_several_the_altered_ones_are_named_and_nothing_can_be_approved_together(acme: Tenancy) -> None:
    author, expert = person(acme, ADMIN), visitor((acme, EXPERT))
    policy_services.save_rule(
        tenant_id=acme.id, user=author, name="hold-echo", verdict="require_expert_approval",
        match={"tools": ["demo.echo"]},
    )  # fmt: skip
    desks = [desk_of(acme, acme.propose(("demo.echo", {"text": text}))[0]) for text in ("one", "two", "three")]
    ticked = {"request": [desk.request.pk for desk in desks]}
    page = expert.post(INBOX, **ticked).content.decode()
    assert ("Altered since it was held" in page, "Approve all 3" in page) == (False, True)
    alter(desks[1], Invocation, {"arguments": {"text": "harmless"}})
    with CaptureQueriesContext(connections["default"]) as three:
        page = expert.post(INBOX, **ticked).content.decode()
    sections = page.split("<section")[1:]
    assert ["Altered since it was held" in section for section in sections] == [False, True, False]
    assert ('value="approve"' in page, 'value="reject"' in page) == (False, True)
    with CaptureQueriesContext(connections["default"]) as two:
        expert.post(INBOX, request=ticked["request"][:2])
    assert len(three) == len(two), "no query for each"
    digests = {f"digest-{desk.request.pk}": desk.request.digest for desk in desks}
    expert.post(INBOX, **ticked, **digests, decision="approve", note="")
    assert [desk.now.status for desk in desks] == ["approved", "pending", "approved"]


HONEST: dict[str, Any] = {
    "many members": {f"m{number:03}": number for number in reversed(range(300))},
    "numbers of every size": {"a": [1e300, 1.5, -3, 0.1, 1e-7, True, None, 2.0, 2**53 - 1]},
    "secrets and people": {"password": "hunter2", "mail a@example.org": "b@example.org", "phone": "+49 170 1234567"},
    "names that are redacted to one": {"b@example.org": 2, "a@example.org": 1},
    "letters": {"e\N{COMBINING ACUTE ACCENT}": "\N{LATIN SMALL LETTER E WITH ACUTE}\0\N{RIGHT-TO-LEFT OVERRIDE}"},
    "long and deep": {"long": "x" * 5_000, "deep": [[[[[[[[[[[[[1]]]]]]]]]]]]]},
}


@gate("approvals.evidence")
@pytest.mark.parametrize("what", HONEST)
def test_what_nobody_altered_is_not_said_to_be(acme: Tenancy, what: str) -> None:
    """Whatever is sent: the redacted copy is the same however often it is made, and whatever jsonb makes of it."""
    desk, (arguments, data) = hold(acme), canonical.normal_form(HONEST[what])
    kept = {"sealed": acme.runtime.sealer.seal(
        data, tenant_id=acme.id, kind="arguments", row=desk.held.invocation_id
    )}  # fmt: skip
    alter(desk, InvocationPayload, kept)
    alter(desk, Invocation, {"normalized_arguments_hash": canonical.sha256_hex(data)})
    with tenant_transaction(acme.id), connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE tool_invocations SET arguments = %s::jsonb WHERE id = %s",
            [database.as_json(redaction.redact(arguments)), desk.held.invocation_id],
        )
    assert Alteration.ARGUMENTS not in seen(desk)
    alter(desk, InvocationPayload, {"sealed": acme.runtime.sealer.seal(
        canonical.canonical_bytes({**arguments, "line": "y"}), tenant_id=acme.id, kind="arguments",
        row=desk.held.invocation_id,
    )})  # fmt: skip
    assert Alteration.ARGUMENTS in seen(desk)
