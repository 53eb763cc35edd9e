"""One live connection: an owner task that enters and leaves every SDK context, and calls that other tasks make on it.

anyio's scopes must be left in the task that entered them, so closing is always a request to the owner. One cancel
scope spans the whole life; its deadline is the connect time-out and is lifted once connected. A connection never comes
back: the pool opens another. It implements `remote.RemoteServer` and is used on one loop only.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import mcp_types
from mcp import ClientSession
from mcp.shared.inbound import mcp_param_headers, x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpcatalog import metrics
from mcpcatalog.remote import (
    Advertised,
    AuthExpired,
    CallResult,
    CallSpec,
    Catalog,
    Closing,
    Effect,
    ProtocolViolation,
    RemoteError,
    RequestTimeout,
    ResponseTooLarge,
    ServerConfig,
    ServerUnreachable,
    Transport,
)
from mcpcatalog.sdk import answers, errors, handshake, listing, surfaces
from mcpcatalog.sdk.auth import Login
from mcpcatalog.sdk.notices import Notices
from mcpcatalog.sdk.record import CALL, CallRecord
from mcpcatalog.sdk.scrubbing import scrub_error, scrubbed
from mcpcatalog.sdk.sending import send
from mcpcatalog.sdk.stdio import Child
from mcpcatalog.sdk.wire import TappedDispatcher
from toolsys import spans
from toolsys.departure import MAY_SEND, may_leave

logger = logging.getLogger(__name__)

# The SDK's own clock starts only after its write; this much later ours gives the connection up.
WATCHDOG_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
_CLIENT: Final = mcp_types.Implementation(name="toolsys", version="0.1")

type OpenStreams = Callable[[Child], contextlib.AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `probe` bounds the first of two ways to shake hands, so that the second has time left."""

    connect: float = 10.0
    request: float = 30.0
    idle: float = 900.0
    probe: float = 4.0


class Connection:
    def __init__(
        self,
        config: ServerConfig,
        open_streams: OpenStreams,
        login: Login,
        *,
        timeouts: Timeouts,
        revision_hint: str = "",
        on_list_changed: Callable[[ServerConfig], object] = lambda _config: None,
        on_closed: Callable[[str], object] = lambda _why: None,
    ) -> None:
        self.config = config
        self._open_streams = open_streams
        self._login = login
        self._notices = Notices(partial(on_list_changed, config))
        self._on_closed = on_closed
        self._why: str | None = None
        self._timeouts = timeouts
        self._hint = revision_hint
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._stop = asyncio.Event()
        self._forced: asyncio.Future[None] = self._loop.create_future()
        self._scope = anyio.CancelScope()
        self._record = CallRecord(is_connecting=True)
        self._child = Child()
        self._session: ClientSession | None = None
        self.revision = ""
        self._has_served = False
        self._sent: set[asyncio.Task[dict[str, Any]]] = set()
        self._used_at = self._opened_at = self._loop.time()
        self.is_renewed = False
        self.declared: Mapping[str, str] | None = None
        self.advertised: Advertised | None = None
        self.connected_in_seconds = 0.0
        self._is_retired = self._is_flooded = False
        self._owner: asyncio.Task[None] | None = None

    # -- life

    @property
    def is_alive(self) -> bool:
        return self._session is not None and not self._is_retired and not self._stop.is_set()

    @property
    def has_ended(self) -> bool:
        return self._owner is None or self._owner.done()

    @property
    def is_idle(self) -> bool:
        return not self._sent

    @property
    def used_at(self) -> float:
        return self._used_at

    async def open(self) -> None:
        """Connect. Whoever stops waiting does not stop the handshake; its deadline does.

        Raises: RemoteError.
        """
        if self._owner is None:
            self._owner = self._loop.create_task(self._own(), name=f"mcp {self.config.server_id}")
            self._owner.add_done_callback(self._owner_ended)
        await asyncio.shield(self._ready)

    async def close(self, drain_seconds: float = 0.0, why: str = Closing.RELEASED) -> None:
        """Let calls finish for `drain_seconds`, then leave politely, then not."""
        self._say(why)
        if self._sent and drain_seconds > 0:
            await asyncio.wait(set(self._sent), timeout=drain_seconds)
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS)
            if not self._owner.done():
                self.force_close()
                await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS)

    def retire(self, why: str = "tool.server_unreachable") -> None:
        """Take no new calls, and leave when those in flight have ended. An empty `why`: it is told otherwise."""
        self._say(why)
        self._is_retired = True
        if not self._sent:
            self._stop.set()

    def _say(self, why: str) -> None:
        """The first reason is the cause of those that follow."""
        self._why = why if self._why is None else self._why

    def _give_up(self) -> None:
        self._say("tool.timeout")
        self.force_close()

    def force_close(self) -> None:
        """Give everything up now. Level-triggered: it also ends a farewell request that hangs."""
        self._session = None
        self._stop.set()
        if not self._forced.done():
            self._forced.set_result(None)
        for task in self._sent:
            task.cancel()
        self._child.kill()
        self._scope.cancel()

    def _give_up_flooded(self) -> None:
        if not self._is_flooded:
            self._is_flooded = True
            self.force_close()

    async def _own(self) -> None:
        CALL.set(self._record)
        # A connection may be opened in a call's context and outlives the call: what it says itself asks for no lease.
        MAY_SEND.set(None)
        self._opened_at = self._loop.time()
        with self._scope:
            self._scope.deadline = anyio.current_time() + self._timeouts.connect
            async with self._open_streams(self._child) as (read, write):
                is_pipe = self.config.transport is Transport.STDIO
                dispatcher = TappedDispatcher(
                    read, write, is_pipe=is_pipe, on_closed=self._stream_ended, on_flood=self._give_up_flooded,
                    on_stray=partial(metrics.count_strays, self.config.server_id),
                )  # fmt: skip
                async with ClientSession(
                    dispatcher=dispatcher, client_info=_CLIENT, message_handler=self._on_message,
                    read_timeout_seconds=self._timeouts.request,
                ) as session:  # fmt: skip
                    await handshake.negotiate(
                        session, self._record, self._hint, self._timeouts.probe, self._stop.is_set
                    )
                    self._scope.deadline = float("inf")
                    self._serve(session)
                    await self._wait_until_unused()
                    self._session = None

    def _stream_ended(self) -> None:
        self._say("tool.server_unreachable")
        self._stop.set()

    def _serve(self, session: ClientSession) -> None:
        # What runs in the background from now on reports to nobody.
        CALL.set(None)
        self.revision = session.protocol_version or ""
        self._session = session
        self._has_served = True
        self._used_at = self._loop.time()
        self.connected_in_seconds = self._used_at - self._opened_at
        self._ready.set_result(None)

    async def _wait_until_unused(self) -> None:
        while not self._stop.is_set():
            left = self._used_at + self._timeouts.idle - self._loop.time()
            if left <= 0 and not self._sent:
                self._say(Closing.IDLE)
                return
            with anyio.move_on_after(max(left, 0.05)):
                await self._stop.wait()

    def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        self._session = None
        self._stop.set()
        self._notices.flush()
        error = None if owner.cancelled() else owner.exception()
        if not self._ready.done():
            mapped = errors.of_connect(error, self._record, self.config.auth_scheme)
            self._ready.set_exception(scrub_error(mapped, self._secrets))
            self._ready.exception()  # marks it as looked at: the one who waited may be gone
            return
        if error is not None:
            logger.info("mcp connection ended server=%s error=%s", self.config.server_id, type(error).__name__)
        if self._has_served:
            self._on_closed("tool.server_unreachable" if self._why is None else self._why)

    async def _on_message(self, message: Any) -> None:
        kinds = (mcp_types.ToolListChangedNotification, mcp_types.PromptListChangedNotification)
        if isinstance(message, kinds):
            # Recorded and not applied: the pinned set is this connection's for as long as it lives.
            self._notices.hear()

    @property
    def _is_modern_http(self) -> bool:
        return self.revision in MODERN_PROTOCOL_VERSIONS and self.config.transport is Transport.HTTP

    # -- login

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (*self._login.secrets, *self._child.secrets)

    async def log_in(self) -> None:
        """See to it that the next request has what to log in with, while nothing of it was sent.

        Raises: RemoteError.
        """
        await self._login.headers()

    async def renew_login(self) -> bool:
        """Log in anew; say whether that gave another value. Raises: RemoteError."""
        self.is_renewed = True
        return await self._login.renew()

    def has_logged_in_since(self, refused: AuthExpired) -> bool:
        return refused.login != self._login.changes

    # -- requests

    async def discover(self, *, with_prompts: bool = False) -> Catalog:
        """List the tools, and the prompts where they are wanted. Raises: RemoteError."""
        pages = surfaces.pages(self._listing, mcp_types.ListToolsRequest)
        tools, rejected = await listing.list_tools(pages, checks_headers=self._is_modern_http)
        session = self._session
        if session is None:
            raise ServerUnreachable("the connection ended", effect="not_applied")
        offered = session.server_capabilities
        info = session.server_info
        names = scrubbed([info.name, info.version] if info else ["", ""], self._secrets)
        return Catalog(
            tools, rejected, self.revision, names[0], names[1],
            has_resources=bool(offered and offered.resources), has_prompts=bool(offered and offered.prompts),
            prompts=await surfaces.prompts_of(offered, self._listing) if with_prompts else None,
            is_whole=with_prompts or not (offered and offered.prompts),
        )  # fmt: skip

    async def _listing(self, request: Any) -> dict[str, Any]:
        """Ask for a page. Nothing of a call is sent: what goes wrong here was felt by nobody."""
        try:
            page = await self._request(request, self._timeouts.request, CallRecord())
            surfaces.require_complete(page)
        except RequestTimeout as error:
            raise ServerUnreachable("no list in time", effect="not_applied") from error
        except RemoteError as error:
            error.effect = "not_applied"
            raise
        return page

    async def list_resources(self) -> Advertised:
        """Raises: RemoteError."""
        return await surfaces.list_resources(self._listing)

    async def read_resource(self, uri: str, timeout_seconds: float, meta: Mapping[str, Any]) -> CallResult:
        """Send one resources/read, once. Raises: RemoteError."""
        return await surfaces.read_resource(
            lambda request: self._request(request, timeout_seconds, CallRecord()), uri, meta
        )

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], timeout_seconds: float, meta: Mapping[str, Any]
    ) -> CallResult:
        """Send one prompts/get, once. Raises: RemoteError."""
        return await surfaces.get_prompt(
            lambda request: self._request(request, timeout_seconds, CallRecord()), name, arguments, meta
        )

    async def call(self, spec: CallSpec) -> CallResult:
        """Send one tools/call, once. Raises: RemoteError."""
        headers = dict(spec.headers)
        if self._is_modern_http:
            headers |= mcp_param_headers(x_mcp_header_map(spec.input_schema), spec.arguments)
        params = mcp_types.CallToolRequestParams.model_validate(
            {"name": spec.tool, "arguments": spec.arguments, "_meta": dict(spec.meta) or None}
        )
        request = mcp_types.CallToolRequest(params=params)
        record = CallRecord(headers=headers)
        raw = await self._request(request, spec.timeout_seconds, record)
        return answers.result_of(raw, record.updates)

    async def _request(self, request: Any, seconds: float, record: CallRecord) -> dict[str, Any]:
        begun, outcome = self._loop.time(), metrics.CANCELLED
        with spans.request(self.config.server_id, request.method) as span:
            try:
                answer = await self._exchange(request, seconds, record)
                outcome = metrics.REPORTED_ERROR if answer.get("isError") is True else metrics.SUCCEEDED
                return answer
            except RemoteError as error:
                outcome = error.reason_code
                raise
            finally:
                span.set_attribute("mcp.outcome", outcome)
                metrics.count_strays(self.config.server_id, "answer", record.strays)
                metrics.count_request(self.config.server_id, request.method, outcome, self._loop.time() - begun)

    async def _exchange(self, request: Any, seconds: float, record: CallRecord) -> dict[str, Any]:
        session = self._session
        if session is None or not self.is_alive:
            raise ServerUnreachable("the connection ended", effect="not_applied")
        if not may_leave():
            raise ServerUnreachable("the lease had passed", effect="not_applied")
        task = self._loop.create_task(send(session, request, seconds, record))
        self._sent.add(task)
        task.add_done_callback(self._answered)
        watchdog = self._loop.call_later(seconds + WATCHDOG_SECONDS, self._give_up)
        try:
            # Not awaited directly: neither a cancelled caller nor one whose connection was given up must wait for the
            # SDK's courtesy message.
            ends: set[asyncio.Future[Any]] = {task, self._forced}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            overdue = self._loop.time() >= watchdog.when()
            watchdog.cancel()
        return self._outcome(task, record, overdue)

    def _answered(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._sent.discard(task)
        self._used_at = self._loop.time()
        if self._is_retired:
            self.retire()
        if not task.cancelled():
            task.exception()

    def _outcome(self, task: asyncio.Task[dict[str, Any]], record: CallRecord, overdue: bool) -> dict[str, Any]:
        effect: Effect = "unknown" if record.was_sent else "not_applied"
        if self._is_flooded:
            raise ProtocolViolation("more messages than anybody asked for", effect=effect)
        if not task.done() or task.cancelled():
            kind = RequestTimeout if overdue else ServerUnreachable
            raise errors.with_progress(kind("the connection was given up", effect=effect), record)
        error = task.exception()
        if error is None:
            found: dict[str, Any] = scrubbed(task.result(), self._secrets)
            return found
        mapped = scrub_error(errors.of_call(error, record), self._secrets)
        if self._child.overflowed:
            mapped = ResponseTooLarge("a line without end", effect=effect)
        if record.status == 404 and record.has_session:  # what a 401 means is the ladder's to say
            self.retire()
        raise mapped from error
