"""Which cells are played: the whole matrix, and the choice of it that covers every pair of its axes. Pure, and seeded.

The first round is point x class x kill. The second kills again during the recovery: every pair of a first and a second
point that can follow each other, with class and kills in rotation. The last kills all five attempts.
"""

import random
from collections.abc import Iterator
from typing import Final

from tests.crash.cell import Cell, Crash
from tests.crash.expected import MAXIMUM_CLAIMS, PHASES, Class, Kill, Phase, concludes
from tests.crash.points import CONCLUDING, POINTS, SECOND_POINTS, Scenario

SPENDING: Final = ("after_claim", "before_watermark", "after_watermark", "after_effect", "before_result")
GOES_ON: Final = frozenset({Phase.UNSENT, Phase.MARKED, Phase.FELT})


def first_round() -> list[Cell]:
    """Every point, every class, both kills."""
    return [Cell(kind, (Crash(point, kill),)) for point in POINTS for kind in kinds(point) for kill in Kill]


def kinds(point: str) -> list[Class]:
    """Return the classes whose calls pass a point."""
    return list(POINTS[point].classes)


def second_round(seed: int) -> list[Cell]:
    """Every pair of points once where another attempt follows, and once where only a conclusion does."""
    chance = random.Random(seed)
    cells = []
    for first in (name for name, point in POINTS.items() if point.scenario is not Scenario.LATE):
        for second in SECOND_POINTS:
            able = [cell for cell in _pairs(first, second.name) if not _is_conclusion(cell)]
            concluding = [cell for cell in _pairs(first, second.name) if _is_conclusion(cell)]
            cells += [chance.choice(found) for found in (able, concluding) if found]
    return cells


def last_round(seed: int) -> list[Cell]:
    """Kill every attempt that a call may have."""
    chance = random.Random(seed)
    cells = []
    for point in SPENDING:
        for kind in Class:
            crashes = tuple(Crash(point, chance.choice(list(Kill))) for _ in range(MAXIMUM_CLAIMS))
            if not any(concludes(crash.point, kind, crash.kill) for crash in crashes[:-1]):
                cells.append(Cell(kind, crashes))
    return cells


def pairwise(seed: int) -> list[Cell]:
    """Cover every pair of (point, class, kill), and let every point be a first and a second one of two crashes."""
    chance = random.Random(seed)
    cells, kills = [], list(Kill)
    for number, point in enumerate(POINTS):
        found = kinds(point)
        for place, kind in enumerate(found * 2 if len(found) == 1 else found):
            cells.append(Cell(kind, (Crash(point, kills[(number + place + seed) % 2]),)))
    twice = second_round(seed)
    chance.shuffle(twice)
    firsts, seconds = set[str](), set[str]()
    for cell in twice:
        first, second = (crash.point for crash in cell.crashes)
        if first not in firsts or second not in seconds:
            cells.append(cell)
            firsts.add(first)
            seconds.add(second)
    return [*cells, *chance.sample(last_round(seed), 2)]


def full(seed: int) -> list[Cell]:
    return [*last_round(seed), *first_round(), *second_round(seed)]


def _pairs(first: str, second: str) -> Iterator[Cell]:
    for kind in kinds(first):
        for kill in Kill:
            if PHASES[first][kill] not in GOES_ON:
                continue
            if concludes(first, kind, kill) and second not in CONCLUDING:
                continue
            yield from (Cell(kind, (Crash(first, kill), Crash(second, again))) for again in Kill)


def _is_conclusion(cell: Cell) -> bool:
    crash = cell.crashes[0]
    return concludes(crash.point, cell.kind, crash.kill)
