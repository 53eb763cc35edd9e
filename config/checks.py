"""Refuses to run with a database role that row-level security does not bind, or with a table that lacks it.

`manage.py check` reports these; web, worker and scheduler call `require_safe_database` before they serve. The owner
role is for migrations only. Source: DESIGN §9.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

BOUND_ALIASES: Final = (DEFAULT_DB_ALIAS, "operator")
_ROLE: Final = """
    SELECT current_user, r.rolsuper, r.rolbypassrls,
           EXISTS (SELECT 1 FROM pg_class c WHERE c.relowner = r.oid AND c.relkind = 'r')
    FROM pg_roles r WHERE r.rolname = current_user
"""
_UNPROTECTED: Final = """
    SELECT c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE c.relkind = 'r' AND NOT (c.relrowsecurity AND c.relforcerowsecurity) ORDER BY 1
"""


@register()
def check_database_roles(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    return [
        Error(message, hint="Use the roles of toolsys/sql/roles.sql.", id="toolsys.E001")
        for alias in BOUND_ALIASES
        if alias in connections.databases
        for message in role_faults(alias)
    ]


def role_faults(alias: str) -> Iterator[str]:
    """Say why this alias must not be used; nothing where the database cannot be asked yet."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute(_ROLE)
            name, is_superuser, bypasses, owns = cursor.fetchone()
            cursor.execute(_UNPROTECTED)
            unprotected = [row[0] for row in cursor.fetchall()]
    except OperationalError:
        return
    if is_superuser:
        yield f"The role {name} of the database alias {alias} is a superuser: row-level security does not bind it."
    if bypasses:
        yield f"The role {name} of the database alias {alias} has BYPASSRLS: row-level security does not bind it."
    if owns:
        yield f"The role {name} of the database alias {alias} owns tables: only the owner role may."
    if unprotected:
        yield f"Row-level security is not enabled and forced on {', '.join(unprotected)}."


def require_safe_database() -> None:
    """Raises: ImproperlyConfigured, so that the process does not start."""
    faults = list(role_faults(DEFAULT_DB_ALIAS))
    connections[DEFAULT_DB_ALIAS].close()
    if faults:
        raise ImproperlyConfigured(" ".join(faults) + " Use the roles of toolsys/sql/roles.sql.")
