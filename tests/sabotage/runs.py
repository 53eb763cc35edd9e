"""A lane: a throw-away copy of the tree with servers of its own, in which one defect at a time is planted and tested.

The tree that it was copied from is never touched. What a run of pytest did to each named test is read from its report.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.sabotage.defect import Defect

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RUN_SECONDS: Final = 300
PASSED, RED, BROKEN, MISSING = "passed", "red", "broken", "missing"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of each named test: passed, red (an assertion or an exception in it), broken or missing."""

    found: Mapping[str, str]
    tail: str

    def all(self, wanted: str) -> bool:
        return all(state == wanted for state in self.found.values())


class Lane:
    """Raises: subprocess.TimeoutExpired, where the tests hang."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
            capture_output=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def run_with(self, defect: Defect) -> Report:
        """Plant it, run its tests, take it out again. Raises: LookupError, where it does not apply."""
        changed = defect.changed(self.folder)
        try:
            for path, text in changed.items():
                (self.folder / path).write_text(text)
            return self.run(defect.tests)
        finally:
            for path in changed:
                shutil.copy2(ROOT / path, self.folder / path)

    def run(self, tests: Sequence[str], seconds: float = RUN_SECONDS) -> Report:
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=line",
            "-m", "not long",
            f"--junitxml={report}", *tests,
        ]  # fmt: skip
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_", "TOOLSYS_"))
        }
        environment |= {"TOOLSYS_TEST_DATA": str(self.folder / "data"), "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )
        tail = "\n".join(done.stdout.splitlines()[-15:] + done.stderr.splitlines()[-5:])
        return Report({test: _state(test, _cases(report)) for test in tests}, tail)


def _cases(report: Path) -> list[tuple[str, str]]:
    """Return (node id without parameters, state) of each test that ran."""
    if not report.exists():
        return []
    found = []
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        state = BROKEN if case.find("error") is not None else RED if case.find("failure") is not None else PASSED
        found.append((f"{case.get('classname')}.{name}", state))
    return found


def _state(test: str, cases: Sequence[tuple[str, str]]) -> str:
    """A test with parameters is red as soon as one of them is."""
    path, _, names = test.partition("::")
    wanted = ".".join([path.removesuffix(".py").replace("/", "."), *names.split("::")])
    states = {state for name, state in cases if name == wanted}
    for state in (BROKEN, RED, PASSED):
        if state in states:
            return state
    return MISSING
