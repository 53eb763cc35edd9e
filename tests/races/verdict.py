"""What must be true of every call when all is quiet, whatever happened on the way. Pure: rows and lines in, faults out.

The classes are those of `tests.races.tools`; only `once` may end uncertain, and only it may never be sent twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

TERMINAL: Final = ("succeeded", "failed", "denied", "uncertain")
ENDINGS: Final = frozenset({"tool.call.completed", *(f"tool.call.{status}" for status in TERMINAL)})


@dataclass(frozen=True, slots=True)
class Found:
    """One call: its class, its row, the lines that the world has of it, and the types of its events."""

    kind: str
    row: dict[str, Any]
    lines: Sequence[dict[str, Any]]
    events: Sequence[str]

    @property
    def status(self) -> str:
        return str(self.row["status"])


RULES: Final[tuple[tuple[str, Callable[[Found], bool]], ...]] = (
    ("lost: it has not ended", lambda call: call.status not in TERMINAL),
    ("doubled: sent more than once", lambda call: call.kind == "once" and len(call.lines) > 1),
    ("succeeded, and never sent", lambda call: call.status == "succeeded" and not call.lines),
    (
        "failed or denied, and a write was sent",
        lambda call: call.status in {"failed", "denied"} and call.kind != "read" and bool(call.lines),
    ),
    ("uncertain, and it could have been repeated", lambda call: call.status == "uncertain" and call.kind != "once"),
    ("sent without a watermark", lambda call: bool(call.lines) and call.row["effect_sent_at"] is None),
    ("sent under several keys", lambda call: len({line["key"] for line in call.lines}) > 1),
    (
        "not exactly one event of its end",
        lambda call: call.status in TERMINAL and sum(event in ENDINGS for event in call.events) != 1,
    ),
    (
        "not one event for each claim",
        lambda call: list(call.events).count("tool.call.started") != call.row["claim_epoch"],
    ),
)


def faults(call: Found) -> list[str]:
    return [text for text, is_broken in RULES if is_broken(call)]
