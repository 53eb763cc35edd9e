"""The writes of the credential store: create, rotate, retire. There is no read: only the resolver opens a value.

Two versions live while a rotation is under way, so that the newer one can be taken back; a third retires the oldest.
Called by pages, imports and commands; permission is checked there. Source: DESIGN §8.
"""

import re
from typing import Final
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, IntegrityError
from django.utils import timezone

from toolsys.credentials import KIND, MAXIMUM_BYTES
from toolsys.ids import uuid7
from toolsys.models import Credential, CredentialVersion
from toolsys.ports import Sealer
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

LIVE_VERSIONS: Final = 2
_NAME: Final = re.compile(r"^[a-z][a-z0-9_-]{0,62}\Z")


def create(*, tenant_id: str, name: str, value: str, sealer: Sealer, using: str = DEFAULT_DB_ALIAS) -> str:
    """Keep a new secret and return the reference to it. Raises: Problem (request.invalid)."""
    if not _NAME.match(name):
        raise Problem("request.invalid", [FieldError("/name", "lower-case letters, digits, _ and -, a letter first")])
    _check(value)
    try:
        with tenant_transaction(tenant_id, using):
            row = Credential.objects.using(using).create(tenant_id=tenant_id, name=name)
            _add(row, 1, value, sealer, using)
    except IntegrityError as error:
        if "credential_name_is_unique" not in str(error):
            raise
        raise Problem("request.invalid", [FieldError("/name", "another credential has this name")]) from None
    return f"store:{name}"


def rotate(*, tenant_id: str, name: str, value: str, sealer: Sealer, using: str = DEFAULT_DB_ALIAS) -> int:
    """Add the version that counts from now on and return its number. Raises: Problem (request.*)."""
    _check(value)
    with tenant_transaction(tenant_id, using):
        row = _locked(tenant_id, name, using)
        known = _versions(row, using)
        number = max((version.version for version in known), default=0) + 1
        live = [version.id for version in known if version.retired_at is None]
        _erase(live[LIVE_VERSIONS - 1 :], using)
        _add(row, number, value, sealer, using)
    return number


def retire(*, tenant_id: str, name: str, version: int | None = None, using: str = DEFAULT_DB_ALIAS) -> int:
    """Erase one version, or all and the name with them. Return the version that counts now, 0 for none.

    Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id, using):
        row = _locked(tenant_id, name, using)
        live = [known for known in _versions(row, using) if known.retired_at is None]
        going = [known for known in live if version in {None, known.version}]
        if version is not None and not going:
            raise Problem("request.not_found")
        _erase([known.id for known in going], using)
        row.current_version = max((known.version for known in live if known not in going), default=0)
        row.retired_at = timezone.now() if version is None else None
        row.save(using=using, update_fields=["current_version", "retired_at"])
    return row.current_version


def _check(value: str) -> None:
    if not value or "\0" in value or len(value.encode("utf-8", "replace")) > MAXIMUM_BYTES:
        raise Problem("request.invalid", [FieldError("/value", f"1 to {MAXIMUM_BYTES} bytes of text, no NUL")])


def _locked(tenant_id: str, name: str, using: str) -> Credential:
    found = Credential.objects.using(using).select_for_update().filter(
        tenant_id=tenant_id, name=name, retired_at=None
    ).first()  # fmt: skip
    if found is None:
        raise Problem("request.not_found")
    return found


def _versions(row: Credential, using: str) -> list[CredentialVersion]:
    """Newest first, without their values."""
    return list(CredentialVersion.objects.using(using).filter(credential=row).defer("sealed").order_by("-version"))


def _add(row: Credential, number: int, value: str, sealer: Sealer, using: str) -> None:
    identifier = uuid7()
    sealed = sealer.seal(value.encode(), tenant_id=row.tenant_id, kind=KIND, row=identifier)
    CredentialVersion.objects.using(using).create(
        id=identifier, tenant_id=row.tenant_id, credential=row, version=number, sealed=sealed
    )
    row.current_version = number
    row.save(using=using, update_fields=["current_version"])


def _erase(identifiers: list[UUID], using: str) -> None:
    CredentialVersion.objects.using(using).filter(pk__in=identifiers).update(sealed=None, retired_at=timezone.now())
