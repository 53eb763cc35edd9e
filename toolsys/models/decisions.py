"""Policy decisions, approval requests, and the use of standing grants: the pipeline's commits write them.

People decide them in `approvals`, which also says who may.
"""

from django.conf import settings
from django.db import models
from django.db.models import Value

from toolsys.domain.states import ApprovalStatus, PolicyVerdict
from toolsys.domain.trust import TrustLevel
from toolsys.models.base import CallRecord, TenantOwned, tenant_key


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

    Two times: `expires_at` ends the deciding, `consume_by` (set by the decision) ends the use. `votes` are those that
    were counted, as {user, seat}: they stand while their people are entitled to them. `tool_digest` binds a grant that
    is drawn from this request to the very tool; `binding` is what the tool said of its server and credential, so that
    the digest can be made again from what a page shows. Personal data: who voted, who decided.
    """

    invocation = tenant_key("toolsys.Invocation")
    run = tenant_key("toolsys.Run")
    status = models.TextField(
        default=ApprovalStatus.PENDING, choices=[(s.value, s.value.replace("_", " ")) for s in ApprovalStatus]
    )
    verdict = models.TextField(choices=[(v.value, v.value) for v in PolicyVerdict])
    digest = models.TextField()
    seats = models.JSONField(default=list)
    votes = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    rejection_code = models.TextField(null=True)
    tool_digest = models.TextField(db_default="")
    binding = models.TextField(db_default="", null=True)
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


class StandingGrant(TenantOwned):
    """An approval in advance: one very tool, for one agent, under conditions, so many times, until a moment.

    Drawn from a held call by one person and confirmed by as many others as that call has seats; revoked by anybody who
    may confirm. What it says never changes (by grant in the database); `words_digest` binds all of it under a key that
    the database does not have, and whoever alters it raises the epoch, so that it is seen. `uses` never falls (by
    trigger). `confirmations` are {user, seat}, as votes are.
    Personal data: who proposed, confirmed and revoked it.
    """

    request = tenant_key("toolsys.ApprovalRequest")
    agent = tenant_key("toolsys.Agent")
    principal = tenant_key("toolsys.Principal", null=True)
    tool_name = models.TextField()
    tool_digest = models.TextField()
    seats = models.JSONField(default=list)
    origin_trust = models.TextField(choices=[(label.value, label.value) for label in TrustLevel])
    conditions = models.JSONField(default=list)
    maximum_uses = models.IntegerField()
    uses = models.IntegerField(db_default=0)
    expires_at = models.DateTimeField()
    note = models.TextField()
    words_digest = models.TextField(db_default="", blank=True)
    proposed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    confirmations = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    activated_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        db_table = "standing_grants"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(uses__lte=models.F("maximum_uses")), name="grant_is_used_no_more_than_it_says"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "revoked_at", "expires_at"], name="grant_by_end")]

    def __str__(self) -> str:
        return f"grant {self.pk}"


class GrantUse(CallRecord):
    """One use of a grant by one call, written with the call's intent. Append-only."""

    grant = tenant_key("toolsys.StandingGrant")
    invocation = tenant_key("toolsys.Invocation")

    class Meta:
        db_table = "grant_uses"
        constraints = [models.UniqueConstraint(fields=["tenant", "invocation"], name="call_uses_one_grant")]
        indexes = [models.Index(fields=["tenant", "grant"], name="grant_use_by_grant")]
