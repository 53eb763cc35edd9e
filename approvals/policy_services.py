"""Writes of what verdicts depend on: rules in versions, tool permissions, profiles and kill switches.

One transaction each; who may call is the edge's to check. Triggers raise the authorization epoch, so that nothing
passes the watermark on older facts once a call here has returned. Source: DESIGN §4 and §5.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from pydantic import ValidationError

from approvals import matchers, policy_selectors
from approvals.models import KillSwitch, PlatformSwitch, PolicyProfile, PolicyRule, PolicyRuleVersion, ToolPermission
from approvals.ruleset import SwitchKind
from toolsys import database
from toolsys.domain.names import is_valid_server_id, normalize_glob
from toolsys.domain.spec import JsonObject, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.models import Agent, ApiKey, PlatformState, Tenant
from toolsys.problems import FieldError, Problem, plainly
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

RULES_LIMIT: Final = 1_000
NOTE_LIMIT: Final = 2_000
TARGET_LIMIT: Final = 200


def save_rule(
    *, tenant_id: str, user: Any, name: str, verdict: str, match: JsonObject, priority: int = 0, note: str = "",
    is_active: bool = True, owner: Any = None, seats: Sequence[str] = (),
) -> PolicyRuleVersion:  # fmt: skip
    """Write a rule's next version, the first one included; `is_active` false withdraws it.

    `seats` ask for more people than the verdict's own seat: one entry each, such as expert, expert, client.
    Raises: Problem (request.invalid), with a pointer to each field.
    """
    rule = _parsed({"name": name, "verdict": verdict, "match": match, "priority": priority, "seats": seats})
    _bounded(note, "/note", NOTE_LIMIT)
    with tenant_transaction(tenant_id):
        _lock(tenant_id)
        found, _ = PolicyRule.objects.get_or_create(tenant_id=tenant_id, name=rule.name)
        versions = PolicyRuleVersion.objects.filter(rule=found)
        newest = versions.aggregate(newest=Max("version"))["newest"] or 0
        if is_active and newest == 0 and len(policy_selectors.newest_versions()) >= RULES_LIMIT:
            raise Problem("request.invalid", [FieldError("/name", f"at most {RULES_LIMIT:,} rules")])
        return PolicyRuleVersion.objects.create(
            tenant_id=tenant_id, rule=found, version=newest + 1, is_active=is_active, priority=rule.priority,
            verdict=rule.verdict, seats=list(rule.seats), note=note.strip(), owner=owner or user, author=user,
            match=rule.match.model_dump(mode="json", exclude_defaults=True),
        )  # fmt: skip


def apply_rules(
    *, tenant_id: str, user: Any, rules: Sequence[matchers.Rule], note: str = ""
) -> list[PolicyRuleVersion]:
    """Write a version of each rule that says something new, all or none. Rules that are not listed stay.

    Raises: Problem (request.invalid).
    """
    with tenant_transaction(tenant_id):
        _lock(tenant_id)
        known = {row.rule.name: _said(row) for row in policy_selectors.newest_versions() if row.is_active}
        written = []
        for rule in rules:
            match = rule.match.model_dump(mode="json", exclude_defaults=True)
            if known.get(rule.name) != (rule.priority, rule.verdict, match, list(rule.seats)):
                written.append(save_rule(
                    tenant_id=tenant_id, user=user, name=rule.name, verdict=rule.verdict, match=match,
                    priority=rule.priority, note=note, seats=rule.seats,
                ))  # fmt: skip
        return written


def _said(row: PolicyRuleVersion) -> tuple[int, str, JsonObject, list[str]]:
    return row.priority, row.verdict, row.match, row.seats


def throw_switch(
    *, tenant_id: str, kind: SwitchKind, target: str, is_off: bool, user: Any, note: str = ""
) -> KillSwitch:
    """Turn a server, a tool or a key off, or on again. What has not passed its watermark is not sent any more.

    Raises: Problem (request.invalid, request.not_found: no such key).
    """
    if kind is SwitchKind.TENANT:
        raise Problem("request.invalid", [FieldError("/kind", "a whole tenant is switched by operators")])
    _bounded(note, "/note", NOTE_LIMIT)
    target = switch_target(kind, target)
    with tenant_transaction(tenant_id):
        _lock(tenant_id)
        if kind is SwitchKind.KEY and not _is_key(target):
            raise Problem("request.not_found")
        thrown = KillSwitch.objects.filter(kind=kind, target=target).aggregate(newest=Max("number"))["newest"] or 0
        return KillSwitch.objects.create(
            tenant_id=tenant_id, kind=kind, target=target, number=thrown + 1, is_off=is_off, note=note.strip(),
            thrown_by=user,
        )  # fmt: skip


def switch_target(kind: SwitchKind, written: str) -> str:
    """Return what a person means in the one form that calls are compared in: else a switch turns off nothing, silently.

    Raises: Problem (request.invalid, request.not_found: no id of a key).
    """
    _bounded(written, "/target", TARGET_LIMIT)
    if kind is SwitchKind.TOOL:
        return _glob(written, "/target")
    if kind is SwitchKind.KEY:
        try:
            return str(UUID(written.strip()))
        except ValueError:
            raise Problem("request.not_found") from None
    return _server(written, "/target")


def permit_tools(*, tenant_id: str, tools: str, is_enabled: bool, agent_name: str | None = None) -> ToolPermission:
    """Enable or disable the tools that a glob names, for the tenant or for one agent of it.

    Raises: Problem (request.invalid).
    """
    _bounded(tools, "/tools", TARGET_LIMIT)
    tools = _glob(tools, "/tools")
    with tenant_transaction(tenant_id):
        agent = None if agent_name is None else Agent.objects.filter(name=agent_name).first()
        if agent_name is not None and agent is None:
            raise Problem("request.invalid", [FieldError("/agent", "no such agent")])
        row, _ = ToolPermission.objects.update_or_create(
            tenant_id=tenant_id, agent=agent, tools=tools, defaults={"is_enabled": is_enabled}
        )
        return row


def remove_permission(*, tenant_id: str, permission_id: UUID) -> None:
    """Take one row of the permissions away: without any, nothing is restricted. Raises: Problem (request.not_found)."""
    with tenant_transaction(tenant_id):
        _lock(tenant_id)
        if not ToolPermission.objects.filter(pk=permission_id).delete()[0]:
            raise Problem("request.not_found")


def set_tenant_switch(tenant_id: str, *, is_enabled: bool, user: Any, note: str = "") -> KillSwitch:
    """Turn everything of a tenant off or on, and keep who did. For operators.

    Raises: Problem (request.not_found, request.invalid).
    """
    _bounded(note, "/note", NOTE_LIMIT)
    with transaction.atomic(using=OPERATOR_ALIAS):
        database.call("SELECT toolsys_lock_tenant(%s)", (tenant_id,), using=OPERATOR_ALIAS)
        if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).update(is_enabled=is_enabled):
            raise Problem("request.not_found")
        kept = KillSwitch.objects.using(OPERATOR_ALIAS).filter(tenant_id=tenant_id, kind=SwitchKind.TENANT)
        thrown = kept.aggregate(newest=Max("number"))["newest"] or 0
        return kept.create(
            tenant_id=tenant_id, kind=SwitchKind.TENANT, target=tenant_id, number=thrown + 1, is_off=not is_enabled,
            note=note.strip(), thrown_by=user,
        )  # fmt: skip


def set_platform_switch(*, is_enabled: bool, user: Any, note: str = "") -> PlatformSwitch:
    """Turn everything off or on, for every tenant, and keep who did. For operators.

    Waits for each watermark that is about to commit: once this has returned, none passes. Raises: Problem
    (request.invalid).
    """
    _bounded(note, "/note", NOTE_LIMIT)
    with transaction.atomic(using=OPERATOR_ALIAS):
        PlatformState.objects.using(OPERATOR_ALIAS).update(is_execution_enabled=is_enabled)
        return PlatformSwitch.objects.using(OPERATOR_ALIAS).create(
            is_off=not is_enabled, note=note.strip(), thrown_by=user
        )


def set_profile(
    *, tenant_id: str, name: str, mildest: dict[SideEffectClass, PolicyVerdict], expires_seconds: float | None = None,
    consume_seconds: float | None = None,
) -> PolicyProfile:  # fmt: skip
    """Say what the rules of a tenant may loosen under a profile. For operators."""
    row, _ = PolicyProfile.objects.using(OPERATOR_ALIAS).update_or_create(
        tenant_id=tenant_id, name=name,
        defaults={"mildest": mildest, "expires_seconds": expires_seconds, "consume_seconds": consume_seconds},
    )  # fmt: skip
    return row


def _lock(tenant_id: str) -> None:
    """Changes of one tenant's policy happen one after the other; the triggers would take this lock anyway."""
    database.call("SELECT toolsys_lock_tenant(%s)", (tenant_id,))


def _parsed(value: JsonObject) -> matchers.Rule:
    try:
        rule = matchers.parsed(value)
    except ValidationError as error:
        raise Problem("request.invalid", [
            FieldError("/" + "/".join(map(str, each["loc"])), plainly(each["msg"]))
            for each in error.errors()
        ]) from None  # fmt: skip
    tools = tuple(_glob(glob, f"/match/tools/{index}") for index, glob in enumerate(rule.match.tools))
    servers = tuple(_server(each, f"/match/servers/{index}") for index, each in enumerate(rule.match.servers))
    return rule.model_copy(update={"match": rule.match.model_copy(update={"tools": tools, "servers": servers})})


def _glob(written: str, pointer: str) -> str:
    """Normalize once, where it is written: what is stored is compared as it is. Raises: Problem (request.invalid)."""
    try:
        return normalize_glob(written)
    except ValueError as error:
        raise Problem("request.invalid", [FieldError(pointer, str(error))]) from None


def _server(written: str, pointer: str) -> str:
    """As `_glob`. Raises: Problem (request.invalid)."""
    found = written.strip().lower() if written.isascii() else written
    if not is_valid_server_id(found):
        raise Problem("request.invalid", [FieldError(pointer, "a server's id is of a-z, 0-9 and _, a letter first")])
    return found


def _bounded(text: str, pointer: str, limit: int) -> None:
    if len(text) > limit or "\0" in text:
        raise Problem("request.invalid", [FieldError(pointer, f"at most {limit:,} characters")])


def _is_key(target: str) -> bool:
    return ApiKey.objects.filter(pk=target).exists()
