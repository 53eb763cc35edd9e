"""Refuses to run with a database role that row-level security does not bind, or with a table that lacks it.

`manage.py check` reports these; web, worker and scheduler call `require_safe_database` before they serve. The owner
role is for migrations only. Source: DESIGN §9.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

BOUND_ALIASES: Final = (DEFAULT_DB_ALIAS, "operator")
# A database that is away at the start is waited for; one that never could be asked has said nothing.
ASK_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.5
# What the role may become counts: SET ROLE is one statement away.
_ROLE: Final = """
    SELECT current_user, bool_or(r.rolsuper), bool_or(r.rolbypassrls),
           bool_or(EXISTS (SELECT 1 FROM pg_class c WHERE c.relowner = r.oid AND c.relkind IN ('r', 'p')
                           AND c.relnamespace = 'public'::regnamespace))
    FROM pg_roles r WHERE pg_has_role(current_user, r.oid, 'MEMBER')
"""
_UNPROTECTED: Final = """
    SELECT c.relname FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND c.relforcerowsecurity) ORDER BY 1
"""


@register()
def check_database_roles(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    return [
        Error(message, hint="Use the roles of toolsys/sql/roles.sql.", id="toolsys.E001")
        for alias in BOUND_ALIASES
        if alias in connections.databases
        for message in _known_faults(alias)
    ]


def _known_faults(alias: str) -> list[str]:
    """A check may run before there is a database, and then says nothing of it."""
    try:
        return list(role_faults(alias))
    except OperationalError:
        return []


def role_faults(alias: str) -> Iterator[str]:
    """Say why this alias must not be used. Raises: OperationalError, where the database cannot be asked."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_ROLE)
        name, is_superuser, bypasses, owns = cursor.fetchone()
        cursor.execute(_UNPROTECTED)
        unprotected = [row[0] for row in cursor.fetchall()]
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
    faults = _asked(time.monotonic() + ASK_SECONDS)
    connections[DEFAULT_DB_ALIAS].close()
    if faults:
        raise ImproperlyConfigured(" ".join(faults) + " Use the roles of toolsys/sql/roles.sql.")


def _asked(until: float) -> list[str]:
    """Ask until the database answers. Raises: ImproperlyConfigured."""
    while True:
        try:
            return list(role_faults(DEFAULT_DB_ALIAS))
        except OperationalError:
            if time.monotonic() >= until:
                raise ImproperlyConfigured("The database could not be asked what its role may do.") from None
        time.sleep(PAUSE_SECONDS)
