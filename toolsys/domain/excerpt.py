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
    return text.encode("utf-8")[: max(limit_bytes, 0)].decode("utf-8", "ignore")


def tail(text: str, limit_bytes: int) -> str:
    return text.encode("utf-8")[-limit_bytes:].decode("utf-8", "ignore") if limit_bytes > 0 else ""


def elision_line(elided_bytes: int, artifact_id: UUID) -> str:
    return f"[... {elided_bytes:,} bytes elided; full output: artifact:{artifact_id} ...]"


def excerpt(text: str, *, budget_bytes: int, artifact_id: UUID) -> str | None:
    """Cut `text` to `budget_bytes`, elision line included; None where the budget cannot hold the reference."""
    total = len(text.encode("utf-8"))
    marker = elision_line(total, artifact_id)
    room = budget_bytes - len(marker.encode()) - 2
    if room < 0:
        return None
    first = head(text, min(budget_bytes * HEAD_PERCENT // 100, room * 3 // 4))
    last = tail(text, min(budget_bytes * TAIL_PERCENT // 100, room - len(first.encode("utf-8"))))
    elided = total - len(first.encode("utf-8")) - len(last.encode("utf-8"))
    return "\n".join((first, elision_line(elided, artifact_id), last))


def enveloped_excerpt(text: str, envelope: Envelope) -> str:
    """Put an excerpt in its envelope, closed and reopened around the elision line."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line.startswith("[... ") and line.endswith(" ...]") and " bytes elided; full output: artifact:" in line:
            first = f"{envelope.open(0)}\n" + "\n".join(lines[:index]) + f"\n{envelope.close(0)}"
            last = f"{envelope.open(1)}\n" + "\n".join(lines[index + 1 :]) + f"\n{envelope.close(1)}"
            return f"{first}\n{line}\n{last}"
    return envelope.wrap(text)
