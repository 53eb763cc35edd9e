"""How much work a schema can ask of a validator: its size with every reference followed, and what a document costs.

Validators follow a reference anew each time they meet it, so that a few hundred bytes can ask for 2^n evaluations. What
is found here is an upper bound and decides where a check runs; it never decides what is valid. Source: DESIGN §3.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from toolsys.domain.schemas import pointed

MAXIMUM_EXPANDED: Final = 100_000
MAXIMUM_PATTERNS: Final = 256
# One evaluation is charged for this many characters of text too.
TEXT_UNIT: Final = 64
LIST_UNIT: Final = 8
_IN_PLACE_ONE: Final = ("not", "if", "then", "else")
_IN_PLACE_LIST: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAP: Final = ("dependentSchemas", "dependencies")
_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ELEMENTS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEASURED: Final = (str, dict, list, tuple)
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class Unbounded(ValueError):
    """No validator can be made of the schema; `str()` says why and where."""


@dataclass(slots=True, eq=False)
class Node:
    """One subschema: which others judge the same value, and which judge its members and elements.

    `own` is its own work in evaluations: a long list of permitted or required values counts for more than one.
    """

    own: int = 1
    in_place: list["Node"] = field(default_factory=list)
    properties: dict[str, "Node"] = field(default_factory=dict)
    members: list["Node"] = field(default_factory=list)
    elements: list["Node"] = field(default_factory=list)
    prefix: list["Node"] = field(default_factory=list)

    def all(self) -> Iterator["Node"]:
        yield from self.in_place
        yield from self.properties.values()
        yield from self.members
        yield from self.elements
        yield from self.prefix


@dataclass(frozen=True, slots=True)
class Weight:
    """`expanded` counts the subschemas with every reference followed; it says nothing where `is_recursive`.

    `patterns` are the regular expressions that some value may have to match.
    """

    root: Node
    expanded: int
    is_recursive: bool
    patterns: tuple[str, ...]


class Extent(NamedTuple):
    """How many values a document holds, its characters of text, and the levels that it is nested in."""

    values: int
    characters: int
    depth: int


def weigh(schema: dict[str, Any]) -> Weight:
    """Raises: Unbounded (a reference that leads nowhere or back to itself, or too much work for any document)."""
    reader = _Reader(schema)
    nodes, patterns = reader.read(), tuple(sorted(reader.patterns))
    if len(patterns) > MAXIMUM_PATTERNS:
        raise Unbounded(f"more than {MAXIMUM_PATTERNS} patterns")
    try:
        list(TopologicalSorter({node: node.in_place for node in nodes}).static_order())
    except CycleError:
        raise Unbounded("a reference leads back to itself without a step into the document") from None
    try:
        order = list(TopologicalSorter({node: list(node.all()) for node in nodes}).static_order())
    except CycleError:
        return Weight(nodes[0], 0, is_recursive=True, patterns=patterns)
    expanded: dict[Node, int] = {}
    for node in order:
        expanded[node] = min(node.own + sum(expanded[inner] for inner in node.all()), MAXIMUM_EXPANDED + 1)
    if expanded[nodes[0]] > MAXIMUM_EXPANDED:
        raise Unbounded(f"more than {MAXIMUM_EXPANDED} subschemas with its references followed")
    return Weight(nodes[0], expanded[nodes[0]], is_recursive=False, patterns=patterns)


def cost(root: Node, document: Any, limit: int) -> int:
    """Return how many evaluations the document takes at most; anything above `limit` only says that it is above."""
    try:
        return _cost(root, document, limit, {})
    except RecursionError:
        return limit + 1


def extent(document: Any, maximum_depth: int, maximum_values: int) -> Extent:
    """Measure a document. It stops looking past either bound, so that one that holds itself has an end too."""
    values, characters, depth, level = 1, 0, 0, [document]
    while level and depth <= maximum_depth and values <= maximum_values:
        depth += 1
        inner: list[Any] = []
        for found in level:
            if isinstance(found, str):
                characters += len(found)
            elif isinstance(found, dict):
                values += len(found)
                characters += sum(len(name) for name in found if isinstance(name, str))
                inner.extend(member for member in found.values() if isinstance(member, _MEASURED))
            elif isinstance(found, list | tuple):
                values += len(found)
                inner.extend(member for member in found if isinstance(member, _MEASURED))
        level = inner
    return Extent(values, characters, depth)


def _cost(node: Node, value: Any, limit: int, known: dict[tuple[int, int], int]) -> int:
    key = (id(node), id(value))
    if key in known:
        return known[key]
    total = node.own + (len(value) // TEXT_UNIT if isinstance(value, str) else 0)
    for judge, part in _judged(node, value):
        total += _cost(judge, part, limit, known)
        if total > limit:
            break
    known[key] = total
    return total


def _judged(node: Node, value: Any) -> Iterator[tuple[Node, Any]]:
    for inner in node.in_place:
        yield inner, value
    if isinstance(value, dict):
        for name, member in value.items():
            judges = [*node.members, node.properties[name]] if name in node.properties else node.members
            yield from ((judge, member) for judge in judges)
    elif isinstance(value, list | tuple):
        yield from zip(node.prefix, value, strict=False)
        for element in value:
            yield from ((judge, element) for judge in node.elements)


class _Reader:
    """Makes nodes of the subschemas that are reachable from the root, without recursion."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.patterns: set[str] = set()
        self._root = schema
        self._anchors = dict(_anchors(schema))
        self._nodes: dict[int, Node] = {}
        self._left: list[tuple[dict[str, Any], Node]] = []

    def read(self) -> list[Node]:
        self._node(self._root)
        while self._left:
            self._fill(*self._left.pop())
        return list(self._nodes.values())

    def _node(self, schema: dict[str, Any]) -> Node:
        found = self._nodes.get(id(schema))
        if found is None:
            found = self._nodes[id(schema)] = Node()
            self._left.append((schema, found))
        return found

    def _fill(self, schema: dict[str, Any], node: Node) -> None:
        self.patterns.update(_mapped(schema.get("patternProperties")))
        self.patterns.update([schema["pattern"]] if isinstance(schema.get("pattern"), str) else [])
        node.own += (len(_listed(schema.get("enum"))) + len(_listed(schema.get("required")))) // LIST_UNIT
        node.in_place += self._each(schema.get(name) for name in _IN_PLACE_ONE)
        for name in _IN_PLACE_LIST:
            node.in_place += self._each(_listed(schema.get(name)))
        for name in _IN_PLACE_MAP:
            node.in_place += self._each(_mapped(schema.get(name)).values())
        node.in_place += [self._target(schema[name]) for name in _REFERENCES if isinstance(schema.get(name), str)]
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            node.in_place *= 2  # judged once for their verdict and once for what they looked at
        for name, declared in _mapped(schema.get("properties")).items():
            node.properties.update((name, found) for found in self._each([declared]))
        node.members += self._each([schema.get(name) for name in _MEMBERS])
        node.members += self._each(_mapped(schema.get("patternProperties")).values())
        node.elements += self._each([schema.get(name) for name in _ELEMENTS])
        node.prefix += self._each([*_listed(schema.get("prefixItems")), *_listed(schema.get("items"))])

    def _each(self, found: Any) -> list[Node]:
        return [self._node(inner) for inner in found if isinstance(inner, dict)]

    def _target(self, reference: str) -> Node:
        name = unquote(reference.removeprefix("#"))
        found = self._anchors.get(name) if name in self._anchors else pointed(self._root, reference)
        if isinstance(found, bool):
            return Node()
        if not isinstance(found, dict):
            raise Unbounded(f"the reference {reference[:80]!r} leads nowhere")
        return self._node(found)


def _anchors(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            names = (node.get("$anchor"), node.get("$dynamicAnchor"), str(node.get("$id", "")).removeprefix("#"))
            yield from ((name, node) for name in names if isinstance(name, str) and name)
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _mapped(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
