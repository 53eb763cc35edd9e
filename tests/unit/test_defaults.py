"""Defaults are filled in where they always apply, and nowhere else."""

from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.domain.defaults import MAXIMUM_ADDED_BYTES, Overfilled
from toolsys.validation import with_defaults

POINT = {"type": "object", "properties": {"x": {"default": 0}, "y": {"type": "integer", "default": 1}}}


@gate("canonical.defaults")
@pytest.mark.parametrize(
    ("schema", "given", "filled"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": POINT}}, {"a": {}}, {"a": {"x": 0, "y": 1}}),
        ({"properties": {"a": {"allOf": [POINT, {"properties": {"z": {"default": 2}}}]}}}, {"a": {"x": 5}},
         {"a": {"x": 5, "y": 1, "z": 2}}),
        ({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"type": "integer", "default": 3}}}, {}, {"a": 3}),
        ({"properties": {"a": {"$ref": "#/$defs/p", "default": 4}}, "$defs": {"p": {"default": 3}}}, {}, {"a": 4}),
        ({"properties": {"a": {"items": POINT}}}, {"a": [{}, {"y": 2}, 7]},
         {"a": [{"x": 0, "y": 1}, {"y": 2, "x": 0}, 7]}),
        ({"allOf": [POINT]}, {}, {"x": 0, "y": 1}),
        ({"$ref": "#/$defs/p", "$defs": {"p": POINT}}, {}, {"x": 0, "y": 1}),
        ({"properties": {"a": {"default": {}, **POINT}}}, {}, {"a": {}}),
        ({"properties": {"a": {"anyOf": [POINT, {"type": "null"}], "default": None}}}, {}, {"a": None}),
        # Not where a branch may not apply.
        ({"anyOf": [POINT]}, {}, {}),
        ({"if": {}, "then": POINT}, {}, {}),
        # Not where it breaks its own schema: a tool must not fail for what its caller left out.
        ({"properties": {"a": {"type": "string", "default": None}, "b": {"default": 1}}}, {}, {"b": 1}),
        ({"properties": {"a": {"$ref": "#/$defs/p", "default": "x"}}, "$defs": {"p": {"type": "integer"}}}, {}, {}),
        ({"properties": {"a": {"$ref": "#/properties/b", "default": 1}, "b": {}}}, {}, {"a": 1}),
    ],
)  # fmt: skip
def test_defaults_follow_what_always_applies(
    schema: dict[str, Any], given: dict[str, Any], filled: dict[str, Any]
) -> None:
    assert with_defaults(schema, given) == filled


def test_a_schema_that_holds_itself_fills_what_is_there_and_no_further() -> None:
    schema = {"properties": {"a": {"$ref": "#", "default": {}}, "n": {"default": 1}}}
    assert with_defaults(schema, {"a": {"a": {"n": 2}}}) == {"a": {"a": {"a": {}, "n": 2}, "n": 1}, "n": 1}


def test_a_long_chain_of_references_is_planned() -> None:
    definitions: dict[str, Any] = {f"a{n}": {"properties": {"x": {"$ref": f"#/$defs/a{n + 1}"}}} for n in range(400)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**definitions, "a400": POINT}}
    assert with_defaults(schema, {"x": {}}) == {"x": {}}


@gate("schemas.bounded")
def test_a_small_call_does_not_become_a_large_document() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {"default": "x" * 10_000}}}}}}
    count = MAXIMUM_ADDED_BYTES // 10_000
    assert len(with_defaults(schema, {"a": [{}] * (count - 1)})["a"]) == count - 1
    with pytest.raises(Overfilled):
        with_defaults(schema, {"a": [{}] * (count + 1)})
