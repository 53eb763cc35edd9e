"""Arguments and results against schemas: closed, masked, bounded, and never on the network."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.validation import (
    SchemaError,
    UnusableSchema,
    argument_errors,
    compile_schema,
    output_errors,
    with_defaults,
)

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
# Each property is known to another part of it.
COMPOSED: dict[str, Any] = {
    "properties": {"a": {}},
    "anyOf": [{"properties": {"b": {}}}, {"$ref": "#/definitions/d", "properties": {"ignored": {}}}],
    "if": {"required": ["c"]},
    "then": {"properties": {"c": {}}, "patternProperties": {"^x": {}}},
    "definitions": {"d": {"properties": {"d": {}}}},
}


class Listener:
    """A loopback listener that counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/schema.json"
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with socket.create_connection(self._socket.getsockname()):
            pass  # wakes accept, after everything that came before it
        self._thread.join(5)
        self.connections -= 1
        self._socket.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            self.connections += 1
            with connection:
                connection.settimeout(1)
                if not connection.recv(64):
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    if found._thread.is_alive():
        found.close()


@gate("schemas.no_remote")
def test_no_schema_ever_opens_a_connection(listener: Listener) -> None:
    refused = []
    for schema in (
        {"$ref": listener.url},
        {"properties": {"a": {"$ref": listener.url}}},
        {"$id": listener.url, "properties": {"a": {"$ref": "other.json"}}},
        {"$schema": listener.url},
        {"properties": {"a": {"$dynamicRef": listener.url}}},
        {**DRAFT_7, "properties": {"a": {"$ref": listener.url}}},
        {"$defs": {"a": {"$schema": listener.url}}, "$ref": "#/$defs/a"},
    ):
        try:
            argument_errors(schema, {"a": 1})
        except UnusableSchema:
            refused.append(schema)
    listener.close()
    assert listener.connections == 0
    assert len(refused) >= 6


@gate("schemas.closing")
@pytest.mark.parametrize(
    ("schema", "arguments", "pointers"),
    [
        ({"properties": {"a": {}}}, {"a": 1}, []),
        ({"properties": {"a": {}}}, {"b": 1}, [""]),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, []),
        ({"allOf": [{"properties": {"a": {}}}]}, {"a": 1}, []),
        ({"allOf": [{"properties": {"a": {}}}]}, {"b": 1}, [""]),
        ({**DRAFT_7, "properties": {"a": {}}}, {"b": 1}, [""]),
        ({**DRAFT_7, **COMPOSED}, {"a": 1, "b": 2, "c": 3, "x1": 4, "d": 5}, []),
        ({**DRAFT_7, **COMPOSED}, {"z": 1}, [""]),
        ({**DRAFT_7, **COMPOSED, "propertyNames": {"maxLength": 1}}, {"x1": 1}, [""]),
        ({**DRAFT_7, "oneOf": [{"additionalProperties": True}]}, {"z": 1}, []),
        ({**DRAFT_7, "oneOf": [{}]}, {"z": 1}, [""]),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {}, [""]),
        ({"properties": {"a/b": {"properties": {"c~d": {"type": "integer"}}}}}, {"a/b": {"c~d": "x"}}, ["/a~1b/c~0d"]),
        ({"properties": {"a": {"items": {"type": "integer"}}}}, {"a": [1, "x"]}, ["/a/1"]),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1.0}, []),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}, ["/a"]),
    ],
)  # fmt: skip
def test_unknown_and_wrong_arguments_are_refused_where_they_stand(
    schema: dict[str, Any], arguments: dict[str, Any], pointers: list[str]
) -> None:
    assert [error.pointer for error in argument_errors(schema, arguments)] == pointers


@gate("validation.masked")
@pytest.mark.parametrize(
    "declared",
    [{"type": "integer"}, {"enum": ["a"]}, {"const": "a"}, {"pattern": "^a$"}, {"maxLength": 1}, {"format": "ipv4"},
     {"not": {}}, {"anyOf": [{"type": "integer"}, {"maxLength": 2}]}, False],
)  # fmt: skip
def test_a_message_never_contains_the_refused_value(declared: Any) -> None:
    errors = argument_errors({"properties": {"a": declared}}, {"a": "hunter2-hunter2"})
    assert "hunter2" not in str(errors)
    assert errors or declared == {"format": "ipv4"}


def test_at_most_five_mismatches_are_told() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer"}}}}
    errors = argument_errors(schema, {"a": ["x"] * 100})
    assert [error.pointer for error in errors] == [f"/a/{n}" for n in range(5)]
    assert all(isinstance(error, SchemaError) and len(error.message) <= 200 for error in errors)


@gate("schemas.bounded")
def test_a_pattern_takes_linear_time() -> None:
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"pattern": "^(a|aa)+$"}}}
    begun = time.process_time()
    errors = argument_errors(schema, {"a": "a" * 50_000 + "!", "b": "a" * 50_000 + "!"})
    assert {error.pointer for error in errors} == {"/a", "/b"}
    assert time.process_time() - begun < 2, "a backtracking engine would not return at all"


@gate("schemas.bounded")
@pytest.mark.parametrize(
    "schema", [{"properties": {"a": {"pattern": "(?=a)a"}}}, {"properties": {"a": {"pattern": "("}}},
               {"type": "objekt"}, {"properties": []}],
)  # fmt: skip
def test_a_schema_that_does_not_compile_is_unusable(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema):
        compile_schema(schema)


@gate("canonical.defaults")
def test_defaults_fill_what_is_absent_and_nothing_else() -> None:
    schema = {
        "properties": {
            "a": {"default": 1},
            "b": {"type": "object", "properties": {"c": {"default": []}, "d": {}}},
            "e": {"type": "object", "properties": {"f": {"default": 2}}},
            "g": {"default": {"h": None}},
            "i": True,
        }
    }
    given: dict[str, Any] = {"b": {"d": 0}, "i": 3}
    assert with_defaults(schema, given) == {"a": 1, "b": {"c": [], "d": 0}, "g": {"h": None}, "i": 3}
    assert given == {"b": {"d": 0}, "i": 3}
    assert with_defaults(schema, {"a": None, "b": "x", "e": {}}) == {
        "a": None,
        "b": "x",
        "e": {"f": 2},
        "g": {"h": None},
    }
    assert with_defaults({}, given) is given


def test_an_output_schema_is_as_open_as_its_author_wrote_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert output_errors(schema, {"a": 1, "b": 2}) == []
    assert [error.pointer for error in output_errors(schema, {"a": "x"})] == ["/a"]
    assert [error.pointer for error in output_errors(schema, None)] == [""]


@gate("schemas.bounded")
@pytest.mark.parametrize("levels", [65, 66, 200, 100_000])
def test_what_is_nested_deeper_than_a_canonical_document_is_not_handed_to_the_engine(levels: int) -> None:
    """It recurses on the machine's stack: a hundred thousand levels would end the process."""
    document: Any = "leaf"
    for _ in range(levels - 1):
        document = [document]
    schema = {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}]}
    assert [error.message for error in output_errors(schema, document)] == (
        ["nested too deeply, or too large"] if levels > 65 else []
    )


@gate("validation.total")
@pytest.mark.parametrize("schema", [{"$ref": "https://x/y"}, {"type": "nothing"}, {"pattern": "("}, {"$schema": "x"}])
def test_an_output_schema_that_cannot_be_used_is_an_error_of_the_answer(schema: dict[str, Any]) -> None:
    assert [error.message for error in output_errors(schema, {})] == ["the output schema of this tool cannot be used"]


def test_a_compiled_schema_is_kept_by_identity_and_by_content() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert compile_schema(schema) is compile_schema(schema) is compile_schema(dict(schema))
    assert compile_schema(schema) is not compile_schema(schema, close=False)


def test_formats_are_notes_in_every_dialect() -> None:
    declared = {"properties": {"a": {"format": "ipv4"}}}
    assert argument_errors(declared, {"a": "x"}) == argument_errors({**DRAFT_7, **declared}, {"a": "x"}) == []


@gate("schemas.no_remote")
def test_a_schema_that_does_not_compile_says_where() -> None:
    with pytest.raises(UnusableSchema, match=r"^/properties/a/type: "):
        compile_schema({"properties": {"a": {"type": "strin"}}})
    with pytest.raises(UnusableSchema, match=r"^/properties/a~1b/pattern: "):
        compile_schema({"properties": {"a/b": {"pattern": "(?=a)"}}})


@gate("validation.total")
@pytest.mark.parametrize("value", [{1: 2}, b"x", {"a": {1}}, {"\ud800": 1}, object()])
def test_what_is_no_json_is_an_error_of_the_answer(value: Any) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert [error.message for error in output_errors(schema, value)] == ["not a JSON value"]
