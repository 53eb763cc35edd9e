"""The manifest and the tests agree, in both directions; read from the source, so that any selection sees the same."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source import functions
from tests.spec.requirement import LATER
from tests.spec.requirements import REQUIREMENTS

TESTS = Path(__file__).resolve().parent.parent


def bindings(source: str) -> Iterator[tuple[str, str]]:
    """Yield (test, requirement id) for every `@gate(…)` in a module."""
    if "gate(" not in source:
        return
    for node in functions(ast.parse(source)):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "gate":
                for argument in decorator.args:
                    assert isinstance(argument, ast.Constant), f"{node.name}: write the id as a literal"
                    yield node.name, str(argument.value)


@cache
def all_bindings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for test, identifier in bindings(path.read_text()):
            found.setdefault(identifier, []).append(f"{path.relative_to(TESTS)}::{test}")
    return found


def test_every_requirement_of_today_has_a_test() -> None:
    bound = all_bindings()
    missing = {row.id: row.sentence for row in REQUIREMENTS.values() if not row.due and row.id not in bound}
    assert missing == {}


def test_every_binding_names_a_requirement() -> None:
    unknown = {identifier: tests for identifier, tests in all_bindings().items() if identifier not in REQUIREMENTS}
    assert unknown == {}


def test_only_functions_that_pytest_runs_are_bound() -> None:
    stray = [test for tests in all_bindings().values() for test in tests if "::test_" not in test]
    assert stray == []


def test_ids_are_unique_in_all_chapters_and_gates_are_complete() -> None:
    rows = [
        node
        for path in sorted((TESTS / "spec" / "chapters").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Requirement"
    ]
    assert len(rows) == len(REQUIREMENTS)
    assert {f"gate.{number}" for number in range(1, 17)} <= REQUIREMENTS.keys()


def test_what_is_due_later_names_a_later_issue() -> None:
    assert {row.due for row in REQUIREMENTS.values() if row.due} <= LATER


def test_bindings_are_read_from_decorators_of_any_test() -> None:
    source = '@gate("a", "b")\nasync def test_one() -> None: ...\n\n@other\n@gate("c")\ndef test_two() -> None: ...\n'
    assert list(bindings(source)) == [("test_one", "a"), ("test_one", "b"), ("test_two", "c")]
