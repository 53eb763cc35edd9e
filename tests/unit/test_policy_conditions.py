"""Conditions on argument values: every operator, what cannot be compared, and what a decision keeps of them."""

from typing import Any

import pytest
from pydantic import ValidationError

from approvals import conditions
from approvals.conditions import Condition
from tests.spec.requirements import gate

ARGUMENTS = {
    "to": "ops@example.com", "amount": 250, "dry": False, "note": None, "tags": ["red", 5], "a/b": {"~": [10, 20]},
    "name": "Ame\u0301lie", "text": "first\nsecond", "password": "hunter2", "big": "x" * 900,
}  # fmt: skip


def asked(pointer: str, operator: str, value: Any) -> bool | None:
    condition = Condition.model_validate({"pointer": pointer, "operator": operator, "value": value})
    return conditions.compiled(condition).asked(ARGUMENTS)


@gate("policy.conditions")
@pytest.mark.parametrize(
    ("pointer", "operator", "value", "answer"),
    [
        ("/amount", "eq", 250, True), ("/amount", "eq", 250.0, True), ("/amount", "eq", "250", None),
        ("/amount", "ne", 250, False), ("/amount", "ne", "250", None), ("/missing", "ne", 1, True),
        ("/missing", "eq", None, False), ("/note", "eq", None, True), ("/dry", "eq", False, True),
        ("/dry", "eq", 0, None), ("/to", "in", ["x", "ops@example.com"], True), ("/to", "in", ["x", 1], None),
        ("/to", "in", ["x", "y"], False), ("/amount", "lt", 250, False), ("/amount", "lte", 250, True),
        ("/amount", "gt", 249.5, True), ("/amount", "gte", 251, False), ("/amount", "gt", "1", None),
        ("/missing", "gt", 0, False), ("/note", "lt", 1, False), ("/dry", "gt", 0, None), ("/to", "lt", "p", True),
        ("/to", "prefix", "ops@", True), ("/amount", "prefix", "2", None), ("/missing", "prefix", "a", False),
        ("/tags", "contains", "red", True), ("/tags", "contains", "5", None), ("/tags", "contains", "blue", None),
        ("/to", "contains", "@example.", True), ("/amount", "contains", "2", None), ("/note", "contains", "x", False),
        ("/note", "exists", True, True), ("/missing", "exists", True, False), ("/missing", "exists", False, True),
        ("/to", "matches", ".*@example[.]com", True), ("/to", "matches", "example", False),
        ("/text", "matches", "first.*", True), ("/amount", "matches", "2.*", None), ("/a~1b/~0/1", "eq", 20, True),
        ("/a~1b/~0/2", "exists", True, False), ("/a~1b/~0/01", "exists", True, False),
        ("/tags/-1", "exists", True, False),
        ("/name", "eq", "Am\u00e9lie", True), ("/name", "prefix", "Am\u00e9", True),
        ("/tags/0/x", "exists", True, False),
        ("/name", "matches", "Am\u00e9.*", True), ("/name", "contains", "\u00e9", True),
    ],
)  # fmt: skip
def test_each_operator_answers_yes_no_or_cannot_tell(
    pointer: str, operator: str, value: Any, answer: bool | None
) -> None:
    assert asked(pointer, operator, value) is answer


@gate("policy.conditions")
@pytest.mark.parametrize(
    ("pointer", "operator", "value"),
    [
        ("amount", "eq", 1), ("", "eq", 1), ("/a~2", "eq", 1), ("/a" * 13, "eq", 1), ("/a", "in", "x"),
        ("/a", "eq", ["x"]), ("/a", "in", []), ("/a", "exists", 1), ("/a", "prefix", 1), ("/a", "lt", True),
        ("/a", "gt", None), ("/a", "matches", "(?=a)"), ("/a", "matches", "((a{1,1000}){1,1000})"),
        ("/a", "like", "x"), ("/a", "eq", "x" * 501), ("/a", "eq", {"b": 1}),
    ],
)  # fmt: skip
def test_what_an_operator_cannot_use_is_refused_when_it_is_written(pointer: str, operator: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        Condition.model_validate({"pointer": pointer, "operator": operator, "value": value})


@gate("policy.conditions")
@pytest.mark.parametrize(
    ("pointer", "shown"),
    [("/amount", 250), ("/password", "[REDACTED]"), ("/to", "[REDACTED]"), ("/big", "x" * 200), ("/tags", "['red', 5]"),
     ("/dry", False), ("/note", None)],
)  # fmt: skip
def test_what_a_decision_keeps_of_a_value_is_redacted_and_short(pointer: str, shown: Any) -> None:
    condition = Condition.model_validate({"pointer": pointer, "operator": "exists", "value": True})
    seen = conditions.Reading(ARGUMENTS).seen(conditions.compiled(condition))
    assert seen == {"pointer": pointer, "operator": "exists", "value": shown}


@gate("policy.conditions")
def test_an_expression_takes_linear_time() -> None:
    condition = Condition.model_validate({"pointer": "/text", "operator": "matches", "value": "(a+)+b"})
    assert conditions.compiled(condition).asked({"text": "a" * 200_000}) is False


@gate("policy.conditions")
def test_a_condition_that_many_rules_have_is_asked_once_and_one_that_only_looks_alike_by_itself() -> None:
    """`1`, `true` and `1.0` are other values to a rule, though Python finds them equal."""
    asked = [conditions.compiled(Condition.model_validate({"pointer": "/n", "operator": "eq", "value": value}))
             for value in (1, True, "1", 1)]  # fmt: skip
    reading = conditions.Reading({"n": 1})
    assert [reading.asked(each) for each in asked] == [True, None, None, True]
    assert len(reading.answers) == 3


@gate("policy.conditions")
def test_a_pointer_in_another_form_of_the_same_letters_finds_its_argument() -> None:
    """Names of arguments are in NFC when rules look at them: a rule written otherwise would never match, silently."""
    condition = Condition.model_validate({"pointer": "/gro\u0308sse", "operator": "gt", "value": 1})
    assert conditions.compiled(condition).asked({"gr\u00f6sse": 2}) is True
