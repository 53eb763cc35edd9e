"""Tenant rules, permissions and switches as rows: what they decide, what is recorded, and that epochs rise."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError

from approvals import policy_services
from approvals.models import PolicyProfile, PolicyRule, PolicyRuleVersion, ToolPermission
from approvals.policy_selectors import Rulesets
from approvals.ruleset import SwitchKind
from tests.factories import Tenancy, approve, events_of
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.spec import SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel
from toolsys.models import Agent, ApprovalRequest, Invocation, PlatformState, PolicyDecision, Principal, Tenant
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

ECHO = ("demo.echo", {"text": "hello"})
WRITE = ("demo.external_write", {"line": "pay 9 to bob"})


@pytest.fixture
def author(database: None) -> Any:
    return get_user_model().objects.create_user(username=f"author-{uuid.uuid4().hex[:10]}")


def rule(tenancy: Tenancy, author: Any, name: str = "r", **changes: Any) -> PolicyRuleVersion:
    given = {"verdict": "block", "match": {"tools": ["demo.*"]}}
    return policy_services.save_rule(tenant_id=tenancy.id, user=author, name=name, **{**given, **changes})


def epoch(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return int(Tenant.objects.values_list("authz_epoch", flat=True).get(pk=tenancy.id))


def decision(tenancy: Tenancy, disposition: Disposition) -> PolicyDecision:
    with tenant_transaction(tenancy.id):
        return PolicyDecision.objects.get(invocation_id=disposition.invocation_id)


@gate("policy.rules")
def test_a_rule_decides_the_next_call_and_the_decision_says_which_version_saw_what(
    acme: Tenancy, globex: Tenancy, author: Any
) -> None:
    rule(acme, author, match={"arguments": [{"pointer": "/text", "operator": "prefix", "value": "zzz"}]})
    condition = {"pointer": "/text", "operator": "contains", "value": "secret"}
    rule(acme, author, match={"tools": ["demo.*"], "arguments": [condition]}, priority=3)
    (denied,) = acme.propose(("demo.echo", {"text": "my secret is sk-abcdefghijklmnop12345"}))
    assert (denied.reason_code, denied.outcome_status) == ("policy.rule.block", "denied")
    found = decision(acme, denied)
    assert (found.verdict, found.rule, found.authz_epoch) == ("block", "r@2", epoch(acme))
    seen = {"pointer": "/text", "operator": "contains", "value": "my secret is [REDACTED]"}
    assert found.matched["rules"] == [
        {"rule": "r@2", "verdict": "block", "priority": 3, "values": {"arguments": [seen]}}
    ]
    (other,) = acme.propose(ECHO)
    (foreign,) = globex.propose(("demo.echo", {"text": "secret"}))
    assert (other.state, foreign.state) == (Progress.HANDED_OFF, Progress.HANDED_OFF)


@gate("policy.rules")
def test_the_newest_version_counts_and_a_withdrawn_rule_decides_nothing(acme: Tenancy, author: Any) -> None:
    rule(acme, author)
    assert acme.propose(ECHO)[0].reason_code == "policy.rule.block"
    rule(acme, author, verdict="require_client_approval")
    assert acme.propose(ECHO)[0].state is Progress.HELD
    last = rule(acme, author, is_active=False)
    assert last.version == 3
    assert acme.propose(ECHO)[0].state is Progress.HANDED_OFF


@gate("policy.rules")
def test_a_rule_loosens_only_what_its_profile_allows(acme: Tenancy, author: Any) -> None:
    rule(acme, author, verdict="allow", match={"tools": ["demo.external_write"]})
    trusted: Any = {"context_trust": (TrustLevel.USER,)}
    assert acme.propose(WRITE, **trusted)[0].state is Progress.HELD
    policy_services.set_profile(
        tenant_id=acme.id, name="default", mildest={SideEffectClass.EXTERNAL_WRITE: PolicyVerdict.OBSERVE}
    )
    (loosened,) = acme.propose(WRITE, **trusted)
    assert loosened.state is Progress.HANDED_OFF
    assert decision(acme, loosened).verdict == "observe"
    assert acme.propose(WRITE)[0].state is Progress.HELD, "untrusted content is in the room"


@gate("policy.rules")
def test_a_profile_has_times_of_its_own(acme: Tenancy) -> None:
    policy_services.set_profile(tenant_id=acme.id, name="default", mildest={}, expires_seconds=5, consume_seconds=7)
    (held,) = acme.propose(WRITE)
    with tenant_transaction(acme.id):
        request = ApprovalRequest.objects.get(invocation_id=held.invocation_id)
    assert request.consume_seconds == 7
    assert (request.expires_at - request.created_at).total_seconds() == 5


@gate("policy.permissions")
def test_permissions_of_tenant_and_agent_are_part_of_every_manifest(acme: Tenancy) -> None:
    policy_services.permit_tools(tenant_id=acme.id, tools="math.*", is_enabled=True)
    (denied,) = acme.propose(ECHO)
    assert denied.reason_code == "policy.manifest.not_listed"
    policy_services.permit_tools(tenant_id=acme.id, tools="demo.*", is_enabled=True)
    assert acme.propose(ECHO)[0].state is Progress.HANDED_OFF
    policy_services.permit_tools(tenant_id=acme.id, tools="demo.echo", is_enabled=False, agent_name="assistant")
    assert acme.propose(ECHO)[0].reason_code == "policy.manifest.not_listed"
    with pytest.raises(Problem, match=r"request\.invalid"):
        policy_services.permit_tools(tenant_id=acme.id, tools="*", is_enabled=True, agent_name="nobody")


@gate("policy.permissions")
def test_the_flag_and_the_manifest_deny_with_a_row_and_an_event_of_their_own(acme: Tenancy, globex: Tenancy) -> None:
    Tenant.objects.using("operator").filter(pk=acme.id).update(is_tool_calling_enabled=False)
    with tenant_transaction(globex.id):
        type(globex.run).objects.filter(pk=globex.run.pk).update(manifest=["math.*"])
    for tenancy, code in ((acme, "policy.feature.disabled"), (globex, "policy.manifest.not_listed")):
        (denied,) = tenancy.propose(ECHO)
        assert denied.reason_code == code
        assert decision(tenancy, denied).reason_code == code
        assert events_of(tenancy, denied) == ["tool.call.proposed", "tool.call.denied"]


SWITCHES: dict[str, Callable[[Tenancy, Any, bool], object]] = {
    "tool": lambda acme, by, off: policy_services.throw_switch(
        tenant_id=acme.id, kind=SwitchKind.TOOL, target="demo.external_write", is_off=off, user=by
    ),
    "key": lambda acme, by, off: policy_services.throw_switch(
        tenant_id=acme.id, kind=SwitchKind.KEY, target=str(acme.key.id), is_off=off, user=by
    ),
    "tenant": lambda acme, by, off: policy_services.set_tenant_switch(acme.id, is_enabled=not off, user=by),
}


@gate("policy.switches")
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_stops_new_calls_and_lets_them_pass_when_it_is_on_again(
    acme: Tenancy, author: Any, switch: str
) -> None:
    before = epoch(acme)
    SWITCHES[switch](acme, author, True)
    (denied,) = acme.propose(WRITE)
    SWITCHES[switch](acme, author, False)
    assert denied.reason_code == "policy.switch.off"
    assert decision(acme, denied).rule == f"{switch} switch"
    assert epoch(acme) >= before + 2
    assert acme.propose(WRITE)[0].state is Progress.HELD


@gate("policy.switches")
def test_a_server_s_switch_is_asked_by_the_server_s_id(acme: Tenancy, author: Any) -> None:
    policy_services.throw_switch(
        tenant_id=acme.id, kind=SwitchKind.SERVER, target="mail", is_off=True, user=author, note="it misbehaves"
    )
    found = Rulesets(acme.runtime.sealer)(acme.id, epoch(acme))
    assert found.switch_off([(SwitchKind.SERVER, "mail")]) == "server"
    assert found.switch_off([(SwitchKind.SERVER, None), (SwitchKind.TOOL, "mail"), (SwitchKind.KEY, "mail")]) is None


@gate("policy.epoch")
def test_whatever_changes_a_verdict_raises_the_epoch(acme: Tenancy, globex: Tenancy, author: Any) -> None:
    def of_operator(**changes: Any) -> None:
        policy_services.set_profile(tenant_id=acme.id, name="p", mildest={}, **changes)

    def in_tenant(change: Callable[[], object]) -> Callable[[], object]:
        def changed() -> None:
            with tenant_transaction(acme.id):
                change()

        return changed

    changes: list[Callable[[], object]] = [
        lambda: rule(acme, author), lambda: rule(acme, author, is_active=False), of_operator,
        lambda: of_operator(expires_seconds=3.0),
        lambda: PolicyProfile.objects.using("operator").filter(tenant_id=acme.id).delete(),
        lambda: policy_services.permit_tools(tenant_id=acme.id, tools="*", is_enabled=True),
        lambda: policy_services.permit_tools(tenant_id=acme.id, tools="*", is_enabled=False),
        in_tenant(lambda: ToolPermission.objects.all().delete()),
        in_tenant(lambda: Agent.objects.update(name="renamed")),
        in_tenant(lambda: Principal.objects.update(external_id="renamed")),
    ]  # fmt: skip
    other = epoch(globex)
    for change in changes:
        before = epoch(acme)
        change()
        assert epoch(acme) == before + 1
    assert epoch(globex) == other


@gate("policy.epoch")
def test_rules_are_read_once_per_epoch(acme: Tenancy, author: Any) -> None:
    rulesets = Rulesets(acme.runtime.sealer)
    first = rulesets(acme.id, epoch(acme))
    assert rulesets(acme.id, epoch(acme)) is first
    rule(acme, author)
    assert [each.label for each in rulesets(acme.id, epoch(acme)).rules] == ["r@1"]


@gate("policy.rules")
@pytest.mark.parametrize(
    "changes",
    [{"name": "No"}, {"verdict": "maybe"}, {"match": {"arguments": [{"pointer": "x"}]}}, {"priority": 10_000},
     {"note": "x" * 2_001}, {"match": {"tools": ["a"] * 101}}],
)  # fmt: skip
def test_a_rule_that_cannot_be_read_is_not_written(acme: Tenancy, author: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(Problem) as refused:
        rule(acme, author, **changes)
    assert refused.value.reason_code == "request.invalid"
    assert refused.value.errors
    with tenant_transaction(acme.id):
        assert not PolicyRule.objects.exists()


@gate("policy.rules")
def test_versions_are_evidence_and_profiles_are_the_operators_(acme: Tenancy, author: Any) -> None:
    rule(acme, author)
    for change in (
        lambda: PolicyRuleVersion.objects.update(priority=5),
        lambda: PolicyProfile.objects.create(tenant_id=acme.id, name="mine", mildest={"external_write": "allow"}),
    ):
        with pytest.raises(DatabaseError, match=r"permission denied|append-only"), tenant_transaction(acme.id):
            change()


@gate("policy.switches")
@pytest.mark.usefixtures("database")
def test_only_operators_throw_the_platform_switch() -> None:
    with pytest.raises(DatabaseError, match="permission denied"):
        PlatformState.objects.update(is_execution_enabled=False)


@gate("policy.switches")
def test_a_key_that_is_not_the_tenant_s_has_no_switch(acme: Tenancy, globex: Tenancy, author: Any) -> None:
    for target in (str(globex.key.id), "no id"):
        with pytest.raises(Problem, match=r"request\.not_found"):
            policy_services.throw_switch(
                tenant_id=acme.id, kind=SwitchKind.KEY, target=target, is_off=True, user=author
            )


@gate("policy.epoch")
def test_a_rule_written_after_approval_ends_the_held_call(acme: Tenancy, author: Any, worker: Runtime) -> None:
    (held,) = acme.propose(WRITE)
    approve(acme, held)
    rule(acme, author, match={"tools": ["demo.external_write"]})
    acme.work(worker, held)
    call = acme.call(held)
    assert (call.status, call.reason_code, call.effect_sent) == ("denied", "policy.rule.block", False)
    with tenant_transaction(acme.id):
        stored = list(PolicyDecision.objects.filter(invocation_id=held.invocation_id).order_by("created_at"))
        row = Invocation.objects.get(pk=held.invocation_id)
    assert [(each.verdict, each.rule) for each in stored] == [
        ("require_expert_approval", "matrix"), ("block", "r@1"),
    ]  # fmt: skip
    assert row.policy_decision_id == stored[-1].pk
    assert stored[-1].user_context == {
        "principal": str(acme.principal.id), "agent": "assistant", "profile": "default", "environment": "production",
    }  # fmt: skip


@gate("policy.rules")
def test_a_name_that_only_looks_like_a_tool_s_is_not_written_and_capitals_are_no_other_tool(
    acme: Tenancy, author: Any
) -> None:
    """A rule, a switch or a permission about a name that no tool can have would forbid nothing, silently."""
    who: dict[str, Any] = {"tenant_id": acme.id, "user": author}
    off = {**who, "kind": SwitchKind.TOOL, "is_off": True}
    deeds: list[Callable[[str], Any]] = [
        lambda name: rule(acme, author, match={"tools": [name]}),
        lambda name: policy_services.throw_switch(target=name, **off),
        lambda name: policy_services.permit_tools(tenant_id=acme.id, tools=name, is_enabled=True),
    ]
    for deed in deeds:
        for name in ("demo.ech\N{CYRILLIC SMALL LETTER O}", "demo echo", "demo/echo", "demo.echo\u200b", ""):
            with pytest.raises(Problem, match=r"request\.invalid"):
                deed(name)
    assert deeds[0]("Demo.ECHO").match["tools"] == ["demo.echo"]
    assert (deeds[1](" DEMO.echo").target, deeds[2]("Demo.*").tools) == ("demo.echo", "demo.*")


@gate("policy.switches")
def test_a_switch_is_off_for_whatever_its_words_mean(acme: Tenancy, author: Any) -> None:
    """A glob, capitals or a key's id in another form must not be shown as off and let everything through."""

    def throw(kind: SwitchKind, target: str, *, is_off: bool) -> str:
        row = policy_services.throw_switch(tenant_id=acme.id, kind=kind, target=target, is_off=is_off, user=author)
        return str(row.target)

    key = str(acme.key.id)
    for kind, written, kept in (
        (SwitchKind.TOOL, " Demo.*", "demo.*"), (SwitchKind.TOOL, "*.ech[n-p]", "*.ech[n-p]"),
        (SwitchKind.KEY, key.upper(), key), (SwitchKind.KEY, f" {key.replace('-', '')}", key),
    ):  # fmt: skip
        assert throw(kind, written, is_off=True) == kept
        assert acme.propose(("demo.echo", {"text": written}))[0].reason_code == "policy.switch.off", written
        assert throw(kind, kept, is_off=False) == kept
        assert acme.propose(("demo.echo", {"text": f"on {written}"}))[0].state is Progress.HANDED_OFF, written
    assert throw(SwitchKind.SERVER, " Mail ", is_off=True) == "mail"
    for kind, written in ((SwitchKind.SERVER, "mcp.mail"), (SwitchKind.SERVER, "mail*"), (SwitchKind.SERVER, "")):
        with pytest.raises(Problem, match=r"request\.invalid"):
            throw(kind, written, is_off=True)


@gate("policy.names")
def test_a_rule_about_a_server_that_no_server_can_be_is_not_written(acme: Tenancy, author: Any) -> None:
    """A block of `mcp.mail`, which is the beginning of its tools' names and no server's id, would block nothing."""
    for name in ("mcp.mail", "mail*", "m\N{CYRILLIC SMALL LETTER A}il", "9mail", " "):
        with pytest.raises(Problem, match=r"request\.invalid") as refused:
            rule(acme, author, match={"servers": ["mail", name]})
        assert [error.pointer for error in refused.value.errors] == ["/match/servers/1"]
    assert rule(acme, author, match={"servers": [" Mail", "crm_2"]}).match["servers"] == ["mail", "crm_2"]
