"""The text of one prompt, read for `skill.load`: an MCP tool in everything but what is sent.

Nothing of a prompt is pinned, so nothing is compared with a pin. Reading is what it is, at the server's risk, and a
control tool can be held for no approval: what would be held is not read. Source: TS "Prompts are skills".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mcpcatalog import selectors
from mcpcatalog.background import written
from mcpcatalog.discoveries import Discoveries
from mcpcatalog.ladder import Ladder
from mcpcatalog.remote import CatalogMode, RemoteServer, ServerConfig
from mcpcatalog.selectors import Commands, ServerState, Standing
from mcpcatalog.tool import Connections, McpTool
from toolsys.builtin.base import failed
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.skills import OfferedSkill
from toolsys.domain.spec import JsonObject, RiskLevel, ToolSpec
from toolsys.ports import NotAvailable


@dataclass(frozen=True, slots=True)
class PromptSkill(McpTool):
    async def read(self, arguments: Mapping[str, str], context: ToolExecutionContext) -> ToolResult:
        """Raises: NotAvailable."""
        await self.prepare(context)
        return await self.execute(dict(arguments), context)

    async def _checked(self, context: ToolExecutionContext) -> RemoteServer:
        """A connection that opens here is listed as any other is: what is seen is remembered, with its event."""
        connection = await self._connection(context)
        await connection.log_in()
        await self.discoveries.declared(self.server, connection)
        return connection

    async def _result(
        self, connection: RemoteServer, arguments: JsonObject, context: ToolExecutionContext
    ) -> ToolResult:
        answer = await connection.get_prompt(self.remote_name, arguments, context.timeout_seconds, self._meta(context))
        return await self._rendered(answer, context)


@dataclass(frozen=True, slots=True)
class PromptReader:
    """What a worker reads prompts with; `request_seconds` bounds one request to any server."""

    commands: Commands
    connections: Connections
    ladder: Ladder
    discoveries: Discoveries
    request_seconds: int

    async def read(
        self, skill: OfferedSkill, arguments: Mapping[str, str], spec: ToolSpec, context: ToolExecutionContext
    ) -> ToolResult:
        """Return the text, on the session's connection and within the server's limits. Raises: NotAvailable."""
        tenant_id, server_id = context.tenant_id, skill.server_id or ""
        state = await written(lambda: selectors.server(tenant_id, server_id, self.commands))
        standing = await written(lambda: selectors.standing(tenant_id, context.session_id, server_id))
        server = _readable(state, standing)
        if not server.required_scopes <= context.principal.scopes:
            return failed(ToolFailureKind.NOT_FOUND, "the principal lacks a scope of the server")
        tool = PromptSkill(
            spec, server, skill.remote_name, "", self.connections, self.ladder, self.discoveries, standing
        )
        bounded = replace(
            context,
            timeout_seconds=min(context.timeout_seconds, server.timeout_seconds, self.request_seconds),
            maximum_output_bytes=min(context.maximum_output_bytes, server.maximum_output_bytes),
        )
        return await tool.read(arguments, bounded)


def _readable(state: ServerState | None, standing: Standing) -> ServerConfig:
    """Raises: NotAvailable."""
    if state is None or not state.is_enabled or state.config.mode is CatalogMode.FIXED:
        raise NotAvailable("tool.withdrawn", "the server is gone, disabled, or of a fixed catalog")
    if standing.ended_by:
        raise NotAvailable(standing.ended_by, "given up earlier in this session")
    if state.config.classification.risk is RiskLevel.HIGH:
        raise NotAvailable("tool.quarantined", "nobody has classified the server below high risk")
    return state.config
