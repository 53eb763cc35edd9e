"""Opening a tenant scope: the only place that says which tenant a transaction belongs to.

Every read or write of a tenant-owned row through the ORM happens inside `tenant_transaction`; outside of one,
row-level security shows nothing. Commit points in SQL name their tenant themselves. Source: DESIGN §9.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

current_tenant: ContextVar[str | None] = ContextVar("current_tenant", default=None)
OWNER_ALIAS = "owner"
OPERATOR_ALIAS = "operator"


@contextmanager
def tenant_scope(tenant_id: str, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Name the tenant of every transaction opened inside; correct inside an open transaction too."""
    token = current_tenant.set(tenant_id)
    connection = cast(Any, connections[using])
    inside = connection.in_atomic_block
    if inside:
        connection.apply_tenant(tenant_id)
    try:
        yield
    finally:
        current_tenant.reset(token)
        if inside and connection.in_atomic_block and not connection.needs_rollback:
            connection.apply_tenant(current_tenant.get())


@contextmanager
def tenant_transaction(tenant_id: str, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Open one transaction of one tenant. Transaction: opens one, or a savepoint inside an open one."""
    with tenant_scope(tenant_id, using), transaction.atomic(using=using):
        yield


def bump_authz_epoch(tenant_id: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Make every claim that read its facts earlier re-enter at step 6. Transaction: needs the change's own.

    Tables whose changes matter raise it by trigger (`rowsecurity.RaisesAuthzEpoch`); this is for what has no row.
    """
    from toolsys.models import Tenant

    Tenant.objects.using(using).filter(pk=tenant_id).update(authz_epoch=models.F("authz_epoch") + 1)


def is_transaction_open(using: str = DEFAULT_DB_ALIAS) -> bool:
    return connections[using].in_atomic_block


class Router:
    """Migrations run as the owner role only; everything else uses the alias it names, or the application's."""

    def db_for_read(self, model: type[models.Model], **hints: Any) -> str | None:
        return None

    db_for_write: Callable[..., str | None] = db_for_read

    def allow_relation(self, left: models.Model, right: models.Model, **hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == OWNER_ALIAS


class ConsoleTenantMiddleware:
    """Runs each console request in one transaction of the tenant that the person works in.

    Membership is read at every request, so that who is removed loses access at once; roles come with it. Whatever
    answers with an error leaves nothing behind. API requests name their tenant themselves.
    """

    SESSION_KEY = "tenant_id"
    PREFIX = "/admin/"

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.console = None  # type: ignore[attr-defined]
        if not request.path.startswith(self.PREFIX) or not request.user.is_authenticated:
            return self.get_response(request)
        console = console_of(request.user.pk, request.session.get(self.SESSION_KEY))
        request.console = console  # type: ignore[attr-defined]
        self._remember(request, console)
        if console is None or console.tenant_id is None:
            return self.get_response(request)
        with tenant_transaction(console.tenant_id):
            response = self.get_response(request)
            if response.status_code >= 400:
                transaction.set_rollback(True)
            return response

    def _remember(self, request: HttpRequest, console: "Console | None") -> None:
        """Keep the tenant in the session: losing it later must not move an open form to another tenant."""
        tenant_id = console.tenant_id if console is not None else None
        if request.session.get(self.SESSION_KEY) == tenant_id:
            return
        if tenant_id is None:
            del request.session[self.SESSION_KEY]
        else:
            request.session[self.SESSION_KEY] = tenant_id


@dataclass(frozen=True, slots=True)
class Console:
    """Where a person works now: the tenant (None: to be chosen), their roles in it, and all tenants of theirs."""

    tenant_id: str | None
    roles: frozenset[str]
    tenants: tuple[str, ...]


def console_of(user_id: int, wanted: str | None) -> Console | None:
    """Return the person's tenant: the one they chose, or their only one; None for who belongs nowhere."""
    found = _memberships(user_id)
    if not found:
        return None
    tenants = tuple(dict.fromkeys(tenant_id for tenant_id, _ in found))
    only = tenants[0] if wanted is None and len(tenants) == 1 else None
    tenant_id = wanted if wanted in tenants else only
    return Console(tenant_id, frozenset(role for owner, role in found if owner == tenant_id), tenants)


def tenants_as(user_id: int, role: str) -> tuple[str, ...]:
    """Return the tenants in which a person has this role, whichever they work in now."""
    return tuple(sorted({tenant_id for tenant_id, held in _memberships(user_id) if held == role}))


def _memberships(user_id: int) -> list[tuple[str, str]]:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT tenant_id, role FROM toolsys_find_memberships(%s)", [user_id])
        return cast("list[tuple[str, str]]", cursor.fetchall())
