"""An approver is shown what the approval is bound to: rows that somebody altered are seen and never approved."""

from typing import Any

import pytest
from django.db import connections

from approvals import evidence
from approvals.evidence import Alteration
from tests.factories import Tenancy
from tests.integration.approvals.desk import EXPERT, Desk, hold, person
from tests.integration.console.people import INBOX, page_of
from tests.integration.console.people import person as visitor
from tests.spec.requirements import gate
from toolsys import database
from toolsys.domain import canonical, redaction
from toolsys.models import ApprovalRequest, Invocation, InvocationPayload
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
