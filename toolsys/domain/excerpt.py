"""Head-and-tail excerpts and trust envelopes: large output is cut, never summarized.

Sizes are UTF-8 bytes. A cut never splits a character or an envelope: the envelope is closed before the elision
line and opened again after it with a fresh nonce. Source: TS "Output: limits, truncation, and artifacts".
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from toolsys.domain.trust import TrustLevel

HEAD_PERCENT: Final = 60
TAIL_PERCENT: Final = 20


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
    return text.encode("utf-8")[-limit_bytes:].decode("utf-8", "ignore") if limit_bytes > 0 else ""


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
    """Cut `text` to `budget_bytes`, elision line included; None where the budget cannot hold the reference."""
    total = len(text.encode("utf-8"))
    marker = elision_line(total, artifact_id)
    room = budget_bytes - len(marker.encode()) - 2
    if room < 0:
        return None
    first = head(text, min(budget_bytes * HEAD_PERCENT // 100, room * 3 // 4))
    last = tail(text, min(budget_bytes * TAIL_PERCENT // 100, room - len(first.encode("utf-8"))))
    elided = total - len(first.encode("utf-8")) - len(last.encode("utf-8"))
    return Excerpt(first, elision_line(elided, artifact_id), last)
