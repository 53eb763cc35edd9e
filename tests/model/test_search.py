"""No interleaving breaks an invariant: sixty drawn schedules in each run, hundreds in `make test-slow`, thousands in
`make model`."""

from collections import deque
from collections.abc import Iterable, Iterator

import pytest

from tests.model import enumerated
from tests.model.adversary import BUDGETS
from tests.model.house import House
from tests.model.search import POOL, ROUND_STEPS, Schedule, drawn, given, play, smaller
from tests.model.tools import SPECS
from tests.spec.requirements import gate

SEEDS, BATCH = 240, 60
ONCE = ("keyless", "once", "held")


def first_failure(schedules: Iterable[tuple[str, Schedule]]) -> str:
    """Play until one fails; return what a person needs to play it again, made smaller."""
    for name, schedule in schedules:
        played = play(schedule)
        if played.failure:
            least = smaller(played)
            return f"{name}: {least.failure}\n{least.scenario}\nmoves: {' '.join(least.moves)}"
    return ""


def scripts(found: Iterable[enumerated.Enumerated]) -> Iterator[tuple[str, Schedule]]:
    for scene, moves in found:
        yield " ".join(moves), given(scene, moves)


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=[pytest.mark.slow] if first else []) for first in range(0, SEEDS, BATCH)]
)
@gate("model.search")
def test_drawn_schedules_break_no_invariant(first: int) -> None:
    """Play one again, with its moves: `make model SEED=…`."""
    assert first_failure((f"seed {seed}", drawn(seed)) for seed in range(first, first + BATCH)) == ""


@pytest.mark.parametrize("tool", SPECS)
@gate("model.search")
def test_one_crash_at_every_point_breaks_no_invariant(tool: str) -> None:
    assert first_failure(scripts(enumerated.one_crash(tool))) == ""


@pytest.mark.parametrize("tool", ["fetch", "keyed", "held"])
@gate("model.search")
def test_one_change_at_every_point_breaks_no_invariant(tool: str) -> None:
    assert first_failure(scripts(enumerated.one_change(tool))) == ""


@gate("model.search")
def test_a_worker_frozen_at_every_point_breaks_no_invariant() -> None:
    assert first_failure(scripts(list(enumerated.frozen("once"))[::3])) == ""


@pytest.mark.parametrize("tool", ONCE)
@gate("recovery.table")
def test_a_call_that_may_not_be_repeated_ends_by_where_its_worker_died(tool: str) -> None:
    """Expected from the table: before the watermark once and succeeded, after it uncertain, recorded is recorded."""
    points = enumerated.points(tool)
    fenced, recorded = points.index("after_watermark"), points.index("after_result")
    for cut, (scenario, moves) in enumerate(enumerated.one_crash(tool)):
        played = play(given(scenario, moves))
        was_sent = cut >= points.index("sent")
        expected = (["succeeded:tool.succeeded"], 1)
        if fenced <= cut < recorded:
            expected = (["uncertain:tool.outcome_unknown"], int(was_sent))
        assert (played.failure, played.outcomes, played.effects) == ("", *expected), points[cut]


@pytest.mark.parametrize("tool", ["put", "keyed"])
@gate("recovery.table")
def test_a_call_that_may_be_repeated_is_repeated_and_succeeds(tool: str) -> None:
    points = enumerated.points(tool)
    for cut, (scenario, moves) in enumerate(enumerated.one_crash(tool)):
        played = play(given(scenario, moves))
        is_repeated = points.index("sent") <= cut < points.index("after_result")
        assert (played.failure, played.outcomes) == ("", ["succeeded:tool.succeeded"]), points[cut]
        assert played.effects == (2 if is_repeated else 1), points[cut]


def test_a_seed_is_one_schedule() -> None:
    first, second = play(drawn(7)), play(drawn(7))
    assert (first.moves, first.outcomes, first.effects) == (second.moves, second.outcomes, second.effects)
    again = play(given(first.scenario, first.moves))
    assert (again.outcomes, again.effects) == (first.outcomes, first.effects)


def test_the_search_reaches_every_family_of_moves_and_every_kind_of_ending() -> None:
    """A search that does nothing finds nothing."""
    played = [play(drawn(seed)) for seed in range(120)]
    families = {move.partition(":")[0] for each in played for move in each.moves}
    endings = {outcome.partition(":")[0] for each in played for outcome in each.outcomes}
    assert set(BUDGETS) <= families
    assert endings == {"succeeded", "failed", "denied", "uncertain"}
    assert sum(each.effects for each in played) > 60


def test_a_step_of_reads_is_played_as_a_group_that_queues_for_its_one_place() -> None:
    house = House(POOL, SPECS["fetch"], 2, 2, deque(["ok"] * 8))
    try:
        for _ in range(ROUND_STEPS):
            if not (house.actors["web0"].is_busy or "web0" in house.fresh):
                break
            if "web0" in house.fresh:
                house.begin("web0")
            else:
                house.actors["web0"].step()
        (step,) = house.tables.steps.values()
        assert step.parallel_group is not None
        first, _second = house.tables.of_step(step)
        assert list(house.bell) == [("call", first.id)], "each one that ends rings for the next"
    finally:
        house.close()
