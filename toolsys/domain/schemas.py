"""Shape rules for JSON Schemas that arrive from elsewhere: references, dialects, size, depth, closing.

It measures and derives; compiling and validating is `toolsys.validation`. A stored schema is never edited:
`closed` returns a derived copy. Source: TS "Argument validation", DESIGN §1 "Schemas of others".
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

MAXIMUM_DEPTH: Final = 16
MAXIMUM_BYTES: Final = 32 * 1024
# As far as operators can raise the two for one server: a pin nests a schema further, and has a canonical form too.
UTMOST_DEPTH: Final = 48
UTMOST_BYTES: Final = 256 * 1024
MAXIMUM_SUBSCHEMAS: Final = 4096
DIALECTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
}
_COMPOSING: Final = frozenset({
    "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SchemaCaps:
    """How deep and how large a schema from elsewhere may be."""

    depth: int = MAXIMUM_DEPTH
    bytes: int = MAXIMUM_BYTES


USUAL: Final = SchemaCaps()
UTMOST: Final = SchemaCaps(UTMOST_DEPTH, UTMOST_BYTES)


def dialect_of(schema: dict[str, Any]) -> int | None:
    """Return 2020, 2019 or 7 by `$schema` (absent means 2020-12), or None for a dialect that we do not honour."""
    declared = schema.get("$schema")
    if declared is None:
        return 2020
    return DIALECTS.get(declared.rstrip("#")) if isinstance(declared, str) else None


def schema_defect(schema: dict[str, Any], caps: SchemaCaps = USUAL) -> str | None:
    """Say why the schema cannot be used, or None. Never fetches and never recurses past the cap on its depth."""
    if dialect_of(schema) is None:
        return "$schema names a dialect other than draft-07, 2019-09 or 2020-12"
    for count, (depth, node) in enumerate(_nodes(schema, caps.depth), 1):
        if depth > caps.depth:
            return f"nested deeper than {caps.depth}"
        if count > MAXIMUM_SUBSCHEMAS:
            return f"more than {MAXIMUM_SUBSCHEMAS} nodes"
        if (bad := _remote_reference(node)) is not None:
            return f"remote reference {bad[:80]!r}"
        if count > 1 and (resource := _resource(node)) is not None:
            return f"a document inside the document ({resource})"
    size = len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return f"larger than {caps.bytes} bytes" if size > caps.bytes else None


def pointed(schema: dict[str, Any], reference: str) -> Any:
    """Return what `#` and a JSON pointer (RFC 6901) lead to in the document, or None where they lead nowhere."""
    pointer, found = unquote(reference.removeprefix("#")), schema
    if pointer and not pointer.startswith("/"):
        return None
    for part in pointer.split("/")[1:]:
        found = _member(found, part.replace("~1", "/").replace("~0", "~"))
    return found


def pointer_of(path: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path; the empty one is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a copy in which an object that says nothing of unknown properties refuses them.

    A plain root gets `additionalProperties: false`, a composed one `unevaluatedProperties: false`. Draft-07 has no such
    keyword: there a composed root refuses the names that no part of it knows, unless a part permits any. (Beside a
    draft-07 `$ref` every keyword is ignored: such a root stays as its author wrote it.)
    """
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return schema
    if not _COMPOSING & schema.keys():
        return {**schema, "additionalProperties": False}
    if dialect_of(schema) != 7:
        return {**schema, "unevaluatedProperties": False}
    known = None if "$ref" in schema else _known_names(schema)
    if known is None:
        return schema
    declared = schema.get("propertyNames", True)
    return {**schema, "propertyNames": {"allOf": [declared, known]}}


def _known_names(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return a schema of the names that some part of a composed object knows; None where a part permits any."""
    names: set[str] = set()
    matching: set[str] = set()
    left: list[Any] = [schema]
    seen: list[Any] = []
    while left:
        part = left.pop()
        if not isinstance(part, dict) or any(part is known for known in seen):
            continue
        seen.append(part)
        if isinstance(part.get("$ref"), str):
            left.append(pointed(schema, part["$ref"]))
            continue
        if part.get("additionalProperties", False) is not False:
            return None
        names.update(_mapping(part.get("properties")))
        matching.update(_mapping(part.get("patternProperties")))
        left += [part.get(name) for name in ("if", "then", "else")]
        left += [inner for name in ("allOf", "anyOf", "oneOf") for inner in _sequence(part.get(name))]
        left += _mapping(part.get("dependencies")).values()
    return {"anyOf": [{"enum": sorted(names)}, *({"pattern": pattern} for pattern in sorted(matching))]}


def _mapping(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _sequence(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _nodes(schema: object, maximum_depth: int) -> Iterator[tuple[int, Any]]:
    stack: list[tuple[int, Any]] = [(1, schema)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        if depth > maximum_depth:
            continue
        if isinstance(node, dict):
            stack.extend((depth + 1, value) for value in node.values() if isinstance(value, dict | list))
        elif isinstance(node, list):
            stack.extend((depth + 1, value) for value in node if isinstance(value, dict | list))


def _remote_reference(node: object) -> str | None:
    if not isinstance(node, dict):
        return None
    for key in ("$ref", "$dynamicRef", "$recursiveRef"):
        target = node.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            return target
    return None


def _resource(node: object) -> str | None:
    """A subschema with an identity or a dialect of its own: references in it would mean something else."""
    if not isinstance(node, dict):
        return None
    identity, dialect = node.get("$id"), node.get("$schema")
    if isinstance(identity, str) and not identity.startswith("#"):
        return "$id"
    return "$schema" if isinstance(dialect, str) else None


def _member(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part)
    is_index = isinstance(container, list) and part.isascii() and part.isdecimal() and int(part) < len(container)
    return container[int(part)] if is_index else None
