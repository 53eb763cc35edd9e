"""Both ways of beginning to talk: the discovery of the stateless revision, and the handshake of those before it.

The way that worked last is tried first, within a part of the connect time-out, so that the other has time left. Only
`mcpcatalog.sdk` imports it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import ClientSession, MCPError
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcpcatalog.sdk.record import CallRecord

type Way = Callable[[], Awaitable[Any]]


async def negotiate(
    session: ClientSession, record: CallRecord, hint: str, probe_seconds: float, is_stopping: Callable[[], bool]
) -> None:
    """Try both eras, that of the revision `hint` first. Raises: whatever the last try raised."""
    ways: list[Way] = [session.discover, session.initialize]
    if hint and hint not in MODERN_PROTOCOL_VERSIONS:
        ways.reverse()
    try:
        with anyio.fail_after(probe_seconds):
            await ways[0]()
    except (MCPError, TimeoutError, ValidationError, RuntimeError) as error:
        # Only an answer says something about the era: not a broken network, and not a refused login.
        if record.failure is not None or record.status in {401, 403} or is_stopping():
            raise
        record.begin_attempt()
        await _second_try(*ways, record=record, was_silent=isinstance(error, TimeoutError))


async def _second_try(first: Way, second: Way, *, record: CallRecord, was_silent: bool) -> None:
    """Shake hands the other way. A server that says it speaks the first was only slow to start; so was one that did
    not answer the first and refuses the second, whatever it calls that.
    """
    try:
        await second()
    except MCPError as error:
        is_refused = was_silent and record.failure is None and record.status not in {401, 403}
        if error.code != UNSUPPORTED_PROTOCOL_VERSION and not is_refused:
            raise
        record.begin_attempt()
        await first()
