"""The matrix is total, and nothing untrusted ever loosens it."""

from typing import Any

import pytest

from approvals import rules
from approvals.rules import Profile, RuleMatch
from tests.spec.requirements import gate
from toolsys.domain.calls import Decision, ProposedAction
from toolsys.domain.reasons import REASONS
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import OutcomeStatus, PolicyVerdict
from toolsys.domain.trust import TrustLevel


def action(**changes: Any) -> ProposedAction:
    given: dict[str, Any] = {
        "tool_name": "web.fetch", "tool_version": "1", "server_id": None,
        "classification": Classification(), "arguments": {}, "arguments_hash": "0" * 64,
        "origin_trust": TrustLevel.USER, "argument_trust": {},
    }  # fmt: skip
    return ProposedAction(**{**given, **changes})


def classified(effect: SideEffectClass, risk: RiskLevel) -> Classification:
    return Classification(side_effect=effect, risk=risk, idempotency=IdempotencyClass.READ_ONLY)


CELLS = [(effect, risk, trust) for effect in SideEffectClass for risk in RiskLevel for trust in TrustLevel]


def verdict(effect: SideEffectClass, risk: RiskLevel, trust: TrustLevel) -> PolicyVerdict:
    return rules.matrix_decision(action(classification=classified(effect, risk), origin_trust=trust)).verdict


@gate("policy.matrix")
def test_every_cell_has_a_verdict_and_a_denial_of_the_table() -> None:
    decided = {
        cell: rules.matrix_decision(action(classification=classified(*cell[:2]), origin_trust=cell[2]))
        for cell in CELLS
    }
    assert {REASONS[found.reason_code].status for found in decided.values()} == {OutcomeStatus.DENIED}
    assert {cell: found.reason_code for cell, found in decided.items() if not found.reason_code.endswith(cell[0])} == {}


@gate("policy.matrix")
def test_more_risk_and_less_trust_never_loosen_a_verdict() -> None:
    for effect in SideEffectClass:
        by_risk = [[verdict(effect, risk, trust).rank for risk in RiskLevel] for trust in TrustLevel]
        assert all(row == sorted(row) for row in by_risk)
        by_trust = [[verdict(effect, risk, trust).rank for trust in TrustLevel] for risk in RiskLevel]
        assert all(row == sorted(row) for row in by_trust)


@gate("policy.matrix")
def test_an_external_write_always_waits_for_people() -> None:
    verdicts = {verdict(SideEffectClass.EXTERNAL_WRITE, risk, trust) for risk in RiskLevel for trust in TrustLevel}
    assert verdicts == {PolicyVerdict.REQUIRE_EXPERT_APPROVAL}


@pytest.mark.parametrize("trust", list(TrustLevel))
def test_skills_are_written_for_users_and_above_only(trust: TrustLevel) -> None:
    given = action(tool_name="skill.manage", classification=Classification(side_effect=SideEffectClass.WORKSPACE_WRITE),
                   origin_trust=trust)  # fmt: skip
    found = rules.trust_decision(given)
    blocked = found is not None and found.verdict is PolicyVerdict.BLOCK
    assert blocked is (trust in {TrustLevel.INTERNAL_TOOL, TrustLevel.EXTERNAL_UNTRUSTED})


def test_of_two_decisions_the_stricter_stands_and_the_general_one_on_a_tie() -> None:
    allow, block = (Decision(found, "x", "low", "a") for found in (PolicyVerdict.ALLOW, PolicyVerdict.BLOCK))
    other = Decision(PolicyVerdict.ALLOW, "y", "low", "b")
    assert rules.stricter(allow, block) is block
    assert rules.stricter(block, allow) is block
    assert rules.stricter(allow, other) is allow
    assert rules.stricter(allow, None) is allow


def ruled(*matches: RuleMatch, profile: Profile | None = None) -> Decision:
    matrix = rules.matrix_decision(action(classification=classified(SideEffectClass.NETWORK_READ, RiskLevel.MEDIUM)))
    assert matrix.verdict is PolicyVerdict.OBSERVE
    return rules.ruled_decision(matrix, matches, SideEffectClass.NETWORK_READ, profile or Profile())


@gate("policy.rules")
def test_of_equal_rules_the_strictest_counts_and_of_alike_ones_the_first_by_name() -> None:
    expert = [RuleMatch(f"{name}@1", PolicyVerdict.REQUIRE_EXPERT_APPROVAL, 5) for name in "ba"]
    assert ruled(*expert).rule == ruled(*reversed(expert)).rule == "a@1"
    client = RuleMatch("z@1", PolicyVerdict.REQUIRE_CLIENT_APPROVAL, 5)
    found = ruled(*expert, client)
    assert (found.rule, found.reason_code) == ("z@1", "policy.rule.require_client_approval")


@gate("policy.rules")
def test_a_higher_priority_makes_an_exception_but_never_from_a_block() -> None:
    general = RuleMatch("general@1", PolicyVerdict.REQUIRE_CLIENT_APPROVAL, 0)
    exception = RuleMatch("exception@3", PolicyVerdict.REQUIRE_EXPERT_APPROVAL, 9)
    assert ruled(general, exception).rule == "exception@3"
    assert ruled(general, exception, RuleMatch("never@1", PolicyVerdict.BLOCK, -9)).rule == "never@1"


@gate("policy.rules")
def test_a_decision_names_every_rule_that_matched_and_what_the_matrix_said() -> None:
    seen = {"arguments": [{"pointer": "/to", "operator": "eq", "value": "x"}]}
    found = ruled(RuleMatch("a@2", PolicyVerdict.BLOCK, 1, values=seen), RuleMatch("b@1", PolicyVerdict.ALLOW, 7))
    assert found.matched == {
        "side_effect": "network_read", "risk": "medium", "origin_trust": "user", "matrix": "observe",
        "profile": "default", "rules": [
            {"rule": "a@2", "verdict": "block", "priority": 1, "values": seen},
            {"rule": "b@1", "verdict": "allow", "priority": 7},
        ],
    }  # fmt: skip


@gate("policy.rules")
def test_a_profile_that_allows_less_than_the_rule_asks_is_the_limit() -> None:
    allow = RuleMatch("a@1", PolicyVerdict.ALLOW, 1)
    assert ruled(allow).verdict is PolicyVerdict.OBSERVE
    assert ruled(allow, profile=Profile("p", {SideEffectClass.EXTERNAL_READ: PolicyVerdict.ALLOW})).rule == "matrix"
    assert ruled(allow, profile=Profile("p", {SideEffectClass.NETWORK_READ: PolicyVerdict.BLOCK})).rule == "matrix"
    loosened = ruled(allow, profile=Profile("p", {SideEffectClass.NETWORK_READ: PolicyVerdict.ALLOW}))
    assert (loosened.verdict, loosened.rule, loosened.reason_code) == ("allow", "a@1", "policy.rule.allow")


@gate("policy.rules")
def test_a_rule_that_only_may_match_tightens_and_never_loosens_or_makes_an_exception() -> None:
    widest = Profile("p", {SideEffectClass.NETWORK_READ: PolicyVerdict.ALLOW})
    may = {verdict: RuleMatch("may@1", verdict, 9, is_certain=False) for verdict in PolicyVerdict}
    client = RuleMatch("sure@1", PolicyVerdict.REQUIRE_CLIENT_APPROVAL, 0)
    assert ruled(may[PolicyVerdict.ALLOW], profile=widest).verdict is PolicyVerdict.OBSERVE
    assert ruled(client, may[PolicyVerdict.REQUIRE_EXPERT_APPROVAL], profile=widest).rule == "sure@1"
    assert ruled(client, may[PolicyVerdict.BLOCK]).rule == "may@1"
