"""Where a schema of ours leaves a value open, and a listed schema in the form that leaves nothing open.

For contracts, which people of ours answer for: what a server lists is honoured as it came, and closed at its root only
(DESIGN §1). Pure; every walk is bounded in depth. Source: XP "typed argument contracts".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from toolsys.domain.schemas import dialect_of, pointer_of

type Schema = Any

MAXIMUM_DEPTH: Final = 64
# What gives a value a type by itself, and what does so by other schemas.
_OWN: Final = ("type", "enum", "const", "$ref")
_CHOICES: Final = ("anyOf", "oneOf")
_BY_NAME: Final = ("properties", "patternProperties", "$defs", "definitions")
_SINGLE: Final = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems")
_LISTED: Final = ("prefixItems", "items")
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
# What closes nothing in a dialect, because it is no word of it.
_UNKNOWN: Final = {
    7: frozenset({"unevaluatedProperties", "unevaluatedItems", "prefixItems"}),
    2019: frozenset({"prefixItems"}),
    2020: frozenset({"additionalItems"}),
}


def openings(schema: dict[str, Any]) -> Iterator[str]:
    """Yield each place inside a schema where a value may hold what nobody declared; of its root others judge."""
    yield from _Reading(_UNKNOWN.get(dialect_of(schema) or 0, frozenset())).inside(schema, "", 0)


def closed(schema: Schema) -> Schema:
    """Return a copy in which each plain object takes only what it declares.

    A schema that another one adds to cannot be told from one that stands for itself: then all stays as it is.
    """
    return schema if _is_added_to(schema) else _closed(schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One schema read in its dialect. `where` is a JSON pointer into it."""

    unknown: frozenset[str]

    def inside(self, schema: Schema, where: str, depth: int) -> Iterator[str]:
        if depth > MAXIMUM_DEPTH:
            yield f"{where[:200]} is nested too deeply"
            return
        if not isinstance(schema, dict):
            return
        for word in sorted(self.unknown & schema.keys()):
            yield f"{where[:200]}/{word} means nothing in the dialect of this schema"
        for step, inner in _values(schema):
            yield from self.of_value(inner, where + step, depth + 1)
        if not any(word in schema for word in _OWN):
            yield from self._of_composed(schema, where, depth + 1)
        elif "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            # Only here do the parts declare something; else they narrow what is declared beside them.
            for step, part in _parts(schema):
                yield from self.inside(part, where + step, depth + 1)

    def of_value(self, schema: Schema, where: str, depth: int) -> Iterator[str]:
        if schema is False:
            return
        if not isinstance(schema, dict) or not any(word in schema for word in (*_OWN, *_CHOICES, "allOf")):
            yield f"{where[:200]} has no type: give it one"
            return
        if _may_be(schema, "object") and all(schema.get(word, True) is True for word in _OTHERS):
            yield f'{where[:200]} takes members that are not declared: give it "additionalProperties": false'
        if _may_be(schema, "array") and not _has_declared_items(schema):
            yield f'{where[:200]} takes items of any kind: give it "items"'
        yield from self.inside(schema, where, depth)

    def _of_composed(self, schema: dict[str, Any], where: str, depth: int) -> Iterator[str]:
        """Each choice has to be closed; of what holds together, one part."""
        for word in _CHOICES:
            for number, branch in enumerate(_listed(schema, word)):
                yield from self.of_value(branch, f"{where}/{word}/{number}", depth)
        together = [list(self.of_value(part, f"{where}/allOf", depth)) for part in _listed(schema, "allOf")]
        if all(together):
            yield from (opening for part in together for opening in part)


def _may_be(schema: dict[str, Any], kind: str) -> bool:
    types = schema.get("type")
    return "enum" not in schema and "const" not in schema and kind in (types if isinstance(types, list) else [types])


def _has_declared_items(schema: dict[str, Any]) -> bool:
    items = schema.get("items", True)
    first = items if isinstance(items, list) else _listed(schema, "prefixItems")
    rest = schema.get("additionalItems", True) if isinstance(items, list) else items
    most = schema.get("maxItems")
    is_counted = isinstance(most, int) and most <= len(first)
    return is_counted or rest is not True or schema.get("unevaluatedItems", True) is not True


def _values(schema: dict[str, Any]) -> Iterator[tuple[str, Schema]]:
    """Yield the schemas of what a value holds, and the definitions."""
    for word in _BY_NAME:
        named = schema.get(word)
        for name, inner in named.items() if isinstance(named, dict) else ():
            yield pointer_of((word, name[:64])), inner
    for word in _SINGLE:
        if word in schema and not isinstance(schema[word], bool | list):
            yield f"/{word}", schema[word]
    for word in _LISTED:
        for number, inner in enumerate(_listed(schema, word)):
            yield f"/{word}/{number}", inner


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, Schema]]:
    for word in (*_CHOICES, "allOf"):
        for number, part in enumerate(_listed(schema, word)):
            yield f"/{word}/{number}", part
    for word in ("if", "then", "else"):
        yield f"/{word}", schema.get(word)
    dependent = schema.get("dependentSchemas")
    for name, part in dependent.items() if isinstance(dependent, dict) else ():
        yield pointer_of(("dependentSchemas", name[:64])), part


def _listed(schema: dict[str, Any], word: str) -> list[Schema]:
    found = schema.get(word)
    return found if isinstance(found, list) else []


def _is_added_to(schema: Schema, depth: int = 0) -> bool:
    if depth > MAXIMUM_DEPTH:
        return True
    if isinstance(schema, list):
        return any(_is_added_to(inner, depth + 1) for inner in schema)
    if not isinstance(schema, dict):
        return False
    is_here = "allOf" in schema or ("$ref" in schema and "properties" in schema)
    return is_here or any(_is_added_to(inner, depth + 1) for inner in schema.values())


def _closed(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    choices = () if any(word in schema for word in _OWN) else _CHOICES
    copy = {word: _closed(inner) if word in {*_SINGLE, *_LISTED, *choices} else inner for word, inner in schema.items()}
    for word in _BY_NAME:
        if isinstance(copy.get(word), dict):
            copy[word] = {name: _closed(inner) for name, inner in copy[word].items()}
    is_plain = not any(word in copy for word in (*_OTHERS, *_CHOICES, "$ref"))
    return {**copy, "additionalProperties": False} if is_plain and _may_be(copy, "object") else copy
