"""From the raw result of a tools/call to what we say about it. Only `mcpcatalog.sdk` imports it."""

from typing import Any

from mcpcatalog.remote import CallResult, Effect, ProtocolViolation
from mcpcatalog.sdk import surfaces


def result_of(raw: dict[str, Any], updates: int = 0) -> CallResult:
    """Read a tools/call result, after so many reports of progress. Raises: InputRequired, ProtocolViolation."""
    surfaces.require_complete(raw)
    content = raw.get("content", [])
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ProtocolViolation("content is not a list of objects")
    structured = raw.get("structuredContent")
    is_error = raw.get("isError") is True
    effect: Effect = "applied"
    if is_error:
        proof = isinstance(structured, dict) and structured.get("effect_status") == "not_applied"
        effect = "not_applied" if proof else "unknown"
    progress = {"progress_updates": updates} if updates else {}
    return CallResult(is_error, tuple(content), structured, effect, progress)
