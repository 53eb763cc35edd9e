"""What the inbox puts first, page after page, and what its forms say when nothing is decided."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import INBOX, Person, person
from tests.integration.console.test_judging import together
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.models import Invocation
from toolsys.tenancy import tenant_transaction

RULES_ADD = "/admin/approvals/policyrule/add/"


def due(held: HeldCall, at: datetime, risk: str) -> str:
    held.change(expires_at=at)
    with tenant_transaction(held.tenancy.id):
        Invocation.objects.filter(pk=held.request.invocation_id).update(risk=risk)
    return str(held.request.pk)


def listed(who: Person) -> list[str]:
    """Return the ids that wait for a person, page after page."""
    found: list[str] = []
    path: str | None = INBOX
    while path is not None:
        page = who.text(path)
        found += re.findall(r'type="checkbox" name="request" value="([\w-]+)"', page)
        following = re.search(r'href="(\?tab=mine&amp;after=[^"]+)"', page)
        path = INBOX + following[1].replace("&amp;", "&") if following else None
    return found


@gate("inbox.order")
def test_within_one_minute_of_expiry_the_highest_risk_comes_first_on_every_page(
    acme: Tenancy, approver: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("approvals.inbox.PAGE", 2)
    minute = (timezone.now() + timedelta(hours=1)).astimezone(UTC).replace(second=0, microsecond=0)
    asked = [(1, "low"), (70, "high"), (59, "high"), (30, "medium"), (2, "high"), (40, "low"), (65, "low")]
    held = [due(hold(acme, f"line {at}"), minute + timedelta(seconds=at), risk) for at, risk in asked]
    turns = [held[2], held[4], held[3], held[0], held[5], held[1], held[6]]
    assert listed(approver) == turns
    assert turns[0] in approver.text(f"{INBOX}?after=nonsense")


def test_a_page_follows_the_last_one_though_its_last_row_was_decided(
    acme: Tenancy, approver: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("approvals.inbox.PAGE", 2)
    held = [hold(acme, f"line {number}") for number in range(4)]
    following = re.search(r"after=([\w-]+)", approver.text(INBOX))
    assert following is not None
    held[1].change(status="approved")
    page = approver.text(f"{INBOX}?after={following[1]}")
    assert [str(each.request.pk) in page for each in held] == [False, False, True, True]


@gate("decision.several")
def test_rejecting_several_without_a_note_asks_for_it_at_its_field(acme: Tenancy, approver: Person) -> None:
    held = [hold(acme, "one"), hold(acme, "two")]
    answer = together(approver, held, "reject")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Nothing is decided yet; note: say why." in page
    assert '<p class="unmet" id="note-error">Say why.</p>' in page
    assert "schema" not in page


def test_a_form_says_what_is_wrong_in_our_words_alone(acme: Tenancy) -> None:
    admin = person((acme, Role.TENANT_ADMIN))
    drafts = '[{"name": "a b", "verdict": "block", "match": {"tools": ["demo.*"], "arguments": [{"pointer": "x"}]}}]'
    page = admin.post("/admin/approvals/policyrule/replay/", rules=drafts, last="10").content.decode()
    assert "/0" in page or "/match" in page
    assert "Value error" not in page
