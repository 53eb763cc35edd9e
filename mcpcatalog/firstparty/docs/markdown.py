"""Reads of a Markdown text what the tools need: sections, anchors and links, with their lines. Code is no Markdown.

Not a renderer: CommonMark's inline links, images, reference definitions, headings and fences, each in linear time.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import re2

MAXIMUM_LINE: Final = 4_096
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}(?:[ \t]+(.*))?$")
_UNDERLINE: Final = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
# re2, because a text may hold whatever it likes.
_ANCHOR: Final = re2.compile(r"""<[a-zA-Z]+\s[^<>]*\b(?:id|name)\s*=\s*["']([^"'<>]+)["']""")
_DEFINITION: Final = re.compile(r"^ {0,3}\[([^\[\]]+)\]:[ \t]*(<[^<>]*>|\S+)")
_LINK: Final = re2.compile(
    r"\]\(\s*(<[^<>]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)"
    r"""(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)"""
)
_REFERENCE: Final = re2.compile(r"\[([^\[\]]+)\]\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Link:
    """`target` is as written; None: a reference that no definition explains."""

    line: int
    target: str | None
    label: str = ""


@dataclass(frozen=True)
class Section:
    """`line` is where it begins; before the first heading the heading is empty."""

    line: int
    heading: str
    text: str

    @cached_property
    def words(self) -> Counter[str]:
        return Counter(words_of(self.text))


@dataclass(frozen=True, slots=True)
class Page:
    sections: tuple[Section, ...]
    anchors: frozenset[str]
    links: tuple[Link, ...]


def read(text: str) -> Page:
    """Return what the text holds."""
    lines = [line[:MAXIMUM_LINE] for line in text.splitlines()]
    unfenced = list(_without_fences(lines))
    plain = [_without_spans(line) for line in unfenced]
    headings = list(_headings(unfenced))
    return Page(tuple(_sections(lines, headings)), frozenset(_anchors(plain, headings)), tuple(_links(plain)))


def _without_fences(lines: list[str]) -> Iterator[str]:
    """Yield each line; of a fenced block, empty ones."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            closes = found is not None and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
            yield ""
        elif found is not None and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            yield ""
        else:
            yield line


def _without_spans(line: str) -> str:
    """Take code spans out: a run of backticks up to the next run of the same length."""
    runs = [(found.start(), found.end()) for found in re.finditer(r"`+", line)]
    following: dict[int, int] = {}
    closings: list[int | None] = []
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closings.append(following.get(length))
        following[length] = index
    closings.reverse()
    kept, position, index = [], 0, 0
    while index < len(runs):
        closing = closings[index]
        if closing is not None:
            kept.append(line[position : runs[index][0]])
            position = runs[closing][1]
        index = index + 1 if closing is None else closing + 1
    return " ".join([*kept, line[position:]])


def _headings(lines: list[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines):
        found = _HEADING.match(line)
        if found is not None:
            yield number, _unclosed(found[1] or "")
        elif number and _UNDERLINE.match(line) and lines[number - 1].strip() and not _HEADING.match(lines[number - 1]):
            yield number - 1, lines[number - 1].strip()


def _unclosed(heading: str) -> str:
    """Take off the signs that may close a heading; those of a word belong to it."""
    kept = heading.rstrip()
    opened = kept.rstrip("#")
    return opened.rstrip() if not opened or opened[-1] in " \t" else kept


def _sections(lines: list[str], headings: list[tuple[int, str]]) -> Iterator[Section]:
    starts = [(0, ""), *headings] if not headings or headings[0][0] > 0 else headings
    for index, (start, heading) in enumerate(starts):
        end = starts[index + 1][0] if index + 1 < len(starts) else len(lines)
        yield Section(start + 1, heading, "\n".join(lines[start:end]))


def _anchors(plain: list[str], headings: list[tuple[int, str]]) -> Iterator[str]:
    counted: Counter[str] = Counter()
    for _, heading in headings:
        slug = slug_of(heading)
        yield slug if not counted[slug] else f"{slug}-{counted[slug]}"
        counted[slug] += 1
    for line in plain:
        yield from _ANCHOR.findall(line)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def slug_of(heading: str) -> str:
    """Return the anchor that common renderers give a heading."""
    shown = re.sub(r"\[([^\[\]]*)\]\([^()]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")


def _links(plain: list[str]) -> Iterator[Link]:
    defined = {found[1].strip().casefold(): found[2] for line in plain if (found := _DEFINITION.match(line))}
    for number, line in enumerate(plain, 1):
        definition = _DEFINITION.match(line)
        if definition is not None:
            yield Link(number, definition[2].strip("<>"))
            continue
        for found in _LINK.finditer(line):
            yield Link(number, found[1].strip("<>"))
        for found in _REFERENCE.finditer(line):
            label = (found[2] or found[1]).strip()
            if label.casefold() not in defined:
                yield Link(number, None, label)
