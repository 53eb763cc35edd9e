"""What a reviewer is told about two generations of a catalog."""

from typing import Any

import pytest

from mcpcatalog.differences import differences
from mcpcatalog.remote import RemoteTool
from tests.spec.requirements import gate


def tool(name: str = "t", description: str = "d", claims: dict[str, Any] | None = None, **schema: Any) -> RemoteTool:
    return RemoteTool(name, description, {"type": "object", **schema}, claims or {})


def of(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    found = differences([tool(properties={"a": before})], [tool(properties={"a": after})])
    return [(line["kind"], line["parameter"]) for line in found]


@gate("discovery.difference")
def test_added_removed_and_reworded_tools_are_told_in_order() -> None:
    found = differences([tool("b"), tool("c"), tool("same")], [tool("a"), tool("c", "other"), tool("same")])
    assert found == [
        {"tool": "a", "kind": "added", "parameter": ""},
        {"tool": "b", "kind": "removed", "parameter": ""},
        {"tool": "c", "kind": "description_changed", "parameter": ""},
    ]


@gate("discovery.difference")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": "number"}, {"type": "integer"}),
        ({}, {"type": "string"}),
        ({"enum": [1, 2]}, {"enum": [1]}),
        ({}, {"enum": [1]}),
        ({"maximum": 5}, {"maximum": 4}),
        ({}, {"maxLength": 4}),
        ({"minItems": 1}, {"minItems": 2}),
        ({"pattern": "a"}, {"pattern": "b"}),
        ({}, {"const": 1}),
        ({"type": "string"}, False),
        ({"type": "object"}, {"type": "object", "additionalProperties": False}),
        ({"items": {"type": "object"}}, {"items": {"type": "object", "additionalProperties": {"type": "string"}}}),
    ],
)
def test_what_refuses_more_than_before_is_tightened(before: Any, after: Any) -> None:
    assert {("parameter_tightened", "/a"), ("parameter_tightened", "/a/*")} & set(of(before, after))


@gate("discovery.difference")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "integer"}, {"type": "number"}),
        ({"type": "string"}, {}),
        ({"enum": [1]}, {"enum": [1, 2]}),
        ({"maximum": 4}, {"maximum": 5}),
        ({"minLength": 4}, {}),
        ({"description": "one"}, {"description": "two"}),
    ],
)
def test_what_accepts_as_much_as_before_is_only_changed(before: Any, after: Any) -> None:
    assert of(before, after) == [("parameter_changed", "/a")]


@gate("discovery.difference")
def test_parameters_are_followed_inwards() -> None:
    before: dict[str, Any] = {
        "properties": {"o": {"properties": {"x": {}}}, "l": {"items": {"type": ["string", "null"]}}}
    }
    after: dict[str, Any] = {
        "properties": {"o": {"properties": {"x": {}, "y": {}}}, "l": {"items": {"type": "string"}}, "n": {}}
    }
    found = [(line["kind"], line["parameter"]) for line in differences([tool(**before)], [tool(**after)])]
    assert found == [("parameter_tightened", "/l/*"), ("parameter_added", "/n"), ("parameter_added", "/o/y")]


def test_an_obliged_parameter_a_closed_object_and_claims_are_told() -> None:
    before = [tool(properties={"a": {}}), tool("u", "d", {"title": "x"})]
    after = [tool(properties={"a": {}}, required=["a"], additionalProperties=False), tool("u", "d", {"title": "y"})]
    found = [(line["tool"], line["kind"], line["parameter"]) for line in differences(before, after)]
    assert found == [
        ("t", "parameter_tightened", "/a"), ("t", "parameter_tightened", "/"), ("u", "claims_changed", ""),
    ]  # fmt: skip


def test_a_change_outside_the_properties_is_told_as_such_and_the_list_is_bounded() -> None:
    assert [line["kind"] for line in differences([tool()], [tool(oneOf=[{}])])] == ["schema_changed"]
    assert len(differences([], [tool(f"t{n}") for n in range(900)])) == 500


@pytest.mark.parametrize("odd", [7, None, [], "x", {"properties": 7}, {"required": 7, "properties": []}, {"type": 7}])
def test_schemas_of_any_shape_are_compared(odd: Any) -> None:
    pair = [tool(properties={"a": odd})], [tool(properties={"a": {"type": "string"}})]
    assert differences(*pair)
    assert differences(*reversed(pair))
    assert differences(pair[0], pair[0]) == []
