"""Invocations and what hangs on them: sealed payloads, events, artifacts.

The pipeline's tables. `toolsys.store` is the only writer, through the SQL functions under `toolsys/sql/`.
"""

from django.db import models
from django.db.models.functions import Now

from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass, ToolSource
from toolsys.domain.states import InvocationStatus, OutcomeStatus
from toolsys.domain.trust import TrustLevel
from toolsys.models.base import CallRecord, tenant_key

_OPEN = models.Q(status__in=["proposed", "authorized", "waiting_for_approval", "running"])
_UNCERTAIN = models.Q(status="uncertain")
# A row that a breaker looks at; the numbers are those of toolsys.domain.repetition.
_ALARMING = models.Q(identical_count__gte=4) | models.Q(status__in=["denied", "uncertain"])


def _choices(kind: type) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in kind]  # type: ignore[attr-defined]


class Invocation(CallRecord):
    """One tool call. Never deleted while its run is kept; arguments and result here are redacted copies.

    Columns are TS's sixteen and fourteen, and DESIGN §4's: claim, lease, fence, database epoch. The classification
    is a snapshot of what was believed at authorization; recovery uses the stricter of it and the live one.
    """

    run = tenant_key("toolsys.Run")
    step = tenant_key("toolsys.RunStep")
    session = tenant_key("toolsys.AgentSession")
    api_key = tenant_key("toolsys.ApiKey")
    step_number = models.IntegerField()
    call_id = models.TextField()
    call_index = models.SmallIntegerField()
    tool_name = models.TextField()
    tool_version = models.TextField()
    tool_source = models.TextField(default=ToolSource.BUILTIN, choices=_choices(ToolSource))
    server_id = models.TextField(null=True)
    arguments = models.JSONField()
    normalized_arguments_hash = models.TextField()
    idempotency_key = models.TextField()
    status = models.TextField(choices=_choices(InvocationStatus))
    outcome_status = models.TextField(null=True, choices=_choices(OutcomeStatus))
    reason_code = models.TextField(null=True)
    side_effect = models.TextField(choices=_choices(SideEffectClass))
    risk = models.TextField(choices=_choices(RiskLevel))
    idempotency_class = models.TextField(choices=_choices(IdempotencyClass))
    verdict = models.TextField(null=True)
    policy_decision_id = models.UUIDField(null=True)
    origin_trust = models.TextField(choices=_choices(TrustLevel))
    argument_trust = models.JSONField(default=dict)
    output_trust = models.TextField(null=True, choices=_choices(TrustLevel))
    parallel_group = models.UUIDField(null=True)
    timeout_seconds = models.FloatField()
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    output_bytes = models.BigIntegerField(null=True)
    truncated = models.BooleanField(default=False)
    artifact_id = models.UUIDField(null=True)
    identical_count = models.IntegerField(db_default=1)
    evidence_digest = models.TextField(null=True)
    attempt_number = models.IntegerField(default=1)
    claim_epoch = models.IntegerField(default=0)
    claimed_by = models.TextField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    operation_deadline = models.DateTimeField(null=True)
    effect_sent_at = models.DateTimeField(null=True)
    authz_epoch = models.BigIntegerField()
    database_epoch = models.BigIntegerField()
    dispatch_after = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    suspended_kind = models.TextField(null=True)
    suspended_ref = models.TextField(null=True)
    unrecorded_at = models.DateTimeField(null=True)
    step_trace = models.JSONField(default=list)
    authorized_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "tool_invocations"
        constraints = [
            # Two submissions of one call are one row; per tenant, or one tenant could probe another's keys.
            models.UniqueConstraint(fields=["tenant", "idempotency_key"], name="idempotency_key_is_unique"),
            models.UniqueConstraint(fields=["tenant", "run", "step_number", "call_id"], name="call_id_is_unique"),
            # An empty or invisible identity would be another call's at every recovery (corpus B39).
            models.CheckConstraint(condition=models.Q(call_id__regex="^[!-~]{1,255}$"), name="call_id_is_plain"),
            models.CheckConstraint(
                condition=models.Q(idempotency_key__regex="^[0-9a-f]{64}$"), name="idempotency_key_is_a_hash"
            ),
        ]
        indexes = [
            # Ids are time-ordered, so UNIQUE (tenant_id, id) serves every list by time. What is open is few.
            models.Index(fields=["tenant", "status"], name="invocation_is_open", condition=_OPEN),
            # The sweeper's two questions: whose lease has passed, and what was never picked up.
            models.Index(fields=["lease_expires_at"], name="lease_has_passed", condition=models.Q(status="running")),
            models.Index(fields=["dispatch_after"], name="dispatch_is_due", condition=_OPEN),
            # The queue of those that wait for a person, oldest first.
            models.Index(fields=["tenant", "id"], name="invocation_is_uncertain", condition=_UNCERTAIN),
            # The breakers' two questions: how often this very call was made, and what a breaker must look at.
            models.Index(fields=["tenant", "run", "normalized_arguments_hash"], name="invocation_is_identical"),
            models.Index(fields=["tenant", "run"], name="invocation_is_alarming", condition=_ALARMING),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} {self.id}"


class InvocationPayload(CallRecord):
    """The full canonical bytes of arguments or result, sealed. Read by the pipeline and, with a recorded reason,
    by people; purged by retention: `sealed` becomes null and `digest` stays, so the ledger keeps its meaning.
    """

    invocation = tenant_key("toolsys.Invocation")
    kind = models.TextField(choices=[("arguments", "arguments"), ("result", "result")])
    sealed = models.BinaryField(null=True)
    digest = models.TextField()
    purged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "invocation_payloads"
        constraints = [models.UniqueConstraint(fields=["tenant", "invocation", "kind"], name="payload_is_unique")]


class ToolEvent(models.Model):
    """Append-only facts about calls: identity and classification, never payload. Written in the same statement as
    the fact. `derivation_key` is stable, so that a retry after an unknown commit adds nothing.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(
        "toolsys.Tenant", on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+"
    )
    type = models.TextField()
    run_id = models.UUIDField(null=True)
    invocation_id = models.UUIDField(null=True)
    payload = models.JSONField(default=dict)
    derivation_key = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "tool_events"
        constraints = [models.UniqueConstraint(fields=["tenant", "derivation_key"], name="event_derivation_is_unique")]
        # The events of an invocation are found among those of its run.
        indexes = [models.Index(fields=["tenant", "run_id", "id"], name="event_by_run")]


class Artifact(CallRecord):
    """A large result in storage, keyed by invocation and epoch; adopted when the result commits.

    Rows that were never adopted are orphans of a lost attempt and are collected by age; the others go a retention after
    the end of their run, where an operator has set one (`toolsys.orphans`).
    """

    invocation_id = models.UUIDField()
    claim_epoch = models.IntegerField()
    media_type = models.TextField()
    size_bytes = models.BigIntegerField()
    sha256 = models.TextField()
    trust = models.TextField(choices=_choices(TrustLevel))
    storage_key = models.TextField()
    adopted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "artifacts"
        indexes = [
            models.Index(fields=["tenant", "invocation_id"], name="artifact_by_invocation"),
            # The collector asks for what nothing adopted, and for what was adopted long ago.
            models.Index(fields=["tenant", "adopted_at"], name="artifact_by_adoption"),
        ]
