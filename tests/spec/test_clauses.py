"""`toolsys/docs/mcp-clauses.md` names for each clause a requirement and where it is tested: both are as it says."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.spec.requirements import gate
from tests.spec.test_manifest import all_bindings

CLAUSES = Path(__file__).resolve().parents[2] / "toolsys/docs/mcp-clauses.md"
ROW = re.compile(r"^\| (?P<clause>[^|`]+) \| (?P<ids>[^|]+) \| (?P<files>[^|]+) \|$")
QUOTED = re.compile(r"`([^`]+)`")


def clauses(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (clause, requirements, files) of each row of a table."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith(("| clause", "|---")):
            row = ROW.match(line)
            assert row is not None, line
            yield row["clause"], QUOTED.findall(row["ids"]), QUOTED.findall(row["files"])


def gaps(text: str) -> list[str]:
    """Return each requirement without a test in a file of its row, and each file without one of a requirement of it."""
    bound = {identifier: {test.split("::")[0] for test in tests} for identifier, tests in all_bindings().items()}
    found: list[str] = []
    for clause, ids, files in clauses(text):
        tested = {identifier: bound.get(identifier, set()) & set(files) for identifier in ids}
        found += [f"{clause}: {identifier} is not tested there" for identifier, where in tested.items() if not where]
        found += [f"{clause}: {file} tests none of it" for file in files if file not in set().union(*tested.values())]
    return found


@gate("mcp.clauses")
def test_each_clause_names_requirements_that_are_tested_where_it_says() -> None:
    text = CLAUSES.read_text()
    assert len(list(clauses(text))) > 60
    assert gaps(text) == []


@gate("mcp.clauses")
def test_a_clause_that_names_what_is_not_there_is_found() -> None:
    row = "| a rule | `{}` | `{}` |"
    here = "spec/test_clauses.py"
    assert gaps(row.format("mcp.clauses", here)) == []
    assert gaps(row.format("mcp.claws", here)) == [
        "a rule: mcp.claws is not tested there",
        f"a rule: {here} tests none of it",
    ]
    assert len(gaps(row.format("mcp.clauses", "spec/test_manifest.py"))) == 2
