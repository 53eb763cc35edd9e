"""The policy and approval ports: switches, flag and manifest first, then matrix, tenant rules and trust rules.

Judges by the facts that it is handed and by the tenant's rules of their authorization epoch, so that a verdict can be
recomputed. Scopes are step 3 of the pipeline. Source: DESIGN §5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from uuid import UUID

from approvals import rules
from approvals.matchers import Subject
from approvals.ruleset import Ruleset, SwitchKind, Terms
from toolsys.domain.calls import Decision, Facts, ProposedAction
from toolsys.domain.states import PolicyVerdict
from toolsys.ports import ApprovalTerms


def no_grants(tenant_id: str, grants: Sequence[UUID], invocation_id: UUID | None) -> frozenset[UUID]:
    """Implements `UsableGrants` where there are none."""
    return frozenset()


ReadRuleset = Callable[[str, int], Ruleset]
UsableGrants = Callable[[str, Sequence[UUID], UUID | None], frozenset[UUID]]


@dataclass(frozen=True, slots=True)
class RuleGate:
    """Implements `ports.PolicyGate`. `read` returns the rules of a tenant as of an authorization epoch.

    `usable` asks the database which of the grants that fit may be used; only calls that need people ask.
    """

    read: ReadRuleset
    usable: UsableGrants

    def evaluate(self, action: ProposedAction, facts: Facts) -> Decision:
        """Switches, the tenant's flag, manifest, matrix, tenant rules, trust rules, grants, in this order."""
        ruleset = self.read(facts.tenant_id, facts.authz_epoch)
        blocked = _blocked(action, facts, ruleset)
        if blocked is not None:
            code, rule = blocked
            return Decision(PolicyVerdict.BLOCK, code, action.classification.risk, rule)
        subject = Subject.of(action, agent=facts.agent.name, principal=facts.principal.external_id, now=facts.now)
        decision = judged(action, subject, ruleset, facts.session.profile)
        needs = decision.verdict.needs_approval or _was_granted(facts)
        return self._granted(decision, action, facts, ruleset) if needs else decision

    def _granted(self, decision: Decision, action: ProposedAction, facts: Facts, ruleset: Ruleset) -> Decision:
        """A grant stands in for people: for a call that is not held, and one use of it."""
        if facts.approval is not None:
            return decision
        fitting = [grant.id for grant in ruleset.grants_for(action, facts, decision)]
        if not fitting:
            return decision
        usable = self.usable(facts.tenant_id, fitting, facts.invocation.id if facts.invocation else None)
        chosen = next((each for each in fitting if each in usable), None)
        if chosen is None:
            return decision
        return replace(decision, grant=chosen, matched={**decision.matched, "grant": str(chosen)})


def _was_granted(facts: Facts) -> bool:
    """A grant stood in when the call was begun; whether it still does counts also under a milder verdict."""
    return facts.invocation is not None and facts.approval is None and facts.invocation.verdict.needs_approval


def judged(action: ProposedAction, subject: Subject, ruleset: Ruleset, profile_name: str) -> Decision:
    """Return the verdict of matrix, tenant rules and trust rules: what a draft of rules can change."""
    matrix = rules.matrix_decision(action)
    matches, omitted = ruleset.matches(subject)
    profile = ruleset.profile(profile_name)
    ruled = rules.ruled_decision(matrix, matches, action.classification.side_effect, profile, omitted)
    found = rules.stricter(ruled, rules.trust_decision(action))
    return found if found is ruled else replace(found, matched=ruled.matched)


@dataclass(frozen=True, slots=True)
class SeatDesk:
    """Implements `ports.ApprovalDesk`: the decision's seats; times by the profile, or the deployment's."""

    read: ReadRuleset
    expires_seconds: float
    consume_seconds: float

    def terms(self, decision: Decision, facts: Facts) -> ApprovalTerms:
        own = self.read(facts.tenant_id, facts.authz_epoch).terms.get(facts.session.profile, Terms())
        return ApprovalTerms(
            decision.needed_seats, own.expires_seconds or self.expires_seconds,
            own.consume_seconds or self.consume_seconds,
        )  # fmt: skip


def _blocked(action: ProposedAction, facts: Facts, ruleset: Ruleset) -> tuple[str, str] | None:
    """Return the reason and what said so, for a call that no rule is asked about."""
    if not facts.is_platform_enabled:
        return "policy.switch.off", "platform switch"
    if not facts.is_tenant_enabled:
        return "policy.switch.off", "tenant switch"
    targets = (
        (SwitchKind.SERVER, action.server_id), (SwitchKind.TOOL, action.tool_name), (SwitchKind.KEY, str(facts.key.id)),
    )  # fmt: skip
    switch = ruleset.switch_off(targets)
    if switch is not None:
        return "policy.switch.off", f"{switch} switch"
    if not facts.is_tool_calling_enabled:
        return "policy.feature.disabled", "tool_calling_enabled"
    manifest = facts.run.manifest
    if manifest is not None and not any(fnmatchcase(action.tool_name, glob) for glob in manifest):
        return "policy.manifest.not_listed", "manifest"
    if not ruleset.permits(action.tool_name, facts.agent.id):
        return "policy.manifest.not_listed", "tool permissions"
    return None
