"""Builders of values that unit tests vary: a harmless builtin spec, a claim, the deployment's limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from toolsys.domain.calls import Claim
from toolsys.domain.context import ArtifactWriter, ExecutionTarget, Principal, ToolExecutionContext
from toolsys.domain.results import ArtifactRef
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.ports import CannotKeep, Limits

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


@dataclass(slots=True)
class Token:
    """A cancellation that the test gives."""

    is_cancelled: bool = False


class Shelf:
    """Keeps what a tool writes."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, str]] = []

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        self.written.append((data, media_type))
        return ArtifactRef(artifact_id=ARTIFACT_ID, media_type=media_type, size_bytes=len(data), sha256="ab")


def context(**changes: Any) -> ToolExecutionContext:
    """What a tool is handed; no credential can be resolved."""

    async def mark_effect_sent() -> None:
        return None

    given: dict[str, Any] = {
        "invocation_id": UUID(int=1), "call_id": "call_0", "run_id": UUID(int=2), "session_id": UUID(int=3),
        "tenant_id": "acme", "principal": Principal(UUID(int=4), "user-1", frozenset()), "step_number": 1,
        "attempt_number": 1, "idempotency_key": "key", "deadline_at": datetime(2026, 1, 1, tzinfo=UTC),
        "timeout_seconds": 5.0, "maximum_output_bytes": 65_536, "target": ExecutionTarget("in_process"),
        "workspace": None, "artifacts": Shelf(), "credentials": None, "cancellation": Token(),
        "mark_effect_sent": mark_effect_sent,
    }  # fmt: skip
    return ToolExecutionContext(**{**given, **changes})


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
    """Keeps what was saved, in order: bytes and label; `kinds` are the media types. `written` is what a tool wrote."""

    def __init__(self, *written: ArtifactRef, fault: str = "") -> None:
        self.saved: list[tuple[bytes, TrustLevel]] = []
        self.kinds: list[str] = []
        self.inherited: list[TrustLevel] = []
        self._written = {reference.artifact_id: reference for reference in written}
        self._fault = fault

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        if self._fault:
            raise CannotKeep(self._fault)
        self.saved.append((data, trust))
        self.kinds.append(media_type)
        return ArtifactRef(artifact_id=ARTIFACT_ID, media_type=media_type, size_bytes=len(data), sha256="")

    def inherit(self, claim: Claim, trust: TrustLevel) -> Mapping[UUID, ArtifactRef]:
        self.inherited.append(trust)
        return self._written

    def writer(self, claim: Claim) -> ArtifactWriter:
        raise NotImplementedError

    def read(self, *, tenant_id: str, artifact_id: UUID, storage_key: str, sha256: str) -> bytes:
        raise NotImplementedError
