"""Setting up tenants and who acts in them: writes of configuration, one transaction each.

Changes that a verdict depends on raise the tenant's authorization epoch by trigger. Called by the console, by seeds and
by commands; permission is checked by those edges.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from toolsys import keys
from toolsys.domain.names import normalize_glob
from toolsys.domain.states import Role
from toolsys.models import Agent, ApiKey, Membership, Principal, Tenant
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction


def create_tenant(tenant_id: str, name: str, *, is_tool_calling_enabled: bool = False) -> Tenant:
    """Make a tenant; its tool calling stays off until it is rolled out. Operators only."""
    tenant = Tenant(id=tenant_id, name=name, is_tool_calling_enabled=is_tool_calling_enabled)
    tenant.full_clean(exclude=["created_at"])
    tenant.save(using=OPERATOR_ALIAS, force_insert=True)
    return tenant


def add_member(tenant_id: str, user: Any, role: Role) -> Membership:
    with tenant_transaction(tenant_id):
        return Membership.objects.get_or_create(tenant_id=tenant_id, user=user, role=role)[0]


def remove_member(tenant_id: str, user: Any, role: Role) -> bool:
    """Take a role of the tenant away; say whether there was one. It counts at the person's next request."""
    with tenant_transaction(tenant_id):
        return Membership.objects.filter(tenant_id=tenant_id, user_id=user.pk, role=role).delete()[0] > 0


def set_tool_calling(tenant_id: str, *, is_enabled: bool) -> None:
    """Roll tool calling out to a tenant, or back: nothing passes the watermark any more. Operators only."""
    with tenant_transaction(tenant_id, OPERATOR_ALIAS):
        Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).update(is_tool_calling_enabled=is_enabled)


def add_operator(tenant_id: str, user: Any, role: Role = Role.OPERATOR) -> Membership:
    """Give somebody a role of the platform for one tenant. Operators only; the database refuses it to others."""
    with tenant_transaction(tenant_id, OPERATOR_ALIAS):
        rows = Membership.objects.using(OPERATOR_ALIAS)
        return rows.get_or_create(tenant_id=tenant_id, user_id=user.pk, role=role)[0]


def remove_operator(tenant_id: str, user: Any) -> bool:
    """Take the operator's role away; say whether there was one. Operators only."""
    with tenant_transaction(tenant_id, OPERATOR_ALIAS):
        rows = Membership.objects.using(OPERATOR_ALIAS)
        return rows.filter(tenant_id=tenant_id, user_id=user.pk, role=Role.OPERATOR).delete()[0] > 0


def save_agent(
    tenant_id: str, name: str, enabled_tools: Sequence[str], profile: str = "default", *, is_enabled: bool = True
) -> Agent:
    """Write an agent's next state, its globs as tools are called. Raises: Problem (request.invalid)."""
    tools = list(dict.fromkeys(_globs(enabled_tools)))
    changes = {"enabled_tools": tools, "profile": profile, "is_enabled": is_enabled}
    with tenant_transaction(tenant_id):
        return Agent.objects.update_or_create(tenant_id=tenant_id, name=name, defaults=changes)[0]


def _globs(written: Sequence[str]) -> list[str]:
    """Normalize where it is written, as rules do. Raises: Problem (request.invalid)."""
    found: list[str] = []
    for index, glob in enumerate(written):
        try:
            found.append(normalize_glob(glob))
        except ValueError as error:
            raise Problem("request.invalid", [FieldError(f"/enabled_tools/{index}", f"{glob}: {error}")]) from None
    return found


def save_principal(tenant_id: str, external_id: str, scopes: Sequence[str], display_name: str = "") -> Principal:
    with tenant_transaction(tenant_id):
        return Principal.objects.update_or_create(
            tenant_id=tenant_id, external_id=external_id,
            defaults={"scopes": sorted(scopes), "display_name": display_name},
        )[0]  # fmt: skip


def create_api_key(
    tenant_id: str, name: str, scopes: Sequence[str], *, owner: Any = None, expires_at: datetime | None = None
) -> tuple[ApiKey, str]:
    """Return the row and the key itself, which is never to be had again. Raises: Problem (request.invalid)."""
    key = keys.generate()
    parts = keys.parse(key)
    assert parts is not None
    with tenant_transaction(tenant_id):
        if ApiKey.objects.filter(name=name).exists():
            raise Problem("request.invalid", [FieldError("/name", "another key has this name")])
        row = ApiKey.objects.create(
            tenant_id=tenant_id, name=name, prefix=parts.prefix, secret_sha256=parts.secret_sha256,
            scopes=sorted(scopes), owner=owner, expires_at=expires_at,
        )  # fmt: skip
    return row, key


def revoke_api_key(tenant_id: str, api_key_id: UUID) -> ApiKey:
    """Raises: Problem (request.not_found)."""
    with tenant_transaction(tenant_id):
        row = ApiKey.objects.select_for_update().filter(pk=api_key_id).first()
        if row is None:
            raise Problem("request.not_found")
        row.revoked_at = row.revoked_at or timezone.now()
        row.save(update_fields=["revoked_at"])
    return row
