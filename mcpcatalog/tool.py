"""One MCP tool as the pipeline sees it: `prepare` acquires a connection, `execute` sends the call once.

It decides no status and retries nothing: what may happen again after the watermark is the recovery table's. It speaks
to `mcpcatalog.sdk` through the pool that wiring hands in, so importing it never imports the SDK.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from mcpcatalog import results
from mcpcatalog.discoveries import Discoveries
from mcpcatalog.ladder import UNAUTHORIZED, Ladder
from mcpcatalog.remote import (
    AuthExpired,
    AuthFailed,
    AuthUnsupported,
    CallResult,
    CallSpec,
    KeyPlace,
    Look,
    RemoteError,
    RemoteServer,
    ResolveCredential,
    ServerConfig,
    ServerUnreachable,
)
from mcpcatalog.selectors import Standing
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import JsonObject, ToolSpec
from toolsys.ports import NotAvailable

# No standard key exists; the protocol wants a vendor's prefix, and the execution's identifiers are all that is passed.
META_PREFIX: Final = "toolsys.gateway/"
# The part of its time that a call waits for a free connection, so that it can still say that there was none.
PATIENCE: Final = 0.9
_REFUSED: Final = (AuthExpired, AuthFailed, AuthUnsupported)


class Connections(Protocol):
    """What the tool needs of `mcpcatalog.sdk.pool`."""

    async def acquire(
        self,
        config: ServerConfig,
        session: str,
        resolve: ResolveCredential,
        *,
        is_renewed: bool = False,
        patience_seconds: float = 0.0,
        look: Look | None = None,
    ) -> RemoteServer:
        """`is_renewed`: the session has logged in anew, so an older login is not used. `look`: see the pool.

        Raises: RemoteError.
        """


class NoConnections:
    """The web process resolves tools and hands their calls off; it never reaches for a connection."""

    async def acquire(self, *_wanted: object, **_options: object) -> RemoteServer:
        raise ServerUnreachable("this process holds no connections", effect="not_applied")


@dataclass(frozen=True, slots=True)
class McpTool:
    """Implements `ports.Tool`, `ports.Preparable` and `ports.Placed`. `spec` is the pinned one under the live
    classification; `place` says where a call is done that needs what its connection remembers.
    """

    spec: ToolSpec
    server: ServerConfig
    remote_name: str
    declaration_hash: str
    connections: Connections
    ladder: Ladder
    discoveries: Discoveries
    standing: Standing = field(default_factory=Standing)
    place: Callable[[], str] | None = None

    def elsewhere(self) -> str:
        """Return the worker that holds this session's connection, where it is another one; else empty."""
        return self.place() if self.place is not None and self.server.keeps_state else ""

    @property
    def binding(self) -> str:
        return f"{self.server.server_id}:{self.server.fingerprint}"

    async def prepare(self, context: ToolExecutionContext) -> None:
        """Connect, and send nothing of the call. Raises: NotAvailable."""
        try:
            await self._ready(context)
        except _REFUSED as error:
            raise NotAvailable(self._reason_of(error), str(error)[:2_000]) from error
        except RemoteError as error:
            await self.discoveries.forget(self.server, error)
            raise NotAvailable(error.reason_code, str(error)[:2_000]) from error

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        try:
            connection = await self._ready(context)
            try:
                return await self._result(connection, arguments, context)
            except AuthExpired as refused:
                has_renewed = await self.ladder.climb(self.server, context.session_id, connection, refused)
                return results.refused_login(refused, self.spec, has_renewed=has_renewed)
        except RemoteError as error:
            return results.failure_of(error, self.spec.classification)

    async def _result(
        self, connection: RemoteServer, arguments: JsonObject, context: ToolExecutionContext
    ) -> ToolResult:
        """Send what the call is, once. Raises: RemoteError."""
        return await self._rendered(await connection.call(self._call(arguments, context)), context)

    async def _rendered(self, answer: CallResult, context: ToolExecutionContext) -> ToolResult:
        return await results.result_of(
            answer, self.spec.classification, context.artifacts, maximum_output_bytes=context.maximum_output_bytes
        )

    async def _ready(self, context: ToolExecutionContext) -> RemoteServer:
        """As `_checked`. Who refuses our login is given up for the session: dialling again is one more failed login.

        Also where the connection was lost between `prepare` and `execute`. Raises: RemoteError; NotAvailable.
        """
        try:
            return await self._checked(context)
        except _REFUSED as error:
            await self.ladder.end(self.server, context.session_id, self._reason_of(error))
            raise

    def _reason_of(self, refused: RemoteError) -> str:
        return UNAUTHORIZED if self.standing.is_renewed else refused.reason_code

    async def _checked(self, context: ToolExecutionContext) -> RemoteServer:
        """Return a connection that may carry the call: logged in, and still offering what the session pinned.

        Raises: RemoteError; NotAvailable (tool.withdrawn).
        """
        connection = await self._connection(context)
        await connection.log_in()
        declared = await self.discoveries.declared(self.server, connection)
        if declared.get(self.remote_name) != self.declaration_hash:
            raise NotAvailable("tool.withdrawn", "the server no longer declares what this session pinned")
        return connection

    async def _connection(self, context: ToolExecutionContext) -> RemoteServer:
        return await self.connections.acquire(
            self.server, str(context.session_id), context.credentials.resolve, is_renewed=self.standing.is_renewed,
            patience_seconds=context.timeout_seconds * PATIENCE, look=partial(self.discoveries.declared, self.server),
        )  # fmt: skip

    def _call(self, arguments: JsonObject, context: ToolExecutionContext) -> CallSpec:
        meta = self._meta(context)
        sent, headers = self._with_key(arguments, meta, context.idempotency_key)
        return CallSpec(
            self.remote_name, sent, context.timeout_seconds, input_schema=self.spec.input_schema, meta=meta,
            headers=headers,
        )  # fmt: skip

    def _meta(self, context: ToolExecutionContext) -> dict[str, Any]:
        return {META_PREFIX + "invocation-id": str(context.invocation_id)}

    def _with_key(self, arguments: JsonObject, meta: dict[str, Any], key: str) -> tuple[JsonObject, Mapping[str, str]]:
        """Put the application's key where the operator said that this server takes it."""
        place, name = self.server.key_place, self.server.key_name
        if place is KeyPlace.ARGUMENT:
            return {**arguments, name: key}, {}
        if place is KeyPlace.META:
            meta[name] = key
        return arguments, {name: key} if place is KeyPlace.HEADER else {}
