"""What a rule looks at: each matcher alone, hours over midnight, and rules that cannot be read."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError

from approvals import gate as port
from approvals import matchers
from approvals.conditions import Reading
from approvals.matchers import Hours, Rule, Subject
from approvals.rules import LISTED, RuleMatch
from approvals.ruleset import Permission, Ruleset
from tests.spec.requirements import gate
from tests.unit.test_policy_rules import action
from toolsys.domain.calls import AgentFacts, Facts, KeyFacts, ProposedAction, RunFacts, SessionFacts
from toolsys.domain.context import Principal
from toolsys.domain.spec import Classification, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict, RunStatus
from toolsys.domain.trust import TrustLevel

ORDER = sorted(range(3 * LISTED), key=lambda number: f"{number}@")
MONDAY = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)


def facts(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "tenant_id": "acme", "authz_epoch": 1, "database_epoch": 1, "now": MONDAY, "is_platform_enabled": True,
        "is_tenant_enabled": True, "is_tool_calling_enabled": True,
        "run": RunFacts(uuid4(), RunStatus.RUNNING, MONDAY, False, False, None, TrustLevel.USER),
        "session": SessionFacts(uuid4(), "", "default", "production", False),
        "agent": AgentFacts(uuid4(), "assistant", True, ("*",)), "principal": Principal(uuid4(), "ann", frozenset()),
        "key": KeyFacts(uuid4(), True, frozenset()),
    }  # fmt: skip
    return Facts(**{**given, **changes})


def subject_of(call: ProposedAction) -> Subject:
    return Subject.of(call, agent="assistant", principal="ann", now=MONDAY)


def judged(match: dict[str, Any], **changes: Any) -> RuleMatch | None:
    rule = matchers.compiled(Rule.model_validate({"name": "r", "verdict": "block", "match": match}))
    call = action(**{"tool_name": "mcp.mail.send", "server_id": "mail", **changes})
    found, _ = Ruleset((rule,)).matches(subject_of(call))
    return found[0] if found else None


@gate("policy.matchers")
@pytest.mark.parametrize(
    ("match", "elsewhere"),
    [
        ({"tools": ["mcp.mail.*"]}, {"tool_name": "mcp.maily.send"}),
        ({"tools": ["math.evaluate", "mcp.mail.send"]}, {"tool_name": "mcp.mail.send2"}),
        ({"servers": ["mail"]}, {"server_id": None}),
        ({"side_effects": ["external_write"]}, {"classification": Classification(side_effect=SideEffectClass.NONE)}),
        ({"risks": ["high", "medium"]}, {"classification": Classification(risk=RiskLevel.LOW)}),
        ({"origin_trust": ["user"]}, {"origin_trust": TrustLevel.EXTERNAL_UNTRUSTED}),
    ],
)  # fmt: skip
def test_a_matcher_takes_what_it_lists_and_nothing_else(match: dict[str, Any], elsewhere: dict[str, Any]) -> None:
    assert judged(match) is not None
    assert judged(match, **elsewhere) is None


@gate("policy.matchers")
def test_agents_and_principals_are_matched_by_name() -> None:
    assert judged({"agents": ["assistant"], "principals": ["ann"]}) is not None
    assert judged({"agents": ["other"]}) is None
    assert judged({"principals": ["bob"]}) is None


@gate("policy.matchers")
def test_argument_trust_is_the_lowest_that_any_argument_carries() -> None:
    match = {"argument_trust": ["user"]}
    labelled = {"to": TrustLevel.USER, "body": TrustLevel.PLATFORM}
    assert judged(match, arguments={"to": 1, "body": 2}, argument_trust=labelled) is not None
    assert judged(match, arguments={"to": 1, "body": 2, "cc": 3}, argument_trust=labelled) is None, "cc has no label"


@gate("policy.matchers")
def test_all_matchers_of_a_rule_must_hold_and_a_rule_without_any_matches_everything() -> None:
    both = {"tools": ["mcp.*"], "arguments": [{"pointer": "/n", "operator": "gt", "value": 1}]}
    assert judged(both, arguments={"n": 2}) is not None
    assert judged(both, arguments={"n": 1}) is None
    assert judged({}) is not None


@gate("policy.matchers")
def test_a_value_of_an_unlike_kind_makes_the_match_uncertain() -> None:
    match = {"arguments": [{"pointer": "/n", "operator": "gt", "value": 1}]}
    found = judged(match, arguments={"n": "2"})
    assert found is not None
    assert not found.is_certain
    assert found.values == {"arguments": [{"pointer": "/n", "operator": "gt", "value": "2"}]}


@gate("policy.matchers")
@pytest.mark.parametrize(
    ("hours", "at", "holds"),
    [
        ({"start": "09:00", "end": "17:00"}, "2026-11-30T09:00", True),
        ({"start": "09:00", "end": "17:00"}, "2026-11-30T17:00", False),
        ({"start": "09:00", "end": "17:00", "is_outside": True}, "2026-11-30T17:00", True),
        ({"start": "09:00", "end": "17:00", "days": [2]}, "2026-11-30T10:00", False),
        ({"start": "22:00", "end": "06:00", "days": [1]}, "2026-12-01T05:59", True),
        ({"start": "22:00", "end": "06:00", "days": [1]}, "2026-11-30T05:59", False),
        ({"start": "22:00", "end": "06:00", "days": [7]}, "2026-11-30T05:59", True),
        ({"start": "10:00", "end": "11:00", "timezone": "Europe/Berlin"}, "2026-11-30T09:30", True),
        ({"start": "10:00", "end": "11:00", "timezone": "Europe/Berlin"}, "2026-07-06T09:30", False),
        ({}, "2026-11-30T00:00", True),
    ],
)  # fmt: skip
def test_hours_are_those_of_the_week_in_their_own_time_zone(hours: dict[str, Any], at: str, holds: bool) -> None:
    found = Hours.model_validate(hours)
    subject = Subject("x", (), datetime.fromisoformat(f"{at}:00+00:00"), Reading({}))
    assert subject.is_within(found, "these") is holds
    assert subject.is_within(found, "these") is holds, "asked again"


@gate("policy.matchers")
@pytest.mark.parametrize(
    "rule",
    [{"name": "Upper"}, {"name": "r@1"}, {"match": {"tool": ["x"]}}, {"match": {"hours": {"timezone": "Mars/Base"}}},
     {"match": {"tools": ["x"] * 101}}, {"priority": 1001}, {"verdict": "maybe"}, {"match": {"risks": ["severe"]}}],
)  # fmt: skip
def test_a_rule_that_says_nothing_sure_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        matchers.parsed({"name": "r", "verdict": "block", **rule})


@gate("policy.matchers")
def test_a_stored_rule_that_cannot_be_read_blocks_everything() -> None:
    broken = matchers.read("later", 4, {"verdict": "allow", "priority": 1, "match": {"moon_phase": ["full"]}})
    call = action(classification=Classification(side_effect=SideEffectClass.NONE))
    found = port.judged(call, subject_of(call), Ruleset((broken,)), "default")
    assert (found.verdict, found.reason_code, found.rule) == (
        PolicyVerdict.BLOCK, "policy.rule.unreadable", "later@4"
    )  # fmt: skip


@gate("policy.permissions")
def test_a_tool_must_be_enabled_where_permissions_are_listed_and_disabled_nowhere() -> None:
    agent, other = uuid4(), uuid4()
    tenant = [Permission(None, "mcp.mail.*", True), Permission(None, "mcp.mail.purge", False)]
    ruleset = Ruleset(permissions=(*tenant, Permission(agent, "mcp.mail.read", True)))
    assert [ruleset.permits(name, agent) for name in ("mcp.mail.read", "mcp.mail.send", "mcp.mail.purge")] == [
        True, False, False,
    ]  # fmt: skip
    assert ruleset.permits("mcp.mail.send", other)
    assert not ruleset.permits("math.evaluate", other)
    assert Ruleset().permits("math.evaluate", agent)


def _constant(ruleset: Ruleset, tenant_id: str, authz_epoch: int) -> Ruleset:
    return ruleset


@gate("policy.switches")
def test_the_order_is_switches_flag_manifest_permissions_and_then_rules() -> None:
    rule = matchers.compiled(Rule.model_validate({"name": "r", "verdict": "block"}))
    at = facts()
    narrow = RunFacts(uuid4(), RunStatus.RUNNING, MONDAY, False, False, ("math.*",), TrustLevel.USER)
    off: dict[str, Any] = {
        "is_platform_enabled": False,
        "is_tenant_enabled": False,
        "is_tool_calling_enabled": False,
        "run": narrow,
    }
    switched = frozenset({("server", "mail"), ("tool", "mcp.mail.send"), ("key", str(at.key.id))})
    said = []
    for lifted in (None, "is_platform_enabled", "is_tenant_enabled", "server", "tool", "key", "is_tool_calling_enabled",
                   "run", "permissions"):  # fmt: skip
        off.pop(lifted or "", None)
        switched = frozenset(each for each in switched if each[0] != lifted)
        permissions = () if lifted == "permissions" else (Permission(None, "math.*", True),)
        ruleset = Ruleset((rule,), switched_off=switched, permissions=permissions)
        given = replace(at, **off)
        call = action(tool_name="mcp.mail.send", server_id="mail")
        found = port.RuleGate(partial(_constant, ruleset), port.no_grants).evaluate(call, given)
        assert found.verdict is PolicyVerdict.BLOCK
        said.append((found.reason_code, found.rule))
    assert said == [
        ("policy.switch.off", "platform switch"), ("policy.switch.off", "tenant switch"),
        ("policy.switch.off", "server switch"), ("policy.switch.off", "tool switch"),
        ("policy.switch.off", "key switch"), ("policy.feature.disabled", "tool_calling_enabled"),
        ("policy.manifest.not_listed", "manifest"), ("policy.manifest.not_listed", "tool permissions"),
        ("policy.rule.block", "r@1"),
    ]  # fmt: skip


@gate("policy.rules")
@pytest.mark.parametrize("operator", ["gt", "matches"])
def test_a_rule_that_only_may_match_is_asked_however_many_are_listed_before_it(operator: str) -> None:
    wanted, value = (1, "2") if operator == "gt" else (".*", 2)
    certain = [{"name": f"r{number}", "verdict": "allow", "priority": 9} for number in range(3 * LISTED)]
    doubtful = {"name": "may", "verdict": "require_client_approval",
                "match": {"arguments": [{"pointer": "/n", "operator": operator, "value": wanted}]}}  # fmt: skip
    read = Ruleset(tuple(matchers.compiled(Rule.model_validate(each)) for each in [*certain, doubtful]))
    call = action(arguments={"n": value}, classification=Classification(side_effect=SideEffectClass.NONE))
    found = port.judged(call, subject_of(call), read, "default")
    assert (found.verdict, found.rule) == (PolicyVerdict.REQUIRE_CLIENT_APPROVAL, "may@1")
    assert [each["rule"] for each in found.matched["rules"]] == [*(f"r{n}@1" for n in ORDER[:LISTED]), "may@1"]
    assert found.matched["rules_not_listed"] == 2 * LISTED
