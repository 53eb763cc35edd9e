"""What no combination of tenant rules can do: loosen by tightening, outvote a block, depend on an order."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from approvals import gate as gate_port
from approvals import matchers, rules
from approvals.conditions import Reading
from approvals.matchers import CompiledRule, Rule, Subject
from approvals.rules import Profile, RuleMatch
from approvals.ruleset import Ruleset
from tests.spec.requirements import gate
from tests.unit.test_policy_rules import action
from tests.unit.test_policy_table import decided
from toolsys.domain.calls import ProposedAction
from toolsys.domain.spec import Classification, JsonObject, RiskLevel, SideEffectClass
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


VALUES = st.sampled_from([1, 5, 9, 1.0, True, None, "1", "a7", "b12", "", ["a7"], {"x": 1}])
POINTERS = st.sampled_from(["/a", "/b", "/c/x"])
asked = st.one_of(
    st.builds(lambda at, kind, value: {"pointer": at, "operator": kind, "value": value},
              POINTERS, st.sampled_from(["eq", "ne", "contains"]), st.sampled_from([1, 5, True, None, "a7"])),
    st.builds(lambda at, kind, value: {"pointer": at, "operator": kind, "value": value},
              POINTERS, st.sampled_from(["lt", "gte"]), st.sampled_from([1, 5, "b"])),
    st.builds(lambda at, value: {"pointer": at, "operator": "exists", "value": value}, POINTERS, st.booleans()),
    st.builds(lambda at, value: {"pointer": at, "operator": "matches", "value": value}, POINTERS,
              st.sampled_from(["a.*", ".*7", "b|a7", "(?i)A7", r"\Qa7", "x(y", ".*", "b(1)2", "^a7$", "(?P<n>a)7"])),
)  # fmt: skip
SEATED = [[], ["expert"], ["expert", "expert"], ["expert", "client"]]


@st.composite
def written(draw: st.DrawFn) -> list[CompiledRule]:
    found = []
    for number in range(draw(st.integers(0, 40))):
        rule = {
            "name": f"r{number}", "verdict": draw(verdicts), "priority": draw(st.integers(-2, 2)),
            "seats": draw(st.sampled_from(SEATED)), "match": {"arguments": draw(st.lists(asked, max_size=3))},
        }  # fmt: skip
        try:
            found.append(matchers.compiled(Rule.model_validate(rule)))
        except ValidationError:
            continue
    return found


@gate("policy.rules")
@given(actions, written(), profiles, st.fixed_dictionaries({"a": VALUES, "b": VALUES, "c": VALUES}))
def test_rules_that_nobody_asked_would_have_changed_nothing(
    call: ProposedAction, found: list[CompiledRule], profile: Profile, arguments: JsonObject
) -> None:
    """What is stopped early decides as all rules together do, and says how many it does not list."""
    call = replace(call, arguments=arguments)
    subject = Subject.of(call, agent="assistant", principal="ann", now=datetime(2026, 11, 30, tzinfo=UTC))
    each_alone = [
        rule.match(alone, is_certain=answer is True)
        for rule in found
        if (answer := rule.judged(alone := replace(subject, reading=Reading(arguments)))) is not False
    ]
    whole = decided(call, each_alone, profile)
    short = gate_port.judged(call, subject, Ruleset(tuple(found), {"drawn": profile}), "drawn")
    assert (short.verdict, short.reason_code, short.rule, short.needed_seats) == (
        whole.verdict, whole.reason_code, whole.rule, whole.needed_seats
    )  # fmt: skip
    told, all_told = short.matched.get("rules", []), whole.matched.get("rules", [])
    assert [each for each in told if each not in all_told + [rules._seen(match) for match in each_alone]] == []
    assert len(told) <= rules.LISTED + 1
    assert len(told) + short.matched.get("rules_not_listed", 0) >= len(each_alone)
