"""Resolves credential references to short-lived values. References travel; values never do.

`store:NAME` is the tenant's own in the sealed store; `env:TOOLSYS_CREDENTIAL_...` and `file:NAME` are the
deployment's, and only operators may write rows that carry them (a trigger sees to it). Nothing is kept: whoever
connects again resolves again, so that a rotation takes effect. Source: DESIGN §8.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from toolsys import database
from toolsys.domain.context import SecretValue
from toolsys.envelope import CannotOpen
from toolsys.ports import NotAvailable, Sealer
from toolsys.tenancy import tenant_transaction

KIND: Final = "credential"
MAXIMUM_BYTES: Final = 16_384
ENVIRONMENT_PREFIX: Final = "TOOLSYS_CREDENTIAL_"
_REFERENCE: Final = re.compile(r"(?P<kind>store|env|file):(?P<name>[A-Za-z0-9][\w.-]{0,127})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Implements `ports.Credentials`. `folder` holds the files that operators mount; None offers no files."""

    sealer: Sealer
    folder: Path | None = None

    def of(self, tenant_id: str, version: int | None = None) -> "TenantCredentials":
        """Return a tenant's resolver; with a version, one that takes this live one of the store's credentials."""
        return TenantCredentials(tenant_id, self.sealer, self.folder, version)


@dataclass(frozen=True, slots=True)
class TenantCredentials:
    """Implements `ports.CredentialResolver` for one tenant: no reference leads into another tenant's store."""

    tenant_id: str
    sealer: Sealer
    folder: Path | None = None
    version: int | None = None

    async def resolve(self, credential_ref: str) -> SecretValue:
        """Raises: NotAvailable (tool.credentials_missing)."""
        found = _REFERENCE.match(credential_ref)
        value = await asyncio.to_thread(self._value, found["kind"], found["name"]) if found else None
        if not value:
            raise NotAvailable("tool.credentials_missing", "the reference resolves to nothing")
        return SecretValue(value)

    def _value(self, kind: str, name: str) -> str | None:
        if kind == "env":
            return os.environ.get(name) if name.startswith(ENVIRONMENT_PREFIX) else None
        return self._stored(name) if kind == "store" else self._mounted(name)

    def _stored(self, name: str) -> str | None:
        try:
            with tenant_transaction(self.tenant_id):
                rows = self._rows(name)
        finally:
            database.release_connection()
        for identifier, sealed in rows:
            try:
                return self.sealer.open(bytes(sealed), tenant_id=self.tenant_id, kind=KIND, row=identifier).decode()
            except CannotOpen:
                raise NotAvailable("tool.credentials_missing", "sealed under a key that is not in the ring") from None
        return None

    def _rows(self, name: str) -> Sequence[Any]:
        if self.version is None:
            return database.call("SELECT id, sealed FROM toolsys_take_credential(%s)", (name,))
        return database.call(
            "SELECT id, sealed FROM toolsys_take_credential_version(%s, %s)", (name, self.version)
        )  # fmt: skip

    def _mounted(self, name: str) -> str | None:
        if self.folder is None:
            return None
        try:
            with (self.folder / name).open("rb") as file:
                data = file.read(MAXIMUM_BYTES + 1)
            return data.decode().removesuffix("\n") if len(data) <= MAXIMUM_BYTES else None
        except (OSError, UnicodeDecodeError):
            return None
