"""The policy matrix as data, and the built-in trust rules. Pure: an action in, a decision out.

Side effect x risk x origin trust gives a verdict, one reason code a row; every cell not listed asks for more, never
for less. Source: DESIGN §5, TS "Skills".
"""

from dataclasses import dataclass
from typing import Final

from toolsys.domain.calls import Decision, ProposedAction
from toolsys.domain.spec import RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel

ALLOW, OBSERVE, EXPERT, CLIENT, BLOCK = PolicyVerdict
_LOW, _MEDIUM, _HIGH = RiskLevel


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """Verdicts for low, medium and high risk, with trusted context and with untrusted content in the room."""

    trusted: tuple[PolicyVerdict, PolicyVerdict, PolicyVerdict]
    untrusted: tuple[PolicyVerdict, PolicyVerdict, PolicyVerdict]


MATRIX: Final = {
    SideEffectClass.NONE: MatrixRow((ALLOW, ALLOW, OBSERVE), (ALLOW, ALLOW, OBSERVE)),
    SideEffectClass.WORKSPACE_READ: MatrixRow((ALLOW, ALLOW, OBSERVE), (ALLOW, ALLOW, OBSERVE)),
    SideEffectClass.WORKSPACE_WRITE: MatrixRow((ALLOW, OBSERVE, EXPERT), (OBSERVE, EXPERT, EXPERT)),
    SideEffectClass.NETWORK_READ: MatrixRow((ALLOW, OBSERVE, EXPERT), (ALLOW, OBSERVE, EXPERT)),
    SideEffectClass.EXTERNAL_READ: MatrixRow((ALLOW, OBSERVE, EXPERT), (ALLOW, OBSERVE, EXPERT)),
    SideEffectClass.EXTERNAL_WRITE: MatrixRow((EXPERT, EXPERT, EXPERT), (EXPERT, EXPERT, EXPERT)),
}


def matrix_decision(action: ProposedAction) -> Decision:
    """Look the action up in the matrix."""
    found, untrusted = action.classification, action.origin_trust is TrustLevel.EXTERNAL_UNTRUSTED
    row = MATRIX[found.side_effect]
    verdict = (row.untrusted if untrusted else row.trusted)[found.risk.rank]
    return Decision(
        verdict=verdict,
        reason_code=f"policy.matrix.{found.side_effect}",
        risk=found.risk,
        rule="matrix",
        matched={"side_effect": found.side_effect, "risk": found.risk, "origin_trust": action.origin_trust},
    )


def trust_decision(action: ProposedAction) -> Decision | None:
    """The built-in rules that read trust: they only ever tighten."""
    if action.tool_name == "skill.manage" and action.origin_trust.rank > TrustLevel.USER.rank:
        return Decision(BLOCK, "policy.trust.skill_authoring", action.classification.risk, "builtin.skill_authoring")
    is_write = action.classification.side_effect is SideEffectClass.EXTERNAL_WRITE
    if is_write and action.origin_trust is TrustLevel.EXTERNAL_UNTRUSTED:
        return Decision(EXPERT, "policy.trust.untrusted_write", action.classification.risk, "builtin.untrusted_write")
    return None


def stricter(first: Decision, second: Decision | None) -> Decision:
    """Return the stricter decision; on a tie the first, which is the more general."""
    return second if second is not None and second.verdict.rank > first.verdict.rank else first
