"""The whole matrix as one reviewed file, and what no rule can change about it.

Each line of `policy_matrix.txt` is a side effect, a risk, an idempotency class and an origin trust; then the verdict
and its reason code where no rule matches, and the mildest verdict that rules can reach under two profiles: `default`
(nothing may be loosened) and `widest` (everything may); every other profile lies between. After a change that is meant:
`python -m tests.unit.test_policy_table`, and read the difference line by line.
"""

from itertools import product
from pathlib import Path

from approvals import rules
from approvals.rules import Profile, RuleMatch
from tests.spec.requirements import gate
from tests.unit.test_policy_rules import action
from toolsys.domain.calls import Decision, ProposedAction
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel

TABLE = Path(__file__).with_name("policy_matrix.txt")
WIDEST = Profile("widest", dict.fromkeys(SideEffectClass, PolicyVerdict.ALLOW))
PROFILES = (Profile(), WIDEST)


def decided(given_action: ProposedAction, matches: list[RuleMatch], profile: Profile) -> Decision:
    matrix = rules.matrix_decision(given_action)
    ruled = rules.ruled_decision(matrix, matches, given_action.classification.side_effect, profile)
    return rules.stricter(ruled, rules.trust_decision(given_action))


def table() -> str:
    heading = f"{'side effect':16} {'risk':7} {'idempotency':25} {'origin trust':22} {'verdict':24} {'reason code':30}"
    lines = [f"{heading} rules reach: {'default':24} widest"]
    for effect, risk, idempotency, trust in product(SideEffectClass, RiskLevel, IdempotencyClass, TrustLevel):
        classification = Classification(side_effect=effect, risk=risk, idempotency=idempotency)
        given_action = action(classification=classification, origin_trust=trust)
        found = decided(given_action, [], Profile())
        reach = [decided(given_action, [RuleMatch("r@1", PolicyVerdict.ALLOW, 1)], each).verdict for each in PROFILES]
        cells = f"{effect:16} {risk:7} {idempotency:25} {trust:22} {found.verdict:24} {found.reason_code:30}"
        lines.append(f"{cells} {'':12} {reach[0]:24} {reach[1]}")
    return "\n".join(lines) + "\n"


@gate("policy.golden")
def test_every_cell_is_what_was_reviewed() -> None:
    reviewed, now = TABLE.read_text().splitlines(), table().splitlines()
    assert len(now) == 1 + 6 * 3 * 4 * 5
    assert [line for line in now if line not in reviewed] == []
    assert now == reviewed


if __name__ == "__main__":
    TABLE.write_text(table())
