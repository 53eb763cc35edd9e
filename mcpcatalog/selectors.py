"""Reads: configured servers with their state, and the tools of a generation. Shaped records, never querysets.

Each function opens the tenant's transaction for itself. Imported by the provider, pages and commands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mcpcatalog import contracts
from mcpcatalog.models import CatalogTool, McpServer, SessionServer
from mcpcatalog.remote import (
    AuthScheme,
    CatalogMode,
    KeyPlace,
    RemoteTool,
    ServerConfig,
    StdioCommand,
    Transport,
)
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.selectors import credential_versions
from toolsys.tenancy import tenant_transaction

# A login that was refused while connecting: none of the server's tools is offered until it lets us in again.
REFUSED_LOGIN: Final = frozenset({"tool.auth_failed", "tool.auth_unsupported"})

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


def enabled_servers(tenant_id: str, commands: Commands) -> list[ServerState]:
    with tenant_transaction(tenant_id):
        rows = McpServer.objects.filter(tenant_id=tenant_id, enabled=True).order_by("server_id")
        return _states(tenant_id, rows, commands)


def server(tenant_id: str, server_id: str, commands: Commands) -> ServerState | None:
    with tenant_transaction(tenant_id):
        rows = McpServer.objects.filter(tenant_id=tenant_id, server_id=server_id)
        return next(iter(_states(tenant_id, rows, commands)), None)


def generation(tenant_id: str, server_id: str, catalog_hash: str) -> list[RemoteTool]:
    """Return the tools of one generation that were not withdrawn."""
    with tenant_transaction(tenant_id):
        rows = CatalogTool.objects.filter(
            tenant_id=tenant_id, server_id=server_id, catalog_hash=catalog_hash, withdrawn_at=None
        ).order_by("registry_name")
        return [
            RemoteTool(row.remote_name, row.description, row.input_schema, row.claims, row.is_application_only)
            for row in rows
        ]


def pinned_tool(tenant_id: str, server_id: str, catalog_hash: str, registry_name: str) -> PinnedTool | None:
    with tenant_transaction(tenant_id):
        found = CatalogTool.objects.filter(
            tenant_id=tenant_id, server_id=server_id, catalog_hash=catalog_hash, registry_name=registry_name
        ).values_list("remote_name", "withdrawn_at", "declaration_hash").first()  # fmt: skip
    return PinnedTool(found[0], found[1] is not None, found[2]) if found is not None else None


def _states(tenant_id: str, rows: Iterable[McpServer], commands: Commands) -> list[ServerState]:
    versions = credential_versions(tenant_id)
    return [_state(row, commands, versions.get(row.credential_ref or "", 0)) for row in rows]


def _state(row: McpServer, commands: Commands, credential_version: int) -> ServerState:
    return ServerState(
        config_of(row, commands, credential_version), row.enabled, row.catalog_hash, row.discovered_fingerprint,
        row.last_discovered_at, row.last_failed_at, has_refused_login=row.last_failure_code in REFUSED_LOGIN,
        list_changed_at=row.list_changed_at,
    )  # fmt: skip


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
    )
