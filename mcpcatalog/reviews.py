"""Looking at what changed: a tenant asks for it, and people accept the declarations that they have seen.

Each a transaction with its event. An acceptance names the catalog that was shown; a discovery in between makes it
stale, since both lock the server's row. Who may call is the pages' to check. Source: DESIGN §7.
"""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS

from mcpcatalog.administration import locked
from mcpcatalog.models import CatalogPolicy, CatalogTool, McpServer, ToolReview
from mcpcatalog.quarantine import endpoint_hash
from toolsys import records
from toolsys.domain.canonical import sha256_hex
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

NAMED: Final = 100


def ask(tenant_id: str, *, is_quarantining: bool, user: Any) -> bool:
    """Hold changed and new tools of reviewed servers back from new sessions, or no more. Return whether that is new.

    Transaction: opens one.
    """
    with tenant_transaction(tenant_id):
        row, is_new = CatalogPolicy.objects.select_for_update().get_or_create(
            tenant_id=tenant_id, defaults={"is_quarantining": is_quarantining, "set_by": user}
        )  # fmt: skip
        if row.is_quarantining is is_quarantining and not (is_new and is_quarantining):
            return False
        CatalogPolicy.objects.filter(pk=row.pk).update(is_quarantining=is_quarantining, set_by=user)
        records.note(tenant_id, "mcp.catalog.quarantine_set", {"is_quarantining": is_quarantining}, user=user)
    return True


def stamp(row: McpServer) -> str:
    """Return what an acceptance names: this catalog, at this endpoint."""
    return sha256_hex(f"{row.endpoint}\n{row.catalog_hash}".encode())


def accept(tenant_id: str, server: UUID, *, seen: str, tools: Collection[UUID], user: Any) -> list[str]:
    """Accept these tools of the catalog that was seen, and return their names; new sessions are offered them.

    Transaction: opens one. Raises: Problem (catalog.changed, request.not_found).
    """
    with tenant_transaction(tenant_id):
        row = locked(tenant_id, server, DEFAULT_DB_ALIAS)
        if not row.catalog_hash or seen != stamp(row):
            raise Problem("catalog.changed")
        found = CatalogTool.objects.filter(
            tenant_id=tenant_id, server_id=row.server_id, catalog_hash=row.catalog_hash, pk__in=set(tools)
        ).order_by("registry_name")  # fmt: skip
        rows = list(found.exclude(declaration_hash=""))
        if len(rows) != len(set(tools)):
            raise Problem("request.not_found")
        ToolReview.objects.bulk_create(
            [
                ToolReview(
                    tenant_id=tenant_id, server_id=row.server_id, remote_name=tool.remote_name,
                    endpoint_hash=endpoint_hash(row.endpoint), declaration_hash=tool.declaration_hash, accepted_by=user,
                )
                for tool in rows
            ],
            ignore_conflicts=True,
        )  # fmt: skip
        names = [tool.registry_name for tool in rows]
        if names:
            said = {"server": row.server_id, "catalog_hash": row.catalog_hash, "count": len(names)}
            records.note(tenant_id, "mcp.catalog.reviewed", {**said, "tools": names[:NAMED]}, user=user)
    return names
