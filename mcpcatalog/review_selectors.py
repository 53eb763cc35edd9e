"""What waits for a review: each tool that nobody has accepted as it is now, beside what was accepted of it last.

Every function needs the transaction of the person's tenant. Imported by the review pages and their API.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from mcpcatalog import comparing, quarantine, selectors
from mcpcatalog.comparing import Part
from mcpcatalog.differences import differences
from mcpcatalog.models import CatalogTool, McpServer, ToolReview
from mcpcatalog.page_selectors import difference_line
from mcpcatalog.quarantine import Reviews
from mcpcatalog.remote import RemoteTool, ServerConfig
from mcpcatalog.reviews import stamp
from toolsys import inert
from toolsys.problems import Problem

SHOWN: Final = 50
GONE: Final = 100


@dataclass(frozen=True, slots=True)
class Pending:
    """One tool as it is declared now. `before` is what was accepted of it last; None: nothing ever was."""

    row: CatalogTool
    before: CatalogTool | None

    @property
    def differences(self) -> list[dict[str, str]]:
        if self.before is None:
            return []
        return [difference_line(each) for each in differences([_tool(self.before)], [_tool(self.row)])]

    @property
    def description(self) -> list[Part]:
        if self.before is None:
            return [("same", inert.visible(self.row.description))]
        return comparing.words(self.before.description, self.row.description)

    @property
    def schema(self) -> list[Part]:
        return self._lines("input_schema")

    @property
    def claims(self) -> list[Part]:
        return self._lines("claims")

    def _lines(self, field: str) -> list[Part]:
        now = getattr(self.row, field)
        if self.before is None:
            return [("same", inert.pretty(now))]
        before = getattr(self.before, field)
        return [] if before == now else comparing.lines(before, now)


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """`pending` are the first of `count` tools; `gone` were accepted once and are no longer listed."""

    row: McpServer
    seen: str
    count: int
    pending: Sequence[Pending]
    gone: Sequence[str]
    is_asked: bool
    is_reviewed: bool


@dataclass(frozen=True, slots=True)
class ReviewLine:
    """One server of the tenant: how many of its tools nobody has accepted as they are now."""

    row: McpServer
    count: int
    is_reviewed: bool


def review_page(row: McpServer, config: ServerConfig) -> ReviewPage:
    tools = list(_current([row]).order_by("registry_name"))
    reviews = quarantine.reviews(row.tenant_id, {tool.declaration_hash for tool in tools})
    waiting = [tool for tool in tools if reviews.is_new(config, tool.remote_name, tool.declaration_hash)]
    before = _accepted_last(row, [tool.remote_name for tool in waiting[:SHOWN]])
    listed = {tool.remote_name for tool in tools}
    accepted = ToolReview.objects.filter(tenant_id=row.tenant_id, server_id=row.server_id)
    names = accepted.values_list("remote_name", flat=True).distinct().order_by("remote_name")
    return ReviewPage(
        row=row,
        seen=stamp(row),
        count=len(waiting),
        pending=[Pending(tool, before.get(tool.remote_name)) for tool in waiting[:SHOWN]],
        gone=[inert.visible(name) for name in names.exclude(remote_name__in=listed)[:GONE]],
        is_asked=reviews.is_asked,
        is_reviewed=row.server_id in reviews.reviewed,
    )


def review_of(tenant_id: str, server: UUID) -> ReviewPage:
    """Raises: Problem (request.not_found)."""
    row = McpServer.objects.filter(tenant_id=tenant_id, pk=server).first()
    if row is None:
        raise Problem("request.not_found")
    return review_page(row, selectors.config_of(row, {}, 0))


def review_lines(tenant_id: str) -> list[ReviewLine]:
    """Return every server that has listed something, those with the most to look at first."""
    rows = list(McpServer.objects.filter(tenant_id=tenant_id).exclude(catalog_hash="").order_by("server_id"))
    configs = {row.server_id: selectors.config_of(row, {}, 0) for row in rows}
    known = {(row.server_id, row.catalog_hash) for row in rows}
    tools = [
        (server_id, name, declared)
        for server_id, digest, name, declared in _current(rows).values_list(
            "server_id", "catalog_hash", "remote_name", "declaration_hash"
        )
        if (server_id, digest) in known
    ]
    reviews = quarantine.reviews(tenant_id, {declared for _, _, declared in tools})
    counts = _counted(tools, configs, reviews)
    lines = [ReviewLine(row, counts.get(row.server_id, 0), row.server_id in reviews.reviewed) for row in rows]
    return sorted(lines, key=lambda line: (not (line.is_reviewed and line.count), -line.count, line.row.server_id))


def _counted(
    tools: Iterable[tuple[str, str, str]], configs: dict[str, ServerConfig], reviews: Reviews
) -> dict[str, int]:
    found: dict[str, int] = {}
    for server_id, name, declared in tools:
        found[server_id] = found.get(server_id, 0) + reviews.is_new(configs[server_id], name, declared)
    return found


def _current(rows: Sequence[McpServer]) -> Any:
    """The tools of the newest catalogs, without those that were withdrawn since."""
    tenant_id = rows[0].tenant_id if rows else ""
    return CatalogTool.objects.filter(
        tenant_id=tenant_id, server_id__in=[row.server_id for row in rows],
        catalog_hash__in=[row.catalog_hash for row in rows], withdrawn_at=None,
    ).exclude(declaration_hash="")  # fmt: skip


def _accepted_last(row: McpServer, names: Sequence[str]) -> dict[str, CatalogTool]:
    """Return by remote name the declaration that was accepted last, at whatever endpoint."""
    found = ToolReview.objects.filter(tenant_id=row.tenant_id, server_id=row.server_id, remote_name__in=names)
    newest = dict(found.order_by("id").values_list("remote_name", "declaration_hash"))
    tools = CatalogTool.objects.filter(
        tenant_id=row.tenant_id, server_id=row.server_id, remote_name__in=newest, declaration_hash__in=newest.values()
    ).order_by("id")  # fmt: skip
    return {tool.remote_name: tool for tool in tools if newest[tool.remote_name] == tool.declaration_hash}


def _tool(row: CatalogTool) -> RemoteTool:
    return RemoteTool(row.remote_name, row.description, row.input_schema, row.claims, row.is_application_only)
