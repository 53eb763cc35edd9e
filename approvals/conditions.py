"""Conditions of a rule on argument values: a JSON pointer, an operator, a value. Pure; compiled once, asked per call.

An answer is yes, no, or None: what cannot be compared (text where a number is expected) is neither, and a rule that
only may match never loosens. Regular expressions are RE2, whose time is linear in the text. Source: DESIGN §5.
"""

import json
import operator as python
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import re2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator

from approvals import screens
from approvals.screens import Screens, Union
from toolsys.domain import redaction
from toolsys.domain.spec import JsonObject

Answer = bool | None
Test = Callable[[Any], Answer]
MAXIMUM_TEXT: Final = 500
MAXIMUM_SEEN: Final = 200
REGEX_BYTES: Final = 1 << 20
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*){1,12}")

Text = Annotated[str, Field(max_length=MAXIMUM_TEXT)]
Scalar = StrictBool | StrictInt | StrictFloat | Text | None


class Operator(StrEnum):
    EQ = "eq"
    NE = "ne"
    IN = "in"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    PREFIX = "prefix"
    CONTAINS = "contains"
    EXISTS = "exists"
    MATCHES = "matches"


_ORDERS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LT: python.lt, Operator.LTE: python.le, Operator.GT: python.gt, Operator.GTE: python.ge,
}  # fmt: skip


# JSON's own types only: arguments have no others.
_KINDS: Final[dict[type, type]] = {bool: bool, int: float, float: float, str: str}


class _Missing:
    """Stands for a value that the arguments do not have, or an answer that nobody has asked for."""


MISSING: Final = _Missing()
UNASKED: Final = _Missing()


def _pointer(written: str) -> str:
    """Return it as canonical arguments spell their names. Raises: ValueError, in words for whoever wrote it."""
    if _POINTER.fullmatch(written) is None:
        raise ValueError("a pointer to a value begins with /, such as /amount, and is at most 12 deep")
    return _text(written)


class Condition(BaseModel):
    """`pointer` is RFC 6901 into the arguments; `matches` is a whole-value RE2 expression."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pointer: Annotated[str, Field(max_length=200), AfterValidator(_pointer)]
    operator: Operator
    value: Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _fits(self) -> "Condition":
        """Raises: ValueError for a value that the operator cannot use."""
        value, kind = self.value, self.operator
        if (kind is Operator.IN) is not isinstance(value, list):
            raise ValueError("a list is for `in`, and `in` takes one")
        if kind is Operator.EXISTS and not isinstance(value, bool):
            raise ValueError("`exists` takes true or false")
        if kind in {Operator.PREFIX, Operator.MATCHES} and not isinstance(value, str):
            raise ValueError(f"`{kind}` takes a text")
        if kind in _ORDERS and (isinstance(value, bool) or not isinstance(value, int | float | str)):
            raise ValueError(f"`{kind}` takes a number or a text")
        if kind is Operator.MATCHES:
            _expression(str(value))
        return self


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """`key` says the whole condition, so that equal ones of several rules are asked once of a call.

    `pattern` is the text of an expression, as it is compiled; None for every other operator.
    """

    condition: Condition
    tokens: tuple[str, ...]
    test: Test
    key: str
    pointer: str
    operator: Operator
    pattern: str | None = None

    def asked(self, arguments: JsonObject) -> Answer:
        return self.test(_find(arguments, self.tokens))


class Reading:
    """One call's arguments as conditions look at them: each pointer is followed, and each condition asked, once.

    `screens` answer for many expressions of the rule set at once.
    """

    __slots__ = ("_arguments", "_asked", "_found", "_shown", "answers", "screens")

    def __init__(self, arguments: JsonObject) -> None:
        self._arguments = arguments
        self.screens: Screens | None = None
        self._asked: set[Union] = set()
        self._found: dict[str, Any] = {}
        self.answers: dict[str, Answer] = {}
        self._shown: dict[str, JsonObject] = {}

    def asked(self, condition: CompiledCondition) -> Answer:
        """Ask a condition that `answers` does not have yet."""
        pointer = condition.pointer
        found = self._found[pointer] if pointer in self._found else self._value(condition)
        if condition.pattern is not None and isinstance(found, str) and self._is_refused(condition, found):
            return False
        answer = self.answers[condition.key] = condition.test(found)
        return answer

    def _is_refused(self, condition: CompiledCondition, text: str) -> bool:
        for union in self.screens.of(condition.key) if self.screens is not None else ():
            if union not in self._asked:
                self._asked.add(union)
                if union.refuses(_text(text)):
                    self.answers |= union.noes
                    return True
        return False

    def is_beyond_text(self, condition: CompiledCondition) -> bool:
        """Say whether its value is there and is no text."""
        pointer = condition.pointer
        found = self._found[pointer] if pointer in self._found else self._value(condition)
        return not (found is MISSING or found is None or isinstance(found, str))

    def seen(self, condition: CompiledCondition) -> JsonObject:
        """Return what was compared, redacted as its name and its text ask for, and cut."""
        pointer = condition.pointer
        shown = self._shown.get(pointer)
        if shown is None:
            shown = self._shown[pointer] = _shown(self._value(condition), condition.tokens[-1])
        return {"pointer": pointer, "operator": condition.operator, **shown}

    def _value(self, condition: CompiledCondition) -> Any:
        found = self._found[condition.pointer] = _find(self._arguments, condition.tokens)
        return found


def _shown(found: Any, name: str) -> JsonObject:
    if found is MISSING:
        return {}
    (value,) = redaction.redact({name: found}).values()
    return {"value": value if isinstance(value, bool | int | float | None) else str(value)[:MAXIMUM_SEEN]}


def compiled(condition: Condition) -> CompiledCondition:
    tokens = tuple(part.replace("~1", "/").replace("~0", "~") for part in condition.pointer.split("/")[1:])
    key = json.dumps([condition.pointer, condition.operator, condition.value])
    test = _test_of(condition.operator, condition.value)
    pattern = _text(str(condition.value)) if condition.operator is Operator.MATCHES else None
    return CompiledCondition(condition, tokens, test, key, condition.pointer, condition.operator, pattern)


def _test_of(kind: Operator, value: Any) -> Test:
    match kind:
        case Operator.EXISTS:
            return lambda found: (found is not MISSING) is value
        case Operator.EQ:
            return lambda found: _equal(found, value)
        case Operator.NE:
            return lambda found: _not(_equal(found, value))
        case Operator.IN:
            return lambda found: _any([_equal(found, each) for each in value])
        case Operator.CONTAINS:
            return lambda found: _contains(found, value)
        case Operator.PREFIX:
            prefix = _text(value)
            return _of_text(lambda found: found.startswith(prefix))
        case Operator.MATCHES:
            expression = _expression(value)
            return _of_text(lambda found: expression.fullmatch(found) is not None)
        case _:
            return _ordering(_ORDERS[kind], value)


def _find(arguments: Any, tokens: tuple[str, ...]) -> Any:
    found = arguments
    for token in tokens:
        if isinstance(found, dict):
            found = found.get(token, MISSING)
        elif isinstance(found, list) and token.isascii() and token.isdecimal() and str(int(token[:9])) == token:
            found = found[int(token)] if int(token) < len(found) else MISSING
        else:
            return MISSING
    return found


def _equal(found: Any, wanted: Any) -> Answer:
    """Values of unlike kinds may mean the same to a tool (`"5"` and 5): None, unless one of them is nothing."""
    if found is MISSING or found is None or wanted is None:
        return found is wanted
    kind = _kind(found)
    if kind is None or kind is not _kind(wanted):
        return None
    return _text(found) == _text(wanted) if kind is str else bool(found == wanted)


def _contains(found: Any, wanted: Any) -> Answer:
    if found is MISSING or found is None:
        return False
    if isinstance(found, list):
        return _any([_equal(each, wanted) for each in found])
    return _text(wanted) in _text(found) if isinstance(found, str) and isinstance(wanted, str) else None


def _ordering(compare: Callable[[Any, Any], bool], wanted: Any) -> Test:
    kind, limit = _kind(wanted), _text(wanted) if isinstance(wanted, str) else wanted
    types = frozenset(each for each, of in _KINDS.items() if of is kind)

    def test(found: Any) -> Answer:
        if type(found) in types:
            return compare(_text(found) if kind is str else found, limit)
        return False if found is MISSING or found is None else None

    return test


def _of_text(test: Callable[[str], bool]) -> Test:
    def asked(found: Any) -> Answer:
        if found is MISSING or found is None:
            return False
        return test(_text(found)) if isinstance(found, str) else None

    return asked


def _kind(value: Any) -> type | None:
    """Return what a scalar compares with; None for a list or an object."""
    return _KINDS.get(type(value))


def _text(value: str) -> str:
    """Texts are compared in NFC, as canonical arguments are: a decomposed letter must not pass by a rule."""
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def _not(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _any(answers: list[Answer]) -> Answer:
    if True in answers:
        return True
    return None if None in answers else False


def _expression(pattern: str) -> Any:
    """Raises: ValueError."""
    try:
        return screens.compiled(_text(pattern), REGEX_BYTES)
    except re2.error:
        raise ValueError("not an RE2 expression, or one that would take too much memory") from None
