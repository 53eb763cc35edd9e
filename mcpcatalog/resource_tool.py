"""The synthetic tool `mcp.<server>.read_resource` as the pipeline sees it.

An MCP tool in everything (connection, login, pin, ladder); only what is sent differs: one `resources/read` of a URI
that the server advertises, or for an empty URI the list itself. Source: TS "What MCP resources and prompts become".
"""

from dataclasses import dataclass

from mcpcatalog import resources
from mcpcatalog.remote import CallResult, RemoteServer
from mcpcatalog.tool import McpTool
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.domain.trust import TrustLevel


@dataclass(frozen=True, slots=True)
class ResourceTool(McpTool):
    async def _result(
        self, connection: RemoteServer, arguments: JsonObject, context: ToolExecutionContext
    ) -> ToolResult:
        """Nothing of a URI is sent before the server's own list permits it."""
        wanted = arguments["uri"]
        if not wanted:
            connection.advertised = await connection.list_resources()
            listing = resources.listing(connection.advertised, context.maximum_output_bytes)
            return await self._rendered(_answer(listing), context)
        uri = await _permitted(connection, wanted)
        if uri is None:
            return _not_advertised()
        answer = await connection.read_resource(uri, context.timeout_seconds, self._meta(context))
        return await self._rendered(answer, context)


def _answer(listing: JsonObject) -> CallResult:
    return CallResult(is_error=False, content=(), structured=listing, effect="applied")


async def _permitted(connection: RemoteServer, wanted: str) -> str | None:
    """Look in the list that this connection has seen; what is not in it may have come since."""
    known = connection.advertised
    found = resources.permitted(known, wanted) if known is not None else None
    if found is None:
        connection.advertised = await connection.list_resources()
        found = resources.permitted(connection.advertised, wanted)
    return found


def _not_advertised() -> ToolResult:
    return ToolResult(ok=False, output_trust=TrustLevel.EXTERNAL_UNTRUSTED, failure=ToolFailure(
        kind=ToolFailureKind.NOT_FOUND, reason_code="tool.not_found", detail="the server does not advertise this URI",
    ))  # fmt: skip
