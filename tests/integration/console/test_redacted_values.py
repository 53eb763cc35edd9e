"""What a page says of values that it does not show: whether two are the same, and in which form a text was sent."""

import re
from uuid import UUID

import pytest

from approvals import fingerprints
from tests.factories import Tenancy
from tests.integration.approvals.desk import as_owner
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import Person, person
from tests.integration.console.test_decision_page import decide
from tests.integration.console.test_judging import hold_echo, together
from tests.spec.requirements import gate
from toolsys.domain import canonical, redaction
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import Role
from toolsys.envelope import Envelope
from toolsys.models import Invocation

pytestmark = pytest.mark.slow

TOKEN, OTHER = "ghp_" + "a1" * 18, "ghp_" + "b2" * 18
ROW = UUID(int=7)
SEALER = Envelope([b"k" * 32])


def of(arguments: JsonObject, tenant_id: str = "acme", sealer: Envelope = SEALER) -> fingerprints.Fingerprints:
    call = Invocation(pk=ROW, tenant_id=tenant_id, arguments=redaction.redact(arguments))
    sealed = sealer.seal(canonical.canonical_bytes(arguments), tenant_id=tenant_id, kind="arguments", row=ROW)
    return fingerprints.of_sealed(call, sealed, sealer)


def shown(who: Person, held: HeldCall) -> list[str]:
    return re.findall(r"fp <code>(\w+)</code>", who.text(held.page))


@gate("decision.fingerprints")
def test_a_secret_has_one_fingerprint_wherever_it_stands_and_another_in_each_tenant_and_under_each_key() -> None:
    by_name = of({"token": TOKEN, "a/b": [{"note": f"use {TOKEN} or {OTHER}"}]})
    assert set(by_name) == {"/token", "/a~1b/0/note"}
    (token,) = by_name["/token"]
    assert by_name["/a~1b/0/note"] == (token, *of({"token": OTHER})["/token"])
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert of({"token": TOKEN}, tenant_id="globex")["/token"] != (token,)
    assert of({"token": TOKEN}, sealer=Envelope([b"x" * 32]))["/token"] != (token,)
    assert of({"card": 4111111111111111}) == {"/card": of({"card_number": "4111111111111111"})["/card_number"]}


@gate("decision.fingerprints")
def test_what_few_guesses_would_find_has_no_fingerprint() -> None:
    assert of({"pin": "1234567", "cvv": 123, "credential": {"user": "a", "pin": 1}, "text": "nothing"}) == {}
    assert of({"to": f"a@b.io {TOKEN}"})["/to"] == ("", *of({"to": TOKEN})["/to"])


def test_what_does_not_open_has_no_fingerprint() -> None:
    call = Invocation(pk=ROW, tenant_id="acme", arguments={"token": redaction.MARK})
    assert fingerprints.of_sealed(call, b"\1" * 120, SEALER) == {}


@gate("decision.fingerprints")
def test_the_page_says_that_a_redacted_value_is_the_same_and_shows_none(acme: Tenancy, approver: Person) -> None:
    first = hold(acme, f"with {TOKEN}")
    decide(approver, first)
    same, other = hold(acme, f"again with {TOKEN}"), hold(acme, f"with {OTHER}")
    (known,) = shown(approver, first)
    assert re.fullmatch("[0-9a-f]{8}", known)
    assert shown(approver, same) == [known]
    assert "the same redacted value there: <code>/line</code>" in approver.text(same.page)
    assert shown(approver, other) != [known]
    page = approver.text(other.page)
    assert "<code>/line</code> redacted in both: <strong>not the same value</strong>" in page
    assert "the same redacted value" not in page
    assert TOKEN not in page + approver.text(same.page)
    repeated = hold(acme, f"with {TOKEN}")
    assert "The same arguments as" in approver.text(repeated.page)
    as_owner(acme, "UPDATE invocation_payloads SET sealed = NULL WHERE invocation_id = %s",
             first.request.invocation_id)  # fmt: skip
    assert "redacted in both: nobody can tell from here" in approver.text(other.page)


@gate("decision.fingerprints")
def test_several_requests_show_which_of_them_carry_the_same_value(acme: Tenancy, globex: Tenancy) -> None:
    approver = person((acme, Role.EXPERT_APPROVER))
    held = hold_echo(acme, f"t {TOKEN}", f"t {OTHER}", f"t again {TOKEN}")
    found = re.findall(r"fp <code>(\w+)</code>", together(approver, held).content.decode())
    assert (len(found), len(set(found)), found[0]) == (3, 2, found[2])
    foreign = hold(globex, f"t {TOKEN}")
    assert found[0] not in person((globex, Role.EXPERT_APPROVER)).text(foreign.page)


@gate("decision.shown")
def test_calls_that_differ_where_their_texts_are_cut_are_not_called_the_same(acme: Tenancy, approver: Person) -> None:
    first, second = hold_echo(acme, "t" * 3_000 + "one", "t" * 3_000 + "two")
    decide(approver, first)
    page = approver.text(second.page)
    assert "The same arguments as" not in page
    assert "They differ in what is not shown" in page


@gate("decision.normalized")
def test_a_text_that_was_sent_in_another_form_says_so(acme: Tenancy, approver: Person) -> None:
    composed, plain = hold_echo(acme, "t Zu\u0308rich", "t Z\u00fcrich")
    page = approver.text(composed.page)
    note = "NFC-normalised: sent with other code points for the same letters"
    assert re.search(rf'<span class="value">t Z\u00fcrich</span><br><small class="quiet">{note}</small>', page)
    assert note not in approver.text(plain.page)
