"""Head-and-tail excerpts and trust envelopes: large output is cut, never summarized.

What is captured is measured in UTF-8 bytes of the text; what is shown, in the bytes that the text takes inside a JSON
string, because escaping must not smuggle a text past its budget. A cut never splits a character or an envelope: the
envelope is closed before the elision line and opened again after it with a fresh nonce. Source: TS "Output: limits,
truncation, and artifacts", decision record 5.
"""

import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from toolsys.domain.trust import TrustLevel

HEAD_PERCENT: Final = 60
TAIL_PERCENT: Final = 20
_LINE_BREAK: Final = 2  # "\n" inside a JSON string


@dataclass(frozen=True, slots=True)
class Envelope:
    """Marks a span of text as data from `source`. The nonce is unguessable, so the text cannot close it."""

    trust: TrustLevel
    source: str
    nonces: tuple[str, str]

    def open(self, part: int = 0) -> str:
        return f'<external trust="{self.trust}" source="{self.source}" nonce="{self.nonces[part]}">'

    def close(self, part: int = 0) -> str:
        return f'</external nonce="{self.nonces[part]}">'

    def wrap(self, text: str) -> str:
        return f"{self.open()}\n{text}\n{self.close()}"


def head(text: str, limit_bytes: int) -> str:
    """Return the longest prefix of at most `limit_bytes` UTF-8 bytes that ends between characters."""
    return text.encode("utf-8", "replace")[: max(limit_bytes, 0)].decode("utf-8", "ignore")


def tail(text: str, limit_bytes: int) -> str:
    return text.encode("utf-8", "replace")[-limit_bytes:].decode("utf-8", "ignore") if limit_bytes > 0 else ""


def escaped_bytes(text: str) -> int:
    """Return the UTF-8 bytes that the text takes inside a JSON string, without the quotes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) - 2


def escaped_head(text: str, limit_bytes: int) -> str:
    """Return the longest prefix that takes at most `limit_bytes` inside a JSON string."""
    candidate = head(text, limit_bytes)
    return candidate[: _fitting(candidate, limit_bytes, is_tail=False)]


def escaped_tail(text: str, limit_bytes: int) -> str:
    candidate = tail(text, limit_bytes)
    return candidate[len(candidate) - _fitting(candidate, limit_bytes, is_tail=True) :]


def _fitting(candidate: str, limit_bytes: int, *, is_tail: bool) -> int:
    """Return how many characters fit. Escaping only adds, so a candidate is never longer than its limit."""

    def weight(count: int) -> int:
        return escaped_bytes(candidate[len(candidate) - count :] if is_tail else candidate[:count])

    if weight(len(candidate)) <= limit_bytes:
        return len(candidate)
    return bisect_right(range(len(candidate) + 1), max(limit_bytes, 0), key=weight) - 1


def elision_line(elided_bytes: int, artifact_id: UUID) -> str:
    return f"[... {elided_bytes:,} bytes elided; full output: artifact:{artifact_id} ...]"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Head and tail of a text around one line of ours. Kept apart, because the text may imitate that line."""

    head: str
    elision: str
    tail: str

    def plain(self) -> str:
        return f"{self.head}\n{self.elision}\n{self.tail}"

    def enveloped(self, envelope: Envelope) -> str:
        """Put it in its envelope, closed and opened again around the elision line."""
        first = f"{envelope.open(0)}\n{self.head}\n{envelope.close(0)}"
        last = f"{envelope.open(1)}\n{self.tail}\n{envelope.close(1)}"
        return f"{first}\n{self.elision}\n{last}"


def excerpt(text: str, *, budget_bytes: int, artifact_id: UUID) -> Excerpt | None:
    """Cut a text that is too large to `budget_bytes`; None where the budget cannot hold even the reference.

    The budget holds head, elision line and tail as they stand inside a JSON string. The line counts UTF-8 bytes of the
    text, which is what the artifact holds.
    """
    total = len(text.encode("utf-8", "replace"))
    room = budget_bytes - len(elision_line(total, artifact_id)) - 2 * _LINE_BREAK
    if room < 0:
        return None
    first = escaped_head(text, min(budget_bytes * HEAD_PERCENT // 100, room * 3 // 4))
    last = escaped_tail(text, min(budget_bytes * TAIL_PERCENT // 100, room - escaped_bytes(first)))
    elided = total - len(first.encode("utf-8", "replace")) - len(last.encode("utf-8", "replace"))
    return Excerpt(first, elision_line(elided, artifact_id), last)
