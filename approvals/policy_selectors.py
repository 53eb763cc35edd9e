"""Reads of what verdicts depend on: the compiled rules of a tenant, kept under its authorization epoch.

A read newer than the epoch that it is kept under is harmless: the fence finds the epoch raised (decision record 2).
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError

from approvals import evidence, grantmatch, matchers
from approvals.grantmatch import CompiledGrant
from approvals.matchers import CompiledRule
from approvals.models import KillSwitch, PolicyProfile, PolicyRuleVersion, ToolPermission
from approvals.rules import Profile
from approvals.ruleset import Permission, Ruleset, Terms
from toolsys import database
from toolsys.domain.spec import SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.kept import Kept
from toolsys.models import StandingGrant
from toolsys.ports import Sealer
from toolsys.tenancy import tenant_transaction

log = logging.getLogger("toolsys.policy")
TENANTS_KEPT: Final = 512


class Rulesets:
    """Reads each tenant's rules once per epoch. One for a process."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._kept: Kept[Ruleset] = Kept(TENANTS_KEPT)

    def __call__(self, tenant_id: str, authz_epoch: int) -> Ruleset:
        """Transaction: its own, only where the epoch is new."""
        key = (tenant_id, authz_epoch)
        found = self._kept.get(key)
        if found is None:
            with tenant_transaction(tenant_id):
                found = self._kept.put(key, current_ruleset(self._sealer))
        return found


def current_ruleset(sealer: Sealer) -> Ruleset:
    """Return the tenant's rules as they stand. Transaction: needs the tenant's."""
    profiles = list(PolicyProfile.objects.all())
    permissions = ToolPermission.objects.order_by("id")
    return Ruleset(
        rules=tuple(_compiled(version) for version in newest_versions() if version.is_active),
        profiles={row.name: Profile(row.name, _mildest(row.mildest)) for row in profiles},
        terms={row.name: Terms(row.expires_seconds, row.consume_seconds) for row in profiles},
        switched_off=frozenset((row.kind, row.target) for row in newest_switches() if row.is_off),
        permissions=tuple(Permission(row.agent_id, row.tools, row.is_enabled) for row in permissions),
        grants=tuple(_grants(sealer)),
    )


def _grants(sealer: Sealer) -> Iterator[CompiledGrant]:
    """Yield what is confirmed and not at its end; what cannot be read or was altered is none, and people are asked."""
    rows = StandingGrant.objects.filter(activated_at__isnull=False, revoked_at=None, expires_at__gt=database.now())
    for row in rows.order_by("expires_at", "id"):
        if evidence.is_reworded(row, sealer):
            log.error("grant %s does not say what was proposed; its calls are held", row.pk)
            continue
        try:
            yield grantmatch.compiled(
                identifier=row.pk, tool_name=row.tool_name, digest=row.tool_digest, agent=row.agent_id,
                principal=row.principal_id, asked=row.seats, origin_trust=row.origin_trust, stored=row.conditions,
            )  # fmt: skip
        except ValueError:
            log.warning("grant %s cannot be read; its calls are held", row.pk)


def usable_grants(tenant_id: str, grants: Sequence[UUID], invocation_id: UUID | None) -> frozenset[UUID]:
    """Ask which of these a new call may use, or which one a call that exists has used and still stands.

    Transaction: its own. A database that does not answer leaves a new call to people, and ends a known one's attempt.
    Raises: DatabaseError, for a call that exists.
    """
    try:
        rows = database.call(
            "SELECT * FROM toolsys_usable_grants(%s, %s, %s)", (tenant_id, list(grants), invocation_id)
        )
    except DatabaseError as error:
        if invocation_id is not None:
            raise
        log.error("grants of %s could not be read (%s); the call is held", tenant_id, type(error).__name__)
        return frozenset()
    return frozenset(row[0] for row in rows)


def newest_versions() -> list[PolicyRuleVersion]:
    """Return the version of each rule that counts, withdrawn ones too. Transaction: needs the tenant's."""
    found = PolicyRuleVersion.objects.select_related("rule", "author", "owner").order_by("rule_id", "-version")
    return list(found.distinct("rule_id"))


def newest_switches() -> list[KillSwitch]:
    """Return the throw of each switch that counts. Transaction: needs the tenant's."""
    found = KillSwitch.objects.select_related("thrown_by").order_by("kind", "target", "-number")
    return list(found.distinct("kind", "target"))


def _compiled(version: PolicyRuleVersion) -> CompiledRule:
    stored = {"priority": version.priority, "verdict": version.verdict, "match": version.match,
              "seats": version.seats}  # fmt: skip
    return matchers.read(version.rule.name, version.version, stored)


def _mildest(stored: Any) -> dict[SideEffectClass, PolicyVerdict]:
    """What cannot be read loosens nothing."""
    try:
        return {SideEffectClass(effect): PolicyVerdict(verdict) for effect, verdict in stored.items()}
    except (AttributeError, ValueError):
        return {}
