"""The SDK's JSON-RPC engine with taps: raw results, extra headers, no baggage, floods, and the end of the stream.

The session validates a result against the negotiated revision and drops what it does not know; the record keeps what
arrived. The session tells nobody about end of file; `on_closed` does. It starts a task for every message that nobody
asked for, without a bound; here there is one. Only `mcpcatalog.sdk` imports it.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import JSONRPCNotification, JSONRPCRequest
from opentelemetry import baggage, context

from mcpcatalog.sdk.messages import Identifier
from mcpcatalog.sdk.record import CALL, CallRecord

# In one call, or in a minute of a connection that waits for nothing.
MAXIMUM_STRAYS: Final = 1_000
# Each is answered, over HTTP with a request of its own.
MAXIMUM_ASKED: Final = 50
MAXIMUM_STRAY_BYTES: Final = 1_000_000
STRAY_SECONDS: Final = 60.0
_KINDS: Final = {"notifications/message": "log"}
_TOLD: Final = frozenset({
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
})  # fmt: skip


class TappedDispatcher(JSONRPCDispatcher[TransportContext]):
    """`on_stray` is told the kind of each message that nobody asked for. `on_flood` is called once, when there are too
    many; what else the server says is not looked at then.
    """

    def __init__(
        self, read: Any, write: Any, *, is_pipe: bool, on_closed: Callable[[], None], on_flood: Callable[[], None],
        on_stray: Callable[[str], None],
    ) -> None:  # fmt: skip
        super().__init__(read, write)
        self._is_pipe = is_pipe
        self._on_closed = on_closed
        self._on_flood = on_flood
        self._on_stray = on_stray
        self._requests = 0
        self._answered: set[Identifier] = set()
        self._begin_count()

    async def run(self, *arguments: Any, **options: Any) -> None:
        try:
            await super().run(*arguments, **options)
        finally:
            self._on_closed()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **internal: Any
    ) -> dict[str, Any]:
        record = CALL.get()
        self._requests += 1
        options: CallOptions = {**(opts or {}), "request_id": self._requests}
        if record is not None and record.headers:
            options["headers"] = {**options.get("headers", {}), **record.headers}
        # The SDK adds the ambient trace context; what travels with it for others (baggage) is not a server's business.
        token = context.attach(baggage.clear())
        if record is not None:
            record.identifier = self._requests
        try:
            raw = await super().send_raw_request(method, params, options, **internal)
        finally:
            context.detach(token)
            self._note_end(record, options["request_id"])
        if record is not None:
            record.raw = raw
        return raw

    def _note_end(self, record: CallRecord | None, identifier: Identifier) -> None:
        """What came over a pipe is what the server wrote; over HTTP only the transport knows that."""
        was_answered = identifier in self._answered
        self._answered.discard(identifier)
        if record is not None:
            record.identifier = None
            record.has_answer |= was_answered and self._is_pipe

    def _resolve_pending(self, request_id: Identifier | None, outcome: Any) -> None:
        if request_id in self._pending:
            self._answered.add(request_id)
            self._begin_count()
        else:
            self._on_stray("answer")
        super()._resolve_pending(request_id, outcome)

    async def _dispatch(self, item: Any, *rest: Any) -> None:
        if not self._is_flooded(item):
            await super()._dispatch(item, *rest)

    def _is_flooded(self, item: Any) -> bool:
        message = getattr(item, "message", None)
        if not isinstance(message, JSONRPCNotification | JSONRPCRequest):
            return False
        if time.monotonic() - self._counted_since > STRAY_SECONDS and not self._pending:
            self._begin_count()
        kind = self._kind_of_stray(message)
        if kind:
            self._on_stray(kind)
        self._strays += 1
        self._asked += isinstance(message, JSONRPCRequest)
        self._stray_bytes += len(message.model_dump_json())
        if self._strays <= MAXIMUM_STRAYS and self._asked <= MAXIMUM_ASKED and self._stray_bytes <= MAXIMUM_STRAY_BYTES:
            return False
        self._on_flood()
        return True

    def _kind_of_stray(self, message: JSONRPCNotification | JSONRPCRequest) -> str:
        """Return what nobody asked for, as a label; empty for how far a call is, and for what a server may tell."""
        if isinstance(message, JSONRPCRequest):
            return "request"
        if message.method == "notifications/progress":
            return "" if (message.params or {}).get("progressToken") in self._pending else "progress"
        return "" if message.method in _TOLD else _KINDS.get(message.method, "notification")

    def _begin_count(self) -> None:
        self._strays = self._asked = self._stray_bytes = 0
        self._counted_since = time.monotonic()
