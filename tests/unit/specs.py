"""Builders of values that unit tests vary: a harmless builtin spec, a claim, the deployment's limits."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from toolsys.domain.calls import Claim
from toolsys.domain.context import ArtifactWriter
from toolsys.domain.results import ArtifactRef
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.ports import Limits

CEILING = 1_048_576
ARTIFACT_ID = UUID("018f0000-0000-7000-8000-00000000000a")


def spec(**changes: Any) -> ToolSpec:
    given: dict[str, Any] = {
        "name": "math.evaluate",
        "version": "1",
        "description": "",
        "input_schema": {"type": "object"},
        "side_effect": SideEffectClass.NONE,
        "risk": RiskLevel.LOW,
        "idempotency": IdempotencyClass.READ_ONLY,
        "timeout_seconds": 10,
        "maximum_output_bytes": 1_000,
        "allow_parallel": True,
        "output_trust": TrustLevel.INTERNAL_TOOL,
    }
    return ToolSpec(**{**given, **changes})


def claim() -> Claim:
    return Claim(
        invocation_id=UUID(int=1),
        tenant_id="acme",
        tool_name="math.evaluate",
        epoch=1,
        authz_epoch=1,
        lease_seconds=10,
        claimed_at_boottime=0,
        operation_deadline=datetime(2026, 1, 1, tzinfo=UTC),
        remaining_seconds=10,
        effect_sent_at=None,
        attempt_number=1,
    )


def limits(inline: int = 400) -> Limits:
    return Limits(
        lease_seconds=10,
        max_claims=5,
        claim_cap_per_tenant=8,
        parallel_cap=8,
        max_attempts=3,
        inline_maximum_bytes=inline,
        output_ceiling_bytes=CEILING,
    )


class KeptArtifacts:
    """Keeps what was saved, in order."""

    def __init__(self) -> None:
        self.saved: list[tuple[bytes, TrustLevel]] = []

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        self.saved.append((data, trust))
        return ArtifactRef(artifact_id=ARTIFACT_ID, media_type=media_type, size_bytes=len(data), sha256="")

    def writer(self, claim: Claim, trust: TrustLevel) -> ArtifactWriter:
        raise NotImplementedError
