"""Votes, and what a tenant's verdicts depend on: rules and their versions, profiles, permissions, kill switches.

Rows only. Votes are written by `approvals.services`, policy by `approvals.policy_services`. Whatever changes a verdict
raises the tenant's authorization epoch, by trigger.
"""

from enum import StrEnum

from django.conf import settings
from django.db import models

from approvals.outbox_models import Delivery, DeliveryAttempt, NotificationEndpoint
from approvals.ruleset import SwitchKind
from toolsys.domain.states import PolicyVerdict
from toolsys.models.base import TenantOwned, tenant_key

__all__ = [
    "ApprovalVote",
    "Delivery",
    "DeliveryAttempt",
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
    """One decision of one person on one request. Append-only evidence. Personal data: who decided, their note."""

    request = tenant_key("toolsys.ApprovalRequest")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    seat = models.TextField()
    is_approval = models.BooleanField()
    note = models.TextField(blank=True)
    digest = models.TextField()

    class Meta:
        db_table = "approval_votes"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "request", "user"], name="person_votes_once"),
        ]


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

    `match` has the shape of `approvals.matchers.Matchers`. `author` wrote this version and `owner` answers for it:
    neither may decide a call that it holds. Personal data: who they are.
    """

    rule = tenant_key("approvals.PolicyRule")
    version = models.IntegerField()
    is_active = models.BooleanField()
    priority = models.IntegerField()
    verdict = models.TextField(choices=_choices(PolicyVerdict))
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

    `target` is a server's id, a tool's name or an API key's id. Personal data: who threw it.
    """

    kind = models.TextField(choices=_choices(SwitchKind))
    target = models.TextField()
    number = models.IntegerField()
    is_off = models.BooleanField()
    note = models.TextField(blank=True)
    thrown_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "kill_switches"
        constraints = [
            # Two throws at once: the second is refused. It also finds the newest throw.
            models.UniqueConstraint(fields=["tenant", "kind", "target", "number"], name="kill_switch_throw_is_unique"),
        ]
