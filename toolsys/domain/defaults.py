"""Which defaults a schema declares, and a document with them filled in, as the canonical form wants it.

Defaults are taken from `properties` and `items`, through `allOf` and local references; never from a branch that may not
apply. One that breaks its own schema is left out: the caller did nothing wrong. Source: TS "canonical form".
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from toolsys.domain import schemas
from toolsys.domain.spec import JsonObject

# Defaults are repeated for every element of a list: a small call must not become a large document.
MAXIMUM_ADDED_BYTES: Final = 1_048_576
_LEADING_ON: Final = frozenset({"properties", "items", "allOf", "$ref"})
Judge = Callable[[JsonObject, Any], bool]


class Overfilled(ValueError):
    """The defaults of this schema would make more of these arguments than a call may carry."""


@dataclass(slots=True, eq=False)
class Plan:
    """What to fill in at one place: by name the default and its size in bytes, then the places further in."""

    values: dict[str, tuple[Any, int]] = field(default_factory=dict)
    properties: dict[str, "Plan"] = field(default_factory=dict)
    elements: list["Plan"] = field(default_factory=list)


def plan(schema: JsonObject, is_valid: Judge) -> Plan:
    """Return what may be filled in. `is_valid(subschema, value)` says whether a default fits its own schema."""
    return _Planner(schema, is_valid).plan(schema)


def fill(found: Plan, value: JsonObject) -> JsonObject:
    """Return the value with defaults; the same object where there was nothing to fill in.

    What a default holds is not filled in turn. Raises: Overfilled.
    """
    filled: JsonObject = _Filler().fill(found, value)
    return filled


class _Filler:
    def __init__(self) -> None:
        self._left = MAXIMUM_ADDED_BYTES

    def fill(self, found: Plan, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(found, value)
        if isinstance(value, list):
            for inner in found.elements:
                filled = [self.fill(inner, element) for element in value]
                value = filled if any(new is not old for new, old in zip(filled, value, strict=True)) else value
        return value

    def _object(self, found: Plan, value: JsonObject) -> JsonObject:
        added: JsonObject = {}
        for name, (default, size) in found.values.items():
            if name not in value:
                added[name] = default
                self._left -= size
        if self._left < 0:
            raise Overfilled(f"more than {MAXIMUM_ADDED_BYTES} bytes of defaults")
        for name, inner in found.properties.items():
            if name in value and (filled := self.fill(inner, value[name])) is not value[name]:
                added[name] = filled
        return {**value, **added} if added else value


class _Planner:
    """Makes one plan a subschema, without recursion, so that a schema that holds itself has an end."""

    def __init__(self, root: JsonObject, is_valid: Judge) -> None:
        self._root = root
        self._is_valid = is_valid
        self._known: dict[int, Plan] = {}
        self._left: list[tuple[JsonObject, Plan]] = []

    def plan(self, schema: JsonObject) -> Plan:
        found = self._of(schema)
        while self._left:
            inner, made = self._left.pop()
            for part in self._parts(inner):
                self._add(made, part)
        return found

    def _of(self, schema: JsonObject) -> Plan:
        known = self._known.get(id(schema))
        if known is None:
            known = self._known[id(schema)] = Plan()
            self._left.append((schema, known))
        return known

    def _add(self, found: Plan, schema: JsonObject) -> None:
        declared = schema.get("properties")
        for name, inner in declared.items() if isinstance(declared, dict) else ():
            if isinstance(inner, dict):
                self._add_property(found, name, inner)
        if isinstance(schema.get("items"), dict):
            found.elements.append(self._of(schema["items"]))

    def _add_property(self, found: Plan, name: str, schema: JsonObject) -> None:
        declared = [part["default"] for part in self._parts(schema) if "default" in part]
        if declared and name not in found.values and self._is_valid(schema, declared[0]):
            found.values[name] = (declared[0], len(name) + len(json.dumps(declared[0])))
        if not _LEADING_ON.isdisjoint(schema):
            found.properties.setdefault(name, self._of(schema))

    def _parts(self, schema: JsonObject) -> list[JsonObject]:
        """The schema with every other that always applies to the same value."""
        parts: list[JsonObject] = []
        left = [schema]
        while left:
            part = left.pop(0)
            if any(part is seen for seen in parts):
                continue
            parts.append(part)
            both = part.get("allOf")
            left += [inner for inner in (both if isinstance(both, list) else ()) if isinstance(inner, dict)]
            target = schemas.pointed(self._root, part["$ref"]) if isinstance(part.get("$ref"), str) else None
            left += [target] if isinstance(target, dict) else []
        return parts
