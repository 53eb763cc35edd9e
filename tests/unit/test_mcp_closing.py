"""What a contract leaves open is said with its place, at whatever depth, and what is closed is not complained about."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcpcatalog import closing, contracts
from mcpcatalog.contracts import Arguments, ToolContract, typed
from mcpcatalog.firstparty.docs.contracts import CONTRACTS
from tests.spec.requirements import gate

CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
OPEN: dict[str, Any] = {"type": "object", "properties": {"url": {"type": "string"}}}
MEMBERS = "takes members that are not declared"
TYPE = "has no type"
NOTHING = "means nothing in the dialect of this schema"
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
ITEMS = "takes items of any kind"


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """An object with one member."""
    return {**CLOSED, "properties": {"a": schema}, **more}


def places(schema: dict[str, Any]) -> list[tuple[str, str]]:
    found = [opening.split(" ", 1) for opening in closing.openings(schema)]
    return [(where, said.partition(":")[0]) for where, said in found]


@gate("fixed.nested")
@pytest.mark.parametrize(
    ("schema", "where", "what"),
    [
        (of(OPEN), "/properties/a", MEMBERS),
        (of({"type": ["object", "null"]}), "/properties/a", MEMBERS),
        (of({**OPEN, "additionalProperties": True}), "/properties/a", MEMBERS),
        (of({"type": "object", "additionalProperties": {}}), "/properties/a/additionalProperties", TYPE),
        (of(of(of(OPEN))), "/properties/a/properties/a/properties/a", MEMBERS),
        (of({"type": "array", "items": OPEN}), "/properties/a/items", MEMBERS),
        (of({"type": "array"}), "/properties/a", ITEMS),
        (of({"type": "array", "items": True}), "/properties/a", ITEMS),
        (of({"type": "array", "items": {}}), "/properties/a/items", TYPE),
        (of({"type": "array", "prefixItems": [CLOSED]}), "/properties/a", ITEMS),
        (of({"type": "array", "prefixItems": [OPEN], "items": False}), "/properties/a/prefixItems/0", MEMBERS),
        (of({"type": "array", "items": [CLOSED]}), "/properties/a", ITEMS),
        (of({"anyOf": [{"type": "string"}, OPEN]}), "/properties/a/anyOf/1", MEMBERS),
        (of({"oneOf": [{"type": "string"}, True]}), "/properties/a/oneOf/1", TYPE),
        (of({"allOf": [OPEN]}), "/properties/a/allOf", MEMBERS),
        (of({"allOf": [{"minProperties": 1}]}), "/properties/a/allOf", TYPE),
        (of({"$ref": "#/$defs/b"}, **{"$defs": {"b": OPEN}}), "/$defs/b", MEMBERS),
        (of({"$ref": "#/definitions/b"}, definitions={"b": OPEN}), "/definitions/b", MEMBERS),
        (of({"type": "string"}, patternProperties={"^x": OPEN}), "/patternProperties/^x", MEMBERS),
        (of({**OPEN, "unevaluatedProperties": False, "allOf": [{"properties": {"b": {}}}]}),
         "/properties/a/allOf/0/properties/b", TYPE),
        (of({**OPEN, "unevaluatedProperties": False, "if": True, "then": {"properties": {"b": OPEN}}}),
         "/properties/a/then/properties/b", MEMBERS),
        (of({"description": "anything"}), "/properties/a", TYPE),
        (of(True), "/properties/a", TYPE),
        (of({**OPEN, "unevaluatedProperties": False}, **DRAFT_7), "/properties/a/unevaluatedProperties", NOTHING),
        (of({"type": "array", "maxItems": 0, "prefixItems": []}, **DRAFT_7), "/properties/a/prefixItems", NOTHING),
        ({**CLOSED, "properties": {"a/b": {}}}, "/properties/a~1b", TYPE),
    ],
)  # fmt: skip
def test_what_is_open_inside_a_contract_is_named(schema: dict[str, Any], where: str, what: str) -> None:
    assert places(schema) == [(where, what)]
    assert list(ToolContract(name="t", input_schema=schema).defects())


@gate("fixed.nested")
@pytest.mark.parametrize(
    "schema",
    [
        CLOSED,
        of(CLOSED),
        of({"type": "object", "additionalProperties": {"type": "integer"}}),
        of({**OPEN, "unevaluatedProperties": False}),
        of({"enum": [{"any": "thing"}, []]}),
        of({"const": {}}),
        of({"type": "array", "items": {"type": "string"}}),
        of({"type": "array", "prefixItems": [CLOSED, {"type": "string"}], "maxItems": 2}),
        of({"type": "array", "prefixItems": [CLOSED], "items": False}),
        of({"type": "array", "items": [CLOSED], "additionalItems": False}, **DRAFT_7),
        of({"type": "array", "maxItems": 0}),
        of({"anyOf": [{"type": "string"}, {"type": "null"}, of({"type": "integer"})]}),
        of({"allOf": [of({"type": "string"}), {"minProperties": 1}]}),
        of({**CLOSED, "anyOf": [{"required": ["b"]}, {"maxProperties": 1}]}),
        of({"$ref": "#/$defs/b"}, **{"$defs": {"b": of({"$ref": "#/$defs/b"})}}),
        of(False),
    ],
)
def test_what_is_closed_is_no_defect(schema: dict[str, Any]) -> None:
    assert list(ToolContract(name="t", input_schema=schema).defects()) == []


@gate("fixed.nested")
def test_nonsense_and_depth_are_defects_and_no_errors() -> None:
    deep: Any = {"type": "string"}
    for _ in range(5_000):
        deep = of(deep)
    assert any("nested too deeply" in said for said in ToolContract(name="t", input_schema=deep).defects())
    bad: list[Any] = [{"anyOf": 7}, {"type": "array", "maxItems": "2", "prefixItems": 3}, {"type": {}}, 7, None, []]
    for nonsense in bad:
        list(ToolContract(name="t", input_schema=of(nonsense)).defects())
        contracts.listed("t", "", of(nonsense))
    many = {**CLOSED, "properties": {str(number): {} for number in range(1_000)}}
    assert len(list(ToolContract(name="t", input_schema=many).defects())) <= 10


class Place(BaseModel):
    path: str


class Loose(Arguments):
    places: list[Place]


class Spot(Arguments):
    path: str


class Tight(Arguments):
    spots: Annotated[list[Spot], Field(max_length=3)]
    counts: dict[str, int] = {}
    pair: tuple[int, str] = (0, "")
    maybe: Spot | None = None


@gate("fixed.nested")
def test_a_contract_in_code_whose_parts_are_open_is_refused_where_it_is_composed() -> None:
    with pytest.raises(ValueError, match=r"/\$defs/Place takes members"):
        typed("t", "", Loose)
    assert list(typed("t", "", Tight).defects()) == []
    assert [list(each.defects()) for each in CONTRACTS] == [[], []]


@gate("fixed.nested")
@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"type": "object", "properties": {"a": OPEN}}, of({**OPEN, "additionalProperties": False})),
        (of({"type": "array", "items": OPEN}), of({"type": "array", "items": {**OPEN, "additionalProperties": False}})),
        (of({"anyOf": [OPEN, {"type": "null"}]}),
         of({"anyOf": [{**OPEN, "additionalProperties": False}, {"type": "null"}]})),
        (of({**OPEN, "anyOf": [{"type": "object", "required": ["url"]}]}),
         of({**OPEN, "anyOf": [{"type": "object", "required": ["url"]}]})),
        (of({**OPEN, "additionalProperties": True}), of({**OPEN, "additionalProperties": True})),
        (of({"allOf": [OPEN, OPEN]}), of({"allOf": [OPEN, OPEN]})),
        (of({"$ref": "#/$defs/b"}, **{"$defs": {"b": OPEN}}),
         of({"$ref": "#/$defs/b"}, **{"$defs": {"b": {**OPEN, "additionalProperties": False}}})),
    ],
    ids=["member", "items", "choice", "narrowing", "said to be open", "added to", "definition"],
)  # fmt: skip
def test_what_a_server_lists_is_offered_closed_for_people_to_judge(declared: Any, expected: Any) -> None:
    """What cannot be closed without changing what it means stays as it is, and the rule says what to write."""
    before = repr(declared)
    assert contracts.listed("t", "", declared)["input_schema"] == expected
    assert repr(declared) == before
