"""`make model`: enumerated schedules in full, then thousands drawn from seeds; what fails is made smaller and printed.

`SEED=n` plays one seed and prints its moves; `SCHEDULES=n` and `FIRST=n` choose how many are drawn and from where.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings_static")

from tests.crash import others
from tests.model import enumerated
from tests.model.search import Played, drawn, given, play, smaller

PROGRESS = 500
SHOWN = 5


class Tally:
    """Counts what was played and prints what failed."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.effects = 0
        self._begun = time.monotonic()

    def add(self, name: str, played: Played) -> None:
        self.effects += played.effects
        if not played.failure:
            self.passed += 1
        else:
            self.failed += 1
            if self.failed <= SHOWN:
                show(name, smaller(played))
        if (self.passed + self.failed) % PROGRESS == 0:
            self.say(name)

    def say(self, name: str) -> None:
        played, seconds = self.passed + self.failed, time.monotonic() - self._begun
        print(f"  {played:6} schedules, {self.failed} failed, {seconds:5.0f} s  ({name})", flush=True)


def show(name: str, played: Played) -> None:
    print(f"{'FAILED' if played.failure else 'passed'} {name}: {played.failure or 'every invariant held'}")
    print(f"  {played.scenario}")
    print(f"  moves: {' '.join(played.moves)}")
    print(f"  ended: {', '.join(played.outcomes)}; {played.effects} effects", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="make model")
    arguments.add_argument("--seed", default="", help="play this seed only; empty: all")
    arguments.add_argument("--schedules", type=int, default=6000)
    arguments.add_argument("--first", type=int, default=0)
    asked = arguments.parse_args()
    if asked.seed:
        played = play(drawn(int(asked.seed)))
        show(f"seed {asked.seed}", played)
        return 1 if played.failure else 0
    tally = Tally()
    for name, (scenario, moves) in enumerated.everything():
        tally.add(name, play(given(scenario, moves)))
    for seed in range(asked.first, asked.first + asked.schedules):
        tally.add(f"seed {seed}", play(drawn(seed)))
    seeds = f"seeds {asked.first} to {asked.first + asked.schedules - 1}"
    print(f"{tally.effects} effects were judged; {seeds}")
    what = f"{tally.passed + tally.failed} schedules ({seeds}, the others enumerated), {tally.effects} effects judged"
    others.keep("model", passed=tally.passed, failed=tally.failed, what=what)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
