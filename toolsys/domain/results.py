"""The two result shapes: what a tool returns, and what the pipeline concludes.

A `ToolResult` cannot state a status: denial, uncertainty and unavailability are the pipeline's judgement.
Every non-success `ToolOutcome` serializes to exactly six fields. Source: TS "ToolResult", "What the model
reads"; gates 4 and 5.
"""

from enum import StrEnum
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolsys.domain.states import OutcomeStatus
from toolsys.domain.trust import TrustLevel


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ArtifactRef(_Frozen):
    artifact_id: UUID
    media_type: str
    size_bytes: int
    sha256: str


class TextPart(_Frozen):
    type: Literal["text"] = "text"
    text: str


class ArtifactPart(_Frozen):
    type: Literal["artifact"] = "artifact"
    artifact: ArtifactRef


ContentPart = TextPart | ArtifactPart


class ToolFailureKind(StrEnum):
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    TIMEOUT = "timeout"
    OUTPUT_TOO_LARGE = "output_too_large"
    OUTPUT_INVALID = "output_invalid"
    UPSTREAM_ERROR = "upstream_error"
    TRANSPORT = "transport"
    INTERNAL = "internal"
    OUTCOME_UNKNOWN = "outcome_unknown"


class ToolFailure(_Frozen):
    """`detail` is for operators and never sent onward; `external_text` is enveloped, never narrated."""

    kind: ToolFailureKind
    reason_code: str
    detail: str = ""
    retryable: bool = False
    external_text: str | None = None
    retry_after_seconds: float | None = None


class ToolResult(_Frozen):
    ok: bool
    content: tuple[ContentPart, ...] = ()
    structured: Any = None
    artifacts: tuple[ArtifactRef, ...] = ()
    failure: ToolFailure | None = None
    output_trust: TrustLevel | None = None
    metrics: dict[str, int] = Field(default_factory=dict)
    evidence_key: str | None = None

    @model_validator(mode="after")
    def _has_one_shape(self) -> "ToolResult":
        if self.ok == (self.failure is not None):
            raise ValueError("a result either succeeded or carries a failure")
        return self


class Remediation(StrEnum):
    NONE = "none"
    MODIFY_ARGUMENTS = "modify_arguments"
    RETRY_LATER = "retry_later"
    ASK_USER = "ask_user"
    CONTACT_OPERATOR = "contact_operator"


OUTCOME_FIELDS: Final = ("status", "action", "reason_code", "message", "retryable", "remediation")


class ToolOutcome(_Frozen):
    """What the model reads at the end of a call. External text travels beside it, in an envelope."""

    status: OutcomeStatus
    action: str
    reason_code: str
    message: str
    retryable: bool
    remediation: Remediation

    def as_fields(self) -> dict[str, Any]:
        return self.model_dump(mode="json")
