"""The tenant's allowlist of origins: what may be dialled for it, written by its admins and by operators.

Deny is the default. The policy that is built of it adds what the deployment opens and denies (`config.wiring`).
Permission is checked by the edges. Source: DESIGN §8.
"""

from typing import Any, Final
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS

from toolsys import records
from toolsys.egress import EgressRefused, Origin
from toolsys.models import EgressAllowance
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

LIMIT: Final = 200
NOTE_LIMIT: Final = 500


def origins(tenant_id: str, using: str = DEFAULT_DB_ALIAS) -> frozenset[str]:
    """Return what the tenant's servers may reach, each as `scheme://host:port`."""
    with tenant_transaction(tenant_id, using):
        found = EgressAllowance.objects.using(using).filter(tenant_id=tenant_id)
        return frozenset(found.values_list("origin", flat=True))


def allow(tenant_id: str, text: str, *, user: Any, note: str = "", using: str = DEFAULT_DB_ALIAS) -> EgressAllowance:
    """Add the origin that a host, a host:port or a URL names; what is there already stays as it is.

    Transaction: opens one. Raises: Problem (request.invalid).
    """
    origin = str(parsed(text))
    if len(note) > NOTE_LIMIT or "\0" in note:
        raise Problem("request.invalid", [FieldError("/note", f"at most {NOTE_LIMIT} characters")])
    with tenant_transaction(tenant_id, using):
        rows = EgressAllowance.objects.using(using).filter(tenant_id=tenant_id)
        if rows.count() >= LIMIT and not rows.filter(origin=origin).exists():
            raise Problem("request.invalid", [FieldError("/origin", f"at most {LIMIT}")])
        row, is_new = rows.get_or_create(
            tenant_id=tenant_id, origin=origin, defaults={"note": note.strip(), "added_by": user}
        )
        if is_new:
            records.note(tenant_id, "egress.allowed", {"origin": origin}, user=user, using=using)
    return row


def withdraw(tenant_id: str, allowance_id: UUID, *, user: Any, using: str = DEFAULT_DB_ALIAS) -> None:
    """Take an origin off: no call is sent there once this has returned.

    Transaction: opens one. Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id, using):
        rows = EgressAllowance.objects.using(using).select_for_update()
        row = rows.filter(tenant_id=tenant_id, pk=allowance_id).first()
        if row is None:
            raise Problem("request.not_found")
        row.delete()
        records.note(tenant_id, "egress.withdrawn", {"origin": row.origin}, user=user, using=using)


def parsed(text: str) -> Origin:
    """Read what a person writes; without a scheme it is https. Raises: Problem (request.invalid)."""
    written = text.strip()
    try:
        return Origin.of(written if "://" in written else f"https://{written}")
    except EgressRefused:
        raise Problem("request.invalid", [FieldError("/origin", "a host, host:port or an https URL")]) from None
