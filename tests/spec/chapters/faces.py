"""What runtimes call: the REST API, and the tools served over MCP."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement("mcp.face.tools", "DESIGN §6 mcp", "The MCP face lists the pinned tools, in one stable order."),
    Requirement("mcp.face.call", "DESIGN §6 mcp", "A call of an MCP client is one step with one call, collected once."),
    Requirement("mcp.face.attach", "DESIGN §6 mcp", "The same call while held or uncollected is the same step."),
    Requirement("mcp.face.held", "DESIGN §6 mcp", "A held call is a task for who speaks tasks, else a bounded wait."),
    Requirement("mcp.face.outcomes", "DESIGN §6 mcp", "What did not succeed is an error in the six fields."),
    Requirement("mcp.face.refused", "DESIGN §6 mcp", "A message at fault has a code of the protocol and one of ours."),
    Requirement("mcp.face.tenants", "DESIGN §6 mcp", "A key sees its own sessions, calls and tasks, and no others."),
    Requirement("mcp.face.cancel", "DESIGN §6 mcp", "A cancelled request ends the call that it asked for last."),
    Requirement("mcp.face.sessions", "DESIGN §6 mcp", "Each conversation has an agent session, and a run for a task."),
    Requirement("mcp.face.crash", "DESIGN §6 mcp", "Whoever dies in between, the same call goes on where it stood."),
    Requirement(
        "mcp.face.retention", "DESIGN §6 mcp", "Old calls and silent conversations go, in batches; open ones stay."
    ),
    Requirement("mcp.face.documented", "DESIGN §6 mcp", "What the documentation says to type is answered."),
    Requirement("mcp.face.bounded", "house rules", "A tenant's clients open a bounded number of conversations."),
    Requirement("mcp.face.clients", "DESIGN §6 mcp", "The SDK's own client works over both revisions."),
    Requirement("api.auth", "issue 2", "Without a live key nothing is read or written, and nothing is told."),
    Requirement("api.problems", "issue 2", "Malformed input is a problem body with a stable code, nothing written."),
    Requirement("api.wait", "DESIGN §6", "Prefer: wait answers with the outcome when it comes, else 202."),
    Requirement(
        "api.wait_cap", "DESIGN §6", "Waiting requests of a process are capped; past the cap the answer is 202."
    ),
    Requirement("api.other_tenant", "issue 2", "Another tenant's ids are not found."),
)
