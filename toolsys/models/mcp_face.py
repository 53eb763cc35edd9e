"""What the MCP face remembers: whose conversation a request belongs to, and which of its calls is which step."""

from django.db import models

from toolsys.models.base import TenantOwned, tenant_key


class McpClientSession(TenantOwned):
    """One conversation of an MCP client: a key's agent session, and the run that its calls go into now.

    `context` tells the stateless conversations of a key apart; null where a handshake began it, and the row's id is
    then its Mcp-Session-Id. Written by `toolsys.conversations` only; deleted by retention (`toolsys.forgetting`), after
    its calls. Holds no personal data.
    """

    api_key = tenant_key("toolsys.ApiKey")
    session = tenant_key("toolsys.AgentSession")
    run = tenant_key("toolsys.Run")
    revision = models.TextField()
    context = models.TextField(null=True)
    next_step = models.IntegerField(default=1)
    last_call_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "mcp_client_sessions"
        verbose_name = "MCP conversation"
        constraints = [
            # Two first requests at once are one conversation.
            models.UniqueConstraint(
                fields=["tenant", "api_key", "context"], condition=models.Q(closed_at=None),
                name="mcp_context_is_unique",
            ),
        ]  # fmt: skip
        indexes = [
            # Retention asks for the most silent of all tenants; the bound counts those of one that are open.
            models.Index(fields=["last_call_at"], name="mcp_conversation_by_age"),
            models.Index(
                fields=["tenant", "last_call_at"], condition=models.Q(closed_at=None), name="mcp_conversation_is_open"
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class McpProposal(TenantOwned):
    """Which step of which run a client's call became, so that the same call again is the same step.

    `fingerprint` is over name and arguments, `client_key` is the caller's own name for the call, `request_id` the
    JSON-RPC id that asked last. `collected_at` is set while the outcome goes out. Written by `toolsys.conversations`;
    deleted by retention (`toolsys.forgetting`) once the call is over.
    """

    client_session = tenant_key("toolsys.McpClientSession")
    run = tenant_key("toolsys.Run")
    step_number = models.IntegerField()
    fingerprint = models.TextField()
    request_id = models.TextField(blank=True)
    client_key = models.TextField(null=True)
    collected_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "mcp_proposals"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "run", "step_number"], name="mcp_step_is_unique"),
            models.UniqueConstraint(fields=["tenant", "client_session", "client_key"], name="mcp_key_is_unique"),
        ]
        indexes = [
            # What the same call attaches to; few are uncollected at a time.
            models.Index(
                fields=["tenant", "client_session", "fingerprint"], condition=models.Q(collected_at=None),
                name="mcp_call_is_uncollected",
            ),
            # What a retry of the same request, or its cancellation, names.
            models.Index(
                fields=["tenant", "client_session", "request_id"], condition=~models.Q(request_id=""),
                name="mcp_call_by_request",
            ),
            # Retention asks for the oldest of all tenants.
            models.Index(fields=["created_at"], name="mcp_call_by_age"),
        ]  # fmt: skip
