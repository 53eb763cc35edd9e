"""The tables of the conformance run: complete, and read from the suite's own words. `make conformance` plays them."""

import subprocess

import pytest

from tests.conformance import __main__ as run
from tests.conformance.scenarios import APPLY, OTHERS
from tests.conformance.served import NOT_SERVED, SERVED
from tests.spec.requirements import gate

LISTING = (
    "Client scenarios (test against a client):\n  - initialize [2025-06-18,2025-11-25]\n  - auth/dpop [extension]\n"
)


@gate("mcp.conformance")
def test_each_scenario_applies_or_has_its_reason() -> None:
    assert APPLY & OTHERS.keys() == set()
    assert (len(APPLY), len(OTHERS)) == (11, 37)
    assert SERVED.keys() & NOT_SERVED.keys() == set()
    assert all(len(reason) > 30 for reason in (OTHERS | NOT_SERVED).values())


def test_a_scenario_that_nobody_decided_about_is_a_failure() -> None:
    scenarios = {name: ["2026-07-28"] for name in (*APPLY, *OTHERS)}
    assert run.undecided(scenarios) == []
    assert run.undecided({**scenarios, "new-one": []}) == ["new-one"]
    del scenarios["initialize"]
    assert run.undecided(scenarios) == ["no longer there: initialize"]


def test_the_listing_is_read_and_every_revision_is_played() -> None:
    found = {name: revisions.split(",") for name, revisions in run.LISTED.findall(LISTING)}
    assert found == {"initialize": ["2025-06-18", "2025-11-25"], "auth/dpop": ["extension"]}
    assert list(run.cases(found, "")) == [("initialize", "2025-06-18"), ("initialize", "2025-11-25")]


def test_one_that_passes_although_it_is_said_not_to_apply_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "auth/dpop": "Passed: 1/2, 1 failed, 0 warnings",
        "auth/iss-supported": "Passed: 2/2, 0 failed, 0 warnings",
    }
    monkeypatch.setattr(run, "listed", lambda: {name: ["2026-07-28"] for name in (*found, "initialize")})

    def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess[str]([], 0, found[arguments[arguments.index("--scenario") + 1]], "")

    monkeypatch.setattr(run, "suite", suite)
    tally = run.Tally()
    run.play_others(tally, "")
    assert (tally.passed, [line.split(" ")[0] for line in tally.failed]) == (1, ["auth/iss-supported"])


@pytest.mark.parametrize(
    ("code", "printed", "is_good"),
    [
        (0, "Passed: 3/3, 0 failed, 0 warnings", True), (0, "Passed: 3/3, 0 failed, 1 warnings", True),
        (1, "Passed: 3/3, 0 failed, 0 warnings", False), (0, "Passed: 0/0, 0 failed, 0 warnings", False),
        (0, "Passed: 2/3, 1 failed, 0 warnings", False), (0, "", False),
    ],
)  # fmt: skip
def test_only_checks_that_passed_count(monkeypatch: pytest.MonkeyPatch, code: int, printed: str, is_good: bool) -> None:
    played = subprocess.CompletedProcess[str]([], code, printed, "")
    monkeypatch.setattr(run, "suite", lambda *_arguments: played)
    assert (run.verdict("initialize", "2025-11-25") == "") is is_good
