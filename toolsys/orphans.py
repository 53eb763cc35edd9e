"""Collects what a lost attempt left in storage: artifacts that nothing adopted, and bytes that have no row.

A row goes before its bytes, so that a crash between leaves bytes without a row and never a row without bytes; the walk
over storage finds those by their age. An attempt that still runs loses nothing. Run by the scheduler only.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.core.files.storage import Storage
from django.db.models import Exists, OuterRef
from django.utils import timezone

from toolsys import database
from toolsys.domain.states import InvocationStatus
from toolsys.models import Artifact, Invocation, Tenant
from toolsys.ports import Probe
from toolsys.tenancy import tenant_transaction

log = logging.getLogger("toolsys.orphans")
ROWS_A_PASS: Final = 500
FOLDERS_A_PASS: Final = 1_000


@dataclass(slots=True)
class OrphanCollector:
    """Goes round the storage, a bounded part at a time; where it stands is kept in memory and may be lost."""

    storage: Storage
    probe: Probe
    age_seconds: float
    _after: tuple[str, str] = field(default=("", ""))

    def collect(self) -> int:
        """Make one pass; return how many stored files were deleted. Transaction: opens one for each tenant."""
        keys = {key for tenant_id in self._tenants() for key in self._rowless(tenant_id)}
        keys |= set(self._leaked())
        for key in keys:
            tenant_id = key.partition("/")[0]
            self.probe.reached("before_blob_delete", tenant_id)
            self.storage.delete(key)
            self.probe.reached("after_blob_delete", tenant_id)
        if keys:
            log.info("deleted %d orphaned artifacts", len(keys))
        return len(keys)

    def _tenants(self) -> list[str]:
        """Tenants with artifacts. A folder whose tenant this database does not know is somebody else's: left alone."""
        if not self.storage.exists(""):
            return []
        return [name for name in sorted(self.storage.listdir("")[0]) if _is_known(name)]

    def _rowless(self, tenant_id: str) -> list[str]:
        """Delete the rows of orphans; their bytes are due once this has committed."""
        self.probe.reached("before_orphan_rows", tenant_id)
        with tenant_transaction(tenant_id):
            running = Invocation.objects.filter(
                pk=OuterRef("invocation_id"), claim_epoch=OuterRef("claim_epoch"), status=InvocationStatus.RUNNING
            )
            old = database.now() - timedelta(seconds=self.age_seconds)
            stale = Artifact.objects.filter(~Exists(running), adopted_at=None, created_at__lt=old).order_by("id")
            found = dict(stale.select_for_update().values_list("id", "storage_key")[:ROWS_A_PASS])
            Artifact.objects.filter(pk__in=found).delete()
        self.probe.reached("after_orphan_rows", tenant_id)
        return list(found.values())

    def _leaked(self) -> Iterator[str]:
        """Name old files of the next folders whose row does not exist."""
        for tenant_id, folder in self._next_folders():
            path = f"{tenant_id}/{folder}"
            old = {
                identifier: f"{path}/{name}"
                for name in self.storage.listdir(path)[1]
                if (identifier := _id_of(name)) is not None and self._is_old(f"{path}/{name}")
            }
            if old:
                with tenant_transaction(tenant_id):
                    known = set(Artifact.objects.filter(pk__in=old).values_list("id", flat=True))
                yield from (key for identifier, key in old.items() if identifier not in known)

    def _next_folders(self) -> list[tuple[str, str]]:
        every = ((tenant, folder) for tenant in self._tenants() for folder in sorted(self.storage.listdir(tenant)[0]))
        found = [place for place in every if place > self._after][:FOLDERS_A_PASS]
        self._after = found[-1] if len(found) == FOLDERS_A_PASS else ("", "")
        return found

    def _is_old(self, path: str) -> bool:
        try:
            written = self.storage.get_modified_time(path)
        except FileNotFoundError:
            return False
        return (timezone.now() - written).total_seconds() > self.age_seconds


def _is_known(tenant_id: str) -> bool:
    with tenant_transaction(tenant_id):
        return Tenant.objects.filter(pk=tenant_id).exists()


def _id_of(name: str) -> UUID | None:
    """A stored name is `<epoch>-<artifact id>`."""
    try:
        return UUID(name.partition("-")[2])
    except ValueError:
        return None
