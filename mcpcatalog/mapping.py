"""Makes a `ToolSpec` of what a server declared: every field is derived or forced, none is believed.

The operator classifies the server; the server's own claims are kept for people to read and used for nothing. One bad
tool never costs its siblings, and two names that normalize to one are both dropped. Pure. Source: TS "Mapping".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mcpcatalog import resources
from mcpcatalog.remote import Catalog, CatalogMode, KeyPlace, RejectedTool, RemoteTool, ServerConfig
from toolsys.domain import excerpt, names
from toolsys.domain.canonical import NotCanonical, canonical_bytes, sha256_hex
from toolsys.domain.registration import defects, forced
from toolsys.domain.spec import Classification, IdempotencyClass, SideEffectClass, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.validation import UnusableSchema, compile_schema

MAXIMUM_DESCRIPTION_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class Generation:
    """One discovery, mapped: the tools that may be offered, each with its spec, and why the others may not."""

    catalog_hash: str
    tools: tuple[tuple[RemoteTool, ToolSpec], ...]
    rejected: tuple[RejectedTool, ...]
    conflicts: tuple[tuple[str, ...], ...]


def map_catalog(server: ServerConfig, catalog: Catalog, *, output_ceiling_bytes: int) -> Generation:
    """Return the generation that this catalog makes under the server's configuration."""
    rejected = [bad for bad in catalog.rejected if is_offered(server, bad.remote_name)]
    usable = [resources.declaration()] if catalog.has_resources and is_offered(server, resources.REMOTE_NAME) else []
    for tool in filter(lambda tool: is_offered(server, tool.name), catalog.tools):
        defect = _unreadable(tool) or _unusable(server, tool, output_ceiling_bytes)
        if defect is None:
            usable.append(tool)
        else:
            rejected.append(defect)
    conflicts = tuple(_conflicts(usable))
    clashing = {name for conflict in conflicts for name in conflict}
    kept = sorted((tool for tool in usable if tool.name not in clashing), key=lambda tool: tool.name)
    digest = catalog_hash(kept)
    return Generation(digest, tuple((tool, spec_of(server, tool, digest)) for tool in kept), tuple(rejected), conflicts)


def spec_of(server: ServerConfig, tool: RemoteTool, version: str, declared: str = "") -> ToolSpec:
    """Map one declaration; `declared` is its hash, where it is known.

    Source: the table of TS "Mapping a remote tool declaration into a ToolSpec".
    """
    if not declared and tool.name in server.overrides:
        declared = declaration_hash(tool)
    classification = classification_of(server, tool.name, declared)
    return forced(ToolSpec(
        name=names.mcp_tool_name(server.server_id, _own_name(tool.name)),
        version=version,
        description=excerpt.head(tool.description, MAXIMUM_DESCRIPTION_BYTES),
        input_schema=tool.input_schema,
        output_schema=None,
        side_effect=classification.side_effect,
        risk=classification.risk,
        idempotency=classification.idempotency,
        required_scopes=server.required_scopes,
        timeout_seconds=server.timeout_seconds,
        maximum_output_bytes=server.maximum_output_bytes,
        allow_parallel=False,
        target_kind="mcp",
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
        source=ToolSource.MCP,
        server_id=server.server_id,
        model_visible=not tool.is_application_only,
        passes_idempotency_key=server.key_place is not KeyPlace.NONE and tool.name != resources.REMOTE_NAME,
    ))  # fmt: skip


def classification_of(server: ServerConfig, remote_name: str, declared: str) -> Classification:
    """Return what a tool with this declaration counts as: what people said of it, else of its server.

    Reading a resource is what it is, at the server's risk.
    """
    base = server.classification
    if remote_name == resources.REMOTE_NAME:
        base = Classification(
            side_effect=SideEffectClass.EXTERNAL_READ, risk=base.risk, idempotency=IdempotencyClass.READ_ONLY
        )
    return server.said_of(remote_name, declared, base)


def live(pinned: ToolSpec, server: ServerConfig, remote_name: str, declared: str, request_seconds: int) -> ToolSpec:
    """The schema is pinned, the classification is live, and the stricter of both counts; so do the shorter times."""
    spec = pinned.reclassified(classification_of(server, remote_name, declared))
    now = {
        "passes_idempotency_key": pinned.passes_idempotency_key and server.key_place is not KeyPlace.NONE,
        "required_scopes": pinned.required_scopes | server.required_scopes,
        "timeout_seconds": min(pinned.timeout_seconds, request_seconds),
    }
    changed = {name: value for name, value in now.items() if getattr(spec, name) != value}
    return spec.model_copy(update=changed) if changed else spec


def _own_name(remote_name: str) -> str:
    return resources.SEGMENT if remote_name == resources.REMOTE_NAME else remote_name


def declaration_hash(tool: RemoteTool) -> str:
    """Return the hash by which a reconnection tells whether a tool is still the one that was pinned."""
    return catalog_hash([tool])


def catalog_hash(tools: Iterable[RemoteTool]) -> str:
    """Return the hash that versions every tool of the catalog: over the sorted declarations, not over any version that
    the server reports.
    """
    declared = [
        {
            "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema,
            "applicationOnly": tool.is_application_only, **tool.claims,
        }
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]  # fmt: skip
    return sha256_hex(canonical_bytes(declared))


def is_offered(server: ServerConfig, remote_name: str) -> bool:
    """On a fixed server anything that is not listed does not exist (DESIGN §7)."""
    return server.mode is CatalogMode.DISCOVERED or any(each.name == remote_name for each in server.fixed_tools)


def declared_here(server: ServerConfig) -> Catalog:
    """Return a fixed server's catalog: its contracts, and no word of the peer's."""
    tools = tuple(RemoteTool(each.name, each.description, each.input_schema) for each in server.fixed_tools)
    return Catalog(tools, (), server.negotiated_revision, prompts=())


def _unreadable(tool: RemoteTool) -> RejectedTool | None:
    """Refuse what has no canonical form (so no hash), and NUL, which no database column holds."""
    if tool.name == resources.REMOTE_NAME:
        return RejectedTool(tool.name, "declaration", "a reserved name")
    try:
        canonical_bytes([tool.name, tool.description, tool.input_schema, tool.claims])
    except NotCanonical as error:
        return RejectedTool(tool.name, "declaration", error.reason)
    if _holds_nul([tool.name, tool.description, tool.input_schema, tool.claims]):
        return RejectedTool(tool.name, "declaration", "a NUL character")
    return None


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in key or _holds_nul(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_holds_nul, value))


def _unusable(server: ServerConfig, tool: RemoteTool, ceiling: int) -> RejectedTool | None:
    broken = defects(spec_of(server, tool, ""), output_ceiling_bytes=ceiling, caps=server.schema_caps)
    if broken:
        return RejectedTool(tool.name, broken[0].reason, broken[0].detail)
    try:
        compile_schema(tool.input_schema)
    except UnusableSchema as error:
        return RejectedTool(tool.name, "schema.input", str(error)[:300])
    return None


def _conflicts(tools: Iterable[RemoteTool]) -> Iterator[tuple[str, ...]]:
    by_name: dict[str, list[str]] = {}
    for tool in tools:
        by_name.setdefault(names.normalize_remote_name(_own_name(tool.name)), []).append(tool.name)
    return (tuple(sorted(clash)) for clash in by_name.values() if len(clash) > 1)
