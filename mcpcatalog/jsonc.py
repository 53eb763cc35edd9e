"""JSON as editors write it: with comments and a comma after the last item. Pure, one pass over the text.

What is left has the same strings, byte for byte, each where it stood: a place that the parser names is one of the text.
"""

import re
from typing import Final

_ENDS: Final = {"//": "\n", "/*": "*/"}
_NO_SPACE: Final = re.compile(r"[^\n]")


def plain(text: str) -> str:
    """Return the text without comments and trailing commas; both may stand in strings and stay there."""
    found: list[str] = []
    at, last = 0, -1  # `last` is where in `found` the newest sign that is no space stands
    while at < len(text):
        char, end = text[at], at + 1
        if text[at : at + 2] in _ENDS:
            end = _end_of_comment(text, at)
            found.append(_NO_SPACE.sub(" ", text[at:end]))
            at = end
            continue
        if char == '"':
            end = _end_of_string(text, at)
        elif char in "}]" and last >= 0 and found[last] == ",":
            found[last] = " "
        if not char.isspace():
            last = len(found)
        found.append(text[at:end])
        at = end
    return "".join(found)


def _end_of_comment(text: str, at: int) -> int:
    mark = _ENDS[text[at : at + 2]]
    end = text.find(mark, at + 2)
    return len(text) if end < 0 else end + (len(mark) if mark == "*/" else 0)


def _end_of_string(text: str, at: int) -> int:
    at += 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1
