"""Many expressions of a rule set over one value, asked together: where none of them matches, one look says so. Pure.

A union only refuses: what it lets by is asked by itself, so that it may be left out wherever it cannot be made. It is
compiled when a call first needs it, once for a rule set. Source: DESIGN §5, the figure of issue 5.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import re2

from toolsys.domain.spec import JsonObject

UNION_BYTES: Final = 4 << 20
WIDE: Final = 128
NARROW: Final = 16


class Union:
    """Expressions by their keys, as one alternation."""

    def __init__(self, expressions: Sequence[tuple[str, str]]) -> None:
        self._patterns = [pattern for _, pattern in expressions]
        self.noes: JsonObject = dict.fromkeys((key for key, _ in expressions), False)

    def refuses(self, text: str) -> bool:
        """Say for sure that none of them matches the whole text."""
        return self._compiled is not None and self._compiled.fullmatch(text) is None

    @cached_property
    def _compiled(self) -> Any:
        try:
            return compiled("|".join(f"(?:{pattern})" for pattern in self._patterns), UNION_BYTES)
        except re2.error:
            return None


def compiled(pattern: str, maximum_bytes: int) -> Any:
    """Compile an expression that only says yes or no: without groups to find, its time is that of one pass.

    Raises: re2.error.
    """
    options = re2.Options()
    options.max_mem = maximum_bytes
    options.dot_nl = True
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern, options)


class Screens:
    """The unions that an expression is part of: a wide one, then a narrow one."""

    def __init__(self, expressions: Iterable[tuple[str, str, str]]) -> None:
        """`expressions` are (pointer, key, pattern)."""
        by_pointer: dict[str, dict[str, str]] = {}
        for pointer, key, pattern in expressions:
            # A literal that nobody ends would take the end of its own group, and its neighbours, for text.
            if r"\Q" not in pattern:
                by_pointer.setdefault(pointer, {})[key] = pattern
        self._of: dict[str, tuple[Union, ...]] = {}
        for found in by_pointer.values():
            for wide in _parts(list(found.items()), WIDE):
                self._of |= dict(_unions(wide))

    def of(self, key: str) -> tuple[Union, ...]:
        return self._of.get(key, ())


def _parts(whole: Sequence[tuple[str, str]], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))


def _unions(wide: Sequence[tuple[str, str]]) -> Iterator[tuple[str, tuple[Union, ...]]]:
    if len(wide) < 2:
        return
    whole = Union(wide)
    for narrow in _parts(wide, NARROW):
        part = Union(narrow)
        for key, _ in narrow:
            yield key, (whole, part) if 1 < len(narrow) < len(wide) else (whole,)
