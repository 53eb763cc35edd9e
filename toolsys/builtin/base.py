"""What builtin tools share: the spec with the defaults of a harmless in-process read, and two results."""

import json
from typing import Any

from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, RiskLevel, SideEffectClass, ToolSpec
from toolsys.domain.trust import TrustLevel


def builtin_spec(name: str, description: str, properties: JsonObject, **declared: Any) -> ToolSpec:
    """Declare a builtin. What is not declared is that of a pure in-process read."""
    required = declared.pop("required", [])
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    defaults: JsonObject = {
        "version": "1",
        "side_effect": SideEffectClass.NONE,
        "risk": RiskLevel.LOW,
        "idempotency": IdempotencyClass.READ_ONLY,
        "timeout_seconds": 10,
        "maximum_output_bytes": 65_536,
        "allow_parallel": True,
        "output_trust": TrustLevel.INTERNAL_TOOL,
    }
    return ToolSpec(name=name, description=description, input_schema=schema, **{**defaults, **declared})


def succeeded(structured: JsonObject, text: str | None = None) -> ToolResult:
    shown = text if text is not None else json.dumps(structured, ensure_ascii=False)
    return ToolResult(ok=True, content=(TextPart(text=shown),), structured=structured)


def failed(kind: ToolFailureKind, detail: str, external_text: str | None = None, **more: Any) -> ToolResult:
    given = {"reason_code": f"tool.{kind}", "external_text": external_text, **more}
    return ToolResult(ok=False, failure=ToolFailure(kind=kind, detail=detail, **given))
