"""What is counted of calls, under the specification's six names, where their terminal row has just been committed.

Beside them, what tools count themselves (`ToolResult.metrics`). A tool's name is a label because the specification
wants it; past the first `MAXIMUM_TOOLS` of a process the rest are counted together. Tenants, sessions and texts are
never labels. Source: TS "Spans and metrics", "ToolResult".
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from prometheus_client import Counter, Histogram

from toolsys import spans
from toolsys.domain.states import OutcomeStatus
from toolsys.labels import OTHER, BoundedLabel
from toolsys.ports import Case

MAXIMUM_TOOLS: Final = 2_000
# Names that tools give to what they count: those of a process, and those of one result.
MAXIMUM_COUNTERS: Final = 50
_COUNTER: Final = re.compile(r"[a-z][a-z0-9_]{0,47}\Z")
# A name that the session does not offer is a model's text.
UNKNOWN: Final = "unknown"
_OF_TOOL: Final = ["tool_name", "tool_source"]
_BYTES: Final = tuple(float(4**power) for power in range(3, 12))

CALLS: Final = Counter("tool_calls_total", "Calls by outcome.", [*_OF_TOOL, "outcome_status"])
FAILURES: Final = Counter("tool_failures_total", "Calls that did not succeed.", [*_OF_TOOL, "reason_code"])
SECONDS: Final = Histogram(
    "tool_duration_seconds", "From the claim to the recorded result.", _OF_TOOL,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)  # fmt: skip
OUTPUT_BYTES: Final = Histogram("tool_output_bytes", "What a tool gave back, whole.", _OF_TOOL, buckets=_BYTES)
TRUNCATIONS: Final = Counter("tool_truncations_total", "Results of which the model got an excerpt.", _OF_TOOL)
UNCERTAIN: Final = Counter("tool_uncertain_total", "Calls of which nobody knows: each is a review.", _OF_TOOL)

REPORTED: Final = Counter("tool_reported_total", "What tools count themselves.", [*_OF_TOOL, "counter"])

tool_label: Final = BoundedLabel(MAXIMUM_TOOLS)
counter_label: Final = BoundedLabel(MAXIMUM_COUNTERS)


def settled(case: Case, status: OutcomeStatus, reason_code: str, seconds: float | None) -> None:
    """Count one call whose terminal row is committed, once; `seconds` is None where no worker had claimed it."""
    labels = _labels(case)
    CALLS.labels(*labels, status).inc()
    if status is not OutcomeStatus.SUCCEEDED:
        FAILURES.labels(*labels, reason_code).inc()
    if status is OutcomeStatus.UNCERTAIN:
        UNCERTAIN.labels(*labels).inc()
    if seconds is not None:
        SECONDS.labels(*labels).observe(seconds)
    truncated = case.output is not None and case.output.truncated
    if case.output is not None and case.result is not None:
        OUTPUT_BYTES.labels(*labels).observe(case.output.output_bytes)
    if truncated:
        TRUNCATIONS.labels(*labels).inc()
    if case.result is not None:
        _reported(labels, case.result.metrics)
    spans.describe(outcome_status=status.value, reason_code=reason_code, truncated=truncated)


def described(case: Case) -> None:
    """Say in the pass's span which call it is."""
    group = case.call.step.parallel_group
    if case.tool is None:
        spans.describe(name=UNKNOWN)
        return
    spans.describe(
        name=case.spec.name, source=case.spec.source.value, version=case.spec.version,
        idempotency_class=case.classification.idempotency.value, parallel_group=str(group) if group else None,
    )  # fmt: skip


def _reported(labels: tuple[str, str], metrics: Mapping[str, int]) -> None:
    """A tool is code that we did not write: its names are bounded and plain, and no count falls."""
    for name, value in islice(metrics.items(), MAXIMUM_COUNTERS):
        if value > 0:
            REPORTED.labels(*labels, counter_label(name) if _COUNTER.match(name) else OTHER).inc(value)


def _labels(case: Case) -> tuple[str, str]:
    if case.tool is None:
        return UNKNOWN, UNKNOWN
    return tool_label(case.spec.name), case.spec.source.value
