"""Which tools wait for somebody to look at them: what changed, or is new, on a server that people have reviewed.

Only where the tenant asks for it, and only for sessions that are opened from then on. What is accepted is one
declaration at one endpoint: another one, or the same one elsewhere, waits again. Source: DESIGN §7.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mcpcatalog.models import CatalogPolicy, ToolReview
from mcpcatalog.remote import CatalogMode, ServerConfig
from toolsys.domain.canonical import sha256_hex
from toolsys.models import ToolEvent
from toolsys.tenancy import tenant_transaction

QUARANTINED: Final = "tool.quarantined"
NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class Reviews:
    """What a tenant's people have accepted, as (server, endpoint, remote name, declaration)."""

    is_asked: bool
    reviewed: frozenset[str]
    accepted: frozenset[tuple[str, str, str, str]]

    def is_accepted(self, config: ServerConfig, remote_name: str, declared: str) -> bool:
        return (config.server_id, endpoint_hash(config.endpoint), remote_name, declared) in self.accepted

    def is_new(self, config: ServerConfig, remote_name: str, declared: str) -> bool:
        """Say whether nobody has looked at it, whatever the tenant asks for. What is declared here was written here."""
        return config.mode is not CatalogMode.FIXED and not self.is_accepted(config, remote_name, declared)

    def holds_back(self, config: ServerConfig, remote_name: str, declared: str) -> bool:
        is_held = self.is_asked and config.server_id in self.reviewed
        return is_held and self.is_new(config, remote_name, declared)


def endpoint_hash(endpoint: str) -> str:
    return sha256_hex(endpoint.encode("utf-8", "surrogatepass"))


def is_asked(tenant_id: str) -> bool:
    with tenant_transaction(tenant_id):
        return CatalogPolicy.objects.filter(tenant_id=tenant_id, is_quarantining=True).exists()


def reviews(tenant_id: str, declared: Collection[str]) -> Reviews:
    """Return what was accepted of these declarations, and which servers anybody has reviewed at all."""
    with tenant_transaction(tenant_id):
        asked = is_asked(tenant_id)
        rows = ToolReview.objects.filter(tenant_id=tenant_id)
        known = frozenset(rows.values_list("server_id", flat=True).distinct())
        found = rows.filter(server_id__in=known, declaration_hash__in=set(declared)) if known else rows.none()
        names = ("server_id", "endpoint_hash", "remote_name", "declaration_hash")
        return Reviews(asked, known, frozenset(found.values_list(*names)))


def record_withheld(tenant_id: str, session_id: UUID, names: Sequence[str]) -> None:
    """Record what a session was not given, an event for each server. Transaction: needs the session's."""
    by_server: dict[str, list[str]] = {}
    for name in names:
        by_server.setdefault(name.split(".")[1], []).append(name)
    events = [
        ToolEvent(
            tenant_id=tenant_id, type="mcp.tool.quarantined",
            payload={
                "server": server, "session": str(session_id), "reason_code": QUARANTINED, "count": len(held),
                "tools": held[:NAMED],
            },
            derivation_key=f"mcp.tool.quarantined:{server}:{session_id}",
        )
        for server, held in sorted(by_server.items())
    ]  # fmt: skip
    if events:
        ToolEvent.objects.bulk_create(events, ignore_conflicts=True)
