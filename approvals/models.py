"""Votes and confirmations, requests for access, and what a tenant's verdicts depend on: rules, permissions, switches.

Rows only, written by `services`, `grants`, `access` and `policy_services`. Whatever changes a verdict raises the
tenant's authorization epoch, by trigger.
"""

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from approvals.outbox_models import Delivery, DeliveryAttempt, NotificationEndpoint
from approvals.ruleset import SwitchKind
from toolsys.domain.states import PolicyVerdict
from toolsys.ids import uuid7
from toolsys.models.base import TenantOwned, tenant_key

__all__ = [
    "AccessRequest",
    "AccessStatus",
    "ApprovalVote",
    "Delivery",
    "DeliveryAttempt",
    "GrantConfirmation",
    "KillSwitch",
    "NotificationEndpoint",
    "PolicyProfile",
    "PolicyRule",
    "PolicyRuleVersion",
    "ToolPermission",
]


def _choices(kind: type[StrEnum]) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in kind]


class ApprovalVote(TenantOwned):
    """What one person said about one request; the newest of a person counts. Append-only: taking it back is a row, too.

    `digest` is what the person was shown. Personal data: who voted, their note.
    """

    request = tenant_key("toolsys.ApprovalRequest")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    number = models.SmallIntegerField(db_default=1)
    seat = models.TextField()
    is_approval = models.BooleanField()
    is_withdrawal = models.BooleanField(db_default=False)
    is_reauthenticated = models.BooleanField(db_default=False)
    rejection = models.TextField(db_default="", blank=True)
    note = models.TextField(blank=True)
    digest = models.TextField()

    class Meta:
        db_table = "approval_votes"
        constraints = [
            # Votes of one request are numbered under its lock; it also finds them in their order.
            models.UniqueConstraint(fields=["tenant", "request", "number"], name="approval_vote_is_numbered"),
        ]


class GrantConfirmation(TenantOwned):
    """One person who confirmed a standing grant in one seat. Append-only evidence. Personal data: who, their note."""

    grant = tenant_key("toolsys.StandingGrant")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    seat = models.TextField()
    note = models.TextField(blank=True)

    class Meta:
        db_table = "grant_confirmations"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "grant", "user"], name="person_confirms_a_grant_once"),
        ]


class AccessStatus(StrEnum):
    OPEN = "open"
    GRANTED = "granted"
    DISMISSED = "dismissed"


class AccessRequest(TenantOwned):
    """An agent or a developer who was refused asks for access: once for a tool and a reason in a run.

    Answered by a tenant's admin; the answer changes no permission by itself. `note` comes from the agent: text from
    outside, shown as text only. Personal data: who asked and answered, their notes.
    """

    run = tenant_key("toolsys.Run")
    invocation = tenant_key("toolsys.Invocation")
    tool_name = models.TextField()
    reason_code = models.TextField()
    api_key = tenant_key("toolsys.ApiKey", null=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    note = models.TextField(blank=True)
    status = models.TextField(default=AccessStatus.OPEN, choices=_choices(AccessStatus))
    answered_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    answered_at = models.DateTimeField(null=True)
    answer = models.TextField(blank=True)

    class Meta:
        db_table = "access_requests"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "run", "tool_name", "reason_code"], name="access_is_asked_once_a_run"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "status", "-id"], name="access_request_by_status")]


class PolicyRule(TenantOwned):
    """The name of a rule, which never changes: `name@version` in a decision says which row decided. Append-only."""

    name = models.TextField()

    class Meta:
        db_table = "policy_rules"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="policy_rule_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class PolicyRuleVersion(TenantOwned):
    """What a rule says since a moment; the newest version counts. Append-only: withdrawing a rule is a version, too.

    `seats` are the people whom it asks for, where that is more than its verdict's own seat.
    `match` has the shape of `approvals.matchers.Matchers`. `author` wrote this version and `owner` answers for it:
    neither may decide a call that it holds. Personal data: who they are.
    """

    rule = tenant_key("approvals.PolicyRule")
    version = models.IntegerField()
    is_active = models.BooleanField()
    priority = models.IntegerField()
    verdict = models.TextField(choices=_choices(PolicyVerdict))
    seats = models.JSONField(default=list, db_default=models.Value([], output_field=models.JSONField()))
    match = models.JSONField(default=dict)
    note = models.TextField(blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "policy_rule_versions"
        constraints = [
            # Two people who change a rule at once: the second is refused. It also finds the newest version.
            models.UniqueConstraint(fields=["tenant", "rule", "version"], name="policy_rule_version_is_unique"),
        ]


class PolicyProfile(TenantOwned):
    """What a tenant's rules may loosen under one profile, and its times. Written by operators only (by grant).

    `mildest` maps a side effect to the mildest verdict that a rule may reach. Times are in seconds.
    """

    name = models.TextField()
    mildest = models.JSONField(default=dict, blank=True)
    expires_seconds = models.FloatField(null=True, blank=True)
    consume_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        db_table = "policy_profiles"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="policy_profile_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class ToolPermission(TenantOwned):
    """Which tools a tenant, or one agent of it, may use: a glob over tool names. Written by tenant admins.

    Without a row for the tenant or the agent there is no restriction beside the agent's enabled tools.
    """

    agent = tenant_key("toolsys.Agent", null=True, blank=True)
    tools = models.TextField()
    is_enabled = models.BooleanField(default=True)

    class Meta:
        db_table = "tool_permissions"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "agent", "tools"], name="tool_permission_is_unique", nulls_distinct=False
            ),
        ]


class KillSwitch(TenantOwned):
    """One throw of a switch; the newest of a kind and target counts. Append-only: who stopped what, when and why.

    `target` is a server's id, a tool's name, an API key's id, or the tenant's own. Personal data: who threw it.
    """

    kind = models.TextField(choices=_choices(SwitchKind))
    target = models.TextField()
    number = models.IntegerField()
    is_off = models.BooleanField()
    note = models.TextField(blank=True)
    thrown_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "kill_switches"
        verbose_name_plural = "kill switches"
        constraints = [
            # Two throws at once: the second is refused. It also finds the newest throw.
            models.UniqueConstraint(fields=["tenant", "kind", "target", "number"], name="kill_switch_throw_is_unique"),
        ]


class PlatformSwitch(models.Model):
    """One throw of the switch of the whole platform. Append-only; written and read by operators only (by grant).

    Personal data: who threw it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    is_off = models.BooleanField()
    note = models.TextField(blank=True)
    thrown_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "platform_switches"
        verbose_name_plural = "platform switches"
