"""Makes JSON that is nested beyond any parser's limit readable, with `NaN` in place of what stands too deep.

Well-formed arguments that are nested too deeply are the fault of their call and not of the body around them; what is no
JSON at all stays a fault of the body. Time and memory grow with the text. Source: DESIGN §1 "Rows and problems".
"""

import json
import re
from typing import Any, Final

# Deeper than a canonical document may be, and far less than what a parser bears.
MAXIMUM_LEVELS: Final = 128
# Possessive, and a string that never ends takes all the rest: each character is looked at once.
_MARKS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def shallow(text: str) -> str:
    """Return the text with each container beyond the limit as `NaN`; as it is, where nothing is so deep.

    Raises: ValueError, where such a container is no JSON.
    """
    if text.count("[") + text.count("{") < MAXIMUM_LEVELS:
        return text
    cutter = _Cutter(text)
    for mark in _MARKS.finditer(text):
        sign = mark.group()
        if sign in "[{":
            cutter.open(mark.start())
        elif sign in "]}":
            cutter.close(mark.end())
    return cutter.finished()


class _Cutter:
    """Keeps the text that is settled, and apart from it the text of every container that stands at a limit."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._at = 0
        self._settled: list[str] = []
        self._around: list[list[str]] = []

    def open(self, start: int) -> None:
        self._depth += 1
        if self._depth % MAXIMUM_LEVELS == 0:
            self._settled.append(self._text[self._at : start])
            self._around.append(self._settled)
            self._settled, self._at = [], start

    def close(self, end: int) -> None:
        if self._depth % MAXIMUM_LEVELS == 0 and self._around:
            self._settled.append(self._text[self._at : end])
            json.loads("".join(self._settled), object_pairs_hook=_nothing, parse_int=_nothing)
            self._settled, self._at = self._around.pop(), end
            self._settled.append("NaN")
        self._depth -= 1

    def finished(self) -> str:
        if self._depth != 0:
            raise ValueError("containers are left open")
        return "".join([*self._settled, self._text[self._at :]])


def _nothing(_: Any) -> None:
    """Only whether it is JSON is asked: an integer of a million digits need not be made."""
