"""Checks of a server that people ask for: a row, a bell, and a worker that walks up the ladder and writes what it saw.

What is listed on the way is remembered as any discovery is, and a failure too. A check that nobody finished stays
unfinished: whoever asked starts another. Called by pages, the provider and `manage.py mcp_check`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from mcpcatalog import checks, mapping, selectors, services
from mcpcatalog.checks import Offered, Rung, Seen
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.remote import RemoteError, ResolveCredential, ServerConfig, ServerUnreachable
from mcpcatalog.selectors import Commands
from toolsys import queue, records
from toolsys.domain.context import CredentialResolver
from toolsys.ports import Clock
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

KEPT: Final = 20
# A worker that took a check up is done with it, or gone, after this.
CHECK_SECONDS: Final = 60.0
UNHEARD_SECONDS: Final = 15.0

type Inspect = Callable[[ServerConfig, ResolveCredential], Awaitable[Seen]]
type RunInspection = Callable[[ServerConfig], Seen]


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


def request_check(tenant_id: str, server: UUID, *, user: Any) -> ServerCheck:
    """Ask the workers for a check; one that runs already is the answer. Transaction: opens one, rings after it.

    Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id):
        row = McpServer.objects.select_for_update().filter(tenant_id=tenant_id, pk=server).first()
        if row is None:
            raise Problem("request.not_found")
        rows = ServerCheck.objects.filter(tenant_id=tenant_id, server_id=row.server_id).order_by("-id")
        newest = rows.first()
        if newest is not None and is_going_on(newest, timezone.now()):
            return newest
        check = ServerCheck.objects.create(tenant_id=tenant_id, server_id=row.server_id, requested_by=user)
        rows.filter(pk__in=list(rows.values_list("pk", flat=True)[KEPT : KEPT + 100])).delete()
        records.note(tenant_id, "mcp.server.check_requested", {"server": row.server_id}, user=user)
        bells = [queue.bell_id("inspect", "mcp", tenant_id, check.pk)]
        transaction.on_commit(partial(queue.ring_if_heard, bells), robust=True)
    return check


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
        server_id = rows.values_list("server_id", flat=True)[0]
    state = selectors.server(tenant_id, server_id, commands)
    if state is None:
        return
    found = walk(state.config, look, clock=clock, ceiling=ceiling)
    with tenant_transaction(tenant_id):
        rows.update(
            finished_at=clock.now(), rungs=[rung.as_json() for rung in found.rungs], is_passed=found.is_passed
        )  # fmt: skip


def walk(config: ServerConfig, look: RunInspection, *, clock: Clock, ceiling: int) -> Checked:
    """Walk up the ladder and remember what was learnt of the server. Transaction: must be outside."""
    try:
        seen = look(config)
    except TimeoutError:
        seen = Seen(()).failed(ServerUnreachable("the check took too long", effect="not_applied"))
    offered = None
    if seen.catalog is not None:
        generation = mapping.map_catalog(config, seen.catalog, output_ceiling_bytes=ceiling)
        offered = Offered(len(generation.tools), len(generation.rejected), sum(map(len, generation.conflicts)))
        services.record_discovery(
            config, seen.catalog, generation, at=clock.now(), connected_in_seconds=seen.connected_in_seconds or 0.0
        )
    elif isinstance(seen.error, RemoteError):
        services.record_failure(config, seen.error.reason_code, seen.error.detail, at=clock.now())
    return Checked(checks.ladder(config, seen, offered))


async def inspected(config: ServerConfig, inspect: Inspect, credentials: CredentialResolver) -> Seen:
    return await inspect(config, credentials.resolve)
