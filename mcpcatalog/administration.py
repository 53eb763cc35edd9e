"""What people do with servers: add, edit, enable, disable, and set the credential. Each a transaction with its event.

Called by pages, imports and commands; who may call is theirs to check. As an operator everything is written with the
operators' role, else the database refuses what is not the tenant's. Triggers raise the authorization epoch.
"""

import json
from typing import Any, Final
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, IntegrityError

from mcpcatalog import drafts
from mcpcatalog.drafts import Columns
from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthScheme, KeyPlace, ServerConfig, Transport
from mcpcatalog.rules import Rules
from mcpcatalog.selectors import config_of
from mcpcatalog.validators import DEPLOYMENT, InvalidConfiguration, Problem
from toolsys import records, vault
from toolsys.domain.spec import STRICTEST
from toolsys.models import Credential
from toolsys.ports import Sealer
from toolsys.problems import Problem as RequestProblem
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

SERVERS_LIMIT: Final = 200
IDENTITY: Final = ("server_id", "transport")


def add_server(
    tenant_id: str, columns: Columns, *, user: Any, rules: Rules, sealer: Sealer, secret: str = "",
    is_operator: bool = False,
) -> McpServer:  # fmt: skip
    """Write a server, disabled and unclassified. `secret` is kept sealed, and the server refers to it.

    Transaction: opens one. Raises: InvalidConfiguration.
    """
    using = alias(is_operator=is_operator)
    if secret:
        columns = {**columns, "credential_ref": f"store:{credential_name(str(columns.get('server_id', '')))}"}
    config = rules.checked(tenant_id, columns, is_operator=is_operator, using=using)
    try:
        with tenant_transaction(tenant_id, using):
            _require_room(config, using)
            row = McpServer(tenant_id=tenant_id, enabled=False, **drafts.columns_of(config))
            row.save(using=using, force_insert=True)
            if secret:
                _keep(row, secret, sealer, using)
            said = {"server": config.server_id, "transport": config.transport, "auth_scheme": config.auth_scheme}
            records.note(tenant_id, "mcp.server.added", said, user=user, using=using)
    except IntegrityError as error:
        if "mcp_server_id_is_unique" not in str(error):
            raise
        raise _taken() from None
    return row


def edit_server(
    tenant_id: str, server: UUID, columns: Columns, *, user: Any, rules: Rules, is_operator: bool = False
) -> list[str]:
    """Change these columns and return the names of those that changed. A server that moves is unclassified again.

    Transaction: opens one. Raises: InvalidConfiguration, Problem (request.not_found).
    """
    using = alias(is_operator=is_operator)
    with tenant_transaction(tenant_id, using):
        row = locked(tenant_id, server, using)
        before = config_of(row, {}, 0)
        wanted = {**drafts.columns_of(before), **columns}
        is_moved = not is_operator and wanted["endpoint"] != before.endpoint
        if is_moved:
            wanted |= unclassified()
        config = rules.checked(tenant_id, wanted, is_operator=is_operator, before=before, using=using)
        now = drafts.columns_of(config)
        changed = [name for name, value in drafts.columns_of(before).items() if now[name] != value]
        if set(changed) & set(IDENTITY):
            raise InvalidConfiguration((Problem("server_id", "fixed", "Name and transport stay; add another server."),))
        if changed:
            for name in changed:
                setattr(row, name, now[name])
            row.classified_at = None if is_moved else row.classified_at
            row.save(using=using, update_fields=[*changed, *(["classified_at"] if is_moved else [])])
            said = {"server": row.server_id, "fields": changed}
            records.note(tenant_id, "mcp.server.changed", said, user=user, using=using)
    return changed


def set_enabled(
    tenant_id: str, server: UUID, *, is_enabled: bool, user: Any, rules: Rules, is_operator: bool = False
) -> bool:
    """Offer a server's tools to new sessions, or withdraw them from all. Return whether that changed anything.

    Enabling asks the rules again: the allowlist may have changed since the server was written.
    Transaction: opens one. Raises: InvalidConfiguration, Problem (request.not_found).
    """
    using = alias(is_operator=is_operator)
    with tenant_transaction(tenant_id, using):
        row = locked(tenant_id, server, using)
        config = config_of(row, {}, 0)
        if is_enabled or belongs_to_operators(row):
            found = rules.judge(config, is_operator=is_operator, before=config, using=using)
            if found:
                raise InvalidConfiguration(found)
        if row.enabled is is_enabled:
            return False
        row.enabled = is_enabled
        row.save(using=using, update_fields=["enabled"])
        kind = "mcp.server.enabled" if is_enabled else "mcp.server.disabled"
        records.note(tenant_id, kind, {"server": row.server_id}, user=user, using=using)
    return True


def set_credential(
    tenant_id: str, server: UUID, secret: str, *, user: Any, sealer: Sealer, is_operator: bool = False
) -> int:
    """Keep a new version of the server's secret and return its number; the one before stays live for a while.

    Transaction: opens one. Raises: InvalidConfiguration, Problem (request.*).
    """
    using = alias(is_operator=is_operator)
    with tenant_transaction(tenant_id, using):
        row = locked(tenant_id, server, using)
        if belongs_to_operators(row) and not is_operator:
            message = "Its secret is the deployment's, and operators'."
            raise InvalidConfiguration((Problem("credential_ref", "operators_only", message),))
        number = _keep(row, secret, sealer, using)
        said = {"server": row.server_id, "credential": row.credential_ref, "version": number}
        records.note(tenant_id, "credential.set", said, user=user, using=using)
    return number


def take_back(tenant_id: str, server: UUID, version: int, *, user: Any, is_operator: bool = False) -> int:
    """Erase one version of the server's secret and return the number of the one that counts now, 0 for none.

    Transaction: opens one. Raises: Problem (request.not_found).
    """
    using = alias(is_operator=is_operator)
    with tenant_transaction(tenant_id, using):
        row = locked(tenant_id, server, using)
        number = vault.retire(tenant_id=tenant_id, name=_store_name(row), version=version, using=using)
        said = {"server": row.server_id, "credential": row.credential_ref, "version": version}
        records.note(tenant_id, "credential.retired", said, user=user, using=using)
    return number


def alias(*, is_operator: bool) -> str:
    return OPERATOR_ALIAS if is_operator else DEFAULT_DB_ALIAS


def locked(tenant_id: str, server: UUID, using: str) -> McpServer:
    """Raises: Problem (request.not_found)."""
    row = McpServer.objects.using(using).select_for_update().filter(tenant_id=tenant_id, pk=server).first()
    if row is None:
        raise RequestProblem("request.not_found")
    return row


def belongs_to_operators(row: McpServer) -> bool:
    """Say whether a row is of a program or a secret of the deployment."""
    return row.transport == Transport.STDIO or (row.credential_ref or "").startswith(DEPLOYMENT)


def credential_name(server_id: str) -> str:
    return f"mcp-{server_id}"[:63]


def unclassified() -> dict[str, Any]:
    """The columns of a server about which nobody has said anything."""
    return {**STRICTEST.model_dump(), "key_place": KeyPlace.NONE, "key_name": "", "is_stateless": False}


def secret_problems(scheme: AuthScheme, secret: str) -> tuple[Problem, ...]:
    """Say what keeps a value from being sent as this scheme sends it; the value is in no message."""
    if scheme is AuthScheme.NONE:
        return (Problem("secret", "not_expected", "The scheme none takes no credential."),)
    if not secret or not secret.isascii() or not secret.isprintable() or secret != secret.strip():
        return (Problem("secret", "grammar", "Printable ASCII, without spaces around it."),)
    if scheme is AuthScheme.OAUTH2_CLIENT and not _is_client(secret):
        return (Problem("secret", "client", "A JSON object with client_id and client_secret."),)
    return ()


def _is_client(secret: str) -> bool:
    try:
        found = json.loads(secret)
    except (ValueError, RecursionError):
        return False
    names = ("client_id", "client_secret")
    return isinstance(found, dict) and all(isinstance(found.get(name), str) and found[name] for name in names)


def _keep(row: McpServer, secret: str, sealer: Sealer, using: str) -> int:
    found = secret_problems(AuthScheme(row.auth_scheme), secret)
    if found:
        raise InvalidConfiguration(found)
    name = _store_name(row)
    known = Credential.objects.using(using).filter(tenant_id=row.tenant_id, name=name, retired_at=None)
    if known.exists():
        return vault.rotate(tenant_id=row.tenant_id, name=name, value=secret, sealer=sealer, using=using)
    vault.create(tenant_id=row.tenant_id, name=name, value=secret, sealer=sealer, using=using)
    return 1


def _store_name(row: McpServer) -> str:
    """Raises: InvalidConfiguration where the secret is not in the tenant's own store."""
    kind, _, name = (row.credential_ref or "").partition(":")
    if kind != "store":
        raise InvalidConfiguration((Problem("credential_ref", "not_stored", "Its secret is not in the store."),))
    return name


def _require_room(config: ServerConfig, using: str) -> None:
    rows = McpServer.objects.using(using).filter(tenant_id=config.tenant_id)
    if rows.filter(server_id=config.server_id).exists():
        raise _taken()
    if rows.count() >= SERVERS_LIMIT:
        raise InvalidConfiguration((Problem("server_id", "too_many", f"At most {SERVERS_LIMIT} servers."),))


def _taken() -> InvalidConfiguration:
    return InvalidConfiguration((Problem("server_id", "taken", "Another server has this name."),))
