"""What operators see of the servers of all organisations that they work for: what is unclassified, and what is new.

Read over the operators' own connection, and only of the tenants that are named. Imported by the fleet page only.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import Min

from mcpcatalog.administration import belongs_to_operators
from mcpcatalog.models import CatalogTool, McpServer, ToolOverride
from mcpcatalog.page_selectors import claimed, spoken
from mcpcatalog.selectors import config_of
from toolsys.models import Tenant
from toolsys.tenancy import OPERATOR_ALIAS

PAGE: Final = 50
TOOLS: Final = 200
CLASSIFIED: Final = 1_000
_OF_TOOL: Final = ("tenant_id", "server_id", "remote_name", "declaration_hash")

type Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FleetServer:
    """One server of one organisation. `claims` says how many of its tools claim what."""

    row: McpServer
    tenant_name: str
    tools: int
    claims: str

    @property
    def words(self) -> str:
        return spoken(config_of(self.row, {}, 0).classification)

    @property
    def is_operators(self) -> bool:
        return belongs_to_operators(self.row)


@dataclass(frozen=True, slots=True)
class FleetTool:
    """One tool that its server declares as nobody had seen it when the server was classified."""

    row: CatalogTool
    server: McpServer
    tenant_name: str

    @property
    def claims(self) -> str:
        return claimed(self.row)

    @property
    def words(self) -> str:
        return spoken(config_of(self.server, {}, 0).classification)


@dataclass(frozen=True, slots=True)
class FleetPage:
    servers: Sequence[FleetServer]
    number: int
    count: int
    has_next: bool


def servers(tenants: Collection[str], *, is_unclassified: bool, number: int) -> FleetPage:
    """Return one page of the servers of these tenants, by organisation and name."""
    rows = McpServer.objects.using(OPERATOR_ALIAS).filter(tenant_id__in=tenants).order_by("tenant_id", "server_id")
    pages = Paginator(rows.filter(classified_at=None) if is_unclassified else rows, PAGE)
    page = pages.get_page(number)
    found = list(page.object_list)
    names, tools = _names(found), _current(found)
    by_server: dict[Key, list[CatalogTool]] = {}
    for tool in tools:
        by_server.setdefault((tool.tenant_id, tool.server_id), []).append(tool)
    lines = [
        FleetServer(row, names[row.tenant_id], len(listed), _summed(listed))
        for row in found
        for listed in [by_server.get((row.tenant_id, row.server_id), [])]
    ]
    return FleetPage(lines, page.number, pages.count, page.has_next())


def new_tools(tenants: Collection[str]) -> list[FleetTool]:
    """Return the tools that are declared otherwise than when their server was classified, and of which operators
    have said nothing since; at most two hundred.
    """
    rows = McpServer.objects.using(OPERATOR_ALIAS).filter(tenant_id__in=tenants).exclude(classified_at=None)
    found = {(row.tenant_id, row.server_id): row for row in rows.order_by("classified_at")[:CLASSIFIED]}
    tools, names = _current(list(found.values())), _names(found.values())
    seen, said = _first_seen(tools), _said(found)
    fresh = []
    for tool in tools:
        server = found[tool.tenant_id, tool.server_id]
        first = seen[tuple(getattr(tool, name) for name in _OF_TOOL)]
        is_said = (tool.tenant_id, tool.server_id, tool.remote_name, server.endpoint, tool.declaration_hash) in said
        if first > server.classified_at and not is_said:
            fresh.append(FleetTool(tool, server, names[tool.tenant_id]))
    return fresh[:TOOLS]


def _current(rows: Sequence[McpServer]) -> list[CatalogTool]:
    """The tools of the newest catalogs; names and hashes of several servers may mix, and are told apart after."""
    newest = {(row.tenant_id, row.server_id): row.catalog_hash for row in rows}
    found = CatalogTool.objects.using(OPERATOR_ALIAS).filter(
        tenant_id__in={row.tenant_id for row in rows}, server_id__in={row.server_id for row in rows},
        catalog_hash__in=set(newest.values()) - {""}, withdrawn_at=None,
    ).defer("input_schema", "description").order_by("tenant_id", "registry_name")  # fmt: skip
    return [tool for tool in found if newest.get((tool.tenant_id, tool.server_id)) == tool.catalog_hash]


def _first_seen(tools: Iterable[CatalogTool]) -> dict[tuple[Any, ...], Any]:
    """Return when each declaration was first listed."""
    listed = list(tools)
    found = CatalogTool.objects.using(OPERATOR_ALIAS).filter(
        tenant_id__in={tool.tenant_id for tool in listed}, server_id__in={tool.server_id for tool in listed},
        declaration_hash__in={tool.declaration_hash for tool in listed},
    )  # fmt: skip
    return {row[:4]: row[4] for row in found.values_list(*_OF_TOOL).annotate(first=Min("created_at")).order_by()}


def _said(found: Collection[Key]) -> set[tuple[str, ...]]:
    rows = ToolOverride.objects.using(OPERATOR_ALIAS).filter(
        tenant_id__in={tenant for tenant, _ in found}, server_id__in={server for _, server in found}, is_operators=True
    )  # fmt: skip
    return set(rows.values_list("tenant_id", "server_id", "remote_name", "endpoint", "declaration_hash"))


def _names(rows: Iterable[McpServer]) -> dict[str, str]:
    wanted = {row.tenant_id for row in rows}
    return dict(Tenant.objects.using(OPERATOR_ALIAS).filter(pk__in=wanted).values_list("pk", "name"))


def _summed(tools: Sequence[CatalogTool]) -> str:
    """Say how many tools claim to read only, and how many to destroy; what else is claimed is on their pages."""
    hints = [tool.claims.get("annotations") for tool in tools]
    known = [hint for hint in hints if isinstance(hint, dict)]
    counts = {
        "read only": sum(hint.get("readOnlyHint") is True for hint in known),
        "destructive": sum(hint.get("destructiveHint") is True for hint in known),
    }  # fmt: skip
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
