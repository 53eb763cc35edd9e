"""The ladder of a refused login: one re-authentication for each server and session, then the server is given up.

Only the re-authentication happens here. Whether the call may be sent again is the recovery table's to say
(`toolsys.attempts`), and a later attempt is what sends it. What was spent is in the database, so that another worker
does not start anew. Source: TS "A 401 mid-session runs a bounded ladder".
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mcpcatalog import services
from mcpcatalog.remote import RemoteError, RemoteServer, ServerConfig
from toolsys import database
from toolsys.ports import Clock

UNAUTHORIZED: Final = "tool.server_unauthorized"


@dataclass(frozen=True, slots=True)
class Ladder:
    clock: Clock

    async def climb(self, server: ServerConfig, session_id: UUID, connection: RemoteServer) -> bool:
        """Log in anew, once in a session. Return whether that gave another value to try; else the server ends."""
        now = self.clock.now()
        if await _written(lambda: services.begin_reauthentication(server, session_id, at=now)):
            outcome = await _renewed(connection)
            await _written(lambda: services.record_reauthentication(server, session_id, outcome))
            if outcome == "renewed":
                return True
        connection.retire()
        await self.end(server, session_id, UNAUTHORIZED)
        return False

    async def end(self, server: ServerConfig, session_id: UUID, reason_code: str) -> None:
        """Give the server up for the rest of the session: nobody dials it for this session again."""
        now = self.clock.now()
        await _written(lambda: services.end_server(server, session_id, reason_code, at=now))


async def _renewed(connection: RemoteServer) -> str:
    """A value that is byte-identical to the refused one is not worth a round trip."""
    try:
        return "renewed" if await connection.renew_login() else "unchanged"
    except RemoteError as error:
        return error.reason_code


async def _written[T](write: Callable[[], T]) -> T:
    """Write off the event loop, and hold no connection afterwards."""

    def go() -> T:
        try:
            return write()
        finally:
            database.release_connection()

    return await asyncio.to_thread(go)
