"""Checks arguments and results against JSON Schemas: no fetching, linear-time patterns, bounded input.

Compiled validators are kept by the schema's own bytes. Which schema applies is the caller's business; what a
schema may look like is `domain.schemas`. Source: TS "Argument validation", DESIGN §1 and §3.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn

import jsonschema_rs
from jsonschema_rs import RegexOptions

from toolsys.domain import schemas
from toolsys.domain.spec import JsonObject

MAXIMUM_ERRORS: Final = 5
MASK: Final = "***"
_DRAFTS: Final[dict[int, Any]] = {
    2020: jsonschema_rs.Draft202012Validator,
    2019: jsonschema_rs.Draft201909Validator,
    7: jsonschema_rs.Draft7Validator,
}


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One mismatch: where in the document, and what was expected. Never contains the value."""

    pointer: str
    message: str


class UnusableSchema(ValueError):
    """The schema itself does not compile; `str()` says why and is for operators."""


def compile_schema(schema: JsonObject, *, close: bool = True) -> Any:
    """Return a compiled validator.

    Raises: UnusableSchema.
    """
    return _compiled(json.dumps(schemas.closed(schema) if close else schema, sort_keys=True))


def argument_errors(schema: JsonObject, arguments: JsonObject) -> list[SchemaError]:
    """Return at most five mismatches; unknown members are refused unless the schema says otherwise."""
    return list(_errors(compile_schema(schema), arguments))


def output_errors(schema: JsonObject, structured: Any) -> list[SchemaError]:
    """Return at most five mismatches; what is no JSON value at all (a key that is no text, a date) is one."""
    try:
        return list(_errors(compile_schema(schema, close=False), structured))
    except UnusableSchema:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError):
        # What the validator says here may quote the value.
        return [SchemaError("", "not a JSON value")]


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """Return the arguments with the top-level and nested object defaults that the schema declares."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return arguments
    filled = dict(arguments)
    for name, declared in properties.items():
        if not isinstance(declared, dict):
            continue
        if name not in filled and "default" in declared:
            filled[name] = declared["default"]
        elif isinstance(filled.get(name), dict) and declared.get("type") == "object":
            filled[name] = with_defaults(declared, filled[name])
    return filled


def _errors(validator: Any, document: Any) -> Iterator[SchemaError]:
    if validator.is_valid(document):
        return
    for count, error in enumerate(validator.iter_errors(document)):
        if count >= MAXIMUM_ERRORS:
            return
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in error.instance_path)
        yield SchemaError(pointer, error.message[:200])


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"remote reference {uri[:80]}")


@lru_cache(maxsize=2048)
def _compiled(text: str) -> Any:
    schema = json.loads(text)
    draft = _DRAFTS.get(schemas.dialect_of(schema) or 0)
    if draft is None:
        raise UnusableSchema("unsupported dialect")
    try:
        return draft(schema, retriever=_refuse, pattern_options=RegexOptions(), mask=MASK)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(str(error)[:300]) from None
