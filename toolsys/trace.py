"""Times of the fourteen steps, for the person who asks what happened. Telemetry only; nothing decides by it.

Entries are collected in the current context and saved by the next commit of the call; a commit's own time is known
from the row (`authorized_at`, `started_at`, `completed_at`).
"""

import functools
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from toolsys import spans
from toolsys.domain.spec import JsonObject

STEP_NAMES: Final = {
    1: "resolve registered tool",
    2: "check enabled for agent",
    3: "check principal scopes",
    4: "validate JSON arguments",
    5: "normalize arguments",
    6: "evaluate policy",
    7: "request approval if needed",
    8: "persist intent",
    9: "claim for execution",
    10: "execute with timeout",
    11: "validate result",
    12: "excerpt or artifactize",
    13: "persist result",
    14: "render outcome",
}
COMMIT_STEPS: Final = frozenset({7, 8, 9, 10, 13})

_entries: ContextVar[list[JsonObject] | None] = ContextVar("step_trace", default=None)


def begin() -> None:
    _entries.set([])


def taken() -> list[JsonObject]:
    """Return what was collected and start anew, so that no entry is saved twice."""
    found = _entries.get() or []
    _entries.set([])
    return found


def note(step: int, started: float, seconds: float, **more: int | None) -> None:
    """Add one entry: the step, its start (Unix milliseconds), its length (microseconds), and what else is known."""
    spans.step(step, started, seconds)
    entries = _entries.get()
    if entries is not None:
        entries.append({"step": step, "at_ms": round(started * 1000, 1), "us": round(seconds * 1_000_000), **more})


def timed[**P, T](step: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Note the step also when it refuses: the last entry says where a call was turned away."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            started, begun = time.time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                note(step, started, time.perf_counter() - begun)

        return wrapper

    return decorate
