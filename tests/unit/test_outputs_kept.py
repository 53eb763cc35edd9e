"""What is bounded beside the text: structured values, references to artifacts, results that cannot be kept."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import ARTIFACT_ID, KeptArtifacts
from tests.unit.test_outputs import bound, failure, text
from toolsys import outputs
from toolsys.domain import structured
from toolsys.domain.excerpt import elision_line
from toolsys.domain.results import ArtifactPart, ArtifactRef, TextPart, ToolResult
from toolsys.domain.states import OutcomeStatus
from toolsys.domain.trust import TrustLevel

IMAGE = ArtifactRef(artifact_id=UUID(int=7), media_type="image/png", size_bytes=2_048, sha256="ab")
LINE = f"[artifact:{IMAGE.artifact_id}; image/png; 2,048 bytes]"


@gate("output.structured")
def test_a_small_text_does_not_carry_a_large_structured_value_past_the_limit() -> None:
    artifacts = KeptArtifacts()
    value = {"rows": ["x" * 100] * 20}
    found = bound(text("20 rows", structured=value), artifacts)
    assert found.payload["content"] == [{"type": "text", "text": "20 rows"}]
    assert found.payload["structured"] is None
    assert [json.loads(data) for data, _ in artifacts.saved] == [value]
    assert artifacts.kinds == ["application/json"]
    assert (found.truncated, found.artifact_id, found.output_bytes) == (True, ARTIFACT_ID, 7)
    assert found.payload["artifacts"][0]["media_type"] == "application/json"
    assert found.outcome_status is OutcomeStatus.SUCCEEDED


@gate("output.structured")
def test_a_structured_value_at_the_limit_is_kept_beside_its_text() -> None:
    value = {"a": "x" * (1_000 - len('{"a":""}'))}
    artifacts = KeptArtifacts()
    assert bound(text("x", structured=value), artifacts).payload["structured"] == value
    assert artifacts.saved == []
    value["a"] += "x"
    assert bound(text("x", structured=value), artifacts).payload["structured"] is None


@gate("output.structured", "output.ceiling")
@pytest.mark.parametrize("parts", [(), (TextPart(text="small"),)], ids=["alone", "beside a text"])
def test_ten_megabytes_of_structure_are_cut_and_the_call_has_failed(parts: tuple[TextPart, ...]) -> None:
    artifacts = KeptArtifacts()
    found = bound(ToolResult(ok=True, content=parts, structured={"a": "x" * 10_000_000}), artifacts)
    assert (found.outcome_status, found.reason_code) == (OutcomeStatus.FAILED, "tool.output_too_large")
    assert found.payload["structured"] is None
    assert [len(data) for data, _ in artifacts.saved] == [4_000]
    assert artifacts.kinds == ["text/plain; charset=utf-8"], "half of a JSON text is none"
    assert len(json.dumps(found.payload)) < 4_000


@gate("output.structured")
def test_large_streams_are_excerpted_and_the_exit_code_stays() -> None:
    artifacts = KeptArtifacts()
    value = {"exit_code": 3, "stdout": "o" * 2_000, "stderr": "small"}
    found = bound(text("3 tests failed", structured=value), artifacts)
    kept = found.payload["structured"]
    assert (kept["exit_code"], kept["stderr"]) == (3, "small")
    assert kept["stdout"].startswith("ooo")
    assert f"artifact:{ARTIFACT_ID} ..." in kept["stdout"]
    assert len(json.dumps(kept, separators=(",", ":"))) <= 1_000
    assert json.loads(artifacts.saved[0][0]) == value
    assert found.outcome_status is OutcomeStatus.SUCCEEDED


@gate("output.structured")
@pytest.mark.parametrize("value", [
    {"stdout": "\n" * 3_000, "stderr": '"' * 3_000}, {"stdout": "x" * 3_000}, {"stderr": "é" * 900, "stdout": ""},
])  # fmt: skip
@pytest.mark.parametrize("limit", [300, 1_000])
def test_fitted_streams_are_within_the_limit_as_json(value: dict[str, str], limit: int) -> None:
    found = structured.fitted(value, limit, ARTIFACT_ID)
    assert found is not None
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) <= limit
    assert found.keys() == value.keys()


@pytest.mark.parametrize("value", [
    ["x" * 2_000], {"other": "x" * 2_000}, {"stdout": ["x" * 2_000]}, {"stdout": "x" * 99, "other": "x" * 2_000},
])  # fmt: skip
def test_what_no_stream_explains_is_left_out(value: Any) -> None:
    assert structured.fitted(value, 1_000, ARTIFACT_ID) is None


@gate("output.artifact")
def test_a_reference_is_a_part_a_line_and_an_adopted_artifact() -> None:
    artifacts = KeptArtifacts(IMAGE)
    parts = (TextPart(text="before"), TextPart(text="still"), ArtifactPart(artifact=IMAGE), TextPart(text="after"))
    found = bound(ToolResult(ok=True, content=parts), artifacts)
    image = {"type": "artifact", "artifact": IMAGE.model_dump(mode="json")}
    assert found.payload["content"] == [
        {"type": "text", "text": "before\nstill"}, image, {"type": "text", "text": "after"},
    ]  # fmt: skip
    assert found.payload["context_content"] == f"before\nstill\n{LINE}\nafter"
    assert found.payload["artifacts"] == [IMAGE.model_dump(mode="json")]
    assert (found.artifact_id, found.truncated, artifacts.saved) == (IMAGE.artifact_id, False, [])


def test_references_outlive_the_excerpt_of_the_text_beside_them() -> None:
    artifacts = KeptArtifacts(IMAGE)
    found = bound(ToolResult(ok=True, content=(TextPart(text="x" * 2_000), ArtifactPart(artifact=IMAGE))), artifacts)
    assert [part["type"] for part in found.payload["content"]] == ["text", "artifact"]
    assert (found.artifact_id, found.truncated) == (ARTIFACT_ID, True)
    assert [ref["artifact_id"] for ref in found.payload["artifacts"]] == [str(IMAGE.artifact_id), str(ARTIFACT_ID)]


@gate("artifact.own")
@pytest.mark.parametrize("where", ["content", "artifacts"])
def test_a_reference_to_what_this_attempt_did_not_write_is_no_answer(where: str) -> None:
    foreign = ArtifactRef(artifact_id=UUID(int=9), media_type="image/png", size_bytes=1, sha256="")
    given = {"content": (ArtifactPart(artifact=foreign),)} if where == "content" else {"artifacts": (foreign,)}
    found = bound(ToolResult(ok=True, **given), KeptArtifacts(IMAGE))
    assert (found.outcome_status, found.reason_code) == (OutcomeStatus.FAILED, "tool.output_invalid")
    assert found.artifact_id is None
    assert str(foreign.artifact_id) not in json.dumps(found.payload)


@gate("artifact.own")
def test_what_was_recorded_of_an_artifact_counts_and_not_what_the_tool_says() -> None:
    lie = IMAGE.model_copy(update={"media_type": "text/html", "size_bytes": 1})
    found = bound(ToolResult(ok=True, content=(ArtifactPart(artifact=lie),)), KeptArtifacts(IMAGE))
    assert found.payload["content"] == [{"type": "artifact", "artifact": IMAGE.model_dump(mode="json")}]


@gate("artifact.trust")
def test_artifacts_of_an_attempt_inherit_the_label_of_its_result() -> None:
    artifacts = KeptArtifacts(IMAGE)
    result = ToolResult(ok=True, artifacts=(IMAGE,), output_trust=TrustLevel.EXTERNAL_UNTRUSTED)
    bound(result, artifacts)
    bound(text("no reference, no question"), artifacts)
    assert artifacts.inherited == [TrustLevel.EXTERNAL_UNTRUSTED]


@gate("output.empty")
@pytest.mark.parametrize("content", [(), (TextPart(text=""),)], ids=["no part", "an empty text"])
@pytest.mark.parametrize("trust", [TrustLevel.INTERNAL_TOOL, TrustLevel.EXTERNAL_UNTRUSTED])
def test_no_content_is_said_in_words_of_ours(content: tuple[TextPart, ...], trust: TrustLevel) -> None:
    found = bound(ToolResult(ok=True, content=content), output_trust=trust)
    assert found.payload["context_content"] == outputs.NO_CONTENT
    assert found.payload["content"] == [part.model_dump() for part in content]
    assert (found.output_bytes, found.truncated) == (0, False)


@gate("output.empty")
def test_a_failure_without_words_needs_none() -> None:
    assert bound(failure(external=None)).payload["context_content"] == ""


@gate("output.unkept")
@pytest.mark.parametrize("result", [text("x" * 900), text("x", structured=["y" * 2_000])], ids=["text", "structured"])
def test_output_that_cannot_be_written_fails_and_is_not_dropped_in_silence(result: ToolResult) -> None:
    found = bound(result, KeptArtifacts(fault="storage: No space left on device"))
    assert (found.outcome_status, found.reason_code) == (OutcomeStatus.FAILED, "tool.output_too_large")
    assert (found.payload, found.truncated, found.artifact_id) == ({}, True, None)
    assert found.error_detail == "storage: No space left on device"


def test_a_text_that_is_cut_at_the_hard_ceiling_is_elided_from_what_was_kept() -> None:
    found = bound(text("x" * 9_000))
    assert elision_line(3_200, ARTIFACT_ID) in found.payload["content"][0]["text"]


@pytest.mark.parametrize("value", [{"at": datetime(2026, 1, 1, tzinfo=UTC)}, {1: 2}, {"a": {3}}, {"n": 10**5_000}])
def test_what_json_cannot_hold_is_measured_all_the_same(value: Any) -> None:
    found = structured.of(value)
    assert found is not None
    assert json.loads(found.text) is not None
