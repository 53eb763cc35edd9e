"""Steps 11 and 12 in detail: what of a result is kept inline, what becomes an artifact, what a model is shown.

Nothing here is a summary: text is cut head and tail. External text is always enveloped, and it never reaches a
message. The artifact is written before the row that refers to it. Source: TS "Output", DESIGN §10.
"""

import json
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from toolsys.domain import canonical, excerpt, reasons, redaction
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
    if result.failure is not None and result.failure.external_text:
        trust = TrustLevel.EXTERNAL_UNTRUSTED
    envelope = Envelope(trust, spec.name, nonces)
    text = whole = _text_of(result)
    size = len(text.encode("utf-8"))
    if size > spec.maximum_output_bytes * HARD_CEILING_FACTOR:
        text = excerpt.head(text, spec.maximum_output_bytes * HARD_CEILING_FACTOR)
        status, code = _too_large(status, code)
    inline = min(spec.maximum_output_bytes, limits.inline_maximum_bytes)
    is_foreign = trust is TrustLevel.EXTERNAL_UNTRUSTED
    artifact_id, context, shown = None, text, envelope.wrap(text) if is_foreign else text
    if len(text.encode("utf-8")) > inline:
        if excerpt.excerpt(text, budget_bytes=inline, artifact_id=UUID(int=0)) is None:
            return _unreferable(result, status, code, size, trust)
        saved = artifacts.save(text.encode("utf-8"), "text/plain; charset=utf-8", claim=claim, trust=trust)
        artifact_id = saved.artifact_id
        cut = excerpt.excerpt(text, budget_bytes=inline, artifact_id=artifact_id)
        assert cut is not None, "every reference has one length"
        context, shown = cut.plain(), cut.enveloped(envelope) if is_foreign else cut.plain()
    content = text if size <= spec.maximum_output_bytes else context
    payload = _payload(result, content, shown, trust, is_whole=content == whole)
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
        evidence=canonical.sha256_hex(result.evidence_key.encode()) if result.ok and result.evidence_key else None,
    )


def without_content(code: str, detail: str) -> BoundedOutput:
    """An ending that no tool result stands behind."""
    status = reasons.reason(code).status or OutcomeStatus.FAILED
    return BoundedOutput(
        status, code, {}, None, detail[:2000], 0, truncated=False, artifact_id=None, trust=TrustLevel.PLATFORM
    )


def _unreferable(result: ToolResult, status: OutcomeStatus, code: str, size: int, trust: TrustLevel) -> BoundedOutput:
    """The limit is too small to hold even the reference: nothing is kept, and no artifact is made."""
    status, code = _too_large(status, code)
    detail = result.failure.detail[:2000] if result.failure else "the tool's limit is too small for a reference"
    return replace(without_content(code, detail), outcome_status=status, output_bytes=size, truncated=True, trust=trust)


def _payload(result: ToolResult, content: str, shown: str, trust: TrustLevel, *, is_whole: bool) -> dict[str, Any]:
    parts: list[ContentPart] = [part for part in result.content if isinstance(part, ArtifactPart)]
    if content or not parts:
        parts.insert(0, TextPart(text=content))
    return {
        "content": [part.model_dump(mode="json") for part in parts],
        "structured": result.structured if is_whole else None,
        "context_content": shown,
        "trust": trust.value,
        "artifacts": [reference.model_dump(mode="json") for reference in result.artifacts],
    }


def _text_of(result: ToolResult) -> str:
    """The text that is measured and shown: the text parts, or the structured value where there are none.

    It can always be encoded: a tool's text may hold lone surrogates.
    """
    texts = [part.text for part in result.content if isinstance(part, TextPart)]
    if result.failure is not None and result.failure.external_text:
        texts.append(excerpt.head(result.failure.external_text, MAXIMUM_EXTERNAL_TEXT))
    if not texts and result.structured is not None:
        texts.append(json.dumps(canonical.tidy(result.structured), ensure_ascii=False, separators=(",", ":")))
    return "\n".join(texts).encode("utf-8", "replace").decode("utf-8")


def _too_large(status: OutcomeStatus, code: str) -> tuple[OutcomeStatus, str]:
    """A runaway answer is a failure, unless the outcome is already unknown."""
    if status is OutcomeStatus.UNCERTAIN:
        return status, code
    return OutcomeStatus.FAILED, "tool.output_too_large"
