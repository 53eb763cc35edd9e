"""The specification's six counts of calls and its spans, over real calls: each ending once, and nobody's words."""

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House, doors, houses  # noqa: F401 - fixtures
from tests.integration.mcp.test_ladder import READ, WRITE, proposed
from tests.spec.requirements import gate
from tests.standins import always, with_tool
from tests.tracing import Recorder
from toolsys import spans, telemetry
from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.labels import OTHER, BoundedLabel
from toolsys.ports import Runtime

ECHO = ("demo.echo", "builtin")


def counted(name: str, tool: tuple[str, str], **labels: str) -> float:
    given = {"tool_name": tool[0], "tool_source": tool[1], **labels}
    return REGISTRY.get_sample_value(name, given) or 0.0


def _samples(name: str) -> list[Any]:
    return [sample for each in REGISTRY.collect() for sample in each.samples if sample.name == name]


@gate("metrics.tools")
@pytest.mark.parametrize(("result", "status", "reason"), [
    (ToolResult(ok=True, content=(TextPart(text="x"),)), "succeeded", "tool.succeeded"),
    (ToolResult(ok=True, content=(TextPart(text="x" * 9_000),)), "succeeded", "tool.succeeded"),
    (ToolResult(ok=False, failure=ToolFailure(kind=ToolFailureKind.UPSTREAM_ERROR, reason_code="tool.upstream_error",
                                              detail="secret words")), "failed", "tool.upstream_error"),
])  # fmt: skip
def test_each_call_is_counted_once_by_how_it_ended(
    acme: Tenancy, worker: Runtime, result: ToolResult, status: str, reason: str
) -> None:
    def shown() -> dict[str, float]:
        return {
            "calls": counted("tool_calls_total", ECHO, outcome_status=status),
            "failures": counted("tool_failures_total", ECHO, reason_code=reason),
            "seconds": counted("tool_duration_seconds_count", ECHO),
            "outputs": counted("tool_output_bytes_count", ECHO),
            "bytes": counted("tool_output_bytes_sum", ECHO),
            "truncations": counted("tool_truncations_total", ECHO),
            "uncertain": counted("tool_uncertain_total", ECHO),
        }

    before = shown()
    (call,) = acme.propose(("demo.echo", {}))
    assert shown() == before, "a call that is under way is not counted"
    acme.work(with_tool(worker, always(result)), call)
    acme.work(worker, call)
    found = {name: value - before[name] for name, value in shown().items()}
    view = acme.call(call)
    assert (view.outcome_status, view.reason_code) == (status, reason)
    assert found == {
        "calls": 1, "failures": float(status != "succeeded"), "seconds": 1, "outputs": 1,
        "bytes": view.output_bytes, "truncations": float(view.truncated), "uncertain": 0,
    }  # fmt: skip


@gate("metrics.tools")
def test_what_a_tool_counted_itself_is_counted_under_plain_bounded_names(acme: Tenancy, worker: Runtime) -> None:
    names = {"pages_read": 2, "fell": -1, "nothing": 0, "Tell me your secret": 5}
    before = {name: counted("tool_reported_total", ECHO, counter=name) for name in [*names, OTHER]}
    (call,) = acme.propose(("demo.echo", {}))
    said = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"}, metrics=names)
    acme.work(with_tool(worker, always(said)), call)
    acme.work(worker, call)
    assert acme.call(call).reason_code == "tool.succeeded"
    found = {name: counted("tool_reported_total", ECHO, counter=name) - then for name, then in before.items()}
    assert found == {"pages_read": 2, "fell": 0, "nothing": 0, "Tell me your secret": 0, OTHER: 5}


@gate("metrics.labels")
def test_a_result_that_counts_without_end_makes_a_bounded_number_of_series(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "counter_label", BoundedLabel(telemetry.MAXIMUM_COUNTERS))
    rest = counted("tool_reported_total", ECHO, counter=OTHER)
    for batch in range(2):
        (call,) = acme.propose(("demo.echo", {"text": str(batch)}))
        metrics = {f"endless{batch}_{number}": 1 for number in range(500)}
        acme.work(with_tool(worker, always(ToolResult(ok=True, metrics=metrics, structured={"text": "x"}))), call)
    shown = {sample.labels["counter"] for sample in _samples("tool_reported_total") if "endless" in str(sample.labels)}
    assert len(shown) == telemetry.MAXIMUM_COUNTERS
    assert counted("tool_reported_total", ECHO, counter=OTHER) - rest == telemetry.MAXIMUM_COUNTERS, "each call's too"


@gate("metrics.tools")
def test_a_refused_call_is_counted_and_what_no_session_offers_is_no_label(acme: Tenancy) -> None:
    invalid, unknown = ("math.evaluate", "builtin"), (telemetry.UNKNOWN, telemetry.UNKNOWN)
    before = (
        counted("tool_calls_total", invalid, outcome_status="failed"),
        counted("tool_calls_total", unknown, outcome_status="denied"),
        counted("tool_duration_seconds_count", invalid),
    )
    acme.propose(("math.evaluate", {"nothing": 1}), ("mcp.nobody.says_what_it_likes", {}))
    after = (
        counted("tool_calls_total", invalid, outcome_status="failed"),
        counted("tool_calls_total", unknown, outcome_status="denied"),
        counted("tool_duration_seconds_count", invalid),
    )
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 0]
    assert not any("says_what_it_likes" in str(sample.labels) for each in REGISTRY.collect() for sample in each.samples)


@gate("metrics.tools")
@pytest.mark.slow
def test_an_uncertain_write_of_a_server_is_counted_as_one(
    acme: Tenancy, houses: Callable[[], House], doors: Doors  # noqa: F811
) -> None:  # fmt: skip
    name, _ = doors.peer(calls=["drop"])
    house, config = houses(), doors.at(name, acme.id, classification=WRITE)
    acme = house.offer(acme, config)
    tool = (f"mcp.{name}.t", "mcp")

    def found() -> list[float]:
        return [
            counted("tool_uncertain_total", tool),
            counted("tool_calls_total", tool, outcome_status="uncertain"),
            counted("tool_failures_total", tool, reason_code="tool.outcome_unknown"),
        ]

    before = found()  # of other tests of this process, whose servers have the same names
    acme.work(house.runtime, proposed(acme, config, n=1))
    assert [now - then for now, then in zip(found(), before, strict=True)] == [1, 1, 1]


@gate("metrics.labels")
def test_a_process_shows_a_bounded_number_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "tool_label", BoundedLabel(telemetry.MAXIMUM_TOOLS))
    labels = [telemetry.tool_label(f"mcp.s.t{number}") for number in range(telemetry.MAXIMUM_TOOLS + 50)]
    assert (len(set(labels)), labels[-1]) == (telemetry.MAXIMUM_TOOLS + 1, OTHER)
    assert telemetry.tool_label("mcp.s.t0") == "mcp.s.t0"


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(spans, "TRACER", found)
    return found


@gate("spans.tree")
@pytest.mark.slow
def test_the_passes_of_a_call_are_one_trace_with_what_the_specification_names(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, recorder: Recorder  # noqa: F811
) -> None:  # fmt: skip
    name, peer = doors.peer()
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    recorder.spans.clear()
    call = proposed(acme, config, n=471_147_114)
    acme.work(house.runtime, call)
    web, worker = recorder.named("tool.execute")
    assert {span.context.trace_id for span in recorder.spans} == {call.invocation_id.int}
    for each in (web, worker):
        children = [span.name for span in recorder.spans if span.parent.span_id == each.context.span_id]
        asked = ["mcp.request"] * (children.count("mcp.request"))
        assert sorted(children) == sorted([*asked, "policy.evaluate", "tool.validate"])
        assert bool(asked) is (each is worker)
    assert [span.attributes for span in recorder.named("mcp.request")][-1] == {
        "mcp.server": name, "mcp.method": "tools/call", "mcp.outcome": "succeeded",
    }  # fmt: skip
    identity = {
        "tool.name": f"mcp.{name}.t", "tool.source": "mcp", "tool.version": acme.call(call).tool_version,
        "tool.idempotency_class": "read_only",
    }  # fmt: skip
    assert web.attributes == identity
    assert worker.attributes == identity | {
        "tool.outcome_status": "succeeded", "tool.reason_code": "tool.succeeded", "tool.truncated": False,
    }  # fmt: skip
    assert all(span.is_ended for span in recorder.spans)
    assert all(span.stop > span.start for span in recorder.named("tool.validate") if span.stop and span.start)
    assert "471147114" not in repr(recorder.spans)
    (sent,) = [message for method, _, message in peer.seen if method == "tools/call"]
    assert sent["params"]["_meta"]["traceparent"].split("-")[1] == call.invocation_id.hex


@gate("spans.tree")
@pytest.mark.slow
def test_without_an_sdk_nothing_is_recorded_and_nothing_travels(
    acme: Tenancy, houses: Callable[[], House], doors: Doors  # noqa: F811
) -> None:  # fmt: skip
    name, peer = doors.peer()
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    acme.work(house.runtime, proposed(acme, config, n=1))
    (sent,) = [message for method, _, message in peer.seen if method == "tools/call"]
    assert not {"traceparent", "tracestate", "baggage"} & sent["params"]["_meta"].keys()


@gate("spans.tree")
def test_a_refused_call_has_its_reason_in_its_span(acme: Tenancy, recorder: Recorder) -> None:
    acme.propose(("math.evaluate", {"nothing": 1}))
    (found,) = recorder.named("tool.execute")
    expected: dict[str, Any] = {"tool.outcome_status": "failed", "tool.reason_code": "tool.arguments_invalid"}
    assert found.attributes.items() >= expected.items()
    assert len(recorder.named("tool.validate")) == 1
    assert recorder.named("policy.evaluate") == []
