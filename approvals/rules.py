"""The policy matrix as data, how a tenant's rules stand beside it, and the built-in trust rules. Pure.

Side effect x risk x origin trust gives a verdict, one reason code a row. `tests/unit/policy_matrix.txt` lists every
cell for review. Source: DESIGN §5, TS "Skills".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from toolsys.domain.calls import Decision, ProposedAction
from toolsys.domain.seats import Seat, seat_of, weight
from toolsys.domain.spec import JsonObject, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel

# How many of the rules that match a decision lists, beside the one that decided.
LISTED: Final = 10
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


@dataclass(frozen=True, slots=True)
class Profile:
    """What the rules of a tenant may loosen: by side effect, the mildest verdict that a rule may reach.

    A side effect that is not listed cannot be loosened. The built-in trust rules stand above every profile.
    """

    name: str = "default"
    mildest: Mapping[SideEffectClass, PolicyVerdict] = field(default_factory=dict)

    def limit(self, verdict: PolicyVerdict, matrix: Decision, side_effect: SideEffectClass) -> PolicyVerdict:
        """Return how far a rule's verdict may reach: tightening is free, loosening ends where the profile says."""
        if verdict.rank >= matrix.verdict.rank:
            return verdict
        allowed = self.mildest.get(side_effect, matrix.verdict)
        return verdict.stricter(allowed) if allowed.rank < matrix.verdict.rank else matrix.verdict


# Blocks first, then by priority, then the strictest; names make the order total, so that input order is moot.
Standing = tuple[bool, int, int, tuple[int, int], str]


@dataclass(slots=True)
class RuleMatch:
    """One rule that matches a call. Not `is_certain`: a value could not be compared, so the rule may only tighten.

    `standing` is its `rank`, where that is known beforehand. Not frozen: hundreds are made for one call. Nobody writes.
    """

    rule: str
    verdict: PolicyVerdict
    priority: int
    is_certain: bool = True
    reason_code: str = ""
    values: JsonObject = field(default_factory=dict)
    seats: tuple[Seat, ...] = ()
    standing: Standing | None = None

    @property
    def rank(self) -> Standing:
        if self.standing is not None:
            return self.standing
        people, clients = self.demand.people
        return (self.verdict is not BLOCK, -self.priority, -self.verdict.rank, (-people, -clients), self.rule)

    @property
    def demand(self) -> "Demand":
        return Demand.of(self.verdict, self.seats)


class Demand(NamedTuple):
    """How much a verdict asks for: its rank first, then people, then clients among them."""

    rank: int
    people: tuple[int, int]

    @classmethod
    def of(cls, verdict: PolicyVerdict, asked: tuple[Seat, ...]) -> "Demand":
        return cls(verdict.rank, weight(asked or seat_of(verdict)))


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


def ruled_decision(
    matrix: Decision, matches: Sequence[RuleMatch], side_effect: SideEffectClass, profile: Profile, omitted: int = 0
) -> Decision:
    """Combine the matrix with every rule that matches.

    A block wins whatever its priority. Of the others the highest priority counts, and of equal ones the strictest;
    loosened no further than the profile allows. A rule that only may match counts where it is stricter than that.
    On a tie the matrix stands. A rule whose verdict the profile limits asks for the matrix's own seat. `omitted`
    counts rules that could not change it any more: the decision says how many it does not list.
    """
    if not matches:
        return matrix
    ordered = sorted(matches, key=lambda match: match.rank)
    certain = [match for match in ordered if match.is_certain]
    decider, verdict, seats = None, matrix.verdict, matrix.seats
    if certain:
        decider = certain[0]
        verdict = profile.limit(decider.verdict, matrix, side_effect)
        seats = decider.seats if verdict is decider.verdict else ()
    for match in ordered:
        if not match.is_certain and match.demand > Demand.of(verdict, seats):
            decider, verdict, seats = match, match.verdict, match.seats
    matched = {
        **matrix.matched,
        "matrix": matrix.verdict,
        "profile": profile.name,
        **_listed(ordered, decider, omitted),
    }
    if decider is None or Demand.of(verdict, seats) == Demand.of(matrix.verdict, matrix.seats):
        return Decision(matrix.verdict, matrix.reason_code, matrix.risk, matrix.rule, matched)
    code = decider.reason_code or f"policy.rule.{verdict}"
    return Decision(verdict, code, matrix.risk, decider.rule, matched, seats)


def _listed(ordered: Sequence[RuleMatch], decider: RuleMatch | None, omitted: int) -> JsonObject:
    """List the first that match, and the one that decided wherever it stands; say how many are not told of."""
    listed = [match for index, match in enumerate(ordered) if index < LISTED or match is decider]
    more = omitted + len(ordered) - len(listed)
    return {"rules": [_seen(match) for match in listed]} | ({"rules_not_listed": more} if more else {})


def _seen(match: RuleMatch) -> JsonObject:
    seen: JsonObject = {"rule": match.rule, "verdict": match.verdict, "priority": match.priority}
    if not match.is_certain:
        seen["is_certain"] = False
    if match.seats:
        seen["seats"] = list(match.seats)
    return seen | ({"values": match.values} if match.values else {})


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
