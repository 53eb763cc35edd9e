"""Small schedules in full: every point of one worker's run, with what can happen there.

A run of a worker is cut after each of its moves: it dies, is frozen beyond its lease while another works, or somebody
changes something. Two cuts in a row make the pairs. Used by the tests (one cut) and by `make model` (two).
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from tests.model.adversary import BUDGETS
from tests.model.house import House
from tests.model.search import Scenario, Schedule, given, play
from tests.model.tools import SPECS

EVERYTHING: Final = frozenset(BUDGETS)
CHANGES: Final = (
    "bump", "tenant", "platform", "cancel_run", "cancel_call", "tighten", "loosen", "withdraw", "restore", "drain:w0",
    "unstored",
)  # fmt: skip
# Submitted, approved where it must be, and not yet begun.
READY: Final = ("web0*", "approve")

Enumerated = tuple[Scenario, Sequence[str]]


def scenario(tool: str) -> Scenario:
    return Scenario(tool, families=EVERYTHING)


@cache
def points(tool: str) -> tuple[str, ...]:
    """Return the points at which a worker's undisturbed run of this tool pauses, in order."""
    seen: list[str] = []
    script = given(scenario(tool), [*READY, "w0*"])

    def choose(house: House, able: list[str]) -> str | None:
        if house.actors["w0"].is_busy:
            seen.append(house.actors["w0"].point)
        return script.choose(house, able)

    play(Schedule(script.scenario, choose))
    return tuple(seen)


def one_crash(tool: str) -> Iterator[Enumerated]:
    """The worker dies at each of its points."""
    for cut in range(1, len(points(tool)) + 1):
        yield scenario(tool), (*READY, *["w0"] * cut, "crash:w0")


def two_crashes(tool: str) -> Iterator[Enumerated]:
    """The one dies, its lease passes, the next one dies too."""
    for _, moves in one_crash(tool):
        for cut in range(1, len(points(tool)) + 3):
            yield scenario(tool), (*moves, "lease", "sweep", *["w1"] * cut, "crash:w1")


def one_change(tool: str) -> Iterator[Enumerated]:
    """Somebody changes something at each point of a run."""
    for change in CHANGES:
        for cut in range(len(points(tool)) + 1):
            yield scenario(tool), (*READY, *["w0"] * cut, change, "w0*")


def a_change_and_a_crash(tool: str) -> Iterator[Enumerated]:
    """Somebody changes something, and the worker that goes on with it dies; after a restore that is a new one."""
    for _, moves in one_change(tool):
        for cut in range(1, len(points(tool)) + 1):
            yield scenario(tool), (*moves[:-1], "ring", *["w0"] * cut, "crash:w0")


def frozen(tool: str) -> Iterator[Enumerated]:
    """The one is frozen beyond its lease, another works for a while; then the one thaws, or the other freezes too."""
    for first in range(1, len(points(tool)) + 1):
        for second in range(1, len(points(tool)) + 3):
            taken_over = (*READY, *["w0"] * first, "lease", "ring", *["w1"] * second)
            yield scenario(tool), (*taken_over, "w0*", "w1*")
            yield scenario(tool), (*taken_over, "lease", "w0*", "w1*")


def together(tool: str) -> Iterator[Enumerated]:
    """Two workers take the same call at once and are switched between twice, while no lease passes."""
    for first in range(1, len(points(tool)) + 1):
        for second in range(1, len(points(tool)) + 3):
            yield scenario(tool), (*READY, "ring", *["w0"] * first, *["w1"] * second, "w0*", "w1*")


KINDS: Final = (one_crash, two_crashes, one_change, a_change_and_a_crash, frozen, together)


def everything() -> Iterator[tuple[str, Enumerated]]:
    for kind in KINDS:
        for tool in SPECS:
            for each in kind(tool):
                yield f"{kind.__name__} {tool}", each
