"""Policy decisions and approval requests: the pipeline's commits write them, `approvals` decides them."""

from django.conf import settings
from django.db import models

from toolsys.domain.states import ApprovalStatus, PolicyVerdict
from toolsys.models.base import CallRecord, tenant_key


class PolicyDecision(CallRecord):
    """One evaluation of step 6. Append-only."""

    run = tenant_key("toolsys.Run")
    invocation = tenant_key("toolsys.Invocation")
    verdict = models.TextField(choices=[(v.value, v.value) for v in PolicyVerdict])
    reason_code = models.TextField()
    risk = models.TextField()
    rule = models.TextField()
    matched = models.JSONField(default=dict)
    trust = models.JSONField(default=dict)
    user_context = models.JSONField(default=dict)
    authz_epoch = models.BigIntegerField()

    class Meta:
        db_table = "policy_decisions"
        indexes = [models.Index(fields=["tenant", "invocation"], name="decision_by_invocation")]


class ApprovalRequest(CallRecord):
    """A held call that waits for people. Bound to one digest; consumed once, by the worker's intent statement.

    Two times: `expires_at` ends the deciding, `consume_by` (set by the decision) ends the use.
    """

    invocation = tenant_key("toolsys.Invocation")
    run = tenant_key("toolsys.Run")
    status = models.TextField(
        default=ApprovalStatus.PENDING, choices=[(s.value, s.value.replace("_", " ")) for s in ApprovalStatus]
    )
    verdict = models.TextField(choices=[(v.value, v.value) for v in PolicyVerdict])
    digest = models.TextField()
    seats = models.JSONField(default=list)
    expires_at = models.DateTimeField()
    consume_seconds = models.FloatField()
    consume_by = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    consumed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "approval_requests"
        constraints = [models.UniqueConstraint(fields=["tenant", "invocation"], name="approval_is_asked_once")]
        indexes = [
            models.Index(fields=["tenant", "status", "expires_at"], name="approval_by_expiry"),
            models.Index(fields=["expires_at"], name="approval_is_open", condition=models.Q(status="pending")),
        ]
