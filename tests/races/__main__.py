"""`make races`: every race in its long form, with a line of progress for each; ends with `N passed, N failed`.

Arguments are pytest's. The long form stops processes, Valkey and a durable PostgreSQL cluster under `.data/races`, and
leaves `.data/races/summary.json` for the reliability document where all were played.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SUMMARY: Final = ROOT / ".data" / "races" / "summary.json"


class Progress:
    """Counts tests, not phases: a test that passes and cannot be taken down has failed. `noun` and `folder` are for
    what is printed.
    """

    def __init__(self, noun: str = "races", folder: str = "races/") -> None:
        self._noun = noun
        self._folder = folder
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self._total = 0
        self._begun = time.monotonic()

    def pytest_collection_finish(self, session: Any) -> None:
        self._total = len(session.items)
        print(f"{self._total} {self._noun}", flush=True)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report)
        elif report.when == "teardown" and report.nodeid not in self.failed:
            self.passed.add(report.nodeid)
        if report.when == "teardown":
            state = "FAILED" if report.nodeid in self.failed else "passed"
            done, name = len(self.passed | self.failed), report.nodeid.partition(self._folder)[2]
            print(f"{done:4d} of {self._total}  {time.monotonic() - self._begun:6.0f} s  {state}  {name}", flush=True)

    def summary(self) -> dict[str, Any]:
        """What the reliability document is written from."""
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
        return {
            "commit": commit.stdout.strip(), "seconds": round(time.monotonic() - self._begun),
            "passed": Counter(sorted(map(_file_of, self.passed))), "failed": sorted(self.failed),
        }  # fmt: skip

    def _fail(self, report: Any) -> None:
        self.passed.discard(report.nodeid)
        self.failed.add(report.nodeid)
        print(f"\n{report.longreprtext}\n", flush=True)


def _file_of(test: str) -> str:
    return Path(test.partition("::")[0]).stem


def main(arguments: list[str]) -> int:
    """Return 0 where there were races and all of them passed."""
    progress = Progress()
    chosen = arguments if any(each.startswith("tests/") for each in arguments) else ["tests/races", *arguments]
    own = ("-o", "addopts=", "-p", "tests.servers", "-p", "no:terminal", "-p", "no:randomly", "-p", "no:cacheprovider")
    pytest.main([*own, *chosen], [progress])
    if not arguments:
        SUMMARY.parent.mkdir(parents=True, exist_ok=True)
        SUMMARY.write_text(json.dumps(progress.summary(), indent=1) + "\n")
    print(f"{len(progress.passed)} passed, {len(progress.failed)} failed", flush=True)
    return 1 if progress.failed or not progress.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
