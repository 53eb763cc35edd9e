"""A structured result, measured: it is bounded by the tool's limit of its own, whatever text stands beside it.

Where it is too large, its `stdout` and `stderr` are excerpted, so that the exit code beside them stays available;
else it is left out and its artifact holds it. Pure. Source: TS "Output" (stdout and stderr), decision record 5.
"""

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from toolsys.domain import canonical, excerpt

STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Structured:
    """A value, and the JSON that is measured and kept of it."""

    value: Any
    text: str

    @property
    def size(self) -> int:
        return len(self.text.encode("utf-8"))


def of(value: Any) -> Structured | None:
    """Measure a value; None for the absence of one."""
    return None if value is None else Structured(value, _json(value))


def fitted(value: Any, limit_bytes: int, artifact_id: UUID) -> dict[str, Any] | None:
    """Return a too large value with its streams excerpted to fit the limit, or None where that does not help."""
    if not isinstance(value, dict):
        return None
    streams = sorted((name for name in STREAMS if isinstance(value.get(name), str)), key=lambda name: len(value[name]))
    found = {**value, **dict.fromkeys(streams, "")}
    room = limit_bytes - len(_json(found).encode("utf-8"))
    for count, name in enumerate(streams):
        share = room // (len(streams) - count)
        text = _excerpted(value[name], share, artifact_id)
        if text is None:
            return None
        found[name] = text
        room -= excerpt.escaped_bytes(text)
    return found if streams and room >= 0 else None


def _excerpted(text: str, budget_bytes: int, artifact_id: UUID) -> str | None:
    if excerpt.escaped_bytes(text) <= budget_bytes:
        return text
    cut = excerpt.excerpt(text, budget_bytes=budget_bytes, artifact_id=artifact_id)
    return cut.plain() if cut is not None else None


def _json(value: Any) -> str:
    """Tools may return what JSON cannot hold; only then is the value walked and tidied."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        text = json.dumps(canonical.tidy(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")
