"""Our spans through the SDK that a deployment would install: what an exporter is given of a call of an MCP client."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House, doors, houses  # noqa: F401 - fixtures
from tests.integration.mcp.test_ladder import READ, Scene, proposed, scene  # noqa: F401 - fixture
from tests.spec.requirements import gate
from toolsys import spans

pytestmark = pytest.mark.slow
SECRET, ARGUMENT = "one", 471_147_114


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "TRACER", provider.get_tracer("toolsys"))
    yield exporter
    provider.shutdown()


@gate("spans.tree")
def test_api_worker_and_mcp_request_are_one_trace_and_hold_no_secret_and_no_argument(
    acme: Tenancy, houses: Callable[[], House], scene: Scene, exported: InMemorySpanExporter  # noqa: F811
) -> None:  # fmt: skip
    peer, config_of, _ = scene
    house, config = houses(), config_of(READ)
    acme = house.offer(acme, config)
    exported.clear()
    call = proposed(acme, config, n=ARGUMENT)
    acme.work(house.runtime, call)
    found = exported.get_finished_spans()
    passes = sorted(named(found, "tool.execute"), key=lambda span: span.start_time or 0)
    (web, worker), sent = passes, [each for each in named(found, "mcp.request") if method(each) == "tools/call"]
    assert {span.context.trace_id for span in found if span.context} == {call.invocation_id.int}
    assert [parent(span) for span in (web, worker)] == [call.invocation_id.int & (1 << 64) - 1] * 2
    assert [parent(span) for span in sent] == [own(worker)]
    assert sorted(parent(span) for span in named(found, "policy.evaluate")) == sorted([own(web), own(worker)])
    assert {span.status.status_code for span in found} == {StatusCode.UNSET}
    assert all(not span.events for span in found), "what was raised may hold what nobody may read"
    told = " ".join(span.to_json() for span in found)
    assert peer.sent("tools/call")[-1]["authorization"] == f"Bearer {SECRET}"
    for hidden in (f"Bearer {SECRET}", f'"{SECRET}"', str(ARGUMENT), acme.id, "authorization"):
        assert hidden not in told, hidden


def named(found: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in found if span.name == name]


def method(span: ReadableSpan) -> object:
    return (span.attributes or {}).get("mcp.method")


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return int(span.parent.span_id)


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)
