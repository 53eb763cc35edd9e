"""MCP as a source of tools: what sessions may pin, what must be looked at again, and the tool behind a pin.

Implements `ports.ToolProvider`. In the web process it has no connections and never calls; a worker's has a pool. It
imports no SDK. Source: TS "Discovery", "Advertisement is pinned"; DESIGN §7.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Protocol
from uuid import UUID

from mcpcatalog import checking, mapping, quarantine, resources, selectors, services
from mcpcatalog.checking import Inspect
from mcpcatalog.checks import Seen
from mcpcatalog.discoveries import Discoveries
from mcpcatalog.ladder import Ladder
from mcpcatalog.notes import Notes
from mcpcatalog.offers import Offers
from mcpcatalog.prompt_skill import PromptReader
from mcpcatalog.remote import (
    Catalog,
    CatalogMode,
    OutOfConnections,
    RemoteError,
    RemoteServer,
    ResolveCredential,
    ServerConfig,
    ServerUnreachable,
    Transport,
)
from mcpcatalog.resource_tool import ResourceTool
from mcpcatalog.routes import Route, Routes
from mcpcatalog.selectors import Commands, PinnedTool, ServerState, Standing
from mcpcatalog.staleness import has_failed, is_stale
from mcpcatalog.tool import Connections, McpTool, NoConnections
from mcpcatalog.turns import Turns
from toolsys.domain.context import CredentialResolver, ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.skills import OfferedSkill
from toolsys.domain.spec import ToolSpec
from toolsys.egress import EgressCounts, EgressPolicy
from toolsys.kept import Kept
from toolsys.ports import Clock, NotAvailable

log = logging.getLogger(__name__)

# What a discovery waits for room and for a slot, before its server is asked; and what it takes in all, at most: both
# waits, then the connect time-out and the time of a list, which are the pool's, and a little.
PATIENCE_SECONDS: Final = 30.0
DISCOVERY_SECONDS: Final = 2 * PATIENCE_SECONDS + 45.0
CLOSE_SECONDS: Final = 20.0
KEPT: Final = 4_096


class Pool(Connections, Protocol):
    """The pool's face for whoever owns it."""

    async def visit[T](
        self,
        config: ServerConfig,
        resolve: ResolveCredential,
        look: Callable[[RemoteServer], Awaitable[T]],
        *,
        connect_seconds: float | None = None,
        patience_seconds: float = 0.0,
    ) -> T:
        """Look at a server on a connection that nobody else has. Raises: RemoteError."""

    def sessions(self) -> list[tuple[str, str]]: ...

    async def close_session(self, session: str, server_id: str = "", *, is_resting: bool = False) -> None: ...

    async def close_all(self) -> None: ...


class RunOnLoop(Protocol):
    """Runs a coroutine on the worker's loop from another thread."""

    def __call__[T](self, work: Coroutine[Any, Any, T], timeout_seconds: float) -> T:
        """Raises: TimeoutError."""


class CredentialsOf(Protocol):
    """Gives a tenant's resolver; with a version, one that takes this one instead of the one that counts."""

    def __call__(self, tenant_id: str, version: int | None = None) -> CredentialResolver: ...


@dataclass(frozen=True, slots=True)
class Workbench:
    """What only a worker has: connections, the loop that they live on, and credentials.

    `routes` is None where this is the only worker that there is.
    """

    connections: Pool
    run: RunOnLoop
    credentials: CredentialsOf
    routes: Routes | None = None
    notes: Notes = field(default_factory=Notes)
    inspect: Inspect | None = None

    def sessions(self) -> set[tuple[str, UUID]]:
        """Return tenant and id of each agent session that something is held for."""
        found = self.connections.sessions()
        return {(tenant_id, UUID(name)) for tenant_id, name in found}

    def release_session(self, tenant_id: str, session_id: UUID) -> None:
        """Let go of what is held for a session; its next call connects again, on whichever worker. Any thread."""
        self.run(self.connections.close_session(str(session_id)), CLOSE_SECONDS)
        if self.routes is not None:
            self.routes.release(tenant_id, session_id)

    def rest_session(self, session_id: UUID) -> None:
        """Let go of what a session that waits can have again: not of what a server would forget. Any thread."""
        self.run(self.connections.close_session(str(session_id), is_resting=True), CLOSE_SECONDS)

    def look(self, config: ServerConfig, version: int | None, tell: Callable[[Seen], object]) -> Seen:
        """Watch one connection of its own to a server, logging in with this version of its credential.

        None: the one that counts. `tell` hears in a thread how far it came. Raises: TimeoutError.
        """
        assert self.inspect is not None, "a workbench without an inspector is a test's"
        resolver = self.credentials(config.tenant_id, version)
        return self.run(checking.inspected(config, self.inspect, resolver, tell), checking.CHECK_SECONDS - 5.0)

    def close(self) -> None:
        """Leave every server and end every child. Call it before the loop stops."""
        if self.routes is not None:
            self.routes.stop()
        try:
            self.run(self.connections.close_all(), CLOSE_SECONDS)
        finally:
            self.notes.close()


@dataclass(frozen=True, slots=True)
class Lease:
    """Under which name, and for how long without a sign of life, a worker process holds connections for others."""

    worker: str
    clock: Clock
    seconds: float


def open_workbench(
    run: RunOnLoop,
    credentials: CredentialsOf,
    policy_for: Callable[[ServerConfig], EgressPolicy],
    counts: EgressCounts | None = None,
    lease: Lease | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Workbench:
    """Import the SDK, which costs most of a second, and make the pool: once, before a worker takes work.

    `seconds` are the time-outs connect, request and idle.
    """
    from mcpcatalog.sdk.connection import Timeouts
    from mcpcatalog.sdk.inspection import inspect
    from mcpcatalog.sdk.pool import ConnectionPool

    notes = Notes()

    async def look(config: ServerConfig, resolve: ResolveCredential, tell: Callable[[Seen], object]) -> Seen:
        return await inspect(config, resolve, policy_for(config), counts, tell, pool.slots)

    def changed(config: ServerConfig) -> None:
        notes.later(lambda: services.record_list_changed(config, at=datetime.now(UTC)))

    def closed(config: ServerConfig, session: str, why: str) -> None:
        notes.later(lambda: services.record_closed(config, session, why))

    timeouts = Timeouts(**(seconds or {}))
    pool = ConnectionPool(policy_for, timeouts=timeouts, counts=counts, on_list_changed=changed, on_closed=closed)
    routes = None
    if lease is not None:

        def let_go(route: Route) -> None:
            run(pool.close_session(str(route.session_id), route.server_id), CLOSE_SECONDS)

        routes = Routes(lease.worker, lease.clock, lease.seconds, on_lost=let_go)
        routes.start()
    return Workbench(pool, run, credentials, routes, notes, look)


@dataclass(frozen=True)
class McpProvider:
    clock: Clock
    commands: Commands
    output_ceiling_bytes: int
    workbench: Workbench | None = None
    reuse_seconds: int = 300
    request_seconds: int = 30
    domain: str = "mcp"
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _turns: Turns = field(default_factory=Turns)
    _states: Kept[ServerState | None] = field(default_factory=lambda: Kept(KEPT))
    _standings: Kept[Standing] = field(default_factory=lambda: Kept(KEPT))
    _pinned: Kept[PinnedTool | None] = field(default_factory=lambda: Kept(KEPT))

    @cached_property
    def _offers(self) -> Offers:
        return Offers(self.commands)

    def sources(self, tenant_id: str) -> frozenset[str]:
        return self._offers.sources(tenant_id)

    def specs(self, tenant_id: str) -> list[ToolSpec]:
        return self._offers.specs(tenant_id)

    def withheld(self, tenant_id: str) -> list[ToolSpec]:
        return self._offers.withheld(tenant_id)

    def refresh_keys(self, tenant_id: str) -> list[str]:
        now, states = self.clock.now(), self._offers.states(tenant_id)
        return [state.config.server_id for state in states if is_stale(state, now, self.reuse_seconds)]

    def refresh(self, tenant_id: str, key: str) -> None:
        """Discover one server and record what it offers, or why not; and whatever else of the tenant waits for a turn.

        Raises nothing of its own.
        """
        for each in self._turns.of(tenant_id, key):
            self._refresh(tenant_id, each)

    def _refresh(self, tenant_id: str, key: str) -> None:
        state = selectors.server(tenant_id, key, self.commands)
        if state is None or not state.is_enabled or not is_stale(state, self.clock.now(), self.reuse_seconds):
            return
        config = state.config
        if self.workbench is None:
            return
        try:
            self._look(config, self.workbench, DISCOVERY_SECONDS)
        except OutOfConnections as error:
            log.info("mcp discovery put off server=%s reason=%s", config.server_id, error.reason_code)
        except RemoteError as error:
            log.info("mcp discovery failed server=%s reason=%s", config.server_id, error.reason_code)
            services.record_failure(config, error.reason_code, error.detail, at=self.clock.now())
        except Exception as error:  # noqa: BLE001
            # What one server makes us do wrong must not have every session that opens wait for it.
            log.error("mcp discovery failed server=%s error=%s", config.server_id, type(error).__name__)
            services.record_failure(config, "tool.internal", type(error).__name__, at=self.clock.now())

    def warm(self, tenant_id: str, server_id: str, connect_seconds: float) -> bool:
        """Look at a server unless what is remembered still counts; False where it is worth another try.

        What a stdio server offered to an earlier process is not remembered: its catalog ships with the release.
        """
        state = selectors.server(tenant_id, server_id, self.commands)
        if self.workbench is None or state is None or not state.is_enabled:
            return True
        seen, now = state.last_discovered_at, self.clock.now()
        is_older = state.config.transport is Transport.STDIO and seen is not None and seen < self.started_at
        if not is_older and not is_stale(replace(state, last_failed_at=None), now, self.reuse_seconds):
            return True
        try:
            self._look(state.config, self.workbench, DISCOVERY_SECONDS + connect_seconds, connect_seconds)
        except RemoteError as error:
            log.info("mcp warm-up failed server=%s reason=%s", server_id, error.reason_code)
            return error.reason_code in selectors.REFUSED_LOGIN  # each further try would be one more failed login
        except Exception as error:  # noqa: BLE001 - the other servers, and other tenants' servers, are warmed all the same
            log.error("mcp warm-up failed server=%s error=%s", server_id, type(error).__name__)
            return False
        return True

    def _look(
        self, config: ServerConfig, workbench: Workbench, seconds: float, connect_seconds: float | None = None
    ) -> None:
        """Connect, list, record and close; a fixed server is not asked. Raises: RemoteError."""
        if config.mode is CatalogMode.FIXED:
            self._discoveries.record(config, mapping.declared_here(config), None, self.clock.now())
            return
        try:
            catalog, took, at = workbench.run(_discover(config, workbench, connect_seconds, self.clock), seconds)
        except TimeoutError:
            raise ServerUnreachable("discovery took too long", effect="not_applied") from None
        self._discoveries.record(config, catalog, took, at)

    def note_pin(
        self, tenant_id: str, session_id: UUID, pinned: Sequence[ToolSpec], refreshed: Collection[str],
        withheld: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Record `mcp.server.pinned` for each server whose remembered discovery the session took, and
        `mcp.tool.quarantined` for each of which it was not given all.
        """
        quarantine.record_withheld(tenant_id, session_id, withheld)
        live = self._seen_among(tenant_id, refreshed)
        tools = Counter(spec.server_id for spec in pinned if spec.server_id and spec.server_id not in live)
        if tools:
            services.record_pins(tenant_id, session_id, tools)

    def _seen_among(self, tenant_id: str, keys: Collection[str]) -> frozenset[str]:
        """Return which of these servers were seen when they were looked at; the others are pinned as they last were."""
        now, states = self.clock.now(), self._offers.states(tenant_id) if keys else []
        return frozenset(
            state.config.server_id
            for state in states
            if state.config.server_id in keys and not has_failed(state) and not is_stale(state, now, self.reuse_seconds)
        )

    def inspect(self, tenant_id: str, key: str) -> None:
        """Do the check with this id, where a person asked for it. Raises nothing of its own."""
        if self.workbench is not None:
            checking.perform(
                tenant_id, UUID(key), self.workbench.look, commands=self.commands, clock=self.clock,
                ceiling=self.output_ceiling_bytes,
            )  # fmt: skip

    def bind(self, tenant_id: str, pinned: ToolSpec, authz_epoch: int, session_id: UUID) -> McpTool:
        """Return the pinned tool under the live classification and configuration.

        Whatever changes either raises the epoch, so both are kept under it.

        Raises: NotAvailable (tool.withdrawn; what ended the server for the session).
        """
        state = self._state(tenant_id, pinned.server_id or "", authz_epoch)
        if state is None or not state.is_enabled:
            raise NotAvailable("tool.withdrawn", "the server is gone or disabled")
        tool = self._pinned_tool(tenant_id, pinned, authz_epoch)
        if tool is None or tool.is_withdrawn or not mapping.is_offered(state.config, tool.remote_name):
            raise NotAvailable("tool.withdrawn", "the server no longer offers it")
        standing = self._standing(tenant_id, session_id, state.config.server_id, authz_epoch)
        if standing.ended_by:
            raise NotAvailable(standing.ended_by, "given up earlier in this session")
        kind = ResourceTool if tool.remote_name == resources.REMOTE_NAME else McpTool
        return kind(
            mapping.live(pinned, state.config, tool.remote_name, tool.declaration_hash, self.request_seconds),
            state.config,
            tool.remote_name,
            tool.declaration_hash,
            self._connections,
            Ladder(self.clock),
            self._discoveries,
            standing,
            self._place(Route(tenant_id, session_id, state.config.server_id)),
        )

    async def read_skill(
        self, skill: OfferedSkill, arguments: Mapping[str, str], spec: ToolSpec, context: ToolExecutionContext
    ) -> ToolResult:
        """Return the text of a server's prompt, on the session's connection. Raises: NotAvailable."""
        reader = PromptReader(
            self.commands, self._connections, Ladder(self.clock), self._discoveries, self.request_seconds
        )
        return await reader.read(skill, arguments, spec, context)

    def _place(self, route: Route) -> Callable[[], str] | None:
        routes = self.workbench.routes if self.workbench else None
        return None if routes is None else lambda: routes.elsewhere(route)

    def _state(self, tenant_id: str, server_id: str, epoch: int) -> ServerState | None:
        key = (tenant_id, server_id, epoch)
        return self._states.get(key) or self._states.put(key, selectors.server(tenant_id, server_id, self.commands))

    @property
    def _connections(self) -> Connections:
        return self.workbench.connections if self.workbench else NoConnections()

    @property
    def _discoveries(self) -> Discoveries:
        return Discoveries(self.clock, self.output_ceiling_bytes)

    def _standing(self, tenant_id: str, session_id: UUID, server_id: str, epoch: int) -> Standing:
        key = (tenant_id, session_id, server_id, epoch)
        found = self._standings.get(key)
        return found or self._standings.put(key, selectors.standing(tenant_id, session_id, server_id))

    def _pinned_tool(self, tenant_id: str, pinned: ToolSpec, epoch: int) -> PinnedTool | None:
        key = (tenant_id, pinned.name, pinned.version, epoch)
        found = self._pinned.get(key)
        if found is None:
            read = selectors.pinned_tool(tenant_id, pinned.server_id or "", pinned.version, pinned.name)
            found = self._pinned.put(key, read)
        return found


async def _discover(
    config: ServerConfig, workbench: Workbench, connect_seconds: float | None, clock: Clock
) -> tuple[Catalog, float, datetime]:  # fmt: skip
    async def look(connection: RemoteServer) -> tuple[Catalog, float, datetime]:
        at = clock.now()
        return await connection.discover(with_prompts=True), connection.connected_in_seconds, at

    return await workbench.connections.visit(
        config, workbench.credentials(config.tenant_id).resolve, look,
        connect_seconds=connect_seconds, patience_seconds=PATIENCE_SECONDS,
    )  # fmt: skip
