"""`make conformance`: plays every scenario of the official suite that applies, client and server; ends with its count.

The suite's own checks decide. Needs what `tests/npm/install.sh` installs. `--only http` plays some; `--others` lists
those that do not apply, with the reason; `--side others` plays the client's among them, of which none may pass: one
that does applies after all.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.conformance.scenarios import APPLY, OTHERS, PLAYED_AT, REVISIONS
from tests.conformance.served import NOT_SERVED, SERVED

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


def listed(side: str = "--client") -> dict[str, list[str]]:
    """Return the suite's scenarios of one side, each with the revisions that it is for."""
    printed = suite("list", side).stdout
    return {name: revisions.split(",") for name, revisions in LISTED.findall(printed)}


def undecided(scenarios: dict[str, list[str]], known: frozenset[str] = APPLY | OTHERS.keys()) -> list[str]:
    """Name what the table does not know, and what it knows and the suite does not have."""
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
    return judged(suite(*arguments, *(() if name.startswith("auth/client") else ("--spec-version", revision))))


def served_verdict(url: str, name: str, revision: str) -> str:
    """Play one against the MCP face; return as `verdict` does."""
    return judged(suite("server", "--url", url, "--scenario", name, "--spec-version", revision))


def judged(played: "subprocess.CompletedProcess[str]") -> str:
    printed = played.stdout + played.stderr
    scored = SCORED.search(printed)
    if played.returncode == 0 and scored is not None and int(scored[1]) > 0 and scored[3] == "0":
        return ""
    return printed[-3_000:] or "the suite said nothing"


class Tally:
    """Plays cases, prints a line for each, and counts."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []

    def play(self, name: str, revision: str, judge: Callable[[str, str], str]) -> None:
        begun = time.monotonic()
        wrong = judge(name, revision)
        self.passed += not wrong
        self.failed += [f"{name} at {revision}:\n{wrong}"] if wrong else []
        state = "FAILED" if wrong else "passed"
        print(f"{state}  {name:44} {revision}  {time.monotonic() - begun:5.1f} s", flush=True)


def play_client(tally: Tally, only: str) -> None:
    scenarios = listed()
    tally.failed += [f"{name} is in no table" for name in undecided(scenarios)]
    for name, revision in cases(scenarios, only):
        tally.play(name, revision, verdict)


def play_others(tally: Tally, only: str) -> None:
    """Play what is said not to apply: whoever passes all the same has a wrong reason in the table."""

    def judge(name: str, revision: str) -> str:
        return "" if verdict(name, revision) else "it passes, so it applies"

    for name, revisions in sorted(listed().items()):
        if name in OTHERS and only in name:
            # One revision is enough: a scenario asks for the same of a client in each.
            tally.play(name, PLAYED_AT.get(revisions[-1], revisions[-1]), judge)


def play_server(tally: Tally, only: str) -> None:
    unknown = undecided(listed("--server"), frozenset(SERVED) | NOT_SERVED.keys())
    tally.failed += [f"{name} is in no table" for name in unknown]
    chosen = [(name, revision) for name, revisions in SERVED.items() for revision in revisions if only in name]
    if not chosen:
        return
    from tests.conformance.face import served

    with served() as url:
        for name, revision in chosen:
            tally.play(name, revision, partial(served_verdict, url))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance")
    parser.add_argument("--only", default="")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--side", choices=("client", "server", "both", "others"), default="both")
    asked = parser.parse_args()
    if asked.others:
        print("\n".join(f"{name:44} {reason}" for name, reason in sorted((OTHERS | NOT_SERVED).items())))
        return 0
    tally = Tally()
    if asked.side in {"client", "both"}:
        play_client(tally, asked.only)
    if asked.side in {"server", "both"}:
        play_server(tally, asked.only)
    if asked.side == "others":
        play_others(tally, asked.only)
    print(f"{len(OTHERS) + len(NOT_SERVED)} scenarios do not apply (ARGUMENTS=--others says why)")
    print("".join(f"\nFAILED {text}\n" for text in tally.failed), end="")
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
