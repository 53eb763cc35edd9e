"""Collects what a lost attempt left in storage: artifacts that nothing adopted, and bytes that have no row.

And what has been kept long enough: artifacts whose run ended a retention ago, where the operator set one. A row goes
before its bytes, so that a crash between leaves bytes without a row and never a row without bytes; the walk over
storage finds those by their age. An attempt that still runs loses nothing. Run by the scheduler only.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.core.files.storage import Storage
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Coalesce
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
    """Goes round the storage, a bounded part at a time; where it stands is kept in memory and may be lost.

    `retention_seconds` counts from the end of an artifact's run; None keeps artifacts as long as their run.
    """

    storage: Storage
    probe: Probe
    age_seconds: float
    retention_seconds: float | None = None
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
        """Delete the rows of orphans and of what was kept long enough; their bytes are due once this has committed."""
        self.probe.reached("before_orphan_rows", tenant_id)
        with tenant_transaction(tenant_id):
            found: dict[UUID, str] = {}
            for rows in (self._orphans(), self._expired()):
                locked = rows.order_by("id").select_for_update(of=("self",))
                found |= dict(locked.values_list("id", "storage_key")[: ROWS_A_PASS - len(found)])
            Artifact.objects.filter(pk__in=found).delete()
        self.probe.reached("after_orphan_rows", tenant_id)
        return list(found.values())

    def _orphans(self) -> QuerySet[Artifact]:
        running = Invocation.objects.filter(
            pk=OuterRef("invocation_id"), claim_epoch=OuterRef("claim_epoch"), status=InvocationStatus.RUNNING
        )
        old = database.now() - timedelta(seconds=self.age_seconds)
        return Artifact.objects.filter(~Exists(running), adopted_at=None, created_at__lt=old)

    def _expired(self) -> QuerySet[Artifact]:
        """What nobody ends has ended at its deadline; a call that a person still has to settle keeps its artifacts."""
        if self.retention_seconds is None:
            return Artifact.objects.none()
        old = database.now() - timedelta(seconds=self.retention_seconds)
        ended = Invocation.objects.alias(end=Coalesce("run__ended_at", "run__deadline_at")).filter(
            pk=OuterRef("invocation_id"), completed_at__lt=old, end__lt=old
        )
        return Artifact.objects.filter(Exists(ended), adopted_at__lt=old)

    def _leaked(self) -> Iterator[str]:
        """Name old files of the next folders whose row does not exist."""
        for tenant_id, folder in self._next_folders():
            path = f"{tenant_id}/{folder}"
            old = {
                identifier: f"{path}/{name}"
                for name in self._listed(path)[1]
                if (identifier := _id_of(name)) is not None and self._is_old(f"{path}/{name}")
            }
            if old:
                with tenant_transaction(tenant_id):
                    known = set(Artifact.objects.filter(pk__in=old).values_list("id", flat=True))
                yield from (key for identifier, key in old.items() if identifier not in known)

    def _next_folders(self) -> list[tuple[str, str]]:
        every = ((tenant, folder) for tenant in self._tenants() for folder in sorted(self._listed(tenant)[0]))
        found = [place for place in every if place > self._after][:FOLDERS_A_PASS]
        self._after = found[-1] if len(found) == FOLDERS_A_PASS else ("", "")
        return found

    def _listed(self, path: str) -> tuple[list[str], list[str]]:
        """Folders and files. What somebody took away since it was named holds nothing: the pass goes on."""
        try:
            return self.storage.listdir(path)
        except FileNotFoundError:
            return [], []

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
