"""Steps 11 and 12 in detail: what of a result is kept inline, what becomes an artifact, what a model is shown.

Nothing here is a summary: text is cut head and tail. External text is always enveloped, and it never reaches a
message. The artifact is written before the row that refers to it. Source: TS "Output", DESIGN §10.
"""

import json
from typing import Any, Final

from toolsys.domain import excerpt, reasons, redaction
from toolsys.domain.calls import BoundedOutput, Claim
from toolsys.domain.excerpt import Envelope
from toolsys.domain.results import ArtifactPart, ContentPart, TextPart, ToolResult
from toolsys.domain.spec import ToolSpec
from toolsys.domain.states import OutcomeStatus
from toolsys.domain.trust import TrustLevel, lowered
from toolsys.ports import ArtifactStore, Limits

HARD_CEILING_FACTOR: Final = 4
MAXIMUM_EXTERNAL_TEXT: Final = 16_384


def bound(
    result: ToolResult,
    status: OutcomeStatus,
    code: str,
    *,
    spec: ToolSpec,
    claim: Claim,
    limits: Limits,
    artifacts: ArtifactStore,
    nonces: tuple[str, str],
) -> BoundedOutput:
    """Return what step 13 persists. Writes at most one artifact."""
    trust = lowered(spec.output_trust, result.output_trust)
    envelope = Envelope(trust, spec.name, nonces)
    text = _text_of(result)
    size = len(text.encode("utf-8", "replace"))
    if size > spec.maximum_output_bytes * HARD_CEILING_FACTOR:
        text = excerpt.head(text, spec.maximum_output_bytes * HARD_CEILING_FACTOR)
        status, code = _too_large(status, code)
    inline = min(spec.maximum_output_bytes, limits.inline_maximum_bytes)
    artifact_id, context = None, text
    if len(text.encode("utf-8", "replace")) > inline:
        saved = artifacts.save(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", claim=claim, trust=trust)
        artifact_id = saved.artifact_id
        context = excerpt.excerpt(text, budget_bytes=inline, artifact_id=artifact_id) or ""
    content = text if size <= spec.maximum_output_bytes else context
    payload = _payload(result, content, context, envelope, trust)
    return BoundedOutput(
        outcome_status=status,
        reason_code=code,
        payload=payload,
        redacted=redaction.redact({key: payload[key] for key in ("content", "structured") if payload.get(key)}),
        error_detail=result.failure.detail[:2000] if result.failure else "",
        output_bytes=size,
        truncated=artifact_id is not None,
        artifact_id=artifact_id,
        trust=trust,
        retry_after_seconds=result.failure.retry_after_seconds if result.failure else None,
    )


def without_content(code: str, detail: str) -> BoundedOutput:
    """An ending that no tool result stands behind."""
    status = reasons.reason(code).status or OutcomeStatus.FAILED
    return BoundedOutput(status, code, {}, None, detail[:2000], 0, False, None, TrustLevel.PLATFORM)


def _payload(
    result: ToolResult, content: str, context: str, envelope: Envelope, trust: TrustLevel
) -> dict[str, Any]:
    parts: list[ContentPart] = [part for part in result.content if isinstance(part, ArtifactPart)]
    if content or not parts:
        parts.insert(0, TextPart(text=content))
    shown = excerpt.enveloped_excerpt(context, envelope) if trust is TrustLevel.EXTERNAL_UNTRUSTED else context
    return {
        "content": [part.model_dump(mode="json") for part in parts],
        "structured": result.structured if content == _text_of(result) else None,
        "context_content": shown,
        "trust": trust.value,
        "artifacts": [reference.model_dump(mode="json") for reference in result.artifacts],
    }


def _text_of(result: ToolResult) -> str:
    """The text that is measured and shown: the text parts, or the structured value where there are none."""
    texts = [part.text for part in result.content if isinstance(part, TextPart)]
    if result.failure is not None and result.failure.external_text:
        texts.append(excerpt.head(result.failure.external_text, MAXIMUM_EXTERNAL_TEXT))
    if not texts and result.structured is not None:
        texts.append(json.dumps(result.structured, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(texts)


def _too_large(status: OutcomeStatus, code: str) -> tuple[OutcomeStatus, str]:
    """A runaway answer is a failure, unless the outcome is already unknown."""
    if status is OutcomeStatus.UNCERTAIN:
        return status, code
    return OutcomeStatus.FAILED, "tool.output_too_large"
