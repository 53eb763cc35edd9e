"""A tracer that keeps what it is told, in the place of an SDK's: only OpenTelemetry's API is installed here."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, TraceFlags, Tracer


@dataclass
class Recorded(Span):
    name: str
    context: SpanContext
    parent: SpanContext
    attributes: dict[str, Any]
    start: int | None
    stop: int | None = None
    is_ended: bool = False

    def end(self, end_time: int | None = None) -> None:
        self.stop, self.is_ended = end_time, True

    def get_span_context(self) -> SpanContext:
        return self.context

    def set_attributes(self, attributes: Any) -> None:
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def is_recording(self) -> bool:
        return not self.is_ended

    def add_event(self, *_: Any, **__: Any) -> None:
        raise AssertionError("a span of ours has no events")

    def record_exception(self, *_: Any, **__: Any) -> None:
        raise AssertionError("what was raised may hold what nobody may read")

    def update_name(self, name: str) -> None: ...

    def set_status(self, *_: Any, **__: Any) -> None: ...


@dataclass
class Recorder(Tracer):
    spans: list[Recorded] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def start_span(self, name: str, context: Any = None, *_: Any, **given: Any) -> Recorded:
        parent = trace.get_current_span(context).get_span_context()
        own = SpanContext(parent.trace_id, next(self._ids), is_remote=False, trace_flags=TraceFlags(1))
        span = Recorded(name, own, parent, dict(given.get("attributes") or {}), given.get("start_time"))
        self.spans.append(span)
        return span

    @contextmanager
    def start_as_current_span(self, name: str, context: Any = None, *_: Any, **given: Any) -> Iterator[Span]:  # type: ignore[override]
        span = self.start_span(name, context, **given)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield span

    def named(self, name: str) -> list[Recorded]:
        return [span for span in self.spans if span.name == name]
