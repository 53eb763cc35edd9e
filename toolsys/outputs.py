"""Step 12 in detail: what of a result is kept inline, what becomes an artifact, what a model is shown.

Nothing here is a summary: text is cut head and tail. External text is always enveloped, and it never reaches a
message. Artifacts are written before the row that refers to them. What is measured how: decision record 5.
Source: TS "Output", DESIGN §10.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from toolsys.domain import canonical, excerpt, media, reasons, redaction, structured
from toolsys.domain import content as contents
from toolsys.domain.calls import BoundedOutput, Claim
from toolsys.domain.capture import hard_ceiling
from toolsys.domain.content import Content
from toolsys.domain.excerpt import Envelope
from toolsys.domain.results import ArtifactRef, ContentPart, TextPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, SideEffectClass, ToolSpec
from toolsys.domain.states import OutcomeStatus
from toolsys.domain.structured import Structured
from toolsys.domain.trust import TrustLevel, lowered
from toolsys.ports import ArtifactStore, CannotKeep, Limits

NO_CONTENT: Final = "[the tool returned no content]"
_ANY_ID: Final = UUID(int=0)  # every reference has one length


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
    """Return what step 13 persists. Writes at most two artifacts: the text, and a structured value beside it."""
    trust = _trust_of(result, spec)
    content = contents.content_of(result, artifacts.inherit(claim, trust) if contents.refers(result) else {})
    value = structured.of(result.structured)
    if content.has_foreign_reference and status is OutcomeStatus.SUCCEEDED:
        status, code = OutcomeStatus.FAILED, "tool.output_invalid"
    keeping = _Keeping(
        spec.maximum_output_bytes,
        min(spec.maximum_output_bytes, limits.inline_maximum_bytes),
        Envelope(trust, spec.name, nonces) if trust is TrustLevel.EXTERNAL_UNTRUSTED else None,
        _Shelf(artifacts, claim, trust),
    )
    is_runaway = result.failure is not None and result.failure.kind is ToolFailureKind.OUTPUT_TOO_LARGE
    if is_runaway or max(content.size, value.size if value else 0) > hard_ceiling(spec.maximum_output_bytes):
        status, code = _too_large(status, code, spec)
    try:
        payload = keeping.payload(content, value)
    except CannotKeep as fault:
        status, code = _too_large(status, code, spec)
        return _unkept(result, status, code, content.size, trust, fault.detail)
    if not payload["context_content"] and result.ok:
        payload["context_content"] = NO_CONTENT
    saved = keeping.shelf.saved
    first = next((reference.artifact_id for reference in (*saved, *content.references)), None)
    return BoundedOutput(
        outcome_status=status,
        reason_code=code,
        payload=payload,
        redacted=redaction.redact(_kept_of(payload)),
        error_detail=result.failure.detail[:2000] if result.failure else "",
        output_bytes=content.size or (value.size if value else 0),
        truncated=bool(saved),
        artifact_id=first,
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


def _kept_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger keeps of a payload: what is absent is left out, and false, 0 and "" are not absent."""
    kept = {"content": payload["content"] or None, "structured": payload["structured"]}
    return {name: value for name, value in kept.items() if value is not None}


def as_text(value: Any) -> str:
    """Return a structured value as the text that stands for it where there is no other."""
    found = structured.of(value)
    return found.text if found is not None else ""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """Where this attempt's artifacts go, and what step 12 has put there, in order."""

    store: ArtifactStore
    claim: Claim
    trust: TrustLevel
    saved: list[ArtifactRef] = field(default_factory=list)

    def save(self, text: str, media_type: str, *, limit_bytes: int) -> UUID:
        """Write a text, or as much of it as may be captured. Raises: CannotKeep."""
        captured = excerpt.head(text, limit_bytes)
        kind = media_type if captured == text else media.TEXT
        self.saved.append(self.store.save(captured.encode("utf-8"), kind, claim=self.claim, trust=self.trust))
        return self.saved[-1].artifact_id


@dataclass(frozen=True, slots=True)
class _Keeping:
    """The bounds of one result, in bytes: what stays canonical, and what a model is shown."""

    canonical: int
    inline: int
    envelope: Envelope | None
    shelf: _Shelf

    def payload(self, content: Content, value: Structured | None) -> dict[str, Any]:
        """Return what is sealed. Raises: CannotKeep."""
        stands_alone = value is not None and not content.parts
        if stands_alone and value is not None:
            content = replace(contents.of_text(value.text), references=content.references)
        parts, shown = self._text(content, media.JSON if stands_alone else media.TEXT)
        kept = self._value(value, is_saved=stands_alone) if value is not None else None
        return {
            "content": [part.model_dump(mode="json") for part in parts],
            "structured": kept,
            "context_content": shown,
            "trust": self.shelf.trust.value,
            "artifacts": [ref.model_dump(mode="json") for ref in (*content.references, *self.shelf.saved)],
        }

    def _text(self, content: Content, media_type: str) -> tuple[tuple[ContentPart, ...], str]:
        """Return the canonical parts and what a model is shown of them."""
        if excerpt.escaped_bytes(content.text) <= self.inline:
            return content.parts, self.envelope.wrap(content.text) if self.envelope and content.text else content.text
        if excerpt.excerpt(content.text, budget_bytes=self.inline, artifact_id=_ANY_ID) is None:
            raise CannotKeep("the tool's limit is too small for a reference")
        artifact_id = self.shelf.save(content.text, media_type, limit_bytes=self._hard)
        captured = excerpt.head(content.text, self._hard)
        cut = excerpt.excerpt(captured, budget_bytes=self.inline, artifact_id=artifact_id)
        assert cut is not None, "every reference has one length"
        shown = cut.enveloped(self.envelope) if self.envelope else cut.plain()
        if content.size <= self.canonical:
            return content.parts, shown
        whole = excerpt.excerpt(captured, budget_bytes=self.canonical, artifact_id=artifact_id)
        assert whole is not None, "the canonical budget is never below the inline one"
        return (TextPart(text=whole.plain()), *content.artifact_parts), shown

    def _value(self, value: Structured, *, is_saved: bool) -> Any:
        """Return the structured value where it fits, or what of it fits; the whole is then in an artifact."""
        if value.size <= self.canonical:
            return value.value
        if is_saved:
            artifact_id = self.shelf.saved[-1].artifact_id
        else:
            artifact_id = self.shelf.save(value.text, media.JSON, limit_bytes=self._hard)
        return structured.fitted(value.value, self.canonical, artifact_id)

    @property
    def _hard(self) -> int:
        return hard_ceiling(self.canonical)


def _trust_of(result: ToolResult, spec: ToolSpec) -> TrustLevel:
    """A tool may lower its trust and never raise it; text of a third party is untrusted, whoever passes it on."""
    if result.failure is not None and result.failure.external_text:
        return TrustLevel.EXTERNAL_UNTRUSTED
    return lowered(spec.output_trust, result.output_trust)


def _unkept(
    result: ToolResult, status: OutcomeStatus, code: str, size: int, trust: TrustLevel, why: str
) -> BoundedOutput:
    """What is too large cannot be referred to or written: the call fails, and nothing is dropped in silence."""
    detail = result.failure.detail[:2000] if result.failure else why
    return replace(without_content(code, detail), outcome_status=status, output_bytes=size, truncated=True, trust=trust)


def _too_large(status: OutcomeStatus, code: str, spec: ToolSpec) -> tuple[OutcomeStatus, str]:
    """A runaway answer is a failure, unless the outcome is already unknown.

    Who reads how much of a page came back asks for less of it; who has written would write once more.
    """
    if status is OutcomeStatus.UNCERTAIN:
        return status, code
    return OutcomeStatus.FAILED, "tool.output_too_large.performed" if _has_effect(spec) else "tool.output_too_large"


def _has_effect(spec: ToolSpec) -> bool:
    """Say whether asking again, for less, would do something a second time."""
    is_read = spec.idempotency in {IdempotencyClass.READ_ONLY, IdempotencyClass.IDEMPOTENT}
    return spec.side_effect.is_write or (spec.side_effect is not SideEffectClass.NONE and not is_read)
