"""The ladder of a refused login: one re-authentication for each server and session, then the server is given up.

Only the re-authentication happens here. Whether the call may be sent again is the recovery table's to say
(`toolsys.attempts`), and a later attempt is what sends it. What was spent is in the database, so that another worker
does not start anew. Source: TS "A 401 mid-session runs a bounded ladder".
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mcpcatalog import services
from mcpcatalog.background import written
from mcpcatalog.remote import AuthExpired, RemoteError, RemoteServer, ServerConfig
from toolsys.ports import Clock

UNAUTHORIZED: Final = "tool.server_unauthorized"


@dataclass(frozen=True, slots=True)
class Ladder:
    clock: Clock

    async def climb(
        self, server: ServerConfig, session_id: UUID, connection: RemoteServer, refused: AuthExpired
    ) -> bool:
        """Log in anew, once in a session. Return whether that gave another value to try; else the server ends.

        Where several calls were under way when their login ended, one of them logs in, and the others have its value
        to try: what was refused is compared with what they carried, not with what is held by now.
        """
        now = self.clock.now()
        if await written(lambda: services.begin_reauthentication(server, session_id, at=now)):
            outcome = "renewed" if connection.has_logged_in_since(refused) else await _renewed(connection)
            await written(lambda: services.record_reauthentication(server, session_id, outcome))
            if outcome == "renewed":
                return True
        elif connection.has_logged_in_since(refused) or await _caught_up(connection):
            return True
        connection.retire("")  # `end` tells it, once for all of the session's connections
        await self.end(server, session_id, UNAUTHORIZED)
        return False

    async def end(self, server: ServerConfig, session_id: UUID, reason_code: str) -> None:
        """Give the server up for the rest of the session: nobody dials it for this session again."""
        now = self.clock.now()
        await written(lambda: services.end_server(server, session_id, reason_code, at=now))


async def _caught_up(connection: RemoteServer) -> bool:
    """The session logged in anew elsewhere while this connection's call was under way: once, it does so as well."""
    return not connection.is_renewed and await _renewed(connection) == "renewed"


async def _renewed(connection: RemoteServer) -> str:
    """A value that is byte-identical to the refused one is not worth a round trip."""
    try:
        return "renewed" if await connection.renew_login() else "unchanged"
    except RemoteError as error:
        return error.reason_code
