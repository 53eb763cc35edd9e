"""What the pages show of servers: shaped rows, with what came from servers kept apart as their claims.

Every function needs the transaction of the person's tenant. Imported by the admin pages only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.utils import timezone

from mcpcatalog import checking, checks, mapping, quarantine, selectors
from mcpcatalog.administration import belongs_to_operators
from mcpcatalog.models import CatalogChange, CatalogTool, McpServer, ServerCheck, ToolOverride
from mcpcatalog.remote import ServerConfig
from toolsys import inert
from toolsys.domain.spec import Classification
from toolsys.models import Credential, CredentialVersion

CHANGES: Final = 10
TOOLS: Final = 500
KINDS: Final = {
    "added": "new tool", "removed": "tool is gone", "description_changed": "reworded", "claims_changed":
    "claims something else of itself", "schema_changed": "its schema changed", "parameter_added": "new parameter",
    "parameter_removed": "parameter is gone", "parameter_changed": "parameter changed",
    "parameter_tightened": "parameter takes less than before",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolLine:
    """One tool, what it counts as here, and what its server says of it."""

    row: CatalogTool
    counts_as: Classification
    is_overridden: bool
    is_held: bool = False

    @property
    def words(self) -> str:
        return spoken(self.counts_as)

    @property
    def claims(self) -> str:
        return claimed(self.row)


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check, as it stands now."""

    row: ServerCheck
    is_going_on: bool
    rungs: Sequence[dict[str, Any]]

    @property
    def state(self) -> str:
        if self.row.finished_at is not None:
            return "succeeded" if self.row.is_passed else "failed"
        return "running" if self.is_going_on else "unavailable"

    @property
    def says(self) -> str:
        if self.row.finished_at is not None:
            broken = next((rung for rung in self.rungs if rung["status"] == "failed"), None)
            return "It can be used." if broken is None else f"{broken['title']}: {broken['fix']}"
        if not self.is_going_on:
            reached = next((rung["title"] for rung in reversed(self.rungs) if rung["status"] == "passed"), "")
            came = f" It came as far as {reached}." if reached else ""
            return f"No worker has finished it.{came} See that workers run, then check again."
        at = next((rung["title"] for rung in self.rungs if rung["status"] == "running"), "")
        if at:
            return f"A worker is at it: {at}."
        return "A worker is at it." if self.row.started_at else "Waiting for a worker."

    @property
    def says_of_version(self) -> str:
        """What the server said to the version of the credential that was to be tested."""
        version = self.row.credential_version
        if version is None or self.row.finished_at is None:
            return ""
        login = next((rung["status"] for rung in self.rungs if rung["name"] == "authentication"), "not_tried")
        said = {
            "passed": f"The server lets us in with version {version} of the credential.",
            "failed": f"The server does not let us in with version {version} of the credential.",
        }  # fmt: skip
        return said.get(login, f"Nothing is known of version {version} of the credential: it was not asked for.")


@dataclass(frozen=True, slots=True)
class ServerPage:
    row: McpServer
    config: ServerConfig
    versions: list[CredentialVersion]
    current_version: int
    tools: list[ToolLine]
    changes: list[tuple[CatalogChange, list[dict[str, str]]]]
    check: CheckView | None
    is_operators: bool

    @property
    def words(self) -> str:
        return spoken(self.config.classification)

    @property
    def held_count(self) -> int:
        return sum(tool.is_held for tool in self.tools)

    @property
    def is_unclassified(self) -> bool:
        return self.row.classified_at is None

    @property
    def next_step(self) -> str:
        """What is to be done before agents are offered its tools; empty where they are."""
        if not self.config.is_permitted:
            return "add its host to the reachable hosts."
        if (self.config.credential_ref or "").startswith("store:") and not self.current_version:
            return "set its credential below."
        if self.row.enabled:
            return ""
        if self.row.last_discovered_at is None or self.row.consecutive_failures:
            return "check it, and read what the ladder says."
        return "enable it: it answers, and agents are not offered its tools yet."


def claimed(tool: CatalogTool) -> str:
    """Return the annotations of a declaration in one line."""
    found = tool.claims.get("annotations")
    pairs = found.items() if isinstance(found, dict) else ()
    return ", ".join(f"{key}: {str(value)[:60]}" for key, value in list(pairs)[:10])


def spoken(classification: Classification) -> str:
    parts = (classification.side_effect, classification.idempotency)
    said = [part.value.replace("_", " ") for part in parts]
    return f"{said[0]}, {classification.risk.value} risk, {said[1]}"


def server_page(tenant_id: str, server: UUID) -> ServerPage | None:
    row = McpServer.objects.filter(tenant_id=tenant_id, pk=server).first()
    state = selectors.server(tenant_id, row.server_id, {}) if row is not None else None
    if row is None or state is None:
        return None
    credential = _credential(row)
    return ServerPage(
        row=row,
        config=state.config,
        versions=_versions(credential) if credential is not None else [],
        current_version=credential.current_version if credential is not None else 0,
        tools=tools_of(row, state.config),
        changes=_changes(row),
        check=newest_check(row),
        is_operators=belongs_to_operators(row),
    )


def tools_of(row: McpServer, config: ServerConfig) -> list[ToolLine]:
    rows = CatalogTool.objects.filter(
        tenant_id=row.tenant_id, server_id=row.server_id, catalog_hash=row.catalog_hash
    ).order_by("registry_name")[:TOOLS]  # fmt: skip
    found = list(rows)
    reviews = quarantine.reviews(row.tenant_id, {tool.declaration_hash for tool in found})
    return [
        tool_line(tool, config, is_held=reviews.holds_back(config, tool.remote_name, tool.declaration_hash))
        for tool in found
    ]


def tool_line(tool: CatalogTool, config: ServerConfig, *, is_held: bool = False) -> ToolLine:
    counts_as = mapping.classification_of(config, tool.remote_name, tool.declaration_hash)
    return ToolLine(tool, counts_as, tool.remote_name in config.overrides, is_held)


def overrides_of(row: McpServer, tool: CatalogTool) -> dict[bool, ToolOverride]:
    """Return what was said of a tool, by whether operators said it."""
    found = ToolOverride.objects.filter(
        tenant_id=row.tenant_id, server_id=row.server_id, remote_name=tool.remote_name
    ).select_related("set_by")  # fmt: skip
    return {override.is_operators: override for override in found}


def check_view(tenant_id: str, check: UUID) -> CheckView | None:
    row = ServerCheck.objects.filter(tenant_id=tenant_id, pk=check).select_related("requested_by").first()
    return _viewed(row, timezone.now()) if row is not None else None


def rungs_to_come(config: ServerConfig) -> list[dict[str, Any]]:
    """Return the ladder of a check that no worker has said anything of yet."""
    return [
        {"name": name, "status": "not_tried", "title": checks.TITLES[name], "fact": "to come", "milliseconds": None}
        for name in checks.names_of(config)
    ]


def newest_check(row: McpServer) -> CheckView | None:
    found = ServerCheck.objects.filter(tenant_id=row.tenant_id, server_id=row.server_id).order_by("-id").first()
    return _viewed(found, timezone.now()) if found is not None else None


def _viewed(row: ServerCheck, now: datetime) -> CheckView:
    is_going_on = checking.is_going_on(row, now)
    rungs = [{**rung, "title": checks.TITLES.get(rung["name"], rung["name"])} for rung in row.rungs]
    if not is_going_on and row.finished_at is None:
        rungs = [{**rung, **_ABANDONED.get(rung["status"], {})} for rung in rungs]
    return CheckView(row, is_going_on, rungs)


# What the last word of a worker says that went away in the middle of a check.
_ABANDONED: Final = {
    "running": {"status": "not_tried", "fact": "not finished"}, "not_tried": {"fact": ""},
}  # fmt: skip


def _credential(row: McpServer) -> Credential | None:
    kind, _, name = (row.credential_ref or "").partition(":")
    if kind != "store":
        return None
    return Credential.objects.filter(tenant_id=row.tenant_id, name=name, retired_at=None).first()


def _versions(credential: Credential) -> list[CredentialVersion]:
    found = CredentialVersion.objects.filter(tenant_id=credential.tenant_id, credential=credential).defer("sealed")
    return list(found.order_by("-version")[:10])


def _changes(row: McpServer) -> list[tuple[CatalogChange, list[dict[str, str]]]]:
    found = CatalogChange.objects.filter(tenant_id=row.tenant_id, server_id=row.server_id).order_by("-id")[:CHANGES]
    return [(change, [difference_line(each) for each in change.differences]) for change in found]


def difference_line(each: dict[str, str]) -> dict[str, str]:
    return {
        "tool": inert.visible(each["tool"]), "says": KINDS.get(each["kind"], each["kind"]),
        "parameter": inert.visible(each["parameter"]),
    }  # fmt: skip
