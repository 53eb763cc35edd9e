"""The two ways to say what must follow agree, and the selections are what they claim to be."""

import pytest

from tests.crash import selection
from tests.crash.cell import Cell, Crash
from tests.crash.expected import ENDINGS, PHASES, TABLE, Class, Kill, Outcome, Phase, expected, expected_after
from tests.crash.points import POINTS

COUNTED = {phase for phase, _ in TABLE} - {Phase.STOPPED, Phase.RETRIED, Phase.UNAUTHORIZED}


def test_counting_over_one_crash_is_looking_into_the_table() -> None:
    for point, phases in PHASES.items():
        for kind in Class:
            for kill in Kill:
                if phases[kill] in COUNTED:
                    assert expected_after([(point, kill)], kind) == expected(point, kind, kill), (point, kind, kill)


@pytest.mark.parametrize(
    ("crashes", "kind", "outcome"),
    [
        (["before_claim", "after_effect"], Class.ONCE, Outcome("uncertain", "tool.outcome_unknown", 1, 1)),
        (["after_effect", "after_result"], Class.ONCE, Outcome("uncertain", "tool.outcome_unknown", 1, 1)),
        (["after_effect", "after_effect"], Class.IDEMPOTENT, Outcome("succeeded", "tool.succeeded", 3, 3)),
        (["after_effect", "after_effect"], Class.CONDITIONAL, Outcome("succeeded", "tool.succeeded", 3, 1)),
        (["after_effect", "after_result"], Class.READ, Outcome("succeeded", "tool.succeeded", 2, 2)),
        (["after_claim"] * 5, Class.ONCE, Outcome("failed", "tool.claims_spent", 0, 0)),
        (["after_effect"] * 5, Class.IDEMPOTENT, Outcome("uncertain", "tool.outcome_unknown", 5, 5)),
        (["after_effect"] * 5, Class.READ, Outcome("failed", "tool.claims_spent", 5, 5)),
    ],
)
def test_several_crashes_add_up(crashes: list[str], kind: Class, outcome: Outcome) -> None:
    assert expected_after([(point, Kill.GROUP) for point in crashes], kind) == outcome


def test_a_non_idempotent_call_is_never_expected_to_be_felt_twice() -> None:
    cells = [cell for cell in selection.full(7) if cell.kind is Class.ONCE]
    assert [cell.name for cell in cells if cell.expected.effects > 1] == []
    assert any(cell.expected.status == "uncertain" for cell in cells)


def test_the_full_matrix_is_points_times_classes_times_kills_and_each_pair_again() -> None:
    played = sum(len(point.classes) for point in POINTS.values())
    assert len(selection.first_round()) == played * len(Kill)
    assert played >= len(POINTS) * 3
    names = [cell.name for cell in selection.full(1)]
    assert len(names) == len(set(names))
    pairs = {tuple(crash.point for crash in cell.crashes) for cell in selection.second_round(1)}
    assert {("after_claim", "after_effect"), ("after_effect", "before_result")} <= pairs


def test_the_pairwise_choice_covers_every_pair_of_the_axes() -> None:
    cells = [cell for cell in selection.pairwise(3) if len(cell.crashes) == 1]
    parts = [(cell.crashes[0].point, cell.kind, cell.crashes[0].kill) for cell in cells]
    wanted = {(point, kind) for point in POINTS for kind in selection.kinds(point)}
    assert {(point, kind) for point, kind, _ in parts} == wanted
    assert {(point, kill) for point, _, kill in parts} == {(point, kill) for point in POINTS for kill in Kill}
    assert {(kind, kill) for _, kind, kill in parts} == {(kind, kill) for kind in Class for kill in Kill}
    assert len(cells) == len(wanted) + sum(len(selection.kinds(point)) == 1 for point in POINTS)


def test_a_seed_names_one_choice() -> None:
    chosen = selection.full(5)
    assert chosen == selection.full(5)
    assert chosen != selection.full(6)


def test_a_second_crash_is_only_where_the_recovery_passes() -> None:
    for cell in selection.second_round(1):
        first = PHASES[cell.crashes[0].point][cell.crashes[0].kill]
        assert first not in {*ENDINGS, Phase.RECORDED, Phase.STOPPED, Phase.RETRIED, Phase.UNAUTHORIZED}
    impossible = Cell(Class.ONCE, (Crash("after_effect", Kill.GROUP), Crash("after_watermark", Kill.GROUP)))
    assert impossible not in selection.second_round(1)
