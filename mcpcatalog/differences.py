"""What changed between two generations of a catalog, in words that a reviewer can weigh. Pure, bounded.

A tightened parameter refuses what was accepted before; a changed description may carry new instructions to the model.
Descriptions are compared as far as they are advertised. Source: issue 4 "Discovery", DESIGN §7.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mcpcatalog.remote import JsonObject, RemoteTool

MAXIMUM: Final = 500
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_CONSTRAINTS: Final = ("const", "format", "multipleOf", "not", "pattern", "uniqueItems")
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems")

type Difference = dict[str, str]


def differences(old: Iterable[RemoteTool], new: Iterable[RemoteTool]) -> list[Difference]:
    """Return what changed as `{tool, kind, parameter}`, in the order of names; at most 500."""
    before, after = {tool.name: tool for tool in old}, {tool.name: tool for tool in new}
    found = [line for name in sorted(before | after) for line in _of_tool(name, before.get(name), after.get(name))]
    return found[:MAXIMUM]


def _of_tool(name: str, old: RemoteTool | None, new: RemoteTool | None) -> Iterator[Difference]:
    if old is None or new is None:
        yield _line(name, "removed" if new is None else "added")
        return
    if old.description != new.description:
        yield _line(name, "description_changed")
    changed = list(_of_schema(name, old.input_schema, new.input_schema, ""))
    if not changed and old.input_schema != new.input_schema:
        changed = [_line(name, "schema_changed")]
    yield from changed
    if (old.claims, old.is_application_only) != (new.claims, new.is_application_only):
        yield _line(name, "claims_changed")


def _of_schema(name: str, old: JsonObject, new: JsonObject, path: str) -> Iterator[Difference]:
    before, after = _object(old.get("properties")), _object(new.get("properties"))
    obliged = _strings(new.get("required")) - _strings(old.get("required"))
    for key in sorted(before | after):
        where = f"{path}/{key}"
        if key not in before:
            yield _line(name, "parameter_added", where)
        elif key not in after:
            yield _line(name, "parameter_removed", where)
        else:
            yield from _of_parameter(name, before[key], after[key], where, is_obliged=key in obliged)
    if new.get("additionalProperties") is False and old.get("additionalProperties") is not False and path == "":
        yield _line(name, "parameter_tightened", "/")


def _of_parameter(name: str, old: Any, new: Any, where: str, *, is_obliged: bool) -> Iterator[Difference]:
    before, after = _object(old), _object(new)
    if is_obliged or (old is not False and new is False) or _is_tighter(before, after):
        yield _line(name, "parameter_tightened", where)
    elif old != new and "properties" not in before | after and "items" not in before | after:
        yield _line(name, "parameter_changed", where)
    yield from _of_schema(name, before, after, where)
    if "items" in before or "items" in after:
        yield from _of_parameter(name, before.get("items"), after.get("items"), f"{where}/*", is_obliged=False)


def _is_tighter(old: JsonObject, new: JsonObject) -> bool:
    return (
        _lost(old.get("enum"), new.get("enum"))
        or _lost(_types(old), _types(new))
        or any(_moved(old.get(key), new.get(key), upwards=False) for key in _UPPER)
        or any(_moved(old.get(key), new.get(key), upwards=True) for key in _LOWER)
        or any(key in new and old.get(key) != new[key] for key in _CONSTRAINTS)
        or any(_closed(old.get(key, True), new.get(key, True)) for key in _OTHERS)
    )


def _closed(old: Any, new: Any) -> bool:
    """Say whether members that are not declared were free, or permitted at all, and are no more."""
    return old != new and (new is False or old in (True, {}))


def _lost(old: Any, new: Any) -> bool:
    """Say whether a list of what is permitted appeared, or lost a member."""
    if not isinstance(new, list):
        return False
    return not isinstance(old, list) or any(value not in new for value in old)


def _types(schema: JsonObject) -> Any:
    declared = schema.get("type")
    found = [declared] if isinstance(declared, str) else declared
    # Whatever takes a number takes an integer.
    return [*found, "integer"] if isinstance(found, list) and "number" in found else found


def _moved(old: Any, new: Any, *, upwards: bool) -> bool:
    if not isinstance(new, int | float):
        return False
    return not isinstance(old, int | float) or (new > old if upwards else new < old)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _line(tool: str, kind: str, parameter: str = "") -> Difference:
    return {"tool": tool[:256], "kind": kind, "parameter": parameter[:500]}
