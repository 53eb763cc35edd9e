"""From what a server returned to a `ToolResult`: parts, artifacts, and the rule of what an error means.

The effect rule is the specification's and is keyed on the classification, never on a server or its vocabulary: once
dispatched, an error of a call that may not be repeated is an unknown outcome, unless the server proves that nothing
was applied. Source: TS "A non-idempotent MCP call fails after dispatch", DESIGN §7 and §10.
"""

import base64
import binascii
import json
from typing import Any, Final

from mcpcatalog.remote import AuthExpired, CallResult, JsonObject, RemoteError
from toolsys.domain import excerpt, recovery
from toolsys.domain.context import ArtifactWriter
from toolsys.domain.recovery import RecoveryAction
from toolsys.domain.results import (
    ArtifactPart,
    ArtifactRef,
    ContentPart,
    TextPart,
    ToolFailure,
    ToolFailureKind,
    ToolResult,
)
from toolsys.domain.spec import Classification, IdempotencyClass, SideEffectClass, ToolSpec
from toolsys.domain.trust import TrustLevel

HARD_CEILING_FACTOR: Final = 4
MAXIMUM_BLOCKS: Final = 256
NO_CONTENT: Final = "(the tool returned no content)"
UNDECODED: Final = "(an attachment could not be decoded and is kept as it came)"
RAW: Final = "application/octet-stream"
_REPEATABLE: Final = frozenset({IdempotencyClass.READ_ONLY, IdempotencyClass.IDEMPOTENT})
_KINDS: Final = {
    "tool.timeout": ToolFailureKind.TIMEOUT,
    "tool.server_busy": ToolFailureKind.TRANSPORT,
    "tool.server_unreachable": ToolFailureKind.TRANSPORT,
    "tool.transport": ToolFailureKind.TRANSPORT,
    "tool.output_too_large": ToolFailureKind.OUTPUT_TOO_LARGE,
    "tool.protocol_error": ToolFailureKind.OUTPUT_INVALID,
    "tool.permission": ToolFailureKind.PERMISSION,
    "tool.auth_failed": ToolFailureKind.PERMISSION,
    "tool.auth_unsupported": ToolFailureKind.PERMISSION,
    "tool.server_unauthorized": ToolFailureKind.PERMISSION,
    "tool.credentials_missing": ToolFailureKind.PERMISSION,
    "tool.egress_denied": ToolFailureKind.PERMISSION,
}


def may_be_repeated(classification: Classification) -> bool:
    """Say whether an error of a dispatched call may be an ordinary failure without proof."""
    return classification.side_effect is SideEffectClass.NONE or classification.idempotency in _REPEATABLE


def failure_of(error: RemoteError, classification: Classification) -> ToolResult:
    """Render an error without an answer. Only the server can prove that nothing was applied; the transport cannot."""
    code = error.reason_code
    kind = _KINDS.get(code, ToolFailureKind.UPSTREAM_ERROR)
    if not may_be_repeated(classification):
        kind, code = ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown"
    return ToolResult(ok=False, output_trust=TrustLevel.EXTERNAL_UNTRUSTED, failure=ToolFailure(
        kind=kind, reason_code=code, detail=str(error)[:2_000], retry_after_seconds=error.retry_after_seconds,
        retryable=error.effect == "not_applied" and not isinstance(error, AuthExpired),
    ))  # fmt: skip


def refused_login(error: AuthExpired, spec: ToolSpec, *, has_renewed: bool) -> ToolResult:
    """Render a 401 in mid-session. After a new login the call is held, for another attempt to send it, where the
    recovery table permits; a 401 after the watermark says nothing about whether the effect landed.
    """
    declared = recovery.effective_class(spec.idempotency, passes_key=spec.passes_idempotency_key)
    was_sent = spec.side_effect is not SideEffectClass.NONE
    if not has_renewed or recovery.recover(declared, effect_sent=was_sent) is RecoveryAction.UNCERTAIN:
        return failure_of(error, spec.classification)
    return ToolResult(ok=False, output_trust=TrustLevel.EXTERNAL_UNTRUSTED, failure=ToolFailure(
        kind=ToolFailureKind.PERMISSION, reason_code=error.reason_code, detail="logged in anew", retryable=True,
    ))  # fmt: skip


async def result_of(
    result: CallResult, classification: Classification, artifacts: ArtifactWriter, *, maximum_output_bytes: int
) -> ToolResult:
    """Render an answer. What goes past four times the tool's limit, text or structured, is not carried further; the
    pipeline sees that it is too large, and nothing is left out in silence.
    """
    ceiling = maximum_output_bytes * HARD_CEILING_FACTOR
    if result.is_error:
        return _reported_error(result, classification, ceiling)
    parts, references = await _parts(result.content, artifacts, ceiling)
    fits = _size(result.structured) <= ceiling
    structured = result.structured if fits else None
    if not fits:
        parts.append(TextPart(text=_cut(_json(result.structured), ceiling + 1)))
    if not parts and structured is None:
        parts = [TextPart(text=NO_CONTENT)]
    return ToolResult(
        ok=True, content=tuple(parts), structured=structured, artifacts=tuple(references),
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED, metrics=result.progress,
    )  # fmt: skip


def _reported_error(result: CallResult, classification: Classification, ceiling: int) -> ToolResult:
    kind, code = ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error"
    if result.effect != "not_applied" and not may_be_repeated(classification):
        kind, code = ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown"
    texts = [block["text"] for block in result.content if isinstance(block.get("text"), str)]
    fits = _size(result.structured) <= ceiling
    structured = result.structured if fits else None
    text = _cut("\n".join([*texts, *([] if fits else [_json(result.structured)])]), ceiling)
    return ToolResult(ok=False, structured=structured, output_trust=TrustLevel.EXTERNAL_UNTRUSTED, failure=ToolFailure(
        kind=kind, reason_code=code, detail="the server reported an error", external_text=text or None,
        retryable=kind is ToolFailureKind.UPSTREAM_ERROR,
    ))  # fmt: skip


async def _parts(
    blocks: tuple[JsonObject, ...], artifacts: ArtifactWriter, ceiling: int
) -> tuple[list[ContentPart], list[ArtifactRef]]:
    parts: list[ContentPart] = []
    references: list[ArtifactRef] = []
    left = ceiling + 1  # one byte more than allowed, so that the pipeline notices
    for block in blocks[:MAXIMUM_BLOCKS]:
        found = _data(block)
        if found is not None:
            data, media_type, is_decoded = found
            reference = await artifacts.write(data, media_type)
            references.append(reference)
            parts.append(ArtifactPart(artifact=reference))
            parts += [] if is_decoded else [TextPart(text=UNDECODED)]
        said = _said(block)
        if (found is None or said is not None) and left > 0:
            text = _cut(_json(block) if said is None else said, left)
            left -= len(text.encode("utf-8", "replace"))
            parts.append(TextPart(text=text))
    if len(blocks) > MAXIMUM_BLOCKS:
        parts.append(TextPart(text=f"({len(blocks) - MAXIMUM_BLOCKS} more content blocks were left out)"))
    return parts, references


def _data(block: JsonObject) -> tuple[bytes, str, bool] | None:
    """Return the bytes and media type of an image, a sound or an embedded blob, and whether they could be decoded.

    What could not is kept as it came: half a picture written out as text helps nobody.
    """
    resource = block.get("resource")
    holder = resource if block.get("type") == "resource" and isinstance(resource, dict) else block
    encoded = holder.get("blob") if holder is resource else holder.get("data")
    if not isinstance(encoded, str):
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return encoded.encode("utf-8", "replace"), RAW, False
    return data, _media_type(holder.get("mimeType")), True


def _media_type(claimed: Any) -> str:
    """A server's media type is kept only if it can do no harm as a header."""
    plain = isinstance(claimed, str) and len(claimed) < 100 and claimed.isascii() and claimed.isprintable()
    return claimed if plain and "/" in claimed else RAW


def _said(block: JsonObject) -> str | None:
    for holder in (block, block.get("resource")):
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            return str(holder["text"])
    return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(value: Any) -> int:
    return 0 if value is None else len(_json(value).encode("utf-8", "replace"))


def _cut(text: str, limit_bytes: int) -> str:
    """Bound, and make writable: a lone surrogate has no UTF-8 form."""
    return excerpt.head(text.encode("utf-8", "replace").decode("utf-8"), limit_bytes)
