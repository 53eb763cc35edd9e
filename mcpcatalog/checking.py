"""Checks of a server that people ask for: a row, a bell, and a worker that walks up the ladder and writes what it saw.

What is listed on the way is remembered as any discovery is, and a failure too. A check that nobody finished stays
unfinished: whoever asked starts another. Called by pages, the provider and `manage.py mcp_check`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from mcpcatalog import checks, mapping, selectors, services
from mcpcatalog.checks import Offered, Rung, Seen
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.news import News
from mcpcatalog.remote import (
    CatalogChurning,
    CatalogMode,
    OutOfConnections,
    ResolveCredential,
    ServerConfig,
    ServerUnreachable,
)
from mcpcatalog.selectors import Commands
from toolsys import queue, records
from toolsys.domain.context import CredentialResolver
from toolsys.models import CredentialVersion
from toolsys.ports import Clock
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

KEPT: Final = 20
# A worker that took a check up is done with it, or gone, after this.
CHECK_SECONDS: Final = 60.0
UNHEARD_SECONDS: Final = 15.0

type Inspect = Callable[[ServerConfig, ResolveCredential, Callable[[Seen], object]], Awaitable[Seen]]
type RunInspection = Callable[[ServerConfig, int | None, Callable[[Seen], object]], Seen]
type Tell = Callable[[tuple[Rung, ...]], object]


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check came to."""

    rungs: tuple[Rung, ...]

    @property
    def is_passed(self) -> bool:
        return checks.is_passed(self.rungs)

    @property
    def first_failed(self) -> Rung | None:
        return next((rung for rung in self.rungs if rung.status == "failed"), None)


def request_check(tenant_id: str, server: UUID, *, user: Any, version: int | None = None) -> ServerCheck:
    """Ask the workers for a check; one that runs already is the answer. Transaction: opens one, rings after it.

    With a version the server is asked what it says to this live one of its credential, whether it counts or not.
    Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id):
        row = McpServer.objects.select_for_update().filter(tenant_id=tenant_id, pk=server).first()
        if row is None or (version is not None and version not in live_versions(row)):
            raise Problem("request.not_found")
        rows = ServerCheck.objects.filter(tenant_id=tenant_id, server_id=row.server_id).order_by("-id")
        newest = rows.filter(credential_version=version).first()
        if newest is not None and is_going_on(newest, timezone.now()):
            return newest
        check = ServerCheck.objects.create(
            tenant_id=tenant_id, server_id=row.server_id, requested_by=user, credential_version=version
        )
        rows.filter(pk__in=list(rows.values_list("pk", flat=True)[KEPT : KEPT + 100])).delete()
        said = {"server": row.server_id, **({"credential_version": version} if version is not None else {})}
        records.note(tenant_id, "mcp.server.check_requested", said, user=user)
        bells = [queue.bell_id("inspect", "mcp", tenant_id, check.pk)]
        transaction.on_commit(partial(queue.ring_if_heard, bells), robust=True)
    return check


def live_versions(row: McpServer) -> list[int]:
    """Return the numbers of the versions of a server's own credential that can be tested, newest first."""
    kind, _, name = (row.credential_ref or "").partition(":")
    found = CredentialVersion.objects.filter(
        tenant_id=row.tenant_id, credential__name=name, credential__retired_at=None, retired_at=None
    )  # fmt: skip
    return list(found.order_by("-version").values_list("version", flat=True)) if kind == "store" else []


def is_going_on(check: ServerCheck, now: datetime) -> bool:
    """Say whether a check may still end by itself."""
    if check.finished_at is not None:
        return False
    since, seconds = check.started_at or check.created_at, CHECK_SECONDS if check.started_at else UNHEARD_SECONDS
    return now - since < timedelta(seconds=seconds)


def perform(
    tenant_id: str, check: UUID, look: RunInspection, *, commands: Commands, clock: Clock, ceiling: int
) -> None:
    """Do what a person asked for, once: who arrives second finds it taken. Transaction: must be outside."""
    with tenant_transaction(tenant_id):
        rows = ServerCheck.objects.filter(tenant_id=tenant_id, pk=check)
        if not rows.filter(started_at=None).update(started_at=clock.now()):
            return
        server_id, version = rows.values_list("server_id", "credential_version")[0]
    state = selectors.server(tenant_id, server_id, commands)
    if state is None:
        return

    def tell(reached: tuple[Rung, ...]) -> None:
        with tenant_transaction(tenant_id):
            rows.filter(finished_at=None).update(rungs=[rung.as_json() for rung in reached])

    found = walk(state.config, look, clock=clock, ceiling=ceiling, version=version, tell=tell)
    with tenant_transaction(tenant_id):
        rows.update(
            finished_at=clock.now(), rungs=[rung.as_json() for rung in found.rungs], is_passed=found.is_passed
        )  # fmt: skip


def walk(
    config: ServerConfig, look: RunInspection, *, clock: Clock, ceiling: int, version: int | None = None,
    tell: Tell = lambda _reached: None,
) -> Checked:  # fmt: skip
    """Walk up the ladder and remember what was learnt of the server. Transaction: must be outside.

    `tell` hears of the ladder as it grows, in a thread that is not the caller's. What a version that does not count
    met with says nothing of what calls will meet: it is not remembered.
    """
    reached, begun_at = [Seen(())], clock.now()

    def hear(seen: Seen) -> None:
        reached.append(seen)
        tell(checks.progress(config, seen))

    try:
        seen = look(config, version, hear)
    except TimeoutError:
        seen = reached[-1].failed(ServerUnreachable("the check took too long", effect="not_applied"))
    is_remembered = version in {None, config.credential_version}
    offered = None
    if seen.catalog is not None:
        listed = mapping.map_catalog(config, seen.catalog, output_ceiling_bytes=ceiling)
        offered = _offered(config, listed)
        if is_remembered:
            try:
                _remember(config, seen, listed, at=begun_at, ceiling=ceiling)
            except CatalogChurning as refused:
                seen = seen.failed(refused)
                services.record_failure(config, refused.reason_code, refused.detail, at=clock.now())
    elif seen.error is not None and not isinstance(seen.error, OutOfConnections) and is_remembered:
        services.record_failure(config, seen.error.reason_code, seen.error.detail, at=clock.now())
    return Checked(checks.ladder(config, seen, offered))


def _offered(config: ServerConfig, listed: mapping.Generation) -> Offered:
    """Of a fixed server, what is declared here and not listed there counts as rejected."""
    usable, refused = len(listed.tools), len(listed.rejected) + sum(map(len, listed.conflicts))
    if config.mode is CatalogMode.FIXED:
        refused = len(config.fixed_tools) - usable
    return Offered(usable, refused, is_fixed=config.mode is CatalogMode.FIXED)


def _remember(config: ServerConfig, seen: Seen, listed: mapping.Generation, *, at: datetime, ceiling: int) -> None:
    """A fixed server's catalog is what is declared here, whatever it lists."""
    assert seen.catalog is not None
    catalog = seen.catalog
    if config.mode is CatalogMode.FIXED:
        catalog = replace(mapping.declared_here(config), revision=seen.revision)
        listed = mapping.map_catalog(config, catalog, output_ceiling_bytes=ceiling)
    services.record_discovery(
        config, catalog, listed, at=at, connected_in_seconds=seen.connected_in_seconds or 0.0
    )  # fmt: skip


async def inspected(
    config: ServerConfig, inspect: Inspect, credentials: CredentialResolver, tell: Callable[[Seen], object]
) -> Seen:
    news = News(tell)
    try:
        return await inspect(config, credentials.resolve, news.note)
    finally:
        await news.end()
