"""Shows a JSON value as rows, and where two of them differ: for people who decide about a call. Pure, bounded.

Every text is inert and says what hides in it: invisible characters, letters of two alphabets in one word, length. What
is redacted on both sides cannot be compared, and says so. Source: notes on the console, §2.1.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from toolsys import inert
from toolsys.domain.redaction import MARK

ROWS_LIMIT: Final = 400
DEPTH_LIMIT: Final = 16
FOLDED_FROM: Final = 240
OPEN_CHARACTERS: Final = 160
DIFFERENCES_LIMIT: Final = 100
_AROUND: Final = 40
_WORD: Final = re.compile(r"\w+")
_ALPHABETS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


@dataclass(frozen=True, slots=True)
class Row:
    """One member. `text` is the value, or the beginning of a long one, whose whole is in `folded`.

    `fingerprints` tell what is redacted in it apart, `is_composed`: it was sent in another form of the same letters.
    Both are for whoever has the sealed bytes to say.
    """

    pointer: str
    name: str
    depth: int
    kind: str
    text: str
    folded: str = ""
    warnings: tuple[str, ...] = ()
    is_redacted: bool = False
    fingerprints: tuple[str, ...] = ()
    is_composed: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """`left_out` members are in the raw text only."""

    rows: tuple[Row, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` is added, removed, changed, or hidden: redacted on both sides, so that nobody can tell from here."""

    pointer: str
    kind: str
    before: str
    after: str


def rows(value: Any) -> Rows:
    found = list(_rows(value, "", "", 0))
    return Rows(tuple(found[:ROWS_LIMIT]), max(len(found) - ROWS_LIMIT, 0))


def differences(before: Any, after: Any) -> list[Difference]:
    """Return where two values differ, in the order of their pointers; at most 100."""
    old, new = dict(_leaves(before, "", 0)), dict(_leaves(after, "", 0))
    found = [line for pointer in sorted(old | new) if (line := _compared(pointer, old.get(pointer), new.get(pointer)))]
    return found[:DIFFERENCES_LIMIT]


def warnings(text: str) -> tuple[str, ...]:
    """Say what a person would not see in a text."""
    hidden = sum(1 for char in text if inert.visible(char) != char)
    found = [f"{hidden} invisible character{'s' if hidden != 1 else ''}, shown as [U+…]"] if hidden else []
    mixed = next((word for word in _WORD.findall(text) if len(_alphabets(word)) > 1), None)
    if mixed is not None:
        found.append(f"letters of {' and '.join(sorted(_alphabets(mixed)))} in one word: {inert.visible(mixed)[:60]}")
    return tuple(found)


def _rows(value: Any, pointer: str, name: str, depth: int) -> Iterator[Row]:
    members = _members(value) if depth < DEPTH_LIMIT else []
    if pointer:
        yield _row(value, pointer, name, depth)
    for key, member in members:
        yield from _rows(member, f"{pointer}/{escaped(key)}", key, depth + 1)


def _row(value: Any, pointer: str, name: str, depth: int) -> Row:
    shown, label = inert.visible(name), inert.visible(pointer)
    if isinstance(value, dict | list):
        many = f"{len(value)} {'member' if isinstance(value, dict) else 'item'}{'s' if len(value) != 1 else ''}"
        text = "" if value and depth < DEPTH_LIMIT else _scalar(value)
        return Row(label, shown, depth, many, text, warnings=warnings(name))
    text = _scalar(value)
    is_redacted = isinstance(value, str) and MARK in value
    kind = f"text, {len(value):,} characters" if isinstance(value, str) else _kind(value)
    found = (*warnings(name), *(warnings(value) if isinstance(value, str) else ()))
    if len(text) <= FOLDED_FROM:
        return Row(label, shown, depth, kind, text, "", found, is_redacted)
    return Row(label, shown, depth, kind, text[:OPEN_CHARACTERS] + "…", text, found, is_redacted)


def _members(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return sorted(value.items())
    return [(str(index), each) for index, each in enumerate(value)] if isinstance(value, list) else []


def _leaves(value: Any, pointer: str, depth: int) -> Iterator[tuple[str, str]]:
    members = _members(value) if depth < DEPTH_LIMIT else []
    if not members:
        yield pointer or "/", _scalar(value, cut=False)
    for key, member in members:
        yield from _leaves(member, f"{pointer}/{escaped(key)}", depth + 1)


def _compared(pointer: str, before: str | None, after: str | None) -> Difference | None:
    label = inert.visible(pointer)
    if before is None or after is None:
        kind = "added" if before is None else "removed"
        return Difference(label, kind, _cut(before or "", 0), _cut(after or "", 0))
    if before == after:
        return Difference(label, "hidden", MARK, MARK) if MARK in before else None
    start = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0)
    return Difference(label, "changed", _cut(before, start), _cut(after, start))


def _cut(text: str, start: int) -> str:
    """Show a long text around where it begins to differ."""
    first = max(start - _AROUND, 0) if len(text) > FOLDED_FROM else 0
    end = first + FOLDED_FROM
    return ("…" if first else "") + text[first:end] + ("…" if len(text) > end else "")


def _scalar(value: Any, *, cut: bool = True) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    hidden = len(text) - inert.MAXIMUM_CHARACTERS
    if cut and hidden > 0:
        return f"{inert.visible(text[: inert.MAXIMUM_CHARACTERS])}… {hidden:,} more characters"
    return inert.visible(text)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return "yes or no" if isinstance(value, bool) else "number"


def escaped(key: str) -> str:
    """Return a name as a JSON pointer writes it."""
    return key.replace("~", "~0").replace("/", "~1")


def _alphabets(word: str) -> set[str]:
    if word.isascii():
        return set()
    names = (unicodedata.name(char, "") for char in word if char.isalpha())
    return {alphabet.title() for name in names for alphabet in _ALPHABETS if name.startswith(alphabet)}
