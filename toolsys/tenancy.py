"""Opening a tenant scope: the only place that says which tenant a transaction belongs to.

Every read or write of a tenant-owned row through the ORM happens inside `tenant_transaction`; outside of one,
row-level security shows nothing. Commit points in SQL name their tenant themselves. Source: DESIGN §9.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    """Runs each console request in one transaction of the tenant that the person has chosen.

    The tenant comes from the session, and only after their membership was checked at login; without one, row-level
    security shows nothing. API requests name their tenant themselves.
    """

    SESSION_KEY = "tenant_id"
    PREFIX = "/admin/"

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(self.PREFIX):
            return self.get_response(request)
        tenant_id = request.session.get(self.SESSION_KEY)
        if tenant_id is None:
            return self.get_response(request)
        with tenant_transaction(tenant_id):
            response = self.get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            return response
