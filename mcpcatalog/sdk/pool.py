"""The open connections of one worker process: found by key, opened within bounds, closed with it.

A key is tenant, server, configuration fingerprint and agent session; a server that an operator marked stateless shares
one connection among sessions. An unused one closes itself. What opens a connection also lists it, within one hold of
`slots`; whoever only wants to look at a server visits it. Lives on one event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from mcpcatalog import metrics
from mcpcatalog.remote import (
    AuthScheme,
    AuthUnsupported,
    Closing,
    DestinationRefused,
    Look,
    OutOfConnections,
    ProtocolViolation,
    RemoteError,
    ResolveCredential,
    ServerBusy,
    ServerConfig,
    Transport,
)
from mcpcatalog.sdk.auth import Anonymous, Login, Resolved, child_environment
from mcpcatalog.sdk.connection import CLOSE_SECONDS, Connection, OpenStreams, Timeouts
from mcpcatalog.sdk.http import http_streams
from mcpcatalog.sdk.slots import Slots, in_time
from mcpcatalog.sdk.stdio import Child, stdio_streams
from mcpcatalog.sdk.tokens import ClientCredentials
from toolsys.departure import MAY_SEND
from toolsys.egress import EgressCounts, EgressPolicy, PinnedTransport, Watch
from toolsys.kept import Kept

# How often a call that waits for room looks again.
ROOM_SECONDS: Final = 0.05
REVISIONS_KEPT: Final = 4_096
# Stands for the session of a connection that no session has.
VISIT: Final = "visit"


class Key(NamedTuple):
    tenant_id: str
    server_id: str
    fingerprint: str
    session: str


@dataclass(frozen=True, slots=True)
class PoolLimits:
    preparations: int = 8
    preparations_per_tenant: int = 4
    process_starts: int = 2
    connections: int = 256
    processes: int = 32
    message_bytes: int = 4 * 1024 * 1024


class NotClosed(Exception):
    """Connections outlived their forced close; the message names their servers."""

    def __init__(self, servers: Sequence[str]) -> None:
        super().__init__(f"connections to {', '.join(servers)} did not end")


class ConnectionPool:
    """`policy_for` gives the egress policy under which a server is dialled."""

    def __init__(
        self,
        policy_for: Callable[[ServerConfig], EgressPolicy],
        *,
        timeouts: Timeouts | None = None,
        limits: PoolLimits | None = None,
        counts: EgressCounts | None = None,
        on_list_changed: Callable[[ServerConfig], object] = lambda _config: None,
        on_closed: Callable[[ServerConfig, str, str], object] = lambda _config, _session, _why: None,
        watch: Watch | None = None,
        slots: Slots | None = None,
    ) -> None:
        self._policy_for = policy_for
        self._watch = watch
        self._counts = counts
        self._on_list_changed = on_list_changed
        self._on_closed = on_closed
        self._timeouts = timeouts or Timeouts()
        self._limits = limits or PoolLimits()
        limits = self._limits
        self.slots = slots or Slots(limits.preparations, limits.preparations_per_tenant, limits.process_starts)
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, asyncio.Task[Connection]] = {}
        self._visiting: set[asyncio.Task[Any]] = set()
        self._dialling: list[Transport] = []
        self._leaving: dict[asyncio.Task[None], Connection] = {}
        self._outliving: list[Connection] = []
        self._revisions: Kept[str] = Kept(REVISIONS_KEPT)
        # One token exchange at a time for each server, however many sessions ask.
        self._exchanges: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._is_closed = False

    async def acquire(
        self,
        config: ServerConfig,
        session: str,
        resolve: ResolveCredential,
        *,
        is_renewed: bool = False,
        patience_seconds: float = 0.0,
        look: Look | None = None,
    ) -> Connection:
        """Return the live connection of this key, opening it where there is none. Sends nothing of a call.

        `patience_seconds` is how long to wait where every connection of this worker is in use. `look` learns what is
        declared on a connection before anybody has it, within the hold that it is opened in. Raises: RemoteError.
        """
        _require_permitted(config)
        key = Key(config.tenant_id, config.server_id, config.fingerprint, "" if config.is_stateless else session)
        found = self._open.get(key)
        if found is not None and found.is_alive:
            if is_renewed and not found.is_renewed:
                await found.renew_login()  # the session did so on another worker
            if look is not None and found.declared is None:
                async with self.slots.preparing(config.tenant_id, config.transport, is_open=True):
                    await in_time(look(found))
            return found
        self._require_running()
        opening = self._opening.get(key)
        if opening is None:
            prepared = self._preparing(key, config, resolve, self._timeouts, patience_seconds)
            opening = asyncio.create_task(_connected(prepared, look), name=f"mcp connect {config.server_id}")
            self._opening[key] = opening
            opening.add_done_callback(lambda task: self._opened(key, task))
        # Whoever stops waiting leaves the preparation to the others; its own deadlines bound it.
        connection = await asyncio.shield(opening)
        connection.is_renewed |= is_renewed
        return connection

    async def visit[T](
        self,
        config: ServerConfig,
        resolve: ResolveCredential,
        look: Callable[[Connection], Awaitable[T]],
        *,
        connect_seconds: float | None = None,
        patience_seconds: float = 0.0,
    ) -> T:
        """Open a connection that nobody else has, look at the server in the same hold, and leave.

        Whoever stops waiting stops it all. `connect_seconds` is for who has more patience with the server than the
        time-out; `patience_seconds` are for room and for a slot each, before it is asked at all. Raises: RemoteError.
        """
        _require_permitted(config)
        self._require_running()
        key = Key(config.tenant_id, config.server_id, config.fingerprint, VISIT)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._visiting.add(task)
        timeouts = self._timeouts
        if connect_seconds is not None:
            timeouts = replace(timeouts, connect=connect_seconds, probe=connect_seconds / 2)
        try:
            async with self._preparing(
                key, config, resolve, timeouts, patience_seconds, patience_seconds
            ) as connection:  # fmt: skip
                found = await in_time(look(connection))
            self._leave(connection, "")
            return found
        finally:
            self._visiting.discard(task)

    @asynccontextmanager
    async def _preparing(
        self,
        key: Key,
        config: ServerConfig,
        resolve: ResolveCredential,
        timeouts: Timeouts,
        patience_seconds: float,
        slot_seconds: float | None = None,
    ) -> AsyncIterator[Connection]:
        """Open a connection, and hold its slot while it is looked at; what fails meanwhile costs the connection."""
        self._retire_older(key)
        await self._wait_for_room(config.transport, patience_seconds)
        slot = self.slots.preparing(config.tenant_id, config.transport, patience_seconds=slot_seconds)
        with self._dialled(config.transport):
            async with slot as has_started:
                connection = self._new(key, config, resolve, timeouts)
                try:
                    await self._open_counted(connection)
                    self._revisions.put(key[:3], connection.revision)
                    await has_started()
                    yield connection
                except asyncio.CancelledError:  # of a visit, or by `close_all`
                    connection.force_close()
                    self._leave(connection, Closing.STOPPED)
                    raise
                except Exception:
                    self._leave(connection, "")  # whoever wanted it says why
                    raise

    def _new(self, key: Key, config: ServerConfig, resolve: ResolveCredential, timeouts: Timeouts) -> Connection:
        login = self._login(config, resolve)
        return Connection(
            config,
            self._opener(config, resolve, login),
            login,
            timeouts=timeouts,
            revision_hint=self._revisions.get(key[:3]) or config.negotiated_revision,
            on_list_changed=self._on_list_changed,
            on_closed=lambda why: self._closed(config, key.session, why),
        )

    async def _open_counted(self, connection: Connection) -> None:
        """Raises: RemoteError."""
        server, transport = metrics.server_label(connection.config.server_id), connection.config.transport
        try:
            await connection.open()
        except Exception as failure:
            reason_code = failure.reason_code if isinstance(failure, RemoteError) else "tool.internal"
            metrics.CONNECT_FAILURES.labels(server, reason_code).inc()
            raise
        metrics.CONNECTS.labels(server, transport).inc()
        metrics.CONNECTIONS.labels(transport).inc()

    def _require_running(self) -> None:
        if self._is_closed:
            raise OutOfConnections("this worker is stopping", effect="not_applied")

    @contextmanager
    def _dialled(self, transport: Transport) -> Iterator[None]:
        """Count what is being opened among what is open."""
        self._dialling.append(transport)
        try:
            yield
        finally:
            self._dialling.remove(transport)

    def _opened(self, key: Key, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        connection = task.result()
        if self._is_closed:
            connection.force_close()
        self._open[key] = connection

    def _closed(self, config: ServerConfig, session: str, why: str) -> None:
        metrics.CONNECTIONS.labels(config.transport).dec()
        if why:
            metrics.DISCONNECTS.labels(metrics.server_label(config.server_id), why).inc()
            # A connection that was opened to look at a server is closed by whoever opened it: nothing has ended.
            if session != VISIT:
                self._on_closed(config, session, why)

    def _login(self, config: ServerConfig, resolve: ResolveCredential) -> Login:
        if config.auth_scheme is AuthScheme.OAUTH2_CLIENT:
            lock = self._exchanges.setdefault((config.tenant_id, config.server_id), asyncio.Lock())
            return ClientCredentials(config, resolve, self._policy_for(config), lock, counts=self._counts)
        is_named = config.auth_scheme in {AuthScheme.BEARER, AuthScheme.HEADER}
        return Resolved(config, resolve) if is_named else Anonymous()

    def _opener(self, config: ServerConfig, resolve: ResolveCredential, login: Login) -> OpenStreams:
        if config.transport is Transport.STDIO:
            return lambda child: self._stdio(config, resolve, child)
        return lambda _child: self._http(config, login)

    @asynccontextmanager
    async def _stdio(self, config: ServerConfig, resolve: ResolveCredential, child: Child) -> Any:
        if config.command is None:
            raise ProtocolViolation(f"this deployment defines no stdio server {config.endpoint!r}")
        credential = await child_environment(config, resolve)
        child.secrets = tuple(credential.values())
        declared = {**config.command.environment, **credential}
        streams = stdio_streams(config.command.argv, declared, child, maximum_bytes=self._limits.message_bytes)
        async with streams as pair:
            yield pair

    @asynccontextmanager
    async def _http(self, config: ServerConfig, login: Login) -> Any:
        if config.auth_scheme is AuthScheme.ENV:
            raise AuthUnsupported("the scheme env is not available over http", effect="not_applied")
        await login.headers()  # without a login nobody is dialled
        inner = PinnedTransport(
            self._policy_for(config), maximum_bytes=self._limits.message_bytes, counts=self._counts, watch=self._watch
        )
        streams: AbstractAsyncContextManager[Any] = http_streams(
            config.endpoint, inner, login,
            maximum_bytes=self._limits.message_bytes, idle_seconds=self._timeouts.idle,
        )  # fmt: skip
        async with streams as pair:
            yield pair

    def _retire_older(self, key: Key) -> None:
        """Let go of what the same session holds to an earlier configuration of this server, and of the dead."""
        for other, connection in list(self._open.items()):
            same = (other.tenant_id, other.server_id, other.session) == (key.tenant_id, key.server_id, key.session)
            if not connection.is_alive or (same and other.fingerprint != key.fingerprint):
                self._let_go(other, connection, Closing.REPLACED)

    async def _wait_for_room(self, transport: Transport, patience_seconds: float) -> None:
        """Raises: ServerBusy where every connection stays in use."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_seconds
        while not self._has_room(transport):
            if loop.time() >= until:
                raise ServerBusy("every connection of this worker is in use", effect="not_applied")
            await asyncio.sleep(ROOM_SECONDS)

    def _has_room(self, transport: Transport) -> bool:
        """Close the connection that was unused for longest, where the worker holds or opens as many as it may."""
        counted = [
            (connection.used_at, key)
            for key, connection in self._open.items()
            if transport is Transport.HTTP or connection.config.transport is Transport.STDIO
        ]
        limit = self._limits.processes if transport is Transport.STDIO else self._limits.connections
        dialled = sum(transport is Transport.HTTP or each is Transport.STDIO for each in self._dialling)
        if len(counted) + dialled < limit:
            return True
        idle = next((key for _, key in sorted(counted) if self._open[key].is_idle), None)
        if idle is None:
            return False
        self._let_go(idle, self._open[idle], Closing.EVICTED)
        return True

    def _let_go(self, key: Key, connection: Connection, why: str = Closing.RELEASED) -> None:
        del self._open[key]
        self._leave(connection, why)

    def _leave(self, connection: Connection, why: str) -> None:
        task = asyncio.create_task(connection.close(self._timeouts.request, why))
        self._leaving[task] = connection
        task.add_done_callback(self._leaving.pop)

    def sessions(self) -> list[tuple[str, str]]:
        """Return tenant and session of each connection that belongs to one. From any thread."""
        return [(key.tenant_id, key.session) for key in list(self._open) if key.session]

    async def close_session(self, session: str, server_id: str = "", *, is_resting: bool = False) -> None:
        """Release what a session holds (to one server), as at the end of its run; its next call connects again.

        `is_resting`: only what remembers nothing between calls and carries none now.
        """
        for key, connection in list(self._open.items()):
            is_kept = is_resting and (_remembers(connection) or not connection.is_idle)
            if session and key.session == session and server_id in {"", key.server_id} and not is_kept:
                self._let_go(key, connection)

    async def close_all(self, *, drain_seconds: float = 5.0) -> None:
        """Refuse new connections, let calls finish, then leave every server; whatever is left is forced.

        So is what was being let go of already: its calls have no more time than those of the others (TS "Runtime
        shutdown"). Raises: NotClosed, for what outlives even that; another call tries those again.
        """
        self._is_closed = True
        opening = [*self._opening.values(), *self._visiting]
        for each in opening:
            each.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        held = [*self._open.values(), *self._outliving]
        self._open.clear()
        await asyncio.gather(*(connection.close(drain_seconds, Closing.STOPPED) for connection in held))
        leaving = dict(self._leaving)
        if leaving:
            _, left = await asyncio.wait(leaving, timeout=drain_seconds)
            for task in left:
                leaving[task].force_close()
            if left:
                await asyncio.wait(left, timeout=CLOSE_SECONDS)
        self._outliving = [each for each in {*held, *leaving.values()} if not each.has_ended]
        if self._outliving:
            raise NotClosed(sorted({each.config.server_id for each in self._outliving}))


def _remembers(connection: Connection) -> bool:
    """Say whether the server may know of it what the next one would lack; its own revision counts."""
    return replace(connection.config, negotiated_revision=connection.revision).keeps_state


async def _connected(prepared: AbstractAsyncContextManager[Connection], look: Look | None) -> Connection:
    MAY_SEND.set(None)  # what is sent here is not of the call in whose context it begins
    async with prepared as connection:
        if look is not None:
            await in_time(look(connection))
    return connection


def _require_permitted(config: ServerConfig) -> None:
    if not config.is_permitted:
        raise DestinationRefused("not where the tenant's servers may be", effect="not_applied")
