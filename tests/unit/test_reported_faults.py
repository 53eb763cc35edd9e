"""Faults that were reported of other systems, by their number, each with what is right here: schemas, names, results.

Those of the database and the queue are in `tests/integration/test_reported_faults.py`; those of the MCP transport, of
egress and of credentials belong to the MCP adapter's own tests.
"""

import asyncio
import base64
import time
from typing import Any
from uuid import UUID

import pytest

from mcpcatalog import results
from mcpcatalog.mapping import Generation
from mcpcatalog.remote import CallResult
from tests.spec.requirements import gate
from tests.unit.specs import KeptArtifacts, claim, limits, spec
from tests.unit.test_mcp_mapping import declared, mapped
from tests.unit.test_mcp_results import READ, Shelf, rendered, text
from toolsys import outputs
from toolsys.api.schemas import CallRequest, read
from toolsys.domain.calls import BoundedOutput
from toolsys.domain.results import ArtifactPart, TextPart, ToolFailureKind, ToolResult
from toolsys.domain.states import OutcomeStatus
from toolsys.problems import Problem
from toolsys.validation import argument_errors, output_errors

GOOD = declared("good")
JSON_VALUE = {
    "type": "object",
    "properties": {"value": {"$ref": "#/$defs/json"}},
    "$defs": {"json": {"anyOf": [
        {"type": ["string", "number"]}, {"type": "array", "items": {"$ref": "#/$defs/json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
    ]}},
}  # fmt: skip


def with_input(**schema: Any) -> dict[str, Any]:
    return declared("bad", inputSchema={"type": "object", **schema})


def offered(generation: Generation) -> list[str]:
    return [tool.name for tool, _ in generation.tools]


def nested(levels: int) -> Any:
    found: Any = "leaf"
    for level in range(levels):
        found = [found] if level % 2 else {"k": found}
    return found


def bounded(result: ToolResult) -> BoundedOutput:
    return outputs.bound(
        result, OutcomeStatus.SUCCEEDED, "tool.succeeded", spec=spec(), claim=claim(), limits=limits(),
        artifacts=KeptArtifacts(), nonces=("0" * 16, "1" * 16),
    )  # fmt: skip


@gate("faults.b01")
def test_b01_one_reference_that_leads_nowhere_costs_its_tool_alone() -> None:
    nowhere = {"properties": {"a": {"$ref": "#/properties/b/$defs/missing"}, "b": {"$defs": {"there": {}}}}}
    there = {"properties": {"a": {"$ref": "#/properties/b/$defs/there"}, "b": {"$defs": {"there": {"type": "null"}}}}}
    generation = mapped(GOOD, with_input(**nowhere), declared("nested", inputSchema={"type": "object", **there}))
    assert offered(generation) == ["good", "nested"]
    (bad,) = generation.rejected
    assert (bad.remote_name, bad.reason) == ("bad", "schema.input")
    assert "'#/properties/b/$defs/missing'" in bad.detail
    broken_output = declared("answers", outputSchema={"type": "object", "$ref": "#/$defs/missing"})
    assert offered(mapped(GOOD, broken_output)) == ["answers", "good"], "output schemas of servers are not used"


@gate("faults.b03")
def test_b03_a_root_without_a_type_is_refused_by_reason_and_counted() -> None:
    union = declared("union", inputSchema={"anyOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]})
    generation = mapped(GOOD, union, declared("other"))
    assert offered(generation) == ["good", "other"]
    assert [(bad.remote_name, bad.detail) for bad in generation.rejected] == [
        ("union", "the root must be an object schema")
    ]


@gate("faults.b06")
@pytest.mark.parametrize("pattern", ["(?<=a)b", r"(a)\1", "(?=a)", "(?(1)a|b)", "a{1,1000}{1000}"])
def test_b06_a_pattern_of_another_dialect_costs_its_tool_alone(pattern: str) -> None:
    generation = mapped(GOOD, with_input(properties={"id": {"pattern": pattern}}))
    assert offered(generation) == ["good"]
    assert [(bad.reason, "pattern" in bad.detail) for bad in generation.rejected] == [("schema.input", True)]


@gate("faults.b06")
def test_b06_a_named_group_means_what_its_author_meant() -> None:
    schema = {"properties": {"id": {"pattern": "^(?P<id>[0-9]+)$"}}}
    assert offered(mapped(with_input(**schema))) == ["bad"]
    assert [bool(argument_errors(schema, {"id": value})) for value in ("42", "x")] == [False, True]


@gate("faults.b08")
def test_b08_a_value_that_refers_to_itself_is_imported_at_once_and_never_expanded() -> None:
    begun = time.process_time()
    generation = mapped(declared("json", inputSchema=JSON_VALUE))
    assert time.process_time() - begun < 0.1
    ((_, pinned),) = generation.tools
    assert pinned.input_schema == JSON_VALUE
    assert argument_errors(JSON_VALUE, {"value": nested(6)}) == []
    assert argument_errors(JSON_VALUE, {"value": [nested(5), None]}) != []
    assert [error.message for error in argument_errors(JSON_VALUE, {"value": nested(200)})] == [
        "nested too deeply, or too large"
    ]
    assert output_errors(JSON_VALUE, {"value": nested(100_000)}) != [], "and the process is still here"


@gate("faults.b10")
def test_b10_nested_quantifiers_pin_no_core() -> None:
    schema = {
        "properties": {"a": {"pattern": "^(a+)+$"}},
        "patternProperties": {"^(x+x+)+y$": {}},
        "additionalProperties": {},
    }
    begun = time.process_time()
    assert argument_errors(schema, {"a": "a" * 60 + "!", "x" * 60: 1}) != []
    assert time.process_time() - begun < 0.5


@gate("faults.b11")
@pytest.mark.parametrize(("remote", "segment"), [("_1password", "t_1password"), ("9", "t_9"), ("a-b.C", "a_b_c")])
def test_b11_a_name_is_kept_as_it_came_and_ours_is_derived(remote: str, segment: str) -> None:
    ((tool, pinned),) = mapped(declared(remote)).tools
    assert (tool.name, pinned.name) == (remote, f"mcp.crm.{segment}")


@gate("faults.b13")
def test_b13_names_that_become_equal_are_both_dropped_and_the_rest_is_stable() -> None:
    odd = ["a.b", "a_b", "дом/кот", "x/y", "ok"]
    generation = mapped(*map(declared, odd))
    assert generation.conflicts == (("a.b", "a_b"),)
    names = {tool.name: pinned.name for tool, pinned in generation.tools}
    assert names == {tool.name: pinned.name for tool, pinned in mapped(*map(declared, reversed(odd))).tools}
    assert sorted(names) == ["ok", "x/y", "дом/кот"]


@gate("faults.b15")
def test_b15_an_error_is_not_judged_by_the_schema_of_answers() -> None:
    result = rendered({"isError": True, "content": [text("no such issue: 7")]})
    assert result.failure is not None
    assert (result.ok, result.failure.kind) == (False, ToolFailureKind.UPSTREAM_ERROR)
    assert result.failure.external_text == "no such issue: 7"
    shown = bounded(result).payload["context_content"]
    assert "no such issue: 7" in shown
    assert "external_untrusted" in shown


@gate("faults.b18")
def test_b18_a_result_is_never_empty_text() -> None:
    structured = bounded(rendered({"content": [], "structuredContent": {"a": [1]}}))
    empty = bounded(rendered({"content": []}))
    assert structured.payload["content"] == [{"type": "text", "text": '{"a":[1]}'}]
    assert empty.payload["content"] == [{"type": "text", "text": results.NO_CONTENT}]


@gate("faults.b19")
def test_b19_a_picture_is_an_artifact_and_never_half_of_its_base64() -> None:
    shelf, picture = Shelf(), bytes(range(256)) * 16_384
    blocks = [{"type": "image", "mimeType": "image/png", "data": base64.b64encode(picture).decode()},
              {"type": "image", "mimeType": "image/png", "data": "%%%" + "A" * 100_000}]  # fmt: skip
    answer = CallResult(False, tuple(blocks), None, "applied")
    result = asyncio.run(results.result_of(answer, READ, shelf, maximum_output_bytes=1_000))
    assert shelf.written == [(picture, "image/png"), (b"%%%" + b"A" * 100_000, "application/octet-stream")]
    first, second, note = result.content
    assert isinstance(first, ArtifactPart)
    assert isinstance(second, ArtifactPart)
    assert (first.artifact.artifact_id, first.artifact.size_bytes) == (UUID(int=1), len(picture))
    assert note == TextPart(text=results.UNDECODED)


@gate("faults.b21")
@pytest.mark.parametrize("answer", ["a\0b", "a\ud800b", "\udfff", "\0" * 300])
def test_b21_no_character_stops_a_result_from_being_kept(answer: str) -> None:
    result = bounded(ToolResult(ok=True, content=(TextPart(text=answer),), structured={"x": answer}))
    assert result.outcome_status is OutcomeStatus.SUCCEEDED
    assert "\0" not in str(result.redacted)
    assert answer.replace("\ud800", "?").replace("\udfff", "?")[:3] in result.payload["content"][0]["text"]


@gate("faults.b39")
@pytest.mark.parametrize(
    "call_id", ["", " ", "a b", "a\0", "x" * 129, "x" * 300, "caf\u00e9", "cafe\u0301", "a\n", None, 7]
)
def test_b39_an_identity_is_visible_plain_and_bounded(call_id: Any) -> None:
    with pytest.raises(Problem) as refused:
        read(CallRequest, {"call_id": call_id, "name": "demo.echo", "arguments": {}})
    assert refused.value.reason_code == "request.invalid"
    assert [error.pointer for error in refused.value.errors] == ["/call_id"]
