"""Writes: a server's configuration, and what a discovery saw. One transaction each.

The authorization epoch is raised by the table's own trigger when a column changes that a verdict or a pin depends on,
so an update names only the columns that changed. Source: TS "Schema additions", DESIGN §4 and §7.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS
from django.db.models import F
from django.utils import timezone

from mcpcatalog import history, prompts
from mcpcatalog.differences import differences
from mcpcatalog.drafts import columns_of
from mcpcatalog.mapping import Generation, declaration_hash
from mcpcatalog.models import CatalogChange, CatalogTool, McpServer, SessionServer
from mcpcatalog.remote import Catalog, RejectedTool, RemoteTool, ServerConfig, Transport
from mcpcatalog.validators import InvalidConfiguration, problems
from toolsys import allowances
from toolsys import services as platform
from toolsys.domain.spec import STRICTEST
from toolsys.egress import EgressPolicy, Origin
from toolsys.models import ToolEvent
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

MAXIMUM_DETAIL = 500


def register_server(
    config: ServerConfig,
    *,
    policy: EgressPolicy,
    stdio_names: Collection[str],
    output_ceiling_bytes: int,
    using: str = DEFAULT_DB_ALIAS,
) -> McpServer:
    """Write a new server as a deployment's set-up does: enabled, under a policy that the caller knows.

    With the operator's alias it may be a stdio one and come classified, and its origins are allowed to the tenant.
    People come through `administration`. Transaction: opens one. Raises: InvalidConfiguration.
    """
    is_operator = using == OPERATOR_ALIAS
    found = problems(
        config, policy=policy, stdio_names=stdio_names, output_ceiling_bytes=output_ceiling_bytes,
        is_operator=is_operator,
    )  # fmt: skip
    if found:
        raise InvalidConfiguration(found)
    with tenant_transaction(config.tenant_id, using):
        if is_operator and config.transport is Transport.HTTP:
            for url in filter(None, (config.endpoint, config.token_endpoint)):
                allowances.allow(config.tenant_id, str(Origin.of(url)), user=None, using=using)
        is_said = is_operator and config.classification != STRICTEST
        return McpServer.objects.using(using).create(
            tenant_id=config.tenant_id, classified_at=timezone.now() if is_said else None, **columns_of(config)
        )


def record_discovery(
    config: ServerConfig,
    catalog: Catalog,
    generation: Generation,
    *,
    at: datetime,
    connected_in_seconds: float | None = 0.0,
) -> bool:
    """Write one discovery: a generation that is new, what disappeared, the server's health. Return whether it changed.

    A discovery of a configuration that was changed meanwhile is recorded under its own fingerprint and so stays stale.
    Transaction: opens one. Raises: CatalogChurning, with nothing written.
    """
    with tenant_transaction(config.tenant_id):
        server = McpServer.objects.select_for_update().filter(
            tenant_id=config.tenant_id, server_id=config.server_id
        ).first()  # fmt: skip
        if server is None:
            return False
        changed = server.catalog_hash != generation.catalog_hash
        if changed:
            history.require_room(config, server.catalog_hash, generation, at)
        _write_generation(config, generation, at)
        _withdraw_missing(config, generation, at)
        skills, refused = prompts.skills_of(config, catalog.prompts or ())
        if catalog.prompts is not None:
            platform.register_skills(tenant_id=config.tenant_id, server_id=config.server_id, declared=skills, at=at)
            history.require_room_for_skills(config, at)
            generation = replace(generation, rejected=(*generation.rejected, *refused))
        observed = _observed(config, catalog, generation, at)
        if server.negotiated_revision != catalog.revision:
            observed["negotiated_revision"] = catalog.revision
        if changed:
            observed["catalog_hash"] = generation.catalog_hash
            _write_change(config, server.catalog_hash, generation)
        McpServer.objects.filter(pk=server.pk).update(**observed)
        connected = _connected(config, generation, connected_in_seconds)
        ToolEvent.objects.bulk_create([*connected, *_events(server, generation)], ignore_conflicts=True)
        return changed


def record_failure(config: ServerConfig, reason_code: str, detail: str, *, at: datetime) -> None:
    """Record that a discovery failed; what was known stays known. Transaction: opens one."""
    with tenant_transaction(config.tenant_id):
        McpServer.objects.filter(tenant_id=config.tenant_id, server_id=config.server_id).update(
            last_failed_at=at,
            failed_fingerprint=config.fingerprint,
            last_failure_code=reason_code,
            last_failure_detail=_printable(detail),
            consecutive_failures=F("consecutive_failures") + 1,
        )
        payload = {"server": config.server_id, "reason_code": reason_code}
        _event(config.tenant_id, "mcp.server.disconnected", payload, f"mcp.server.disconnected:{uuid4()}").save()


def record_closed(config: ServerConfig, session: str, reason_code: str) -> None:
    """Record that a connection which had worked ended, and why. Transaction: opens one."""
    payload = {"server": config.server_id, "reason_code": reason_code, **({"session": session} if session else {})}
    with tenant_transaction(config.tenant_id):
        _event(config.tenant_id, "mcp.server.disconnected", payload, f"mcp.server.disconnected:{uuid4()}").save()


def record_pins(tenant_id: str, session_id: UUID, tools_by_server: Mapping[str, int]) -> None:
    """Record which servers a session took at their remembered discovery. Transaction: needs the session's."""
    servers = McpServer.objects.filter(tenant_id=tenant_id, server_id__in=tools_by_server)
    events = [
        _event(
            tenant_id, "mcp.server.pinned",
            {"server": name, "transport": transport, "tools": tools_by_server[name], "session": str(session_id)},
            f"mcp.server.pinned:{name}:{session_id}",
        )
        for name, transport in servers.order_by("server_id").values_list("server_id", "transport")
    ]  # fmt: skip
    ToolEvent.objects.bulk_create(events, ignore_conflicts=True)


def record_list_changed(config: ServerConfig, *, at: datetime) -> None:
    """A server said that its list changed: the next session looks again, no open one does. Transaction: opens one."""
    with tenant_transaction(config.tenant_id):
        McpServer.objects.filter(tenant_id=config.tenant_id, server_id=config.server_id).update(list_changed_at=at)


def begin_reauthentication(config: ServerConfig, session_id: UUID, *, at: datetime) -> bool:
    """Take the session's one re-authentication with this server. Return False where it is spent, or all is over.

    Transaction: opens one.
    """
    with tenant_transaction(config.tenant_id):
        row = _standing(config, session_id)
        unspent = SessionServer.objects.filter(pk=row.pk, reauthenticated_at=None, unavailable_at=None)
        return unspent.update(reauthenticated_at=at) == 1


def record_reauthentication(config: ServerConfig, session_id: UUID, outcome: str) -> None:
    """Say how it went: renewed, unchanged, or a reason code. Transaction: opens one."""
    payload = {"server": config.server_id, "scheme": config.auth_scheme.value, "outcome": outcome}
    _emit_of_session(config, session_id, "mcp.server.reauthenticated", payload)


def end_server(config: ServerConfig, session_id: UUID, reason_code: str, *, at: datetime) -> None:
    """Give a server up for the rest of a session; the first reason stays. Transaction: opens one."""
    with tenant_transaction(config.tenant_id):
        row = _standing(config, session_id)
        ended = SessionServer.objects.filter(pk=row.pk, unavailable_at=None).update(
            unavailable_at=at, reason_code=reason_code
        )
        if ended:
            payload = {"server": config.server_id, "reason_code": reason_code}
            _emit_of_session(config, session_id, "mcp.server.disconnected", payload)


def _standing(config: ServerConfig, session_id: UUID) -> SessionServer:
    return SessionServer.objects.get_or_create(
        tenant_id=config.tenant_id, session_id=session_id, server_id=config.server_id
    )[0]


def _emit_of_session(config: ServerConfig, session_id: UUID, kind: str, payload: dict[str, Any]) -> None:
    """Both facts can be true once in a session, so that their keys are stable."""
    key = f"{kind}:{config.server_id}:{session_id}"
    with tenant_transaction(config.tenant_id):
        event = _event(config.tenant_id, kind, {**payload, "session": str(session_id)}, key)
        ToolEvent.objects.bulk_create([event], ignore_conflicts=True)


def _write_generation(config: ServerConfig, generation: Generation, at: datetime) -> None:
    """A generation that was written before is not written again; what it offers again is no longer withdrawn."""
    CatalogTool.objects.bulk_create(
        [
            CatalogTool(
                tenant_id=config.tenant_id, server_id=config.server_id, catalog_hash=generation.catalog_hash,
                remote_name=tool.name, registry_name=spec.name, description=spec.description,
                input_schema=tool.input_schema, claims=tool.claims,
                declaration_hash=declaration_hash(tool), is_application_only=tool.is_application_only,
                discovered_at=at,
            )
            for tool, spec in generation.tools
        ],
        ignore_conflicts=True,
    )  # fmt: skip
    _rows(config).filter(catalog_hash=generation.catalog_hash).exclude(withdrawn_at=None).update(withdrawn_at=None)


def _write_change(config: ServerConfig, old_hash: str, generation: Generation) -> None:
    if not old_hash:
        return
    rows = _rows(config).filter(catalog_hash=old_hash)
    before = [RemoteTool(r.remote_name, r.description, r.input_schema, r.claims, r.is_application_only) for r in rows]
    after = [replace(tool, description=spec.description) for tool, spec in generation.tools]
    CatalogChange.objects.create(
        tenant_id=config.tenant_id, server_id=config.server_id, old_hash=old_hash, new_hash=generation.catalog_hash,
        differences=differences(before, after),
    )  # fmt: skip


def _withdraw_missing(config: ServerConfig, generation: Generation, at: datetime) -> None:
    offered = [spec.name for _, spec in generation.tools]
    _rows(config).filter(withdrawn_at=None).exclude(registry_name__in=offered).update(withdrawn_at=at)


def _rows(config: ServerConfig) -> Any:
    return CatalogTool.objects.filter(tenant_id=config.tenant_id, server_id=config.server_id)


def _observed(config: ServerConfig, catalog: Catalog, generation: Generation, at: datetime) -> dict[str, Any]:
    """A look at a part of what a server offers makes nothing fresh: the next session looks at all of it in its time."""
    whole = {"discovered_fingerprint": config.fingerprint, "last_discovered_at": at}
    return {
        **(whole if catalog.is_whole else {}),
        "consecutive_failures": 0,
        "last_failure_code": "",
        "last_failure_detail": "",
        "server_claims": {
            "name": _printable(catalog.server_name), "version": _printable(catalog.server_version),
            "resources": catalog.has_resources, "prompts": catalog.has_prompts,
        },
        "rejected_tools": [_rejection(rejected) for rejected in generation.rejected[:200]],
    }  # fmt: skip


def _rejection(rejected: RejectedTool) -> dict[str, str]:
    return {
        "remote_name": _printable(rejected.remote_name), "reason": rejected.reason,
        "detail": _printable(rejected.detail),
    }  # fmt: skip


def _connected(config: ServerConfig, generation: Generation, seconds: float | None) -> list[ToolEvent]:
    """A fixed server's catalog is also recorded where nobody was connected."""
    if seconds is None:
        return []
    payload = {
        "server": config.server_id, "transport": config.transport.value, "tools": len(generation.tools),
        "duration_ms": round(seconds * 1_000),
    }  # fmt: skip
    return [_event(config.tenant_id, "mcp.server.connected", payload, f"mcp.server.connected:{uuid4()}")]


def _events(server: McpServer, generation: Generation) -> Iterator[ToolEvent]:
    """Recorded, and never applied to an open session. A repeated discovery of one generation says nothing new."""
    name, new = server.server_id, generation.catalog_hash
    if server.catalog_hash and server.catalog_hash != new:
        # A server may go back to an earlier catalog; each change is a fact of its own.
        payload = {"server": name, "old_hash": server.catalog_hash, "new_hash": new}
        yield _event(server.tenant_id, "mcp.catalog.changed", payload, f"mcp.catalog.changed:{uuid4()}")
    for conflict in generation.conflicts:
        names = [_printable(remote) for remote in conflict]
        key = f"mcp.catalog.conflict:{name}:{new}:{names[0]}"
        yield _event(server.tenant_id, "mcp.catalog.conflict", {"server": name, "remote_names": names}, key)
    for rejected in generation.rejected[:200]:
        payload = {"server": name, **_rejection(rejected)}
        key = f"mcp.tool.rejected:{name}:{new}:{payload['remote_name']}"
        yield _event(
            server.tenant_id, "mcp.tool.rejected", {k: payload[k] for k in ("server", "remote_name", "reason")}, key
        )


def _event(tenant_id: str, kind: str, payload: dict[str, Any], derivation_key: str) -> ToolEvent:
    return ToolEvent(tenant_id=tenant_id, type=kind, payload=payload, derivation_key=derivation_key)


def _printable(text: str) -> str:
    """Cut external text down to what a column holds: no NUL, no lone surrogate."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")[:MAXIMUM_DETAIL]
