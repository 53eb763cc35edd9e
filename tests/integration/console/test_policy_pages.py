"""The policy pages: rules in versions, trials that write nothing, permissions, and switches thrown by a second POST."""

import json
from typing import Any

import pytest

from approvals import policy_services
from approvals.models import KillSwitch, PolicyRuleVersion, ToolPermission
from tests.factories import Tenancy
from tests.integration.console.people import INVOCATIONS, Person, page_of, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

RULES, PROFILES = "/admin/approvals/policyrule/", "/admin/approvals/policyprofile/"
PERMISSIONS, SWITCHES = "/admin/approvals/toolpermission/", "/admin/approvals/killswitch/"
REPLAY, FORESEE = f"{RULES}replay/", f"{RULES}foresee/"
READERS = [Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER]
GIVEN = {
    "name": "no-large", "verdict": "block", "priority": "7", "tools": "demo.*\nmcp.bank.*", "side_effects": "none",
    "hours": "outside mon fri 09:00-17:00 Europe/Berlin", "arguments": '/text contains "secret"\n/amount gt 100',
    "note": "because <b>", "is_active": "on",
}  # fmt: skip


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


def versions(tenancy: Tenancy) -> list[PolicyRuleVersion]:
    with tenant_transaction(tenancy.id):
        return list(PolicyRuleVersion.objects.select_related("rule", "author").order_by("version"))


def rule_of(tenancy: Tenancy, who: Person, **changes: Any) -> str:
    """Write a rule; return its page."""
    given = {"verdict": "block", "match": {"tools": ["demo.*"]}}
    row = policy_services.save_rule(tenant_id=tenancy.id, user=who.user, name="r", **{**given, **changes})
    return page_of(RULES, row.rule_id)


@gate("console.policy")
def test_a_rule_is_written_read_and_written_again(acme: Tenancy, admin: Person) -> None:
    assert "the matrix alone decides" in admin.text(RULES)
    answer = admin.post(f"{RULES}add/", **GIVEN)
    assert answer.status_code == 302, answer.content.decode()
    (first,) = versions(acme)
    assert (first.rule.name, first.version, first.priority, first.author) == ("no-large", 1, 7, admin.user)
    assert first.match == {
        "tools": ["demo.*", "mcp.bank.*"], "side_effects": ["none"],
        "hours": {"days": [1, 5], "start": "09:00:00", "end": "17:00:00", "timezone": "Europe/Berlin",
                  "is_outside": True},
        "arguments": [{"pointer": "/text", "operator": "contains", "value": "secret"},
                      {"pointer": "/amount", "operator": "gt", "value": 100}],
    }  # fmt: skip
    page = admin.text(answer.headers["Location"])
    for shown in (
        "outside mon fri 09:00-17:00 Europe/Berlin",
        "/amount gt 100",
        "because &lt;b&gt;",
        "Save as version 2",
    ):
        assert shown in page, shown
    again = admin.post(answer.headers["Location"], **GIVEN | {"verdict": "observe", "seen": "1", "name": "another"})
    assert again.status_code == 302
    assert [(row.rule.name, row.version, row.verdict) for row in versions(acme)] == [
        ("no-large", 1, "block"), ("no-large", 2, "observe"),
    ]  # fmt: skip
    page = admin.text(answer.headers["Location"])
    assert "<code>/verdict</code>" in page
    assert "no-large</a>" in admin.text(RULES)


def test_what_is_wrong_with_a_rule_is_said_at_its_field(acme: Tenancy, admin: Person) -> None:
    for changes, said in (
        ({"arguments": "/a gt"}, "is not: /pointer operator value"),
        ({"arguments": "/a in 5"}, "a list is for `in`"),
        ({"arguments": "a eq 5"}, "begins with /, such as /amount"),
        ({"hours": "09:00-17:00 Nowhere/None"}, "no such time zone"),
        ({"hours": "09:00-17:00 08:00-10:00"}, "Days, one span"),
        ({"name": "No Large"}, "Enter a valid value"),
        ({"priority": "5000"}, "less than or equal to 1000"),
    ):
        answer = admin.post(f"{RULES}add/", **GIVEN | changes)
        assert (answer.status_code, said in answer.content.decode()) == (422, True), (changes, answer.content.decode())
    assert versions(acme) == []
    rule_of(acme, admin)
    taken = admin.post(f"{RULES}add/", **GIVEN | {"name": "r"})
    assert "There is a rule of this name" in taken.content.decode()
    assert len(versions(acme)) == 1


@gate("console.stale")
def test_an_edit_of_an_older_version_is_a_conflict(acme: Tenancy, admin: Person) -> None:
    page = rule_of(acme, admin)
    rule_of(acme, admin, verdict="observe")
    answer = admin.post(page, **GIVEN | {"seen": "1"})
    assert answer.status_code == 409
    assert "Nothing was written: this rule has a newer version" in answer.content.decode()
    assert 'name="seen" value="2"' in answer.content.decode()
    assert len(versions(acme)) == 2


def test_a_rule_is_tried_on_past_calls_before_it_is_written(acme: Tenancy, admin: Person, worker: Runtime) -> None:
    for text in ("fine", "my secret"):
        acme.work(worker, acme.propose(("demo.echo", {"text": text}))[0])
    given = GIVEN | {"arguments": '/text contains "secret"', "hours": "", "try": "1"}
    answer = admin.post(f"{RULES}add/", **given)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "2 calls judged" in page
    assert "1 verdict would change." in page
    assert versions(acme) == []


@gate("console.policy")
def test_a_draft_is_replayed_over_past_calls(acme: Tenancy, admin: Person, worker: Runtime) -> None:
    acme.work(worker, acme.propose(("demo.echo", {"text": "x"}))[0])
    rule_of(acme, admin, match={"tools": ["nothing.*"]})
    page = admin.text(REPLAY)
    assert "&quot;nothing.*&quot;" in page
    draft = [{"name": "all", "verdict": "require_expert_approval"}]
    answer = admin.post(REPLAY, rules=json.dumps(draft), last="100")
    page = answer.content.decode()
    assert "1 call judged" in page
    assert "0 then, 1 with the draft, +1.0 a day" in page
    for wrong, said in (("[", "This is not JSON."), ('[{"name": "X"}]', "/0/name:"), ("", "required")):
        refused = admin.post(REPLAY, rules=wrong, last="100")
        assert (refused.status_code, said in refused.content.decode()) == (422, True), refused.content.decode()
    assert admin.post(REPLAY, rules="[]", last="5001").status_code == 422


@gate("console.policy")
def test_a_call_is_foreseen_and_not_made(acme: Tenancy, admin: Person) -> None:
    def asked(tool: str, arguments: str) -> str:
        given = {"run": acme.run.pk, "key": acme.key.pk, "tool": tool, "arguments": arguments}
        return admin.post(FORESEE, **given).content.decode()

    assert "It would run" in asked("demo.echo", '{"text": "x"}')
    assert "It would be held for people" in asked("demo.external_write", '{"line": "x"}')
    assert "It would be refused" in asked("no.such", "")
    assert "Arguments are a JSON object." in asked("demo.echo", "[]")
    with tenant_transaction(acme.id):
        assert Invocation.objects.count() == 0


@gate("console.policy")
def test_permissions_are_listed_given_and_taken_away(acme: Tenancy, admin: Person) -> None:
    assert admin.post(PERMISSIONS, tools="demo.*", agent="assistant", is_enabled="no").status_code == 302
    assert "⊘ disabled" in admin.text(PERMISSIONS)
    assert acme.propose(("demo.echo", {"text": "x"}))[0].reason_code == "policy.manifest.not_listed"
    with tenant_transaction(acme.id):
        row = ToolPermission.objects.get()
    assert admin.post(PERMISSIONS, remove=row.pk).status_code == 302
    assert "no restriction" in admin.text(PERMISSIONS)
    assert acme.propose(("demo.echo", {"text": "x"}))[0].reason_code is None
    assert admin.post(PERMISSIONS, remove=row.pk).status_code == 404
    assert admin.post(PERMISSIONS, tools="demo.*", agent="nobody", is_enabled="no").status_code == 422


@gate("console.switches")
def test_a_switch_is_thrown_by_a_second_post_and_says_who_threw_it(acme: Tenancy, admin: Person) -> None:
    acme.propose(("demo.external_write", {"line": "x"}))
    given = {"kind": "tool", "target": "demo.external_write", "is_off": "off", "note": "it leaks"}
    asked = admin.post(SWITCHES, **given).content.decode()
    assert "1 open call of it has not been sent and would be denied" in asked
    with tenant_transaction(acme.id):
        assert not KillSwitch.objects.exists()
    assert admin.post(SWITCHES, **given, confirm="1").status_code == 302
    page = admin.text(SWITCHES)
    assert "⊘ off" in page
    assert admin.user.username in page
    assert "it leaks" in page
    assert acme.propose(("demo.external_write", {"line": "y"}))[0].reason_code == "policy.switch.off"
    assert admin.post(SWITCHES, **given | {"is_off": "on"}, confirm="1").status_code == 302
    assert "✓ on</span>" in admin.text(SWITCHES)
    unknown = admin.post(SWITCHES, **given | {"kind": "key", "target": "nobody"}, confirm="1")
    assert unknown.status_code == 422


@gate("console.roles")
@pytest.mark.parametrize("role", READERS)
def test_others_read_policy_and_write_none_of_it(acme: Tenancy, admin: Person, role: Role) -> None:
    page = rule_of(acme, admin)
    reader = person((acme, role))
    for path in (RULES, page, REPLAY, FORESEE, PERMISSIONS, SWITCHES, PROFILES):
        shown = reader.text(path)
        assert ("Write the next" in shown, "Throw a switch" in shown, "Enable or disable" in shown) == (False,) * 3, (
            path
        )
    assert reader.get(f"{RULES}add/").status_code == 404
    assert reader.post(f"{RULES}add/", **GIVEN).status_code == 404
    assert reader.post(page, **GIVEN | {"seen": "1"}).status_code == 404
    assert reader.post(PERMISSIONS, tools="*", is_enabled="no").status_code == 404
    switch = {"kind": "tool", "target": "demo.echo", "is_off": "off", "note": "x", "confirm": "1"}
    assert reader.post(SWITCHES, **switch).status_code == 404
    assert len(versions(acme)) == 1


@gate("console.roles")
def test_another_tenants_rule_does_not_exist(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    page = rule_of(acme, admin)
    stranger = person((globex, Role.TENANT_ADMIN))
    assert stranger.get(page).status_code == 404
    assert stranger.post(page, **GIVEN | {"seen": "1"}).status_code == 404
    foreign_run = {"run": acme.run.pk, "key": acme.key.pk, "tool": "demo.echo", "arguments": ""}
    assert stranger.post(FORESEE, **foreign_run).status_code == 422
    operator = person((acme, Role.OPERATOR))
    for path in (RULES, page, REPLAY, FORESEE, PERMISSIONS, SWITCHES):
        assert operator.get(path).status_code == 404, path


@gate("console.explain")
def test_the_explanation_of_a_call_has_its_fourteen_steps(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    rule_of(acme, admin)
    (denied,) = acme.propose(("demo.echo", {"text": "x"}))
    path = page_of(INVOCATIONS, denied.invocation_id).replace("change", "explain")
    page = admin.text(path)
    assert page.count('data-label="Saw"') == 14
    assert "block by r@1" in page
    assert page.count("★<span") == 1
    assert person((globex, Role.TENANT_ADMIN)).get(path).status_code == 404
    assert person((acme, Role.OPERATOR)).get(path).status_code == 404


def test_a_profile_says_which_times_count_its_own_or_the_deployments(acme: Tenancy, admin: Person) -> None:
    row = policy_services.set_profile(tenant_id=acme.id, name="default", mildest={}, expires_seconds=600)
    for path in (PROFILES, page_of(PROFILES, row.pk)):
        page = admin.text(path)
        assert "10 min 0 s<" in page, path
        assert "1 h 0 min, as everywhere in this deployment<" in page, path


@gate("console.switches")
def test_the_confirmation_counts_what_the_switch_would_stop(acme: Tenancy, admin: Person) -> None:
    acme.propose(("demo.external_write", {"line": "x"}))
    given = {"kind": "tool", "target": "Demo.*", "is_off": "off", "note": "all of it"}
    asked = admin.post(SWITCHES, **given).content.decode()
    assert "Turn the tool <strong>demo.*</strong> <strong>off</strong>?" in asked
    assert "1 open call of it has not been sent and would be denied" in asked
    assert admin.post(SWITCHES, **given | {"kind": "server"}).status_code == 422
    assert admin.post(SWITCHES, **given | {"kind": "key", "target": "x"}).status_code == 422
