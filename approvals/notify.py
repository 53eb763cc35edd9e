"""Writes of the outbox that people ask for: endpoints, their secrets, a test message, sending again.

One transaction each. A secret is made here, sealed, and returned once. Who may call is the edge's to check. Source:
DESIGN §5, notes on the API §10.
"""

import base64
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import F, QuerySet

from approvals.messages import PING, TYPES
from approvals.models import Delivery, NotificationEndpoint
from approvals.outbox_models import DeliveryStatus, EndpointKind
from toolsys import database, vault
from toolsys.egress import EgressError, EgressPolicy
from toolsys.ids import uuid7
from toolsys.ports import Sealer
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

ENDPOINTS_LIMIT: Final = 20
NAME_LIMIT: Final = 96
TARGET_LIMIT: Final = 2_000
SECRET_BYTES: Final = 32

PolicyFor = Callable[[str], EgressPolicy]


def create_endpoint(
    *, tenant_id: str, user: Any, name: str, kind: EndpointKind, target: str, types: Sequence[str], sealer: Sealer,
    policy_for: PolicyFor,
) -> tuple[NotificationEndpoint, str]:  # fmt: skip
    """Return the row and a webhook's secret, which is never to be had again. Raises: Problem (request.invalid)."""
    _check(name, kind, target, types, policy_for)
    with tenant_transaction(tenant_id):
        known = NotificationEndpoint.objects.select_for_update()
        if len(known) >= ENDPOINTS_LIMIT:
            raise Problem("request.invalid", [FieldError("/name", f"at most {ENDPOINTS_LIMIT} endpoints")])
        if any(each.name == name for each in known):
            raise Problem("request.invalid", [FieldError("/name", "another endpoint has this name")])
        row = NotificationEndpoint(
            id=uuid7(), tenant_id=tenant_id, name=name, kind=kind, target=target, types=sorted(types), created_by=user
        )
        secret = _new_secret() if kind is EndpointKind.WEBHOOK else ""
        if secret:
            row.credential = f"webhook-{row.id.hex}"
            vault.create(tenant_id=tenant_id, name=row.credential, value=secret, sealer=sealer)
        row.save(force_insert=True)
    return row, secret


def change_endpoint(
    *, tenant_id: str, endpoint_id: UUID, target: str, types: Sequence[str], is_enabled: bool, policy_for: PolicyFor
) -> NotificationEndpoint:
    """What waits for an endpoint that is turned off waits on. Raises: Problem (request.*)."""
    with tenant_transaction(tenant_id):
        row = _locked(endpoint_id)
        _check(row.name, EndpointKind(row.kind), target, types, policy_for)
        row.target, row.types, row.is_enabled = target, sorted(types), is_enabled
        row.disabled_reason = "" if is_enabled else row.disabled_reason or "by_hand"
        row.save(update_fields=["target", "types", "is_enabled", "disabled_reason"])
        return row


def rotate_secret(*, tenant_id: str, endpoint_id: UUID, sealer: Sealer) -> tuple[NotificationEndpoint, str]:
    """Return a new secret. Messages are signed with the one before, too, until the next rotation retires it.

    Raises: Problem (request.not_found).
    """
    secret = _new_secret()
    with tenant_transaction(tenant_id):
        row = _locked(endpoint_id)
        if not row.credential:
            raise Problem("request.not_found")
        vault.rotate(tenant_id=tenant_id, name=row.credential, value=secret, sealer=sealer)
    return row, secret


def send_test(*, tenant_id: str, endpoint_id: UUID) -> Delivery:
    """Raises: Problem (request.not_found)."""
    with tenant_transaction(tenant_id):
        row = _locked(endpoint_id)
        return Delivery.objects.create(tenant_id=tenant_id, endpoint=row, event_type=PING, due_at=database.now())


def send_again(*, tenant_id: str, delivery_id: UUID) -> None:
    """Have a message sent once more, whatever became of it: with its own id, so that its receiver can tell.

    Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id):
        found: QuerySet[Delivery] = Delivery.objects.filter(pk=delivery_id)
        again = {"status": DeliveryStatus.PENDING, "due_at": database.now(), "attempts_before": F("attempts")}
        if not found.update(**again):
            raise Problem("request.not_found")


def _locked(endpoint_id: UUID) -> NotificationEndpoint:
    row = NotificationEndpoint.objects.select_for_update().filter(pk=endpoint_id).first()
    if row is None:
        raise Problem("request.not_found")
    return row


def _new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def _check(name: str, kind: EndpointKind, target: str, types: Sequence[str], policy_for: PolicyFor) -> None:
    """Raises: Problem (request.invalid), with a pointer to each field."""
    found = []
    if not 1 <= len(name) <= NAME_LIMIT or not name.isprintable():
        found.append(FieldError("/name", f"1 to {NAME_LIMIT} visible characters"))
    if not types or set(types) - TYPES.keys():
        found.append(FieldError("/types", "at least one of the known types"))
    problem = _bad_address(target) if kind is EndpointKind.EMAIL else _bad_url(target, policy_for)
    if problem:
        found.append(FieldError("/target", problem))
    if found:
        raise Problem("request.invalid", found)


def _bad_address(target: str) -> str:
    try:
        validate_email(target)
    except ValidationError:
        return "one e-mail address"
    return ""


def _bad_url(target: str, policy_for: PolicyFor) -> str:
    if len(target) > TARGET_LIMIT:
        return f"at most {TARGET_LIMIT:,} characters"
    try:
        policy_for(target).check_url(target)
    except EgressError as refused:
        return f"not a URL that may be called: {refused.reason}"
    return ""
