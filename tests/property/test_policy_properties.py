"""What no combination of tenant rules can do: loosen by tightening, outvote a block, depend on an order."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from approvals import rules
from approvals.rules import Profile, RuleMatch
from tests.spec.requirements import gate
from tests.unit.test_policy_rules import action
from tests.unit.test_policy_table import decided
from toolsys.domain.calls import ProposedAction
from toolsys.domain.spec import Classification, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel

verdicts = st.sampled_from(list(PolicyVerdict))
matching = st.builds(
    RuleMatch, st.sampled_from([f"r{n}@1" for n in range(9)]), verdicts, st.integers(-2, 2), st.booleans()
)
rule_lists = st.lists(matching, max_size=5, unique_by=lambda match: match.rule)
profiles = st.builds(Profile, st.just("drawn"), st.dictionaries(st.sampled_from(list(SideEffectClass)), verdicts))
actions = st.builds(
    lambda effect, risk, trust: action(
        classification=Classification(side_effect=effect, risk=risk), origin_trust=trust
    ),
    st.sampled_from(list(SideEffectClass)), st.sampled_from(list(RiskLevel)), st.sampled_from(list(TrustLevel)),
)  # fmt: skip


@gate("policy.rules")
@given(actions, rule_lists, profiles)
def test_a_block_wins_whatever_its_priority(call: ProposedAction, found: list[RuleMatch], profile: Profile) -> None:
    block = RuleMatch("block@1", PolicyVerdict.BLOCK, -9)
    assert decided(call, [*found, block], profile).verdict is PolicyVerdict.BLOCK


@gate("policy.rules")
@given(actions, rule_lists, profiles)
def test_the_order_in_which_rules_are_read_changes_nothing(
    call: ProposedAction, found: list[RuleMatch], profile: Profile
) -> None:
    given_orders = [decided(call, list(order), profile) for order in permutations(found[:4])]
    assert [each for each in given_orders if each != given_orders[0]] == []


@gate("policy.rules")
@given(actions, rule_lists, profiles, st.data())
def test_making_a_rule_stricter_never_loosens(
    call: ProposedAction, found: list[RuleMatch], profile: Profile, data: st.DataObject
) -> None:
    before = decided(call, found, profile).verdict
    for index, match in enumerate(found):
        stricter = data.draw(verdicts).stricter(match.verdict)
        tightened = RuleMatch(match.rule, stricter, match.priority, match.is_certain)
        after = decided(call, [*found[:index], tightened, *found[index + 1 :]], profile).verdict
        assert after.rank >= before.rank


@gate("policy.rules")
@given(actions, rule_lists, profiles, matching)
def test_a_further_rule_as_strict_as_the_verdict_never_loosens(
    call: ProposedAction, found: list[RuleMatch], profile: Profile, further: RuleMatch
) -> None:
    before = decided(call, found, profile).verdict
    added = RuleMatch("further@1", before.stricter(further.verdict), further.priority, further.is_certain)
    assert decided(call, [*found, added], profile).verdict.rank >= before.rank


@gate("policy.rules")
@given(actions, rule_lists)
def test_without_leave_of_the_profile_rules_only_tighten(call: ProposedAction, found: list[RuleMatch]) -> None:
    assert decided(call, found, Profile()).verdict.rank >= decided(call, [], Profile()).verdict.rank


@gate("policy.rules")
@given(actions, rule_lists, profiles)
def test_loosening_ends_where_the_profile_says(call: ProposedAction, found: list[RuleMatch], profile: Profile) -> None:
    matrix = rules.matrix_decision(call).verdict
    floor = profile.mildest.get(call.classification.side_effect, matrix)
    assert decided(call, found, profile).verdict.rank >= min(floor.rank, matrix.rank)


@gate("policy.rules")
@given(actions, rule_lists, profiles)
def test_no_profile_lets_untrusted_content_write_outside(
    call: ProposedAction, found: list[RuleMatch], profile: Profile
) -> None:
    untrusted = action(classification=Classification(risk=RiskLevel.LOW), origin_trust=TrustLevel.EXTERNAL_UNTRUSTED)
    assert decided(untrusted, found, profile).verdict.rank >= PolicyVerdict.REQUIRE_EXPERT_APPROVAL.rank


@gate("policy.rules")
@given(actions, rule_lists, profiles)
def test_a_rule_that_only_may_match_never_loosens(
    call: ProposedAction, found: list[RuleMatch], profile: Profile
) -> None:
    certain = [match for match in found if match.is_certain]
    assert decided(call, found, profile).verdict.rank >= decided(call, certain, profile).verdict.rank
