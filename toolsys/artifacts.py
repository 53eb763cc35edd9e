"""Large results in storage: sealed bytes, keyed by tenant, invocation and claim epoch.

The file is written before the row, the row before the result that refers to it; what is never adopted is an orphan
of a lost attempt and is collected by age. Model-callable tools cannot read any of it. Source: DESIGN §10.
"""

import asyncio
from dataclasses import dataclass

from django.core.files.base import ContentFile
from django.core.files.storage import Storage

from toolsys.domain.calls import Claim
from toolsys.domain.canonical import sha256_hex
from toolsys.domain.context import ArtifactWriter
from toolsys.domain.results import ArtifactRef
from toolsys.domain.trust import TrustLevel
from toolsys.models import Artifact
from toolsys.ports import Ids, Sealer
from toolsys.tenancy import tenant_transaction


@dataclass(frozen=True, slots=True)
class StoredArtifacts:
    """Implements `ports.ArtifactStore` over Django's storage."""

    storage: Storage
    sealer: Sealer
    ids: Ids

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        artifact_id = self.ids.uuid()
        key = f"{claim.tenant_id}/{claim.invocation_id}/{claim.epoch}-{artifact_id}"
        sealed = self.sealer.seal(data, tenant_id=claim.tenant_id, kind="artifact", row=artifact_id)
        stored = self.storage.save(key, ContentFile(sealed))
        digest = sha256_hex(data)
        with tenant_transaction(claim.tenant_id):
            Artifact.objects.create(
                id=artifact_id, tenant_id=claim.tenant_id, invocation_id=claim.invocation_id,
                claim_epoch=claim.epoch, media_type=media_type, size_bytes=len(data), sha256=digest, trust=trust,
                storage_key=stored,
            )  # fmt: skip
        return ArtifactRef(artifact_id=artifact_id, media_type=media_type, size_bytes=len(data), sha256=digest)

    def writer(self, claim: Claim, trust: TrustLevel) -> ArtifactWriter:
        return _Writer(self, claim, trust)

    def read(self, artifact: Artifact) -> bytes:
        with self.storage.open(artifact.storage_key) as stored:
            return self.sealer.open(stored.read(), tenant_id=artifact.tenant_id, kind="artifact", row=artifact.id)


@dataclass(frozen=True, slots=True)
class _Writer:
    store: StoredArtifacts
    claim: Claim
    trust: TrustLevel

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        return await asyncio.to_thread(self.store.save, data, media_type, claim=self.claim, trust=self.trust)
