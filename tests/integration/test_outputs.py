"""Output through the whole pipeline: what is adopted, what is refused, and that the tool has run all the same."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.factories import Tenancy, events_of
from tests.spec.requirements import gate
from tests.standins import always, with_tool
from toolsys import artifacts
from toolsys.artifacts import StoredArtifacts
from toolsys.domain.calls import Disposition
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ArtifactPart, ArtifactRef, TextPart, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.domain.trust import TrustLevel
from toolsys.models import Artifact, Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def ended(tenancy: Tenancy, worker: Runtime, name: str = "demo.echo", arguments: Any = None) -> Disposition:
    (proposed,) = tenancy.propose((name, arguments or {}))
    (done,) = tenancy.work(worker, proposed)
    return done


def adopted(tenancy: Tenancy, disposition: Disposition) -> list[Artifact]:
    with tenant_transaction(tenancy.id):
        return list(Artifact.objects.filter(invocation_id=disposition.invocation_id).order_by("id"))


@gate("output.invalid")
@pytest.mark.parametrize("structured", [
    {"a": "no number"}, {}, None, [], {1: 2}, {("x", "y"): 1}, {"a": datetime(2026, 1, 1, tzinfo=UTC)}, {"a": {1, 2}},
    {"a": b"x"}, object(),
])  # fmt: skip
def test_a_result_that_does_not_fit_its_schema_failed_and_has_run(
    acme: Tenancy, worker: Runtime, structured: Any
) -> None:
    done = ended(acme, with_tool(worker, always(ToolResult(ok=True, structured=structured)), output_schema=OBJECT))
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.output_invalid")
    assert "tool.call.started" in events_of(acme, done)
    with tenant_transaction(acme.id):
        row = Invocation.objects.get(pk=done.invocation_id)
    assert row.error is not None
    assert "2026" not in str(row.error), "what a validator says never holds the value"


@gate("validation.total")
@pytest.mark.parametrize("answer", [None, {"ok": True}, "done", object()], ids=["none", "object", "text", "other"])
def test_an_answer_that_is_no_result_failed_and_has_run(acme: Tenancy, worker: Runtime, answer: Any) -> None:
    async def junk(*_arguments: object) -> Any:
        return answer

    done = ended(acme, with_tool(worker, junk))
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.output_invalid")
    assert "tool.call.started" in events_of(acme, done)


@gate("validation.total")
@pytest.mark.parametrize("wish", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_tool_that_asks_its_process_to_end_has_failed_and_ends_nothing_else(
    acme: Tenancy, worker: Runtime, wish: BaseException
) -> None:
    async def leaving(*_arguments: object) -> ToolResult:
        raise wish

    done = ended(acme, with_tool(worker, leaving))
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.internal")
    assert ended(acme, worker, arguments={"text": "x"}).outcome_status == "succeeded"


@gate("output.invalid")
def test_an_answer_that_did_not_fit_stays_readable_as_text(acme: Tenancy, worker: Runtime) -> None:
    done = ended(acme, with_tool(worker, always(ToolResult(ok=True, structured={"a": "x"})), output_schema=OBJECT))
    payload = acme.call(done).payload
    assert (payload["content"], payload["structured"]) == ([{"type": "text", "text": '{"a":"x"}'}], None)


@gate("artifact.order", "output.artifact")
def test_a_large_result_is_an_adopted_artifact_with_its_bytes(acme: Tenancy, worker: Runtime) -> None:
    done = ended(acme, worker, "demo.large_output", {"bytes": 50_000})
    call = acme.call(done)
    (row,) = adopted(acme, done)
    assert (call.artifact_id, call.truncated, call.output_bytes) == (row.id, True, 50_000)
    assert (row.adopted_at is not None, row.size_bytes, row.media_type) == (True, 50_000, "text/plain; charset=utf-8")
    store = worker.artifacts
    data = store.read(tenant_id=acme.id, artifact_id=row.id, storage_key=row.storage_key, sha256=row.sha256)
    assert (len(data), data[:6], data[-2:]) == (50_000, b"line 0", b"78")
    assert len(call.payload["context_content"].encode()) <= 4_096 + 4 * 100
    assert call.payload["content"][0]["text"].encode() == data


@gate("output.reader", "output.ceiling")
def test_a_runaway_is_stopped_and_its_partial_output_kept(acme: Tenancy, worker: Runtime) -> None:
    done = ended(acme, worker, "demo.large_output", {"bytes": 1 << 30})
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.output_too_large")
    (row,) = adopted(acme, done)
    assert (row.size_bytes, row.trust, row.adopted_at is not None) == (4 * 65_536, "external_untrusted", True)
    assert acme.call(done).payload["context_content"].startswith('<external trust="external_untrusted"')


async def image(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
    reference = await context.artifacts.write(b"\x89PNG....", "image/png")
    parts = (TextPart(text="a picture"), ArtifactPart(artifact=reference))
    return ToolResult(ok=True, content=parts, artifacts=(reference,))


@gate("artifact.trust")
def test_an_image_is_an_adopted_artifact_of_its_type_and_label(acme: Tenancy, worker: Runtime) -> None:
    done = ended(acme, with_tool(worker, image))
    (row,) = adopted(acme, done)
    assert (row.media_type, row.size_bytes, row.trust) == ("image/png", 8, "internal_tool")
    assert row.adopted_at is not None
    call = acme.call(done)
    assert (call.artifact_id, call.truncated) == (row.id, False)
    assert call.payload["context_content"] == f"a picture\n[artifact:{row.id}; image/png; 8 bytes]"


@gate("artifact.own")
def test_an_artifact_of_another_call_is_no_answer_of_this_one(acme: Tenancy, worker: Runtime) -> None:
    (theirs,) = adopted(acme, ended(acme, with_tool(worker, image)))
    reference = ArtifactRef(artifact_id=theirs.id, media_type="image/png", size_bytes=8, sha256=theirs.sha256)
    done = ended(acme, with_tool(worker, always(ToolResult(ok=True, artifacts=(reference,)))))
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.output_invalid")
    assert adopted(acme, done) == []
    assert acme.call(done).artifact_id is None


@gate("artifact.bounded")
@pytest.mark.parametrize(
    ("count", "size", "kept"), [(1, 101, 0), (1, 100, 1), (5, 100, 4), (4, 100, 4), (9, 1, 8)], ids=str
)
def test_what_a_tool_may_write_is_bounded(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, count: int, size: int, kept: int
) -> None:
    store = worker.artifacts
    assert isinstance(store, StoredArtifacts)
    monkeypatch.setattr(artifacts, "MAXIMUM_PER_ATTEMPT", 8)
    written: list[ArtifactRef] = []

    async def writing(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        for _ in range(count):
            reference = await context.artifacts.write(b"x" * size, "image/png")
            written.append(reference)
        return ToolResult(ok=True, content=(TextPart(text="done"),))

    small = replace(worker, artifacts=replace(store, maximum_bytes=100))
    done = ended(acme, with_tool(small, writing))
    assert len(written) == len(adopted(acme, done)) == kept
    assert done.reason_code == ("tool.succeeded" if kept == count else "tool.output_too_large")


@gate("output.unkept")
def test_a_full_disk_fails_the_call_and_leaves_no_row(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = worker.artifacts
    assert isinstance(store, StoredArtifacts)

    def full(*arguments: Any, **more: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(store.storage), "save", full)
    done = ended(acme, worker, "demo.large_output", {"bytes": 50_000})
    assert (done.outcome_status, done.reason_code) == ("failed", "tool.output_too_large")
    by_tool = ended(acme, with_tool(worker, image))
    assert (by_tool.outcome_status, by_tool.reason_code) == ("failed", "tool.output_too_large")
    assert adopted(acme, done) == adopted(acme, by_tool) == []
    assert "an artifact could not be stored: No space left on device" in caplog.text, "who operates this is told why"


def test_trust_that_a_tool_lowers_is_the_label_of_its_artifact(acme: Tenancy, worker: Runtime) -> None:
    async def lowering(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        made = await image(arguments, context)
        return made.model_copy(update={"output_trust": TrustLevel.EXTERNAL_UNTRUSTED})

    done = ended(acme, with_tool(worker, lowering))
    assert [row.trust for row in adopted(acme, done)] == ["external_untrusted"]
    assert acme.call(done).output_trust == "external_untrusted"


def test_an_identifier_that_nobody_wrote_is_refused(acme: Tenancy, worker: Runtime) -> None:
    made_up = ArtifactRef(artifact_id=UUID(int=1), media_type="image/png", size_bytes=1, sha256="")
    done = ended(acme, with_tool(worker, always(ToolResult(ok=True, artifacts=(made_up,)))))
    assert done.reason_code == "tool.output_invalid"
