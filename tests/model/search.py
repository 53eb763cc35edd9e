"""Plays schedules: drawn from a seed, enumerated, or given move by move; then a calm, and the witness's judgement.

The same seed gives the same schedule everywhere. What fails is made smaller and printed with its seed, so that it can
be played again: `make model SEED=…`. Source: issue 3 "Model search".
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.model.actors import ActorPool
from tests.model.adversary import BUDGETS, USUAL, Adversary, sweep
from tests.model.house import House
from tests.model.tools import SPECS
from tests.model.witness import Violation

POOL: Final = ActorPool()
CALM_ROUNDS: Final = 60
ROUND_STEPS: Final = 400
ANSWERS: Final = ("ok", "ok", "ok", "ready", "refused", "busy", "unknown", "late", "absent", "barred")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played: the tool, the shape of the house, and which families of moves the adversary may use."""

    tool: str
    call_count: int = 1
    worker_count: int = 2
    families: frozenset[str] = frozenset(USUAL)
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """`choose` is asked for the next move among those that are possible; None ends it. `moves` are what it chose."""

    scenario: Scenario
    choose: Callable[[House, list[str]], str | None] = field(compare=False)


@dataclass
class Played:
    """How one schedule went. `failure` is empty where every invariant held."""

    scenario: Scenario
    moves: list[str]
    failure: str
    outcomes: list[str]
    effects: int


def play(schedule: Schedule) -> Played:
    """Play one schedule and judge it."""
    scenario = schedule.scenario
    house = House(POOL, SPECS[scenario.tool], scenario.call_count, scenario.worker_count, deque(scenario.answers))
    adversary = Adversary(house, scenario.families)
    moves: list[str] = []
    failure = ""
    try:
        while (move := schedule.choose(house, [*_own_moves(house), *adversary.offers()])) is not None:
            if _make(house, adversary, move):
                moves.append(move)
        _calm(house)
        house.witness.judge_end()
    except Violation as violation:
        failure = house.witness.violation or str(violation)
    finally:
        house.close()
    outcomes = [f"{row.status}:{row.reason_code}" for row in house.tables.calls.values()]
    return Played(scenario, moves, failure, outcomes, len(house.witness.sends))


def _own_moves(house: House) -> list[str]:
    """Return the processes that can go on: busy ones, web processes that have not submitted, workers with a bell."""
    has_bell = bool(house.bell) and bool(house.tables.steps)
    return [
        name
        for name, actor in house.actors.items()
        if actor.is_busy or (has_bell if name in house.keepers else name in house.fresh)
    ]


def _make(house: House, adversary: Adversary, move: str) -> bool:
    """Make one move; say whether it could be made. Raises: Violation."""
    house.witness.moves += 1
    if move in house.actors:
        if move not in _own_moves(house):
            return False
        _go_on(house, move)
    elif not adversary.make(move):
        return False
    _look(house)
    return True


def _go_on(house: House, name: str) -> None:
    actor = house.actors[name]
    if actor.is_busy:
        actor.step()
    else:
        house.begin(name)


def _look(house: House) -> None:
    if house.witness.violation:
        raise Violation(house.witness.violation)
    for actor in house.actors.values():
        if actor.error is not None:
            raise Violation(f"at move {house.witness.moves}: {actor.name} raised {actor.error!r}")
    house.witness.look()


def _calm(house: House) -> None:
    """Nobody interferes any more: processes run, leases pass, sweeps ring, until nothing is open. Raises: Violation."""
    wait = 1.0
    for _ in range(CALM_ROUNDS):
        _run_until_quiet(house)
        if house.tables.steps and all(step.completed_at is not None for step in house.tables.steps.values()):
            return
        house.clock.advance(wait)
        wait = min(2 * wait, 60.0)
        sweep(house)


def _run_until_quiet(house: House) -> None:
    for _ in range(ROUND_STEPS):
        able = _own_moves(house)
        if not able:
            return
        for name in able:
            if name in _own_moves(house):
                house.witness.moves += 1
                _go_on(house, name)
                _look(house)
    raise Violation(f"at move {house.witness.moves}: the house does not come to rest")


# -- schedules from a seed


def scenario_of(draw: random.Random) -> Scenario:
    """Draw what is played. Half of the scenarios allow few families, so that each rule is also met alone."""
    rare = [family for family in BUDGETS if family not in USUAL]
    count = draw.choice((1, 2, 3, len(rare)))
    return Scenario(
        tool=draw.choice(list(SPECS)), call_count=draw.choice((1, 1, 1, 2)), worker_count=draw.choice((2, 2, 3)),
        families=frozenset(USUAL) | frozenset(draw.sample(rare, count)),
        answers=tuple(draw.choice(ANSWERS) for _ in range(8)),
    )  # fmt: skip


def drawn(seed: int) -> Schedule:
    """Return the schedule of a seed: two moves of three are a process's own, a burst at a time."""
    draw = random.Random(seed)
    scenario = scenario_of(draw)
    left, burst = draw.randrange(20, 110), [""]

    def choose(house: House, able: list[str]) -> str | None:
        nonlocal left
        left -= 1
        if left < 0:
            return None
        own = [move for move in able if move in house.actors]
        if burst[0] in own and draw.random() < 0.7:
            return burst[0]
        others = able[len(own) :]
        if own and (not others or draw.random() < 0.65):
            burst[0] = draw.choice(own)
            return burst[0]
        return draw.choice(others) if others else None

    return Schedule(scenario, choose)


def given(scenario: Scenario, moves: Sequence[str]) -> Schedule:
    """Return a schedule of these moves, in this order; `name*` runs a process until it has nothing to do."""
    script: Iterator[str] = iter(moves)
    current = [""]

    def choose(house: House, able: list[str]) -> str | None:
        if current[0] in able and house.actors[current[0]].is_busy:
            return current[0]
        move = next(script, None)
        if move is not None and move.endswith("*"):
            current[0] = move[:-1]
            return current[0]
        current[0] = ""
        return move

    return Schedule(scenario, choose)


def smaller(failed: Played) -> Played:
    """Take moves out of a failing schedule as long as it still fails."""
    best = failed
    for _ in range(4):
        before = len(best.moves)
        for index in reversed(range(before)):
            moves = best.moves[:index] + best.moves[index + 1 :]
            again = play(given(best.scenario, moves))
            if again.failure:
                best = again if len(again.moves) < len(best.moves) else replace(best, moves=moves)
        if len(best.moves) == before:
            break
    return best
