"""The validator of the hot path against another implementation as its oracle, and against everything that can be drawn.

Where the two differ on purpose the drawing leaves it out, and `DIFFERENCES` says why.
"""

from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry

from tests.property.budget import examples
from tests.property.strategies import documents, wild
from tests.spec.requirements import gate
from toolsys.domain import defaults, schemas, weights
from toolsys.domain.canonical import NotCanonical, normal_form
from toolsys.validation import argument_errors, compile_schema, output_errors, with_defaults

DIFFERENCES = {
    "pattern": "ECMA 262 by Rust's regex here, Python's re in the oracle: only patterns that mean the same are drawn",
    "format": "a note and no rule, here in every dialect; the oracle asserts none unless told to",
    "multipleOf": "of floats: exact decimals here, binary remainders in the oracle: only whole ones are drawn",
}
ORACLES: dict[int, Any] = {
    2020: jsonschema.Draft202012Validator,
    2019: jsonschema.Draft201909Validator,
    7: jsonschema.Draft7Validator,
}
NAMES = st.sampled_from(["a", "b", "c", "$ref", "é"])
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
small = st.integers(0, 3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.5])
    | st.sampled_from(["", "a", "é", "ab"])
)
instances = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
leaves = st.fixed_dictionaries({}, optional={
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(instances, min_size=1, max_size=3), "const": instances,
    "minimum": st.integers(-2, 2), "exclusiveMaximum": st.integers(-2, 2), "multipleOf": st.integers(1, 3),
    "minLength": small, "maxLength": small, "pattern": st.sampled_from(["^a", "b$", "^[ab]*$", "é", "a|b"]),
    "minItems": small, "maxItems": small, "uniqueItems": st.booleans(),
    "minProperties": small, "maxProperties": small, "required": st.lists(NAMES, max_size=2, unique=True),
    "format": st.sampled_from(["date", "email", "no-such-format"]),
})  # fmt: skip


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries({}, optional={
        "properties": st.dictionaries(NAMES, inner, max_size=3), "additionalProperties": inner | st.booleans(),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1), "propertyNames": inner,
        "items": inner, "contains": inner, "allOf": some, "anyOf": some, "oneOf": some, "not": inner, "if": inner,
        "then": inner, "else": inner, "type": TYPES, "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y"]),
    })  # fmt: skip


subschemas = st.recursive(leaves, _composed, max_leaves=6)
roots = st.builds(
    lambda root, x, y, dialect: root | {"$defs": {"x": x, "y": y}} | ({"$schema": dialect} if dialect else {}),
    subschemas, leaves, leaves, st.sampled_from([None, *schemas.DIALECTS]),
)  # fmt: skip


def oracle_of(schema: dict[str, Any]) -> Any:
    return ORACLES[schemas.dialect_of(schema) or 0](schema, registry=Registry())


@gate("validation.oracle")
@settings(max_examples=examples(400))
@given(roots, st.lists(instances, min_size=1, max_size=6))
def test_two_validators_agree(schema: dict[str, Any], values: list[Any]) -> None:
    oracle = oracle_of(schema)
    found = [output_errors(schema, value) == [] for value in values]
    assert found == [oracle.is_valid(value) for value in values]


@gate("validation.oracle", "schemas.closing")
@given(roots, st.dictionaries(NAMES, instances, max_size=4))
def test_two_validators_agree_on_the_closed_copy(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    closed = schemas.closed(schema)
    assert (argument_errors(schema, arguments) == []) == oracle_of(closed).is_valid(arguments)


@gate("schemas.bounded")
@given(roots, instances)
def test_the_weight_of_a_schema_bounds_the_cost_of_any_document(schema: dict[str, Any], value: Any) -> None:
    weight = compile_schema(schema, close=False).weight
    extent = weights.extent(value, 64, 1_000_000)
    assert weights.cost(weight.root, value, 10**9) <= weight.expanded * (
        extent.values + extent.characters // weights.TEXT_UNIT
    )


@gate("validation.total")
@given(st.sampled_from([{}, {"type": "object", "additionalProperties": {"type": "integer"}}, {"uniqueItems": True},
                        {"enum": [{"a": 1}]}, {"items": {"$ref": "#"}}, {"$ref": "http://x/y"}, {"type": "nothing"}]),
       wild | st.binary() | st.sets(st.integers()) | st.dictionaries(st.integers() | st.none(), wild, max_size=3)
       | st.lists(st.tuples(wild) | st.complex_numbers() | st.builds(object), max_size=3))  # fmt: skip
def test_whatever_a_tool_returns_is_judged_and_never_raises(schema: dict[str, Any], value: Any) -> None:
    assert all(len(error.message) <= 200 for error in output_errors(schema, value))


@gate("canonical.defaults")
@given(roots, st.dictionaries(NAMES, instances, max_size=4))
def test_defaults_are_filled_once(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    declared = {**schema, "properties": {**schema.get("properties", {}), "c": {"default": 1, "type": "integer"}}}
    once = with_defaults(declared, arguments)
    assert once.keys() >= arguments.keys()
    assert {name: once[name] for name in arguments} == arguments
    assert defaults.fill(compile_schema(declared).defaults, once) == once


@given(documents)
def test_what_is_normal_is_checked_without_a_change(document: Any) -> None:
    try:
        normal, _ = normal_form(document)
    except NotCanonical:
        return
    assert output_errors({}, normal) == []
