"""Pages of approvals and policy that are only reached by sending a form: several at once, grants, trials, switches.

`test_every_page` opens what has an address of its own; here each form is sent as a person would, in every window.
"""

import json
from typing import Final

import pytest

from approvals import policy_services
from tests.e2e.chromium import Look
from tests.e2e.test_servers import WINDOWS, sent
from tests.e2e.visitor import PASSWORD, Arrive, Visitor, member
from tests.factories import Tenancy
from tests.integration.console.conftest import hold
from tests.integration.console.furnished import LONG_LINE
from tests.integration.console.people import INBOX, page_of, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.ports import Runtime

pytestmark = pytest.mark.slow

GRANTS: Final = "/admin/toolsys/standinggrant/"
RULES: Final = "/admin/approvals/policyrule/"
SWITCHES: Final = "/admin/approvals/killswitch/"


def sound(visitor: Visitor, name: str) -> None:
    assert visitor.overflow() == [], name
    assert visitor.axe() == [], name
    visitor.shot(f"judged {name}")


def echoes(acme: Tenancy, *texts: str) -> None:
    """Calls of low risk that a rule of somebody else holds."""
    policy_services.save_rule(
        tenant_id=acme.id, user=person((acme, Role.TENANT_ADMIN)).user, name="hold-echo",
        verdict="require_expert_approval", match={"tools": ["demo.echo"]},
    )  # fmt: skip
    for text in texts:
        acme.propose(("demo.echo", {"text": text}))


@gate("console.windows", "decision.several")
@pytest.mark.parametrize("look", WINDOWS)
def test_several_are_looked_at_and_decided_in_every_window(acme: Tenancy, visit: Arrive, look: Look) -> None:
    hold(acme, LONG_LINE)
    echoes(acme, "pay the rent", LONG_LINE, "a third")
    expert = visit(member((acme, Role.EXPERT_APPROVER)), look, INBOX)
    sound(expert, "inbox")
    ticks = expert.page.locator("input[name=request]")
    for index in range(4):
        ticks.nth(index).check()
    sent(expert, "Look at the ticked ones together")
    assert "not approved: only up to 10" in expert.text()
    sound(expert, "several mixed")
    expert.open(INBOX)
    for index in range(1, 4):
        ticks.nth(index).check()
    sent(expert, "Look at the ticked ones together")
    assert "Approve all 3" in expert.text()
    sound(expert, "several alike")
    sent(expert, "✗ Reject all 3")
    assert "Say why" in expert.text()
    sound(expert, "several without a reason")
    sent(expert, "✓ Approve all 3")
    assert expert.text().count("approved") >= 3
    sound(expert, "several decided")


@gate("console.windows", "console.grants")
@pytest.mark.parametrize("look", WINDOWS)
def test_a_grant_is_proposed_confirmed_and_revoked_in_every_window(acme: Tenancy, visit: Arrive, look: Look) -> None:
    held = hold(acme, LONG_LINE)
    maker = visit(member((acme, Role.TENANT_ADMIN)), look, GRANTS)
    sound(maker, "grants none")
    maker.open(f"{GRANTS}add/?request={held.request.pk}")
    sound(maker, "grant to propose")
    maker.page.fill("#id_conditions", "line is x")
    maker.page.fill("#id_note", "monthly " * 30)
    sent(maker, "Propose it")
    assert "begins with /, such as /amount" in maker.text()
    sound(maker, "grant refused")
    maker.page.fill("#id_conditions", f'/line prefix "pay"\n/line contains "{"invoice" * 20}"')
    sent(maker, "Propose it")
    path = maker.path
    sound(maker, "grant proposed")
    expert = visit(member((acme, Role.EXPERT_APPROVER)), look, path)
    sound(expert, "grant to confirm")
    expert.page.fill("input[name=password]", PASSWORD)
    sent(expert, "Confirm it")
    sound(expert, "grant in force")
    expert.open(GRANTS)
    sound(expert, "grants")
    expert.open(path)
    sent(expert, "Revoke it")
    sound(expert, "grant revoked")


@gate("console.windows", "console.policy")
@pytest.mark.parametrize("look", WINDOWS)
def test_rules_are_written_tried_and_replayed_in_every_window(
    acme: Tenancy, worker: Runtime, visit: Arrive, look: Look
) -> None:
    for text in ("fine", "my secret", LONG_LINE):
        acme.work(worker, acme.propose(("demo.echo", {"text": text}))[0])
    admin = visit(member((acme, Role.TENANT_ADMIN)), look, RULES)
    sound(admin, "rules none")
    admin.open(f"{RULES}add/")
    admin.page.fill("#id_name", "no-secrets")
    admin.page.select_option("#id_verdict", "block")
    admin.page.fill("#id_tools", "demo.\u0435cho")
    admin.page.fill("#id_arguments", "/a gt")
    admin.page.fill("#id_hours", "09:00-17:00 Nowhere/None")
    sent(admin, "Save")
    sound(admin, "rule refused")
    admin.page.fill("#id_tools", "demo.*\nmcp.bank.*")
    admin.page.fill("#id_arguments", f'/text contains "secret"\n/text ne "{"x" * 300}"')
    admin.page.fill("#id_hours", "")
    sent(admin, "Try it on the newest 1,000 calls")
    assert "3 calls judged" in admin.text()
    sound(admin, "rule tried")
    sent(admin, "Save")
    sound(admin, "rule written")
    row = policy_services.save_rule(
        tenant_id=acme.id, user=admin.user, name="no-secrets", verdict="observe", match={"tools": ["demo.*"]}
    )
    sent(admin, "Save as version 2")
    assert "newer version" in admin.text()
    sound(admin, "rule conflict")
    admin.open(RULES)
    sound(admin, "rules")
    admin.open(page_of(RULES, row.rule_id))
    sound(admin, "rule with versions")
    admin.open(f"{RULES}replay/")
    draft = [{"name": "all", "verdict": "require_expert_approval", "match": {"principals": ["x" * 190]}}]
    admin.page.fill("#id_rules", json.dumps(draft, indent=1))
    sent(admin, "Try the draft")
    sound(admin, "replay")
    admin.page.fill("#id_rules", '[{"name": "X"}]')
    sent(admin, "Try the draft")
    sound(admin, "replay refused")


@gate("console.windows", "console.policy", "console.switches")
@pytest.mark.parametrize("look", WINDOWS)
def test_a_call_is_foreseen_and_a_switch_is_thrown_in_every_window(acme: Tenancy, visit: Arrive, look: Look) -> None:
    hold(acme, LONG_LINE)
    admin = visit(member((acme, Role.TENANT_ADMIN)), look, f"{RULES}foresee/")
    for tool, arguments, says in (
        ("demo.external_write", json.dumps({"line": LONG_LINE}), "It would be held for people"),
        ("no.such", "", "It would be refused"), ("demo.echo", "[]", "Arguments are a JSON object."),
    ):  # fmt: skip
        admin.page.fill("#id_tool", tool)
        admin.page.fill("#id_arguments", arguments)
        sent(admin, "Foresee it")
        assert says in admin.text()
        sound(admin, f"foreseen {says}")
    admin.open(SWITCHES)
    admin.page.fill("#id_target", "demo.external_write")
    admin.page.select_option("#id_kind", "tool")
    admin.page.fill("#id_note", "it leaks " * 40)
    sent(admin, "Go on to confirm")
    sound(admin, "switch to confirm")
    sent(admin, "Yes, turn it off")
    sound(admin, "switches")
