"""Agents, their sessions (what was advertised), runs, and the steps of a run."""

from django.db import models

from toolsys.domain.states import RunStatus
from toolsys.domain.trust import TrustLevel
from toolsys.models.base import CallRecord, TenantOwned, tenant_key


class Agent(TenantOwned):
    """A tenant's configuration of one kind of agent: which tools it may see. Written by tenant admins."""

    name = models.TextField()
    enabled_tools = models.JSONField(
        default=list, blank=True, help_text="Globs over tool names, such as system.* or mcp.time.*"
    )
    profile = models.TextField(default="default")
    is_enabled = models.BooleanField(default=True)

    class Meta:
        db_table = "agents"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="agent_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class ToolSet(TenantOwned):
    """One set of tools that was advertised, addressed by the hash of its canonical form; sessions share it.

    `tools` maps a name to its spec. Written when a session is opened; append-only.
    """

    sha256 = models.TextField()
    tools = models.JSONField()

    class Meta:
        db_table = "tool_sets"
        constraints = [models.UniqueConstraint(fields=["tenant", "sha256"], name="tool_set_is_unique")]

    def __str__(self) -> str:
        return self.sha256[:12]


class AgentSession(TenantOwned):
    """The pin: what was advertised to a model, byte for byte. Written when opened; never changed but to close.

    `tool_schema_sha256` addresses the set that `tool_set` holds. `withheld_tools` says what was held back when it was
    opened, as name and reason code.
    """

    agent = tenant_key("toolsys.Agent")
    principal = tenant_key("toolsys.Principal")
    api_key = tenant_key("toolsys.ApiKey")
    profile = models.TextField()
    environment = models.TextField(default="production")
    tool_set = tenant_key("toolsys.ToolSet")
    tool_schema_sha256 = models.TextField()
    withheld_tools = models.JSONField(default=list, db_default=[])
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "agent_sessions"
        indexes = [models.Index(fields=["tenant", "-created_at"], name="agent_session_by_time")]


class Run(TenantOwned):
    """One task inside a session. Written by `toolsys.services`; kept as evidence.

    `manifest` null means the whole pin; `delivered_trust` is the lowest trust that this run's outcomes have carried.
    `budgets` is `{"calls": n}` or empty; `calls_begun` counts, where there is one, what was authorized or held.
    """

    session = tenant_key("toolsys.AgentSession")
    status = models.TextField(default=RunStatus.RUNNING, choices=[(s.value, s.value) for s in RunStatus])
    manifest = models.JSONField(null=True, blank=True)
    budgets = models.JSONField(default=dict)
    calls_begun = models.IntegerField(db_default=0)
    deadline_at = models.DateTimeField()
    delivered_trust = models.TextField(default=TrustLevel.PLATFORM)
    correlation_id = models.TextField(blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    failure_reason_code = models.TextField(blank=True)
    evidence_restarts = models.IntegerField(db_default=0)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "runs"
        indexes = [
            models.Index(fields=["tenant", "session", "-created_at"], name="run_by_session"),
            models.Index(fields=["deadline_at"], name="run_by_deadline", condition=models.Q(ended_at=None)),
        ]

    @property
    def calls_left(self) -> int | None:
        """How many more calls may begin; None without a budget."""
        return max(self.budgets["calls"] - self.calls_begun, 0) if "calls" in self.budgets else None

    def __str__(self) -> str:
        return str(self.id)


class RunStep(CallRecord):
    """One model turn and the complete disposition of its calls. Written with the step's first commit.

    `body` is sealed like a payload and purged with it. `completed_at` is set when every call has a terminal row;
    `rung_at` when a sweep last named it because a call of it is missing.
    """

    run = tenant_key("toolsys.Run")
    step_number = models.IntegerField()
    body_hash = models.TextField()
    body = models.BinaryField(null=True)
    call_count = models.SmallIntegerField()
    context_trust = models.JSONField(default=list)
    origin_trust = models.TextField()
    parallel_group = models.UUIDField(null=True)
    correlation_id = models.TextField(blank=True)
    api_key = tenant_key("toolsys.ApiKey")
    completed_at = models.DateTimeField(null=True)
    rung_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "run_steps"
        constraints = [models.UniqueConstraint(fields=["tenant", "run", "step_number"], name="step_number_is_unique")]
        indexes = [
            # The sweeper looks for open steps only.
            models.Index(fields=["created_at"], name="step_is_open", condition=models.Q(completed_at=None)),
        ]
