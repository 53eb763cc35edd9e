"""Seats: what covers what, and what a rule's seats add to a verdict. Pure."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals import matchers
from approvals.rules import Profile, RuleMatch, ruled_decision
from tests.spec.requirements import gate
from toolsys.domain.calls import Decision
from toolsys.domain.seats import Seat, covers, left_of, seat_of
from toolsys.domain.spec import SideEffectClass
from toolsys.domain.states import PolicyVerdict

E, C = Seat.EXPERT, Seat.CLIENT
EXPERT, CLIENT = PolicyVerdict.REQUIRE_EXPERT_APPROVAL, PolicyVerdict.REQUIRE_CLIENT_APPROVAL
SEATS = st.lists(st.sampled_from(Seat), max_size=6).map(tuple)


@gate("approvals.votes")
@pytest.mark.parametrize(
    ("held", "needed", "holds"),
    [
        ((), (), True), ((E,), (E,), True), ((), (E,), False), ((E,), (C,), False), ((C,), (E,), True),
        ((E, C), (E, C), True), ((E, E), (E, C), False), ((C, C), (E, C), True), ((E,), (E, E), False),
        ((E, E, C), (E, C), True),
    ],
)  # fmt: skip
def test_what_covers_what(held: tuple[Seat, ...], needed: tuple[Seat, ...], *, holds: bool) -> None:
    assert covers(held, needed) is holds


@gate("approvals.votes")
@given(SEATS, SEATS, SEATS)
def test_covering_is_an_order_and_more_people_never_cover_less(
    one: tuple[Seat, ...], two: tuple[Seat, ...], three: tuple[Seat, ...]
) -> None:
    assert covers(one, one)
    assert covers((*one, *two), one)
    assert not (covers(one, two) and covers(two, three)) or covers(one, three)
    assert len(left_of(one, two)) >= len(one) - len(two)


@pytest.mark.parametrize(("one", "two"), list(product(PolicyVerdict, PolicyVerdict)))
def test_the_seats_of_verdicts_follow_their_order(one: PolicyVerdict, two: PolicyVerdict) -> None:
    if one.needs_approval and two.needs_approval and one.rank >= two.rank:
        assert covers(seat_of(one), seat_of(two))


def decided(verdict: PolicyVerdict, *matches: RuleMatch) -> tuple[PolicyVerdict, tuple[Seat, ...], str]:
    matrix = Decision(verdict, "policy.matrix.external_write", "high", "matrix")
    found = ruled_decision(matrix, matches, SideEffectClass.EXTERNAL_WRITE, Profile())
    return found.verdict, found.needed_seats, found.rule


@gate("approvals.votes", "policy.rules")
def test_a_rule_of_the_same_verdict_with_more_seats_asks_for_them() -> None:
    pair = RuleMatch("pair@1", EXPERT, 0, seats=(E, E))
    assert decided(EXPERT, pair) == (EXPERT, (E, E), "pair@1")
    assert decided(EXPERT, RuleMatch("one@1", EXPERT, 0, seats=(E,))) == (EXPERT, (E,), "matrix")
    assert decided(EXPERT, pair, RuleMatch("three@1", EXPERT, 0, seats=(E, E, C)))[2] == "three@1"


@gate("approvals.votes", "policy.rules")
def test_a_rule_that_only_may_match_adds_seats_and_never_takes_any() -> None:
    maybe = RuleMatch("maybe@1", EXPERT, 9, is_certain=False, seats=(E, C))
    assert decided(EXPERT, maybe) == (EXPERT, (E, C), "maybe@1")
    assert decided(CLIENT, maybe) == (CLIENT, (C,), "matrix")
    assert decided(EXPERT, RuleMatch("pair@1", EXPERT, 0, seats=(E, E, E)), maybe)[2] == "pair@1"


@gate("approvals.votes", "policy.rules")
def test_a_rule_that_the_profile_limits_asks_for_the_matrix_s_seat() -> None:
    assert decided(CLIENT, RuleMatch("mild@1", EXPERT, 0, seats=(E, E))) == (CLIENT, (C,), "matrix")


@pytest.mark.parametrize(
    ("verdict", "seats"),
    [("block", ["expert"]), ("allow", ["client"]), ("require_client_approval", ["expert"]),
     ("require_expert_approval", ["client"]), ("require_expert_approval", ["expert"] * 7)],
)  # fmt: skip
def test_a_rule_s_seats_fit_its_verdict(verdict: str, seats: list[str]) -> None:
    with pytest.raises(ValueError, match=r"seats|at most"):
        matchers.parsed({"name": "x", "verdict": verdict, "seats": seats})
