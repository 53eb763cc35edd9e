"""Spans of the call path for whoever runs OpenTelemetry: `tool.execute` for each pass of a call, and what is in it.

Only the API is used: without an SDK that the deployment installs, nothing is recorded and nothing travels. All passes
of a call share one trace, in whichever process; its id is the invocation's. Never arguments, results, texts or a
tenant. Source: TS "Spans and metrics", DESIGN §11.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer

TRACER: Tracer = trace.get_tracer("toolsys")
VALIDATION: Final = (4, 5)
POLICY: Final = 6


@dataclass(slots=True)
class _Pass:
    """One entry into the pipeline. Two steps are one span: it is written when the pass is over."""

    span: Span
    validated: tuple[int, int] | None = None

    def note(self, step: int, start: int, end: int) -> None:
        if step in VALIDATION:
            self.validated = (self.validated[0] if self.validated else start, end)
        elif step == POLICY:
            _written("policy.evaluate", start, end)


_pass: ContextVar[_Pass | None] = ContextVar("tool_pass", default=None)


@contextmanager
def execute(invocation_id: UUID) -> Iterator[None]:
    """Record one pass of a call, and make it the parent of what happens inside, on the tools' loop too."""
    span = TRACER.start_span("tool.execute", context=_of_call(invocation_id), links=_caller())
    if not span.is_recording():
        yield
        return
    current = _Pass(span)
    token = _pass.set(current)
    try:
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            finally:
                if current.validated is not None:
                    _written("tool.validate", *current.validated)
    finally:
        _pass.reset(token)


def describe(**attributes: str | bool | None) -> None:
    """Set `tool.*` attributes of the pass: its identity and its outcome. None is not set."""
    current = _pass.get()
    if current is not None:
        known = {f"tool.{name}": value for name, value in attributes.items() if value is not None}
        current.span.set_attributes(known)


def step(number: int, started: float, seconds: float) -> None:
    """Note a step of the pass; `started` is Unix seconds."""
    current = _pass.get()
    if current is not None:
        current.note(number, _nanoseconds(started), _nanoseconds(started + seconds))


@contextmanager
def request(server_id: str, method: str) -> Iterator[Span]:
    """Record `mcp.request`: one JSON-RPC round trip. The caller sets its `mcp.outcome`."""
    named = {"mcp.server": server_id, "mcp.method": method}
    with TRACER.start_as_current_span(
        "mcp.request", kind=SpanKind.CLIENT, attributes=named, record_exception=False, set_status_on_exception=False
    ) as span:
        yield span


def _written(name: str, start: int, end: int) -> None:
    TRACER.start_span(name, start_time=start).end(end_time=end)


def _of_call(invocation_id: UUID) -> Context:
    """Whoever goes on with the call, later and elsewhere, finds the same trace without having been told."""
    half = invocation_id.int & (1 << 64) - 1
    above = SpanContext(invocation_id.int, half, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(above))


def _caller() -> list[trace.Link]:
    """Link to what the web server's own instrumentation records, if any: no caller's context becomes a parent."""
    found = trace.get_current_span().get_span_context()
    return [trace.Link(found)] if found.is_valid else []


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
