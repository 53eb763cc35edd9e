"""The SDK's JSON-RPC engine with four taps: raw results, extra headers, no baggage, and the end of the stream.

The session validates a result against the negotiated revision and drops what it does not know; the record keeps what
arrived. The session tells nobody about end of file; `on_closed` does. Only `mcpcatalog.sdk` imports it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from opentelemetry import baggage, context

from mcpcatalog.sdk.record import CALL


class TappedDispatcher(JSONRPCDispatcher[TransportContext]):
    def __init__(self, read: Any, write: Any, *, on_closed: Callable[[], None]) -> None:
        super().__init__(read, write)
        self._on_closed = on_closed

    async def run(self, *arguments: Any, **options: Any) -> None:
        try:
            await super().run(*arguments, **options)
        finally:
            self._on_closed()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **internal: Any
    ) -> dict[str, Any]:
        record = CALL.get()
        options: CallOptions = {**(opts or {})}
        if record is not None and record.headers:
            options["headers"] = {**options.get("headers", {}), **record.headers}
        # The SDK adds the ambient trace context; what travels with it for others (baggage) is not a server's business.
        token = context.attach(baggage.clear())
        try:
            raw = await super().send_raw_request(method, params, options, **internal)
        finally:
            context.detach(token)
        if record is not None:
            record.raw = raw
        return raw
