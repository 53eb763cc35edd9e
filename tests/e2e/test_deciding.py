"""Deciding in a real browser: as an expert by keyboard, as a client on a phone without scripts, after a deep link."""

import pytest

from approvals import policy_services
from tests.e2e.chromium import DARK, DESKTOP, NO_SCRIPTS, PHONE_NO_SCRIPTS
from tests.e2e.visitor import PASSWORD, Arrive, member
from tests.factories import Tenancy
from tests.integration.console.conftest import hold
from tests.integration.console.people import INBOX
from tests.spec.requirements import gate
from toolsys.domain.states import Role

pytestmark = pytest.mark.slow


@gate("decision.browser")
def test_an_expert_finds_reads_and_approves_by_keyboard_alone(acme: Tenancy, visit: Arrive) -> None:
    held = hold(acme, "pay the invoice \u202e")
    expert = visit(member((acme, Role.EXPERT_APPROVER)), DESKTOP, INBOX)
    expert.press_on(expert.page.get_by_role("link", name="demo.external_write"))
    assert expert.path == held.page
    assert "It changes something in another system." in expert.text()
    assert "pay the invoice [U+202E]" in expert.text()
    expert.tab_to(expert.page.locator("#note"))
    expert.page.keyboard.type("as agreed")
    expert.tab_to(expert.page.locator("#password"))
    expert.page.keyboard.type(PASSWORD)
    expert.press_on(expert.page.get_by_role("button", name="Approve"), "Space")
    assert "Approved. The call goes on." in expert.text()
    assert expert.shot("decided").stat().st_size > 0
    assert held.now().status == "approved"


@gate("decision.browser")
def test_a_client_follows_a_link_on_a_phone_without_scripts_and_rejects(acme: Tenancy, visit: Arrive) -> None:
    author = member((acme, Role.TENANT_ADMIN))
    policy_services.save_rule(
        tenant_id=acme.id, user=author, name="ask-the-client", verdict="require_client_approval",
        match={"tools": ["demo.external_*"]},
    )  # fmt: skip
    held = hold(acme, "x" * 600)
    client = visit(member((acme, Role.CLIENT_APPROVER)), PHONE_NO_SCRIPTS, held.page)
    assert client.overflow() == []
    assert client.shot("decision of a client").stat().st_size > 0
    client.page.select_option("#rejection", "wrong_target")
    client.page.get_by_role("button", name="Reject").click()
    assert "Nothing is decided yet; note: say why." in client.text()
    assert client.page.locator("#rejection").input_value() == "wrong_target"
    client.page.fill("#note", "not to him")
    client.page.get_by_role("button", name="Reject").click()
    assert "Rejected. Nothing is sent." in client.text()
    assert held.now().rejection_code == "policy.rejected.wrong_target"


@gate("decision.browser")
def test_who_may_not_decide_is_told_why_and_has_no_button(acme: Tenancy, visit: Arrive) -> None:
    held = hold(acme)
    auditor = visit(member((acme, Role.TENANT_AUDITOR)), DARK, held.page)
    assert "You cannot decide this" in auditor.text()
    assert auditor.page.get_by_role("button", name="Approve").count() == 0
    assert auditor.page.get_by_role("button", name="Reject").count() == 0
    assert auditor.axe() == []
    without = visit(member((acme, Role.DEVELOPER)), NO_SCRIPTS, INBOX)
    assert "Nothing waits for you." in without.text()
