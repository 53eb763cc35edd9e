"""The second section of `make reliability`: what the other proofs ran, from the summary that each leaves under `.data`.

`keep` is called by a proof that was played in full. What has no summary in this checkout keeps the row that is there.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.crash.found import FOUND_BY_OTHERS
from tests.crash.stack import ROOT

DATA: Final = ROOT / ".data"
BEGIN, END = "<!-- other proofs: begin, written by make reliability -->", "<!-- other proofs: end -->"
HEADER: Final = "| command | commit | what was run | passed | failed |"
RULE: Final = "|---|---|---|---:|---:|"
NOT_RECORDED: Final = "| `make {name}` | - | not recorded yet | - | - |"


def keep(name: str, *, passed: int, failed: int, what: str) -> None:
    """Leave a summary of a run; `what` says in words what was played, with its seeds."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    path = DATA / name / "summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"commit": commit.stdout.strip(), "what": what, "passed": passed, "failed": failed}
    path.write_text(json.dumps(found, indent=1) + "\n")


def _plain(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["what"], found["passed"], found["failed"]


def _races(found: dict[str, Any]) -> tuple[str, int, int]:
    counts = found["passed"]
    files = ", ".join(f"{name.removeprefix('test_').replace('_', ' ')} {counts[name]}" for name in sorted(counts))
    return f"{files}; {found['seconds']} s", sum(counts.values()), len(found["failed"])


def _soak(found: dict[str, Any]) -> tuple[str, int, int]:
    failed = found["lost"] + found["doubled"] + len(found["other_faults"]) + found["not_accepted"]
    failed = max(failed, int(found["files_leaked"]), found["processes_that_ended_by_themselves"])
    disturbed = ", ".join(f"{what} {count}" for what, count in sorted(found["disturbances"].items()))
    files = "; ".join(
        f"open files of {name} {found['open_files_at_start'][name]} before, {found['open_files_at_end'][name]} after"
        for name in sorted(found["open_files_at_start"])
    )
    what = f"seed {found['seed']}, {found['calls']} calls in {found['seconds']} s; {disturbed}; lost {found['lost']}"
    return f"{what}, doubled {found['doubled']}; {files}", max(found["calls"] - failed, 0), failed


PROOFS: Final[dict[str, Callable[[dict[str, Any]], tuple[str, int, int]]]] = {
    "races": _races, "soak": _soak, "model": _plain, "sabotage": _plain, "egress": _plain,
}  # fmt: skip


def row(name: str, data: Path) -> str | None:
    """Return the row of a proof; None where this checkout has not run it."""
    path = data / name / "summary.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    what, passed, failed = PROOFS[name](found)
    return f"| `make {name}` | `{found['commit']}` | {what} | {passed} | {failed} |"


def render(before: str, data: Path = DATA) -> str:
    """Return the section, markers included; `before` is the page as it was."""
    known = [line for line in before.splitlines() if line.startswith("| `make ")]
    rows = []
    for name in PROOFS:
        written = next((line for line in known if line.startswith(f"| `make {name}` ")), NOT_RECORDED.format(name=name))
        rows.append(row(name, data) or written)
    return "\n".join([
        BEGIN, "## The other proofs", "",
        "Each command leaves a summary when it was played in full; `make reliability` writes this from them.", "",
        HEADER, RULE, *rows, "", "What they found so far:", "",
        *(f"* `make {finding.cell}`: {finding.sentence}" for finding in FOUND_BY_OTHERS), END,
    ])  # fmt: skip


def write(page: Path, data: Path = DATA) -> None:
    """Replace the section, or add it to a page that has none."""
    text = page.read_text()
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    page.write_text(text.split(BEGIN)[0] + render(text, data) + text.split(END)[1])
