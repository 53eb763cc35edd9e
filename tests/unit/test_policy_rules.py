"""The matrix is total, and nothing untrusted ever loosens it."""

from typing import Any

import pytest

from approvals import rules
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
