"""Two texts side by side, in parts that are the same, gone or new: words of a description, lines of a schema. Pure.

What is compared is what people are shown, with invisible characters made visible; both are bounded, since comparing
costs the square of what is compared.
"""

import re
from difflib import SequenceMatcher
from typing import Any, Final

from toolsys import inert

MAXIMUM_PARTS: Final = 800
KEPT_LINES: Final = 2
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]+")

type Part = tuple[str, str]


def words(before: str, after: str) -> list[Part]:
    """Return the parts of both texts in reading order, each with `same`, `gone` or `new`."""
    return _parts(_WORDS.findall(inert.visible(before)), _WORDS.findall(inert.visible(after)))


def lines(before: Any, after: Any) -> list[Part]:
    """Return what differs between two JSON values as indented lines, with two lines around each change."""
    found = _parts(inert.pretty(before).splitlines(keepends=True), inert.pretty(after).splitlines(keepends=True))
    last = len(found) - 1
    return [
        (kind, _shortened(text, is_first=index == 0, is_last=index == last) if kind == "same" else text)
        for index, (kind, text) in enumerate(found)
    ]


def _parts(old: list[str], new: list[str]) -> list[Part]:
    if len(old) > MAXIMUM_PARTS or len(new) > MAXIMUM_PARTS:
        return [("gone", "".join(old)), ("new", "".join(new))]
    found: list[Part] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found.append(("same", "".join(old[old_from:old_to])))
            continue
        found += [("gone", "".join(old[old_from:old_to])), ("new", "".join(new[new_from:new_to]))]
    return [part for part in found if part[1]]


def _shortened(text: str, *, is_first: bool, is_last: bool) -> str:
    """Leave out the middle of what is the same, and what is far from any change."""
    kept = text.splitlines(keepends=True)
    head = [] if is_first else kept[:KEPT_LINES]
    tail = [] if is_last else kept[-KEPT_LINES:]
    return text if len(head) + len(tail) >= len(kept) else "".join([*head, "…\n", *tail])
