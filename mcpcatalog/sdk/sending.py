"""One request on a session: sent once, with the record that its wire reports to, and its raw answer.

Only `mcpcatalog.sdk` imports it.
"""

from typing import Any, Final

import mcp_types
from mcp import ClientSession
from pydantic import TypeAdapter, ValidationError

from mcpcatalog.sdk.record import CALL, CallRecord

_RAW: Final = TypeAdapter(dict[str, Any])


async def send(session: ClientSession, request: Any, seconds: float, record: CallRecord) -> dict[str, Any]:
    CALL.set(record)
    try:
        # The SDK annotates the adapter's type as a model and only calls `validate_python` on it.
        adapter: TypeAdapter[Any] = _RAW
        wants_progress = isinstance(request, mcp_types.CallToolRequest)
        return await session.send_request(  # type: ignore[no-any-return]
            request, adapter, request_read_timeout_seconds=seconds,
            progress_callback=record.note_progress if wants_progress else None,
        )  # fmt: skip
    except ValidationError:
        # It answered, so something may have happened: keep what arrived rather than lose the page or the result.
        if record.raw is None:
            raise
        return record.raw
