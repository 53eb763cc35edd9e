"""The fourteen steps of one invocation as rows for a page: when, how long, in which entry, where a commit stands.

Pure: a row's recorded trace and commit times in, rows out. A call enters the pipeline once in the process that takes it
and once more for each worker that goes on with it. Gaps between entries are waiting, and are shown as such.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from toolsys.trace import COMMIT_STEPS, STEP_NAMES

WIDTH: Final = 400
_LEAST: Final = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One recorded piece of work. `x` and `width` are units of a scale of 400; `milliseconds` is None for a moment."""

    entry: int
    at: datetime
    milliseconds: float | None
    x: float
    width: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    number: int
    name: str
    is_commit: bool
    bars: tuple[Bar, ...]
    note: str = ""


def rows(trace: list[dict[str, Any]], commits: Mapping[int, tuple[str, datetime | None]]) -> list[StepRow]:
    """Build all fourteen rows; `commits` gives a note and the database's time for steps that commit."""
    entries = list(_entries(trace))
    moments = {step: (note, at) for step, (note, at) in commits.items() if at is not None}
    times = [_moment(entry["at_ms"]) for _, entry in entries] + [at for _, at in moments.values()]
    if not times:
        return [StepRow(number, name, number in COMMIT_STEPS, ()) for number, name in STEP_NAMES.items()]
    start = min(times)
    span = max((max(times) - start).total_seconds(), 0.001)
    found = []
    for number, name in STEP_NAMES.items():
        bars = [_bar(entry_number, entry, start, span) for entry_number, entry in entries if entry["step"] == number]
        if number in moments:
            note, at = moments[number]
            bars.append(Bar(0, at, None, _scaled(at, start, span), _LEAST, note))
        text = "rendered from the row on every read" if number == 14 else ""
        found.append(StepRow(number, name, number in COMMIT_STEPS, tuple(bars), text))
    return found


def _entries(trace: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number the entries into the pipeline: a step that is not after the one before begins another."""
    entry, last = 1, 0
    for item in trace:
        if item["step"] <= last:
            entry += 1
        last = item["step"]
        yield entry, item


def _bar(entry_number: int, entry: dict[str, Any], start: datetime, span: float) -> Bar:
    at = _moment(entry["at_ms"])
    width = max(entry["us"] / 1_000_000 / span * WIDTH, _LEAST)
    return Bar(entry_number, at, entry["us"] / 1000, _scaled(at, start, span), min(width, WIDTH))


def _scaled(at: datetime, start: datetime, span: float) -> float:
    return round((at - start).total_seconds() / span * (WIDTH - _LEAST), 2)


def _moment(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
