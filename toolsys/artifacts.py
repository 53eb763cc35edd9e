"""Large results in storage: sealed bytes, keyed by tenant, invocation and claim epoch.

The bytes are written before their row, the row before the result that refers to it: no row ever lacks its bytes. What
is never adopted is an orphan of a lost attempt (`toolsys.orphans`). Bytes are sealed and opened whole, so that the
digest is checked before the first of them is served; the bound on one artifact bounds the memory.
Model-callable tools cannot read any of it. Source: DESIGN §10, decision record 6.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage

from toolsys import database
from toolsys.domain import media
from toolsys.domain.calls import Claim
from toolsys.domain.canonical import sha256_hex
from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.context import ArtifactWriter
from toolsys.domain.results import ArtifactRef
from toolsys.domain.trust import TrustLevel
from toolsys.envelope import CannotOpen
from toolsys.models import Artifact
from toolsys.ports import CannotKeep, CannotRead, Ids, Probe, Sealer
from toolsys.tenancy import tenant_transaction

log = logging.getLogger("toolsys.artifacts")
KIND: Final = "artifact"
MAXIMUM_PER_ATTEMPT: Final = 256
TOTAL_FACTOR: Final = 4
SEALING_BYTES: Final = 1_024  # more than the envelope adds


class DurableFiles(FileSystemStorage):
    """Files of this machine, readable by their owner only, on disk before `save` returns."""

    def __init__(self, location: Path) -> None:
        super().__init__(location, file_permissions_mode=0o600, directory_permissions_mode=0o700)

    def _save(self, name: str, content: Any) -> str:
        saved: str = super()._save(name, content)  # type: ignore[misc]
        path = Path(self.path(saved))
        for each in (path, *path.parents[:3]):
            descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return saved


@dataclass(frozen=True, slots=True)
class StoredArtifacts:
    """Implements `ports.ArtifactStore` over Django's storage. `maximum_bytes` bounds one artifact."""

    storage: Storage
    sealer: Sealer
    ids: Ids
    probe: Probe
    maximum_bytes: int

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        """Transaction: opens one for the row. Raises: CannotKeep."""
        if len(data) > self.maximum_bytes:
            raise CannotKeep("larger than one artifact may be")
        artifact_id = self.ids.uuid()
        key = f"{claim.tenant_id}/{claim.invocation_id}/{claim.epoch}-{artifact_id}"
        sealed = self.sealer.seal(data, tenant_id=claim.tenant_id, kind=KIND, row=artifact_id)
        self.probe.reached("before_blob", claim.tool_name)
        try:
            stored = self.storage.save(key, ContentFile(sealed))
        except OSError as fault:
            # The call's outcome says only that its output was too large: what is wrong here, nobody else is told.
            log.error("an artifact could not be stored: %s", fault.strerror)
            raise CannotKeep(f"storage: {fault.strerror}") from None
        self.probe.reached("after_blob", claim.tool_name)
        reference = ArtifactRef(
            artifact_id=artifact_id, media_type=media.recorded(media_type), size_bytes=len(data),
            sha256=sha256_hex(data),
        )  # fmt: skip
        with tenant_transaction(claim.tenant_id):
            Artifact.objects.create(
                id=artifact_id, tenant_id=claim.tenant_id, invocation_id=claim.invocation_id,
                claim_epoch=claim.epoch, media_type=reference.media_type, size_bytes=len(data),
                sha256=reference.sha256, trust=trust, storage_key=stored,
            )  # fmt: skip
        self.probe.reached("after_artifact", claim.tool_name)
        return reference

    def writer(self, claim: Claim) -> ArtifactWriter:
        return _Writer(self, claim)

    def inherit(self, claim: Claim, trust: TrustLevel) -> Mapping[UUID, ArtifactRef]:
        """Transaction: opens one."""
        with tenant_transaction(claim.tenant_id):
            mine = Artifact.objects.filter(invocation_id=claim.invocation_id, claim_epoch=claim.epoch)
            mine.update(trust=trust)
            return {
                row.id: ArtifactRef(
                    artifact_id=row.id, media_type=row.media_type, size_bytes=row.size_bytes, sha256=row.sha256
                )
                for row in mine
            }

    def read(self, *, tenant_id: str, artifact_id: UUID, storage_key: str, sha256: str) -> bytes:
        """Raises: CannotRead."""
        try:
            with self.storage.open(storage_key) as stored:
                sealed = stored.read(self.maximum_bytes + SEALING_BYTES)
            plain = self.sealer.open(sealed, tenant_id=tenant_id, kind=KIND, row=artifact_id)
        except (OSError, CannotOpen) as fault:
            raise CannotRead(type(fault).__name__) from None
        if sha256_hex(plain) != sha256:
            raise CannotRead("digest")
        return plain


class _Writer:
    """What a tool holds: it can add to its own attempt, a bounded number of bounded artifacts."""

    def __init__(self, store: StoredArtifacts, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._count = 0
        self._total = 0

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        """Raises: OutputTooLarge."""
        self._count += 1
        self._total += len(data)
        limit = self._store.maximum_bytes
        if len(data) > limit or self._total > limit * TOTAL_FACTOR or self._count > MAXIMUM_PER_ATTEMPT:
            raise OutputTooLarge
        return await asyncio.to_thread(self._save, data, media_type)

    def _save(self, data: bytes, media_type: str) -> ArtifactRef:
        try:
            return self._store.save(data, media_type, claim=self._claim, trust=TrustLevel.EXTERNAL_UNTRUSTED)
        except CannotKeep:
            raise OutputTooLarge from None  # TS: where nothing can be written, the output counts as too large
        finally:
            database.release_connection()
