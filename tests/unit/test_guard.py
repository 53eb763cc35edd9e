"""A check that takes long is asked of a child that can be killed, and nobody waits longer than an answer may take."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spec.requirements import gate
from tests.unit.test_weights import TWICE, doubling, nested
from toolsys import validation
from toolsys.guard import TOO_LONG, Guard, Unanswered
from toolsys.validation import SchemaError, UnusableSchema, argument_errors, compile_schema, output_errors

ECHO = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    if "sleep" in line: time.sleep(60)
    if "die" in line: sys.exit(1)
    print(line, end="", flush=True)
"""
# Takes 200 microseconds a character where it is at its slowest.
SLOW_PATTERN = "(x|y|a{1,100}){1,50}[0-9]"
LONG_LIST = {"properties": {"a": {"items": {"$ref": "#/$defs/a0"}}}, "$defs": doubling(13)["$defs"]}


@pytest.fixture
def guard() -> Iterator[Guard]:
    found = Guard(ECHO, answer_seconds=0.5)
    yield found
    found.close()


def test_a_question_is_answered_and_the_child_stays(guard: Guard) -> None:
    long = "x" * 300_000
    assert guard.ask("[1]") == [1]
    child = guard._child
    assert guard.ask(f'["{long}"]') == [long]
    assert guard._child is child


@pytest.mark.parametrize("question", ['["sleep"]', '["die"]', "no json"])
def test_without_an_answer_the_child_is_ended_and_the_next_one_starts_anew(guard: Guard, question: str) -> None:
    assert guard.ask("[1]") == [1]
    child = guard._child
    with pytest.raises(Unanswered):
        guard.ask(question)
    assert child is not None
    assert child.returncode is not None, "it is gone, and no zombie"
    assert guard.ask("[2]") == [2]


def test_who_waits_for_anothers_question_waits_no_longer_than_an_answer_may_take(guard: Guard) -> None:
    guard.ask("[1]")
    waited: list[float] = []

    def ask() -> None:
        begun = time.monotonic()
        with pytest.raises(Unanswered):
            guard.ask('["sleep"]')
        waited.append(time.monotonic() - begun)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(waited) == 6
    assert max(waited) < 20, "one start and two answers, with room for a busy machine"


@gate("schemas.bounded")
@pytest.mark.parametrize(
    ("schema", "document"),
    [
        pytest.param({"type": "object", **TWICE, "required": ["b"]}, nested(40), id="recursive"),
        pytest.param(
            {"properties": {"a": {"pattern": SLOW_PATTERN}}}, {"a": "a" * 100_000}, id="pattern", marks=pytest.mark.slow
        ),
        pytest.param(
            {"properties": {"a": {"items": {"$ref": "#/$defs/a0"}}}, "$defs": doubling(13)["$defs"]},
            {"a": [0] * 300_000},
            id="long list",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_check_that_would_take_minutes_ends_within_its_time(schema: dict[str, Any], document: dict[str, Any]) -> None:
    validation.GUARD.close()
    begun = time.monotonic()
    assert argument_errors(schema, document) != []
    assert time.monotonic() - begun < 20, "a start, an answer, and room for a busy machine"


@gate("schemas.bounded")
@pytest.mark.slow
def test_fifty_slow_checks_at_once_hold_up_nobody_else() -> None:
    slow, text = {"properties": {"a": {"pattern": SLOW_PATTERN}}}, {"a": "a" * 50_000}
    quick = {"properties": {"a": {"type": "integer"}}}
    compile_schema(quick)
    threads = [threading.Thread(target=argument_errors, args=(slow, text)) for _ in range(50)]
    for thread in threads:
        thread.start()
    took = []
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        assert argument_errors(quick, {"a": 1}) == []
        took.append(time.monotonic() - begun)
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    took.sort()
    assert took[int(len(took) * 0.99)] < 0.5


def test_what_is_asked_elsewhere_is_answered_as_here() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"pattern": "^[a-z]+$"}}}}
    document: dict[str, Any] = {"a": ["x" * 50] * 2_000}
    assert argument_errors(schema, document) == []
    assert argument_errors(schema, {"a": [*document["a"], "X"]}) == [
        SchemaError("/a/2000", '*** does not match "^[a-z]+$"')
    ]
    assert argument_errors(schema, {"a": [*document["a"]], "b": 1})[0].pointer == ""
    assert validation.GUARD._child is not None
    assert output_errors(schema, {"a": [*document["a"], "\ud800"]}) == [SchemaError("", "not a JSON value")]


@gate("schemas.bounded")
def test_patterns_that_are_too_large_together_are_refused() -> None:
    large = {"properties": {f"p{n}": {"pattern": f"^.{{1,{2_000 + n}}}$"} for n in range(250)}}
    begun = time.process_time()
    with pytest.raises(UnusableSchema, match="larger than"):
        compile_schema(large)
    assert time.process_time() - begun < 5, "and not after all of them were compiled"
    assert compile_schema({"properties": {"a": {"pattern": "^.{1,2000}$"}}}).pattern_bytes == 10_485_760
    assert compile_schema({"properties": {"a": {"pattern": "^[a-z]+$"}}}).pattern_bytes == 4_096


def test_a_child_needs_no_secret_of_its_parent(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sentinel")
    told = Guard("import json, os; print(); input(); print(json.dumps(sorted(os.environ)))")
    names = told.ask("[]")
    told.close()
    assert set(names) <= {"PYTHONPATH", "LC_CTYPE"}
    assert TOO_LONG
