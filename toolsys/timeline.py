"""The fourteen steps of one invocation as rows for a page: when, how long, in which pass, where a commit stands.

Pure: a row's recorded trace and commit times in, rows out. A call passes the pipeline once in the process that takes it
and once more for each worker that goes on with it. Between passes it waits: waiting is apart from work, and the scale
gives each wait the same short piece, whether it took a millisecond or a day.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from toolsys.trace import COMMIT_STEPS, STEP_NAMES

WIDTH: Final = 400.0
WAIT_WIDTH: Final = 40.0
_LEAST: Final = 2.0
_FIRST_OF_A_WORKER: Final = 9


@dataclass(frozen=True, slots=True)
class Bar:
    """One recorded piece of work. `x` and `width` are units of the scale; `milliseconds` is None for a moment."""

    label: str
    at: datetime
    milliseconds: float | None
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class StepRow:
    number: int
    name: str
    commits: bool
    has_committed: bool
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """`work` and `waiting` are sums in milliseconds; `waits` are the gaps between passes."""

    steps: tuple[StepRow, ...]
    waits: tuple[Bar, ...]
    work: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Pass:
    """One entry into the pipeline: the process that it ran in, and its trace entries."""

    label: str
    entries: tuple[dict[str, Any], ...]

    @property
    def start(self) -> datetime:
        return _moment(self.entries[0]["at_ms"])

    @property
    def end(self) -> datetime:
        return max(_moment(entry["at_ms"]) + _length(entry) for entry in self.entries)


def build(
    trace: Sequence[dict[str, Any]], commits: Mapping[int, tuple[str, datetime | None]],
    held_until: datetime | None = None,
) -> Timeline:  # fmt: skip
    """Build all fourteen rows; `commits` gives a note and the database's time for steps that commit.

    `held_until` is when people were done with a held call; None for a call that never waited for them.
    """
    passes = _passes(trace)
    moments = {step: (note, at) for step, (note, at) in commits.items() if at is not None}
    waits = list(_waits(passes, [at for _, at in moments.values()], held_until))
    ends = [moment for found in passes for moment in (found.start, found.end)] + [at for _, at in moments.values()]
    scale = _Scale(min(ends), max(ends), [(start, end) for _, start, end in waits]) if ends else None
    steps = []
    for number, name in STEP_NAMES.items():
        bars = [
            _bar(scale, found.label, _moment(entry["at_ms"]), _length(entry))
            for found in passes for entry in found.entries if scale and entry["step"] == number
        ]  # fmt: skip
        if scale and number in moments:
            note, at = moments[number]
            bars.append(Bar(note, at, None, scale.x(at), _LEAST))
        text = "rendered from the row at every read" if number == 14 else ""
        steps.append(StepRow(number, name, number in COMMIT_STEPS, number in moments, tuple(bars), text))
    bars = [_bar(scale, label, start, end - start) for label, start, end in waits if scale]
    waiting = sum(bar.milliseconds or 0 for bar in bars)
    whole = _milliseconds(max(ends) - min(ends)) if ends else 0
    return Timeline(tuple(steps), tuple(bars), max(whole - waiting, 0), waiting)


def duration(milliseconds: float) -> str:
    """Say a length as people do: `12.3 ms`, `4.05 s`, `20 min 7 s`, `3 h 4 min`."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def _passes(trace: Sequence[dict[str, Any]]) -> list[Pass]:
    """Cut the trace where a step is not after the one before: there another pass begins."""
    found: list[list[dict[str, Any]]] = []
    for entry in trace:
        if not found or entry["step"] <= found[-1][-1]["step"]:
            found.append([])
        found[-1].append(entry)
    passes = []
    for number, entries in enumerate(found, start=1):
        in_worker = number > 1 or any(entry["step"] >= _FIRST_OF_A_WORKER for entry in entries)
        passes.append(Pass(f"{'worker' if in_worker else 'web'}, pass {number}", tuple(entries)))
    return passes


def _waits(
    passes: Sequence[Pass], moments: Sequence[datetime], held_until: datetime | None
) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield the gaps between passes. A commit after a pass still belongs to it; people's part comes first."""
    for before, after in pairwise(passes):
        start = max([before.end, *(at for at in moments if before.end <= at <= after.start)])
        if held_until is not None and start < held_until:
            until = min(held_until, after.start)
            yield "waiting for a person", start, until
            start = until
        if start < after.start:
            yield "waiting for a worker", start, after.start


class _Scale:
    """Places moments on one scale on which work is to scale and each wait has one short piece."""

    def __init__(self, start: datetime, end: datetime, waits: Sequence[tuple[datetime, datetime]]) -> None:
        self._start, self._waits = start, waits
        waited = sum((until - since for since, until in waits), timedelta())
        self._wait_width = min(WAIT_WIDTH, WIDTH / 2 / max(len(waits), 1))
        worked = max((end - start - waited).total_seconds(), 0.000_1)
        self._unit = (WIDTH - _LEAST - self._wait_width * len(waits)) / worked

    def x(self, at: datetime) -> float:
        found, work = 0.0, (at - self._start).total_seconds()
        for since, until in self._waits:
            inside = min(max((at - since).total_seconds(), 0.0), (until - since).total_seconds())
            work -= inside
            found += inside / max((until - since).total_seconds(), 0.000_001) * self._wait_width
        return round(min(max(found + work * self._unit, 0.0), WIDTH - _LEAST), 2)


def _bar(scale: _Scale, label: str, start: datetime, length: timedelta) -> Bar:
    x = scale.x(start)
    return Bar(label, start, _milliseconds(length), x, max(round(scale.x(start + length) - x, 2), _LEAST))


def _length(entry: Mapping[str, Any]) -> timedelta:
    return timedelta(microseconds=entry["us"])


def _milliseconds(length: timedelta) -> float:
    return length.total_seconds() * 1000


def _moment(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
