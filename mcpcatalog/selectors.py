"""Reads: configured servers with their state, and the tools of a generation. Shaped records, never querysets.

Each function opens the tenant's transaction for itself. Imported by the provider, pages and commands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from mcpcatalog import contracts
from mcpcatalog.models import CatalogTool, McpServer, SessionServer, ToolOverride
from mcpcatalog.remote import (
    AuthScheme,
    CatalogMode,
    KeyPlace,
    Override,
    RemoteTool,
    ServerConfig,
    StdioCommand,
    Transport,
)
from mcpcatalog.rules import rules
from toolsys import allowances, database
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.egress import EgressRefused, Origin
from toolsys.selectors import credential_versions
from toolsys.tenancy import tenant_transaction

# A login that was refused while connecting: none of the server's tools is offered until it lets us in again.
REFUSED_LOGIN: Final = frozenset({"tool.auth_failed", "tool.auth_unsupported"})

_DECLARED: Final = ("remote_name", "description", "input_schema", "claims", "is_application_only")

type Commands = Mapping[str, StdioCommand]


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's configuration beside what was last seen of it."""

    config: ServerConfig
    is_enabled: bool
    catalog_hash: str
    discovered_fingerprint: str
    last_discovered_at: datetime | None
    last_failed_at: datetime | None
    has_refused_login: bool = False
    list_changed_at: datetime | None = None
    failed_fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was last seen of a server; it changes without any change of the configuration."""

    catalog_hash: str
    discovered_fingerprint: str
    last_discovered_at: datetime | None
    last_failed_at: datetime | None
    last_failure_code: str
    list_changed_at: datetime | None
    failed_fingerprint: str
    negotiated_revision: str


_OBSERVED: Final = tuple(each.name for each in fields(Observed))


@dataclass(frozen=True, slots=True)
class PinnedTool:
    remote_name: str
    is_withdrawn: bool
    declaration_hash: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a session may still expect of a server. A reason code: nothing any more."""

    is_renewed: bool = False
    ended_by: str = ""


def standing(tenant_id: str, session_id: UUID, server_id: str) -> Standing:
    with tenant_transaction(tenant_id):
        found = SessionServer.objects.filter(
            tenant_id=tenant_id, session_id=session_id, server_id=server_id
        ).first()  # fmt: skip
    if found is None:
        return Standing()
    return Standing(found.reauthenticated_at is not None, found.reason_code if found.unavailable_at else "")


def all_enabled_servers() -> list[tuple[str, str]]:
    """Return tenant and id of every enabled server, of all tenants: for a worker that looks after them."""
    return [(row[0], row[1]) for row in database.call("SELECT * FROM mcpcatalog_enabled_servers()", ())]


def observed(tenant_id: str) -> tuple[int, dict[str, Observed]]:
    """Return the tenant's authorization epoch, and by id what was last seen of each enabled server: of one moment."""
    with tenant_transaction(tenant_id):
        rows = McpServer.objects.filter(tenant_id=tenant_id, enabled=True).order_by("server_id")
        found = list(rows.values_list("tenant__authz_epoch", "server_id", *_OBSERVED))
    return (found[0][0] if found else 0), {row[1]: Observed(*row[2:]) for row in found}


def enabled_servers(tenant_id: str, commands: Commands) -> list[ServerState]:
    with tenant_transaction(tenant_id):
        rows = McpServer.objects.filter(tenant_id=tenant_id, enabled=True).order_by("server_id")
        return _states(tenant_id, rows, commands)


def server(tenant_id: str, server_id: str, commands: Commands) -> ServerState | None:
    with tenant_transaction(tenant_id):
        rows = McpServer.objects.filter(tenant_id=tenant_id, server_id=server_id)
        return next(iter(_states(tenant_id, rows, commands)), None)


def generations(tenant_id: str, hashes: Mapping[str, str]) -> dict[str, list[tuple[RemoteTool, str]]]:
    """Return by server the tools of one generation each, with the hashes of their declarations, in one query.

    All of them: what a later discovery withdrew meanwhile belongs to this one nevertheless, and is not called.
    """
    found: dict[str, list[tuple[RemoteTool, str]]] = {server_id: [] for server_id in hashes}
    with tenant_transaction(tenant_id):
        rows = CatalogTool.objects.filter(
            tenant_id=tenant_id, server_id__in=hashes.keys(), catalog_hash__in=set(hashes.values())
        ).order_by("registry_name")
        for server_id, digest, declared, *tool in rows.values_list(
            "server_id", "catalog_hash", "declaration_hash", *_DECLARED
        ):
            if hashes[server_id] == digest:
                found[server_id].append((RemoteTool(*tool), declared))
    return found


def pinned_tool(tenant_id: str, server_id: str, catalog_hash: str, registry_name: str) -> PinnedTool | None:
    with tenant_transaction(tenant_id):
        found = CatalogTool.objects.filter(
            tenant_id=tenant_id, server_id=server_id, catalog_hash=catalog_hash, registry_name=registry_name
        ).values_list("remote_name", "withdrawn_at", "declaration_hash").first()  # fmt: skip
    return PinnedTool(found[0], found[1] is not None, found[2]) if found is not None else None


def _states(tenant_id: str, rows: Iterable[McpServer], commands: Commands) -> list[ServerState]:
    versions, allowed = credential_versions(tenant_id), allowances.origins(tenant_id)
    said = _overrides(tenant_id)
    return [
        _state(row, replace(
            config_of(row, commands, versions.get(row.credential_ref or "", 0)),
            is_permitted=_is_permitted(row, allowed), overrides=_said_of(row, said),
        ))
        for row in rows
    ]  # fmt: skip


def _is_permitted(row: McpServer, allowed: frozenset[str]) -> bool:
    """Say whether a remote server, and where its tokens come from, are where the tenant's servers may be."""
    if row.transport == Transport.STDIO:
        return True
    try:
        return all(str(Origin.of(url)) in allowed for url in (row.endpoint, row.token_endpoint) if url)
    except EgressRefused:
        return False


type Said = dict[tuple[str, str], dict[str, tuple[Override, ...]]]


def _overrides(tenant_id: str) -> Said:
    """Return what is said of single tools, by server and endpoint; the tenant says it of any endpoint."""
    found: Said = {}
    for row in ToolOverride.objects.filter(tenant_id=tenant_id).order_by("server_id", "remote_name"):
        of_server = found.setdefault((row.server_id, row.endpoint if row.is_operators else ""), {})
        of_server[row.remote_name] = (*of_server.get(row.remote_name, ()), override_of(row))
    return found


def _said_of(row: McpServer, said: Said) -> dict[str, tuple[Override, ...]]:
    """What operators said of another endpoint was not said of this one."""
    by_operators = said.get((row.server_id, row.endpoint), {})
    by_tenant = said.get((row.server_id, ""), {})
    return {name: by_operators.get(name, ()) + by_tenant.get(name, ()) for name in by_operators | by_tenant}


def override_of(row: ToolOverride) -> Override:
    return Override(
        row.is_operators, SideEffectClass(row.side_effect) if row.side_effect else None,
        RiskLevel(row.risk) if row.risk else None, IdempotencyClass(row.idempotency) if row.idempotency else None,
        row.declaration_hash,
    )  # fmt: skip


def state_of(config: ServerConfig, seen: Observed, *, is_enabled: bool = True) -> ServerState:
    return ServerState(
        config, is_enabled, seen.catalog_hash, seen.discovered_fingerprint,
        seen.last_discovered_at, seen.last_failed_at, has_refused_login=seen.last_failure_code in REFUSED_LOGIN,
        list_changed_at=seen.list_changed_at, failed_fingerprint=seen.failed_fingerprint,
    )  # fmt: skip


def _state(row: McpServer, config: ServerConfig) -> ServerState:
    seen = Observed(**{name: getattr(row, name) for name in _OBSERVED})
    return state_of(config, seen, is_enabled=row.enabled)


def config_of(row: McpServer, commands: Commands, credential_version: int) -> ServerConfig:
    return ServerConfig(
        tenant_id=row.tenant_id,
        server_id=row.server_id,
        transport=Transport(row.transport),
        endpoint=row.endpoint,
        auth_scheme=AuthScheme(row.auth_scheme),
        auth_name=row.auth_name,
        credential_ref=row.credential_ref,
        credential_version=credential_version,
        token_endpoint=row.token_endpoint,
        token_scopes=tuple(row.token_scopes or ()),
        classification=Classification(
            side_effect=SideEffectClass(row.side_effect),
            risk=RiskLevel(row.risk),
            idempotency=IdempotencyClass(row.idempotency),
        ),
        required_scopes=frozenset(row.required_scopes),
        timeout_seconds=row.timeout_seconds,
        maximum_output_bytes=row.maximum_output_bytes,
        mode=CatalogMode(row.mode),
        fixed_tools=contracts.read(row.fixed_tools),
        key_place=KeyPlace(row.key_place),
        key_name=row.key_name,
        is_stateless=row.is_stateless,
        negotiated_revision=row.negotiated_revision,
        command=commands.get(row.endpoint) if row.transport == Transport.STDIO else None,
        schema_caps=rules().caps_of(row.tenant_id, row.server_id),
    )
