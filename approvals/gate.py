"""The policy and approval ports: switches, flag and manifest first, then matrix and trust rules.

Reads only the facts that it is handed, so that a verdict can be recomputed. Source: DESIGN §5.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from approvals import rules
from toolsys.domain.calls import Decision, Facts, ProposedAction
from toolsys.domain.states import PolicyVerdict
from toolsys.ports import ApprovalTerms


class MatrixGate:
    """Implements `ports.PolicyGate`."""

    def evaluate(self, action: ProposedAction, facts: Facts) -> Decision:
        """Global switch, tenant's flag, manifest, matrix, trust rules, in this order; the first block ends it."""
        blocked = _blocked(action, facts)
        if blocked is not None:
            code, rule = blocked
            return Decision(PolicyVerdict.BLOCK, code, action.classification.risk, rule)
        return rules.stricter(rules.matrix_decision(action), rules.trust_decision(action))


@dataclass(frozen=True, slots=True)
class SeatDesk:
    """Implements `ports.ApprovalDesk`: one seat, by the verdict."""

    expires_seconds: float
    consume_seconds: float

    def terms(self, decision: Decision, facts: Facts) -> ApprovalTerms:
        seat = "client" if decision.verdict is PolicyVerdict.REQUIRE_CLIENT_APPROVAL else "expert"
        return ApprovalTerms((seat,), self.expires_seconds, self.consume_seconds)


def _blocked(action: ProposedAction, facts: Facts) -> tuple[str, str] | None:
    if not facts.is_platform_enabled:
        return "policy.switch.off", "platform switch"
    if not facts.is_tenant_enabled:
        return "policy.switch.off", "tenant switch"
    if not facts.is_tool_calling_enabled:
        return "policy.feature.disabled", "tool_calling_enabled"
    manifest = facts.run.manifest
    if manifest is not None and not any(fnmatchcase(action.tool_name, glob) for glob in manifest):
        return "policy.manifest.not_listed", "manifest"
    return None
