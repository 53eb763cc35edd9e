"""`make reliability`: write the sections of `toolsys/docs/reliability.md` from the result files of this checkout.

Never by hand: everything between two markers is replaced. The rest of the file belongs to whoever writes it.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.crash import others
from tests.crash.found import FOUND
from tests.crash.invariants import TOLERANCE_SECONDS
from tests.crash.matrix import FOLDER
from tests.crash.points import GROUPS, POINTS
from tests.crash.stack import ROOT

PAGE: Final = ROOT / "toolsys" / "docs" / "reliability.md"
BEGIN, END = "<!-- crash matrix: begin, written by make reliability -->", "<!-- crash matrix: end -->"
HEADER: Final = "| killed | points | one crash | more crashes | passed | failed |"
RULE: Final = "|---|---:|---:|---:|---:|---:|"
INTRODUCTION: Final = f"""# Reliability: what was run, and what it found

{BEGIN}
{END}
"""


def render(found: dict[str, Any]) -> str:
    """Return the section, markers included."""
    cells = found["cells"]
    kills = sum(len(_points(cell)) for cell in cells)
    chains = len({cell["cell"] for cell in cells if len(_points(cell)) > 1})
    again = sum(cell["tries"] - 1 for cell in cells)
    lines = [
        BEGIN,
        "## Crash matrix",
        "",
        "Real processes ended with SIGKILL at named points, against PostgreSQL with durable commits, Valkey, and a",
        "separate process that syncs one line for each effect. What must follow is a table written by hand from the",
        "design (`tests/crash/expected.py`); `tests/crash/invariants.py` is checked after every cell. `make crash`",
        "plays it again, `make reliability` writes this section.",
        "",
        f"Commit `{found['commit']}`, seed {found['seed']}, selection `{found['selection']}`: {len(cells)} cells",
        f"({chains} of them with more than one crash), {kills} processes killed at {len(POINTS)} points, 4 idempotency",
        "classes, 2 ways to kill (the process alone, its group).",
        "",
        HEADER,
        RULE,
        *_table(cells),
        "",
        *_recovery(found),
        f"Played again because the machine was too busy for their leases: {again} cells. Not played: {found['left']}.",
        f"Every finished cell was looked at once more when all was over: {len(found['late'])} had changed.",
        "",
        "What it found so far:",
        "",
        *(f"* `{finding.cell}`: {finding.sentence}" for finding in FOUND),
        END,
    ]
    return "\n".join(lines)


def _points(cell: dict[str, Any]) -> list[str]:
    crashes = str(cell["cell"]).partition("/")[2]
    return [crash.partition(":")[0] for crash in crashes.split("+")]


def _table(cells: list[dict[str, Any]]) -> Iterator[str]:
    """One row a group of points; a cell counts where its first crash is."""
    for group, points in GROUPS.items():
        names = {point.name for point in points}
        yield _row(group, len(points), [cell for cell in cells if _points(cell)[0] in names])
    yield _row("all", len(POINTS), cells)


def _row(name: str, points: int, cells: list[dict[str, Any]]) -> str:
    once = sum(len(_points(cell)) == 1 for cell in cells)
    failed = sum(bool(cell["faults"]) for cell in cells)
    return f"| {name} | {points} | {once} | {len(cells) - once} | {len(cells) - failed} | {failed} |"


def _recovery(found: dict[str, Any]) -> list[str]:
    every = [each for cell in found["cells"] for each in cell["recoveries"]]
    lease, sweep = found["lease_seconds"], found["sweep_seconds"]
    kill = [each["since_kill"] for each in every]
    due = [each["since_due"] for each in every if not each["is_bare"]]
    late = sum(each > sweep for each in due)
    return [
        f"Lease {lease:g} s, sweep every {sweep:g} s, {found['lanes']} lanes. A killed worker's call is due when its",
        f"lease ends, {lease:g} s after the claim or its last renewal. {len(every)} were claimed again: after the kill",
        f"{_spread(kill)};",
        f"after they were due {_spread(due)}, {late} of them",
        f"later than one sweep. A cell fails more than {sweep + TOLERANCE_SECONDS:g} s after it was due or",
        f"{lease + sweep + TOLERANCE_SECONDS:g} s after the kill: {TOLERANCE_SECONDS:g} s are for the machine. Of the",
        f"{len(every) - len(due)} that nobody was left for (the next worker begins after the kill), only the latter",
        "holds.",
    ]


def _spread(seconds: list[float]) -> str:
    """Say median, 99th percentile and worst."""
    ordered = sorted(seconds) or [0.0]
    last = ordered[int(len(ordered) * 0.99)]
    return f"{statistics.median(ordered):.2f} s at the median, {last:.2f} s at p99, {ordered[-1]:.2f} s at most"


def write(found: dict[str, Any], page: Path = PAGE) -> None:
    """Replace the section, or add it to a page that has none."""
    text = page.read_text() if page.exists() else INTRODUCTION
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + render(found) + after)


def main() -> int:
    """Write from the full matrix's results, and the others'. Return 1 where the matrix has not been played."""
    others.write(PAGE)
    path = FOLDER / "summary-full.json"
    if not path.exists():
        print(f"{path} is not there: make crash", file=sys.stderr)
        return 1
    write(json.loads(path.read_text()))
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
