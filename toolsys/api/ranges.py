"""One byte range of a representation that has a strong ETag. Pure.

What is malformed, of another unit or more than one range is ignored, as the standard allows; what is well-formed and
lies outside is not satisfiable. Source: RFC 9110 sections 13 and 14.
"""

import re
from dataclasses import dataclass
from typing import Final

_SINGLE: Final = re.compile(r"^bytes=(\d{0,18})-(\d{0,18})\Z", re.ASCII | re.IGNORECASE)
_TAGS: Final = re.compile(r'(?:W/)?("[^"]*")')


class NotSatisfiable(Exception):
    """The range begins after the end, or asks for nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` to before `end` of `size`."""

    start: int
    end: int
    size: int

    def content_range(self) -> str:
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


def etag_of(sha256: str) -> str:
    return f'"{sha256}"'


def is_held(if_none_match: str, etag: str) -> bool:
    """Say whether the reader already holds this representation; the comparison is the weak one."""
    return if_none_match.strip() == "*" or etag in _TAGS.findall(if_none_match)


def span_of(header: str, if_range: str, *, etag: str, size: int) -> Span | None:
    """Return the span that was asked for; None where the whole is to be sent. Raises: NotSatisfiable."""
    found = _SINGLE.match(header.strip())
    if found is None or found.group(1) == found.group(2) == "":
        return None
    # The comparison is the strong one; a date never matches, because there is no Last-Modified.
    if if_range and if_range.strip() != etag:
        return None
    first, last = found.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= end:
        raise NotSatisfiable
    return Span(start, end, size)
