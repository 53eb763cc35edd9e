"""Checks arguments and results against JSON Schemas: no fetching, bounded patterns, bounded work, never an exception.

A compiled validator knows how much work a document can make of it. Within the budget it runs here; beyond, in a process
that can be killed (`toolsys.guard`). What a schema may look like is `domain.schemas`. Source: TS "Argument validation",
DESIGN §1 and §3.
"""

import json
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NoReturn

import jsonschema_rs
from jsonschema_rs import RegexOptions

from toolsys.domain import canonical, defaults, schemas, weights
from toolsys.domain.spec import JsonObject
from toolsys.guard import Guard, Unanswered
from toolsys.kept import Kept

MAXIMUM_ERRORS: Final = 5
MASK: Final = "***"
# As deep as a canonical document, and the text in it: the engine follows a schema that holds itself on its own stack.
MAXIMUM_LEVELS: Final = canonical.MAXIMUM_DEPTH + 1
SCHEMAS_KEPT: Final = 2_048
# In evaluations of a subschema: some 40 ns each to say yes or no, some 40 µs each to say where and why.
CHECKING_BUDGET: Final = 1_000_000
TELLING_BUDGET: Final = 10_000
CHILD_MEMORY_BYTES: Final = 1 << 30
# In bytes of compiled pattern times characters of text: a nanosecond or two each where an engine is at its slowest.
TEXT_BUDGET: Final = 50_000_000
PATTERN_SIZES: Final = (4_096, 16_384, 65_536, 262_144, 1_048_576, 10_485_760)
MAXIMUM_PATTERN_BYTES: Final = 2 * PATTERN_SIZES[-1]
_SURROUNDING: Final = ("$schema", "$defs", "definitions")
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


@dataclass(frozen=True)
class Compiled:
    """A schema ready for use. `pattern_bytes` is the size of all its patterns together, compiled."""

    schema: JsonObject
    validator: Any
    weight: weights.Weight
    pattern_bytes: int

    @cached_property
    def defaults(self) -> defaults.Plan:
        return defaults.plan(self.schema, self._fits)

    def _fits(self, subschema: JsonObject, value: Any) -> bool:
        """Say whether a default fits; where its schema does not stand on its own, it is taken as it is."""
        around: JsonObject = {name: self.schema[name] for name in _SURROUNDING if name in self.schema}
        try:
            return not _found(_made({**around, "allOf": [subschema]}), value)
        except UnusableSchema:
            return True


def compile_schema(schema: JsonObject, *, close: bool = True) -> Compiled:
    """Return a compiled schema, kept by its content.

    Raises: UnusableSchema.
    """
    return _compiled(json.dumps(schemas.closed(schema) if close else schema, sort_keys=True))


def _kept(schema: JsonObject, *, close: bool) -> Compiled:
    """The same for schemas that are used again and again: found by identity, since none is ever edited in place."""
    known = _KEPT.get((id(schema), close))
    if known is not None and known[0] is schema:
        return known[1]
    return _KEPT.put((id(schema), close), (schema, compile_schema(schema, close=close)))[1]


def argument_errors(schema: JsonObject, arguments: JsonObject) -> list[SchemaError]:
    """Return at most five mismatches; unknown members are refused unless the schema says otherwise.

    Raises: UnusableSchema.
    """
    return _found(_kept(schema, close=True), arguments)


def output_errors(schema: JsonObject, structured: Any) -> list[SchemaError]:
    """Return at most five mismatches of whatever a tool gave, JSON or not. Raises nothing: the tool has run."""
    try:
        return _found(_kept(schema, close=False), structured)
    except UnusableSchema:
        return [SchemaError("", "the output schema of this tool cannot be used")]
    except (ValueError, TypeError, OverflowError, RecursionError):
        # What the validator says here may quote the value.
        return [SchemaError("", "not a JSON value")]


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """Return the arguments with the defaults that the schema declares, as `domain.defaults` says.

    Raises: UnusableSchema; defaults.Overfilled.
    """
    return defaults.fill(_kept(schema, close=True).defaults, arguments)


def _found(compiled: Compiled, document: Any) -> list[SchemaError]:
    extent = weights.extent(document, MAXIMUM_LEVELS, CHECKING_BUDGET)
    if extent.depth > MAXIMUM_LEVELS or extent.values > CHECKING_BUDGET:
        return [SchemaError("", "nested too deeply, or too large")]
    work = _work(compiled, document, extent)
    try:
        if work > CHECKING_BUDGET:
            return _found_elsewhere(compiled, document)
        if compiled.validator.is_valid(document):
            return []
        return (
            list(_told(compiled.validator, document))
            if work <= TELLING_BUDGET
            else _found_elsewhere(compiled, document)
        )
    except (ValueError, TypeError, OverflowError):
        return [SchemaError("", "not a JSON value")]


def _work(compiled: Compiled, document: Any, extent: weights.Extent) -> int:
    """Return an upper bound in evaluations; above the budget if its patterns alone may take too long."""
    if compiled.pattern_bytes * extent.characters > TEXT_BUDGET:
        return CHECKING_BUDGET + 1
    if compiled.weight.is_recursive:
        return weights.cost(compiled.weight.root, document, CHECKING_BUDGET)
    return compiled.weight.expanded * (extent.values + extent.characters // weights.TEXT_UNIT)


def _told(validator: Any, document: Any) -> Iterator[SchemaError]:
    for count, error in enumerate(validator.iter_errors(document)):
        if count >= MAXIMUM_ERRORS:
            return
        yield SchemaError(schemas.pointer_of(error.instance_path), error.message[:200])


def _found_elsewhere(compiled: Compiled, document: Any) -> list[SchemaError]:
    try:
        answer = GUARD.ask(json.dumps([compiled.schema, document], allow_nan=False))
    except Unanswered as unanswered:
        return [SchemaError("", str(unanswered))]
    return [SchemaError(pointer, message) for pointer, message in answer]


def serve() -> None:
    """Be the child that may be killed: check without a budget, line by line, until the parent is gone."""
    with suppress(ValueError, OSError):  # not every system limits this
        resource.setrlimit(resource.RLIMIT_AS, (CHILD_MEMORY_BYTES, CHILD_MEMORY_BYTES))
    print("ready", flush=True)  # noqa: T201 - standard output is the way back
    for line in sys.stdin:
        schema, document = json.loads(line)
        validator = compile_schema(schema, close=False).validator
        try:
            told = [] if validator.is_valid(document) else list(_told(validator, document))
        except ValueError:
            told = [SchemaError("", "not a JSON value")]
        print(json.dumps([(error.pointer, error.message) for error in told]), flush=True)  # noqa: T201


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"remote reference {uri[:80]}")


@lru_cache(maxsize=SCHEMAS_KEPT)
def _compiled(text: str) -> Compiled:
    return _made(json.loads(text))


def _made(schema: JsonObject) -> Compiled:
    draft = _DRAFTS.get(schemas.dialect_of(schema) or 0)
    if draft is None:
        raise UnusableSchema("unsupported dialect")
    try:
        weight = weights.weigh(schema)
        pattern_bytes = _pattern_bytes(weight.patterns)
        return Compiled(schema, _validator(draft, schema), weight, pattern_bytes)
    except UnusableSchema:
        raise
    except jsonschema_rs.ValidationError as error:
        raise UnusableSchema(f"{schemas.pointer_of(error.instance_path) or '/'}: {error.message[:200]}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(str(error)[:300]) from None


def _validator(draft: Any, schema: Any, *, pattern_bytes: int = PATTERN_SIZES[-1]) -> Any:
    """Formats are notes and no rules, in every dialect alike; the default retriever would fetch."""
    options = RegexOptions(size_limit=pattern_bytes)
    return draft(schema, retriever=_refuse, pattern_options=options, mask=MASK, validate_formats=False)


def _pattern_bytes(patterns: Iterable[str]) -> int:
    """Return the size of the patterns together. It stops at the bound: compiling them takes time too."""
    total = 0
    for pattern in patterns:
        total += _pattern_size(pattern)
        if total > MAXIMUM_PATTERN_BYTES:
            raise UnusableSchema(f"its patterns are larger than {MAXIMUM_PATTERN_BYTES} bytes together")
    return total


def _pattern_size(pattern: str) -> int:
    """Return the least of the sizes within which the pattern compiles: what its slowest match depends on.

    Of one that the engine (Rust's `regex`, linear in the text) does not take at all, compiling the schema says where it
    stands.
    """
    for size in PATTERN_SIZES:
        try:
            _validator(jsonschema_rs.Draft202012Validator, {"pattern": pattern}, pattern_bytes=size)
        except ValueError:
            continue
        return size
    return PATTERN_SIZES[-1]


_KEPT: Final[Kept[tuple[JsonObject, Compiled]]] = Kept(SCHEMAS_KEPT)
GUARD: Final = Guard("from toolsys.validation import serve; serve()")
