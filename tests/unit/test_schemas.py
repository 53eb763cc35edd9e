"""What a JSON Schema from elsewhere may look like, and how it is closed."""

import json
from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.domain import schemas
from toolsys.domain.schemas import SchemaCaps, closed, dialect_of, schema_defect


def nested(levels: int) -> dict[str, Any]:
    """A schema of exactly this depth."""
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"not": found}
    return found


@gate("schemas.no_remote")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target", ["https://x/y.json", "other.json", "file:///etc/passwd", "//x/y", "urn:x", ""])
def test_a_reference_that_leaves_the_document_is_refused(keyword: str, target: str) -> None:
    schema = {"type": "object", "properties": {"a": {"items": [{keyword: target}]}}}
    assert schema_defect(schema) == f"remote reference {target!r}"


@gate("schemas.no_remote")
def test_a_reference_inside_the_document_is_kept() -> None:
    assert schema_defect({"$defs": {"a": {}}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#"}}}) is None
    assert schema_defect({"properties": {"$ref": {"type": "string"}}}) is None


@gate("schemas.bounded")
def test_depth_is_bounded() -> None:
    assert schema_defect(nested(schemas.MAXIMUM_DEPTH)) is None
    assert schema_defect(nested(schemas.MAXIMUM_DEPTH + 1)) == "nested deeper than 16"
    assert schema_defect(nested(5), SchemaCaps(depth=4)) == "nested deeper than 4"


@gate("schemas.bounded")
def test_a_very_deep_schema_is_refused_without_recursion() -> None:
    assert schema_defect(nested(100_000)) == "nested deeper than 16"


@gate("schemas.bounded")
def test_size_and_count_are_bounded() -> None:
    frame = len(json.dumps({"title": ""}, separators=(",", ":")))
    assert schema_defect({"title": "x" * (schemas.MAXIMUM_BYTES - frame)}) is None
    assert schema_defect({"title": "x" * (schemas.MAXIMUM_BYTES - frame + 1)}) == "larger than 32768 bytes"
    assert schema_defect({"title": "é" * schemas.MAXIMUM_BYTES}, SchemaCaps(bytes=65_536)) == "larger than 65536 bytes"
    assert schema_defect({"title": "\ud800" * 32_768}) == "larger than 32768 bytes"
    assert schema_defect({"anyOf": [{}] * schemas.MAXIMUM_SUBSCHEMAS}) == "more than 4096 nodes"


@pytest.mark.parametrize(
    ("declared", "dialect"),
    [
        (None, 2020),
        ("https://json-schema.org/draft/2020-12/schema", 2020),
        ("https://json-schema.org/draft/2020-12/schema#", 2020),
        ("https://json-schema.org/draft/2019-09/schema", 2019),
        ("http://json-schema.org/draft-07/schema#", 7),
        ("http://json-schema.org/draft-04/schema#", None),
        ("https://example.org/mine", None),
        (7, None),
    ],
)  # fmt: skip
def test_the_declared_dialect_is_honoured_or_refused(declared: object, dialect: int | None) -> None:
    schema = {} if declared is None else {"$schema": declared}
    assert dialect_of(schema) == dialect
    assert (schema_defect(schema) is None) == (dialect is not None)


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


@gate("schemas.closing")
@pytest.mark.parametrize(
    ("schema", "added"),
    [
        ({"type": "object"}, {"additionalProperties": False}),
        (DRAFT_7, {"additionalProperties": False}),
        ({"allOf": [{}]}, {"unevaluatedProperties": False}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, {"unevaluatedProperties": False}),
        ({"if": {}}, {"unevaluatedProperties": False}),
        ({**DRAFT_7, "oneOf": [{}]}, {"propertyNames": {"allOf": [True, {"anyOf": [{"enum": []}]}]}}),
        ({**DRAFT_7, "$ref": "#/definitions/a"}, {}),
        ({**DRAFT_7, "anyOf": [{"additionalProperties": {}}]}, {}),
        ({"additionalProperties": True}, {}),
        ({"additionalProperties": {"type": "string"}}, {}),
        ({"allOf": [{}], "unevaluatedProperties": True}, {}),
    ],
)
def test_a_root_that_says_nothing_of_unknown_properties_refuses_them(
    schema: dict[str, Any], added: dict[str, Any]
) -> None:
    before = json.dumps(schema)
    assert closed(schema) == {**schema, **added}
    assert json.dumps(schema) == before


@gate("schemas.no_remote")
@pytest.mark.parametrize(
    ("inner", "defect"),
    [({"$id": "https://x/y"}, "a document inside the document ($id)"), ({"$id": "#a"}, None),
     ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "a document inside the document ($schema)")],
)  # fmt: skip
def test_references_mean_one_document_only(inner: dict[str, Any], defect: str | None) -> None:
    assert schema_defect({"$id": "https://x/root", "$defs": {"a": inner}}) == defect


@pytest.mark.parametrize(
    ("reference", "found"),
    [("#", "root"), ("#/a/0/b", 1), ("#/c~1d", 2), ("#/e~0f", 3), ("#/g%20h", 4), ("#/a/1", None), ("#/a/x", None),
     ("#/a/0/b/c", None), ("#anchor", None), ("#/", 5)],
)  # fmt: skip
def test_a_pointer_leads_to_its_place_or_nowhere(reference: str, found: Any) -> None:
    document = {"a": [{"b": 1}], "c/d": 2, "e~f": 3, "g h": 4, "": 5}
    assert schemas.pointed(document, reference) == (document if found == "root" else found)
