"""How much work a schema can ask for: references followed, loops found, documents measured."""

from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.domain.weights import MAXIMUM_EXPANDED, Extent, Unbounded, cost, extent, weigh

TWICE = {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
JSON_VALUE = {
    "$defs": {"v": {"anyOf": [{"type": "string"}, {"items": {"$ref": "#/$defs/v"}}]}},
    "properties": {"a": {"$ref": "#/$defs/v"}},
}


def doubling(links: int) -> dict[str, Any]:
    """A few hundred bytes that ask for 2^links evaluations."""
    definitions: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(links)
    }
    return {"type": "object", "$ref": "#/$defs/a0", "$defs": {**definitions, f"a{links}": {}}}


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@gate("schemas.bounded")
@pytest.mark.parametrize(
    ("schema", "expanded"),
    [
        ({}, 1),
        ({"properties": {"a": {}, "b": True}, "additionalProperties": {}}, 3),
        ({"allOf": [{}, {}], "not": {}, "if": {}, "then": {}, "else": {}}, 7),
        ({"$defs": {"unused": {"allOf": [{}]}}}, 1),
        ({"$defs": {"a": {"items": {}}}, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}, 7),
        ({"$defs": {"a/b": {"$anchor": "x"}}, "allOf": [{"$ref": "#x"}, {"$ref": "#/$defs/a~1b"}]}, 5),
        ({"$defs": {"a": True}, "$ref": "#/$defs/a"}, 2),
        ({"prefixItems": [{}, {}], "items": {}, "contains": {}}, 5),
        ({"items": [{}, {}], "additionalItems": {}}, 4),
        ({"patternProperties": {"a": {}}, "propertyNames": {}, "dependentSchemas": {"a": {}}}, 4),
        ({"unevaluatedProperties": False, "allOf": [{}, {}]}, 5),
        ({"enum": list(range(80))}, 11),
        (doubling(10), 4 * 2**10 - 2),
    ],
)  # fmt: skip
def test_a_schema_weighs_what_it_is_with_its_references_followed(schema: dict[str, Any], expanded: int) -> None:
    found = weigh(schema)
    assert (found.expanded, found.is_recursive) == (expanded, False)


@gate("schemas.bounded")
@pytest.mark.parametrize("links", [20, 200])
def test_references_that_double_at_each_link_are_refused(links: int) -> None:
    with pytest.raises(Unbounded, match=f"more than {MAXIMUM_EXPANDED}"):
        weigh(doubling(links))


@gate("schemas.bounded")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"anyOf": [{"$ref": "#"}]}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "items": {"$ref": "#/$defs/a"}},
        {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"items": {}, "then": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_reference_back_to_itself_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(Unbounded, match="back to itself"):
        weigh(schema)


@gate("schemas.no_remote")
@pytest.mark.parametrize("reference", ["#/$defs/b", "#nowhere", "#/$defs/a/0", "#/type", "other.json"])
def test_a_reference_that_leads_nowhere_is_refused_by_its_name(reference: str) -> None:
    with pytest.raises(Unbounded, match="leads nowhere") as refused:
        weigh({"type": "object", "$defs": {"a": []}, "properties": {"x": {"$ref": reference}}})
    assert reference in str(refused.value)


@gate("schemas.bounded")
def test_patterns_are_found_where_they_are_rules_and_not_where_they_are_data() -> None:
    schema = {
        "properties": {
            "a": {"pattern": "a"},
            "pattern": {"$ref": "#/$defs/b", "default": {"pattern": "*.py"}, "examples": [{"pattern": "("}]},
        },
        "$defs": {"b": {"patternProperties": {"b": {"not": {"pattern": "c"}}}}, "unused": {"pattern": "d"}},
    }
    assert weigh(schema).patterns == ("a", "b", "c")
    with pytest.raises(Unbounded, match="more than 256 patterns"):
        weigh({"anyOf": [{"pattern": str(n)} for n in range(257)]})


def test_a_schema_that_holds_itself_is_recursive() -> None:
    assert weigh(TWICE).is_recursive
    assert weigh(JSON_VALUE).is_recursive


@gate("schemas.bounded")
def test_the_cost_of_a_document_is_counted_and_cut_at_the_limit() -> None:
    root = weigh(TWICE).root
    assert [cost(root, nested(depth), 1_000) for depth in (0, 1, 2)] == [1, 6, 16]
    assert cost(root, nested(60), 1_000) > 1_000
    assert cost(weigh(JSON_VALUE).root, {"a": [["x"] * 20]}, 1_000) < 150


def test_a_document_is_measured() -> None:
    assert extent({"ab": ["cde", 1, {"f": None}]}, 64, 1_000) == Extent(6, 6, 3)
    assert extent("text", 64, 1_000) == Extent(1, 4, 1)


@gate("schemas.bounded")
def test_a_document_that_holds_itself_is_measured_too() -> None:
    itself: list[Any] = []
    itself += [itself, itself]
    assert extent(itself, 64, 1_000).values > 1_000
    chain: dict[str, Any] = {}
    chain["a"] = chain
    assert extent(chain, 64, 1_000).depth == 65
