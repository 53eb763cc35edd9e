"""`make conformance`: plays every client scenario of the official suite that applies; ends with `N passed, N failed`.

The suite's own checks decide. Needs what `tests/npm/install.sh` installs. `--only http` plays some; `--others` lists
those that do not apply, with the reason.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conformance.scenarios import APPLY, OTHERS, PLAYED_AT, REVISIONS

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MODULES: Final = ROOT / ".tools" / "npm" / "node_modules"
SUITE: Final = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
LISTED: Final = re.compile(r"^\s+- (\S+) \[([^\]]+)\]", re.MULTILINE)
SCORED: Final = re.compile(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings")
CLIENT: Final = f"{sys.executable} -m tests.conformance.client"
SECONDS: Final = 120


def node() -> str:
    """Return the Node of this machine's kind that npm installed."""
    found = sorted(MODULES.glob("node-*/bin/node"))
    if not found:
        raise SystemExit(f"there is no Node under {MODULES}: run sh tests/npm/install.sh")
    return str(found[0])


def suite(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{Path(node()).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [node(), str(SUITE), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=SECONDS * 2, check=False,
    )  # fmt: skip


def listed() -> dict[str, list[str]]:
    """Return the suite's client scenarios, each with the revisions that it is for."""
    printed = suite("list", "--client").stdout
    return {name: revisions.split(",") for name, revisions in LISTED.findall(printed)}


def undecided(scenarios: dict[str, list[str]]) -> list[str]:
    """Name what the table does not know, and what it knows and the suite does not have."""
    known = APPLY | OTHERS.keys()
    return [
        *sorted(scenarios.keys() - known),
        *(f"no longer there: {name}" for name in sorted(known - scenarios.keys())),
    ]


def cases(scenarios: dict[str, list[str]], only: str) -> Iterator[tuple[str, str]]:
    for name in sorted(scenarios.keys() & APPLY):
        for given in scenarios[name]:
            revision = PLAYED_AT.get(given, given)
            if revision in REVISIONS and only in name:
                yield name, revision


def verdict(name: str, revision: str) -> str:
    """Play one; return an empty string where every check of it passed, else what was wrong."""
    arguments = ("client", "--command", CLIENT, "--scenario", name, "--timeout", str(SECONDS * 1_000))
    played = suite(*arguments, *(() if name.startswith("auth/client") else ("--spec-version", revision)))
    printed = played.stdout + played.stderr
    scored = SCORED.search(printed)
    if played.returncode == 0 and scored is not None and int(scored[1]) > 0 and scored[3] == "0":
        return ""
    return printed[-3_000:] or "the suite said nothing"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance")
    parser.add_argument("--only", default="")
    parser.add_argument("--others", action="store_true")
    asked = parser.parse_args()
    if asked.others:
        print("\n".join(f"{name:44} {reason}" for name, reason in sorted(OTHERS.items())))
        return 0
    scenarios = listed()
    failed = [f"{name} is in no table" for name in undecided(scenarios)]
    passed = 0
    for name, revision in cases(scenarios, asked.only):
        begun = time.monotonic()
        wrong = verdict(name, revision)
        passed += not wrong
        failed += [f"{name} at {revision}:\n{wrong}"] if wrong else []
        state = "FAILED" if wrong else "passed"
        print(f"{state}  {name:36} {revision}  {time.monotonic() - begun:5.1f} s", flush=True)
    print(f"{len(OTHERS)} scenarios do not apply (ARGUMENTS=--others says why)")
    print("".join(f"\nFAILED {text}\n" for text in failed), end="")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
