"""The pin of a session: the set of tools that was advertised, and the hash that addresses exactly this set.

What an MCP tool is, its version says (the hash of its catalog) together with what people said of its server, so that
its part of the canonical form is written once in a process. Pure. Source: TS "Advertisement is pinned".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolsys.domain.canonical import canonical_bytes, sha256_hex
from toolsys.domain.spec import JsonObject, ToolSource, ToolSpec
from toolsys.kept import Kept

PARTS_KEPT: Final = 4_096


@dataclass(frozen=True, slots=True)
class _Part:
    """One tool of a pin: as it was declared, as it is stored, and its canonical form behind its name."""

    spec: ToolSpec
    stored: JsonObject
    text: bytes

    def is_of(self, spec: ToolSpec) -> bool:
        """Versions are equal across Unicode forms and tenants: what is stored is each one's own words all the same."""
        return self.spec is spec or (
            self.spec.description == spec.description and self.spec.input_schema == spec.input_schema
        )


@dataclass(frozen=True, slots=True)
class Pin:
    """`tools` maps a name to its spec as a session stores it."""

    tools: JsonObject
    sha256: str


class PinWriter:
    """Puts pins together out of parts that it has written before. Safe under threads."""

    def __init__(self) -> None:
        self._parts: Kept[_Part] = Kept(PARTS_KEPT)

    def pin(self, specs: Sequence[ToolSpec]) -> Pin:
        """A canonical object is its members in the order of their names: whoever joins them has its canonical form."""
        parts = {spec.name: self._part(spec) for spec in specs}
        ordered = sorted(parts)
        text = b"{" + b",".join(parts[name].text for name in ordered) + b"}"
        return Pin({name: parts[name].stored for name in ordered}, sha256_hex(text))

    def _part(self, spec: ToolSpec) -> _Part:
        key = identity(spec) if spec.source is ToolSource.MCP else None
        known = self._parts.get(key) if key is not None else None
        if known is not None and known.is_of(spec):
            return known
        declared = spec.model_dump(mode="json") | {"required_scopes": sorted(spec.required_scopes)}
        part = _Part(spec, declared, canonical_bytes(spec.name) + b":" + canonical_bytes(declared))
        return part if key is None else self._parts.put(key, part)


def pin_of(specs: Sequence[ToolSpec]) -> Pin:
    return PinWriter().pin(specs)


def identity(spec: ToolSpec) -> tuple[object, ...]:
    """Return what tells this MCP tool from every other: its version is the hash of what its server declared."""
    return (
        spec.name, spec.version, spec.side_effect, spec.risk, spec.idempotency, spec.required_scopes,
        spec.timeout_seconds, spec.maximum_output_bytes, spec.allow_parallel, spec.kind, spec.target_kind,
        spec.output_trust, spec.source, spec.server_id, spec.device_id, spec.deprecated, spec.model_visible,
        spec.passes_idempotency_key,
    )  # fmt: skip
