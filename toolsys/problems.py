"""Refusals as values that travel: `Problem` for a fault of the request, `Refused` for a fault of one call.

A problem writes nothing and becomes a problem body; a refusal becomes an outcome with one terminal row. Both name
a row of `domain.reasons`. Source: DESIGN §1 "Rows and problems".
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field at fault: a JSON pointer, and what was expected there."""

    pointer: str
    message: str


def plainly(message: str) -> str:
    """Return what a check said, without what pydantic writes before the words of a check of ours."""
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


class Problem(Exception):
    """The request itself is at fault; nothing was written. `errors` name the fields."""

    def __init__(self, reason_code: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(reason_code)
        self.reason_code = reason_code
        self.errors = tuple(errors)


class Refused(Exception):
    """A step refused this call: nothing happened. `detail` is for operators and is never sent onward."""

    def __init__(self, reason_code: str, detail: str = "") -> None:
        super().__init__(reason_code)
        self.reason_code = reason_code
        self.detail = detail
