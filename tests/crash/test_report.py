"""The reliability page is what the command writes: its form, its sums, and nothing lost around it."""

import json
import re
from pathlib import Path

from tests.crash import others, report
from tests.crash.cell import Result
from tests.crash.found import FOUND, FOUND_BY_OTHERS
from tests.crash.invariants import Recovery
from tests.crash.points import GROUPS, POINTS
from tests.crash.selection import full

ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$")


def section(text: str) -> str:
    assert text.count(report.BEGIN) == text.count(report.END) == 1
    return text.partition(report.BEGIN)[2].partition(report.END)[0]


def rows(text: str) -> dict[str, list[int]]:
    found = [match for line in section(text).splitlines() if (match := ROW.match(line))]
    return {match[1]: [int(number) for number in match.groups()[1:]] for match in found}


def test_the_page_has_the_table_of_the_command_and_its_sums() -> None:
    text = report.PAGE.read_text()
    found = rows(text)
    assert list(found) == [*GROUPS, "all"]
    *groups, total = found.values()
    assert total == [sum(column) for column in zip(*groups, strict=True)]
    assert all(once + more == passed + failed for _, once, more, passed, failed in found.values())
    assert re.search(r"Commit `[0-9a-z+-]+`, seed \d+, selection `full`: \d+ cells", section(text))


def test_the_page_says_what_was_found() -> None:
    said = section(report.PAGE.read_text())
    assert [finding.cell for finding in FOUND if f"* `{finding.cell}`: {finding.sentence}" not in said] == []


def test_each_finding_names_a_cell_that_is_played() -> None:
    assert {finding.cell for finding in FOUND} <= {cell.name for cell in full(1)}


def test_writing_replaces_the_section_and_leaves_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(f"# Title\n\nbefore\n\n{report.BEGIN}\n@@old@@\n{report.END}\n\nafter\n")
    lines = [Result(cell.name, recoveries=[Recovery(1.2, 0.1)]).as_line() | {"tries": 1} for cell in full(1)]
    lines[0]["faults"] = ["something"]
    found = {
        "commit": "abc", "seed": 1, "selection": "full", "left": 0, "lease_seconds": 1.0, "sweep_seconds": 0.5,
        "lanes": 6, "late": [], "cells": json.loads(json.dumps(lines)),
    }  # fmt: skip
    report.write(found, page)
    text = page.read_text()
    assert text.startswith("# Title\n\nbefore\n\n")
    assert text.endswith("\n\nafter\n")
    assert "@@old@@" not in section(text)
    points, once, more, passed, failed = rows(text)["all"]
    assert (points, once + more, passed, failed) == (len(POINTS), len(lines), len(lines) - 1, 1)
    report.write(found, page)
    assert page.read_text() == text


def summaries(folder: Path) -> None:
    """As each command leaves it."""
    plain = {"commit": "abc", "what": "6000 schedules", "passed": 6_000, "failed": 0}
    races = {"commit": "abd", "seconds": 9, "passed": {"test_zombies": 36, "test_duplicates": 66}, "failed": ["x"]}
    soak = {
        "commit": "abe", "seed": 8, "calls": 5_000, "seconds": 695, "lost": 0, "doubled": 1, "other_faults": [],
        "not_accepted": 0, "files_leaked": False, "processes_that_ended_by_themselves": 0,
        "disturbances": {"worker killed": 11}, "open_files_at_start": {"web": 44}, "open_files_at_end": {"web": 43},
    }  # fmt: skip
    for name, found in {"model": plain, "races": races, "soak": soak}.items():
        (folder / name).mkdir()
        (folder / name / "summary.json").write_text(json.dumps(found))


def test_the_other_proofs_are_written_from_their_summaries_and_what_is_written_stays(tmp_path: Path) -> None:
    page, data = tmp_path / "reliability.md", tmp_path / "data"
    data.mkdir()
    page.write_text("# Title\n")
    others.write(page, data)
    assert page.read_text().count("not recorded yet") == len(others.PROOFS)
    summaries(data)
    others.write(page, data)
    text = page.read_text()
    assert "| `make model` | `abc` | 6000 schedules | 6000 | 0 |" in text
    assert "| `make races` | `abd` | duplicates 66, zombies 36; 9 s | 102 | 1 |" in text
    assert (
        "seed 8, 5000 calls in 695 s; worker killed 11; lost 0, doubled 1; open files of web 44 before, 43 after"
        in text
    )
    assert "| 4999 | 1 |" in text
    others.write(page, tmp_path / "elsewhere")
    assert page.read_text() == text


def test_the_page_has_a_row_for_each_other_proof_and_says_what_they_found() -> None:
    text = report.PAGE.read_text()
    assert [name for name in others.PROOFS if f"| `make {name}` |" not in text] == []
    said = [f"* `make {finding.cell}`: {finding.sentence}" for finding in FOUND_BY_OTHERS]
    assert [sentence for sentence in said if sentence not in text] == []
