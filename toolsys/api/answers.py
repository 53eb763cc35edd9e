"""The JSON Schemas of what the API answers, for its OpenAPI document. `render.py` makes the answers."""

from typing import Any, Final

from toolsys.domain.skills import SkillSource
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus

Schema = dict[str, Any]


def _object(properties: Schema, optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TEXT: Final[Schema] = {"type": "string"}
MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
ID: Final[Schema] = {"type": "string", "format": "uuid"}
MAYBE_ID: Final[Schema] = {"type": ["string", "null"], "format": "uuid"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
MAYBE_TIME: Final[Schema] = {"type": ["string", "null"], "format": "date-time"}
FLAG: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object", "additionalProperties": True}
MAYBE_OBJECT: Final[Schema] = {"type": ["object", "null"], "additionalProperties": True}

OUTCOME: Final = _object({
    "status": {"type": "string", "enum": [status.value for status in OutcomeStatus]}, "action": TEXT,
    "reason_code": TEXT, "message": TEXT, "retryable": FLAG, "remediation": TEXT,
})  # fmt: skip
REFERENCE: Final = _object({"artifact_id": ID, "media_type": TEXT, "size_bytes": {"type": "integer"}, "sha256": TEXT})
_CALL_PROPERTIES: Final[Schema] = {
    "call_id": TEXT, "invocation_id": ID, "run_id": ID, "step_number": {"type": "integer"}, "name": TEXT,
    "status": {"type": "string", "enum": [*(status.value for status in InvocationStatus), "not_started"]},
    "outcome": {"anyOf": [OUTCOME, {"type": "null"}]}, "content": {"type": "array", "items": ANY_OBJECT},
    "context_content": TEXT, "structured": {}, "output_trust": MAYBE_TEXT, "truncated": FLAG,
    "artifact_id": MAYBE_ID, "artifacts": {"type": "array", "items": REFERENCE},
    "approval_id": MAYBE_ID, "is_replay": FLAG, "idempotency_key": TEXT,
    "attempt_number": {"type": "integer"}, "effect_sent": FLAG, "created_at": TIME, "started_at": MAYBE_TIME,
    "completed_at": MAYBE_TIME,
}  # fmt: skip
CALL: Final = _object(_CALL_PROPERTIES)
STEP_CALL: Final = _object(_CALL_PROPERTIES, optional=tuple(set(_CALL_PROPERTIES) - {"call_id", "status", "outcome"}))
PROBLEM: Final = _object({
    "type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "instance": TEXT, "code": TEXT,
    "request_id": TEXT, "retryable": FLAG,
    "errors": {"type": "array", "items": _object({"pointer": TEXT, "message": TEXT})},
})  # fmt: skip
APPROVAL: Final = _object({
    "id": ID, "invocation_id": ID, "run_id": ID, "name": TEXT, "arguments": ANY_OBJECT, "side_effect": TEXT,
    "risk": TEXT,
    "status": {"type": "string", "enum": [status.value for status in ApprovalStatus]}, "verdict": TEXT,
    "seats": {"type": "array", "items": TEXT}, "seats_left": {"type": "array", "items": TEXT}, "digest": TEXT,
    "rejection_code": MAYBE_TEXT, "created_at": TIME, "expires_at": TIME, "decided_at": MAYBE_TIME,
    "consume_by": MAYBE_TIME,
})  # fmt: skip
GRANT: Final = _object({
    "id": ID, "request_id": ID, "name": TEXT, "agent_id": ID, "principal_id": MAYBE_ID,
    "status": {"type": "string", "enum": ["proposed", "active", "spent", "revoked", "expired"]},
    "conditions": {"type": "array", "items": ANY_OBJECT}, "seats": {"type": "array", "items": TEXT},
    "maximum_uses": {"type": "integer"}, "uses": {"type": "integer"}, "note": TEXT, "created_at": TIME,
    "expires_at": TIME, "activated_at": MAYBE_TIME, "revoked_at": MAYBE_TIME,
})  # fmt: skip
ACCESS: Final = _object({
    "id": ID, "invocation_id": ID, "run_id": ID, "name": TEXT, "reason_code": TEXT,
    "status": {"type": "string", "enum": ["open", "granted", "dismissed"]}, "note": TEXT, "answer": TEXT,
    "created_at": TIME, "answered_at": MAYBE_TIME,
})  # fmt: skip

QUARANTINE: Final = _object({"is_quarantining": FLAG})
REVIEW_LINE: Final = _object({
    "id": ID, "server_id": TEXT, "is_reviewed": FLAG, "pending": {"type": "integer"}, "catalog_hash": TEXT,
})  # fmt: skip
PENDING_TOOL: Final = _object({
    "id": ID, "name": TEXT, "remote_name": TEXT, "is_new": FLAG, "description": TEXT, "input_schema": ANY_OBJECT,
    "claims": ANY_OBJECT, "accepted_before": MAYBE_OBJECT, "differences": {"type": "array", "items": ANY_OBJECT},
    "trust": TEXT,
})  # fmt: skip


def _page(item: Schema) -> Schema:
    return _object({"data": {"type": "array", "items": item}, "has_more": FLAG, "next_cursor": MAYBE_TEXT})


ANSWERS: Final[dict[str, Schema]] = {
    "Approval": APPROVAL,
    "ApprovalPage": _page(APPROVAL),
    "Grant": GRANT,
    "GrantPage": _page(GRANT),
    "Access": ACCESS,
    "AccessPage": _page(ACCESS),
    "Quarantine": QUARANTINE,
    "Reviews": _object({
        "is_quarantining": FLAG, "count": {"type": "integer"}, "data": {"type": "array", "items": REVIEW_LINE},
    }),
    "Review": _object({
        "id": ID, "server_id": TEXT, "is_quarantining": FLAG, "is_reviewed": FLAG, "seen": TEXT,
        "count": {"type": "integer"}, "pending": {"type": "array", "items": PENDING_TOOL},
        "gone": {"type": "array", "items": TEXT},
    }),
    "Acceptance": _object({"accepted": {"type": "array", "items": TEXT}}),
    "Artifact": _object({
        "id": ID, "invocation_id": ID, "run_id": ID, "media_type": TEXT, "size_bytes": {"type": "integer"},
        "sha256": TEXT, "trust": TEXT, "created_at": TIME,
    }),
    "Call": CALL,
    "CallPage": _object({"data": {"type": "array", "items": CALL}, "has_more": FLAG, "next_cursor": MAYBE_TEXT}),
    "Step": _object({
        "run_id": ID, "step_number": {"type": "integer"},
        "status": {"type": "string", "enum": ["completed", "in_progress", "waiting_for_approval"]},
        "answer_only": {"type": "boolean"}, "calls": {"type": "array", "items": STEP_CALL},
    }),
    "DryRun": _object({
        "run_id": ID, "step_number": {"type": "integer"}, "status": {"type": "string", "enum": ["dry_run"]},
        "calls": {"type": "array", "items": _object({
            "call_id": TEXT, "name": TEXT, "outcome_status": MAYBE_TEXT,
            "verdict": {"type": ["string", "null"], "enum": [*(verdict.value for verdict in PolicyVerdict), None]},
            "reason_code": TEXT, "rule": MAYBE_TEXT, "is_held": FLAG, "seats": {"type": "array", "items": TEXT},
        })},
    }),
    "SkillPage": _object({
        "data": {"type": "array", "items": _object({
            "id": ID, "name": TEXT, "version": TEXT, "description": TEXT,
            "required_tools": {"type": "array", "items": TEXT},
            "source": {"type": "string", "enum": [source.value for source in SkillSource]}, "server_id": MAYBE_TEXT,
            "trust": TEXT, "is_read_only": FLAG, "is_cacheable": FLAG,
            "arguments": {"type": "array", "items": _object({"name": TEXT, "description": TEXT, "is_required": FLAG})},
        })},
        "has_more": FLAG, "next_cursor": MAYBE_TEXT,
    }),
    "Explanation": _object({
        "invocation_id": ID, "name": TEXT, "status": TEXT, "reason_code": MAYBE_TEXT, "message": TEXT,
        "steps": {"type": "array", "minItems": 14, "maxItems": 14, "items": _object({
            "number": {"type": "integer"}, "name": TEXT, "times": {"type": "integer"}, "saw": TEXT, "decided": TEXT,
            "is_deciding": FLAG,
        })},
    }),
    "StepOrDryRun": {"anyOf": [{"$ref": "#/components/schemas/Step"}, {"$ref": "#/components/schemas/DryRun"}]},
    "Run": _object({
        "id": ID, "session_id": ID, "status": {"type": "string", "enum": [status.value for status in RunStatus]},
        "manifest": {"type": ["array", "null"], "items": TEXT}, "calls_left": {"type": ["integer", "null"]},
        "deadline_at": TIME, "created_at": TIME,
        "ended_at": MAYBE_TIME, "correlation_id": TEXT, "failure_reason_code": MAYBE_TEXT,
        "pending_approval_count": {"type": "integer"},
    }),
    "Session": _object({
        "id": ID, "agent": TEXT, "principal": TEXT, "profile": TEXT, "environment": TEXT, "tool_schema_sha256": TEXT,
        "created_at": TIME, "tools": {"type": "array", "items": ANY_OBJECT}, "names": ANY_OBJECT,
        "withheld": {"type": "array", "items": _object({"name": TEXT, "reason_code": TEXT})},
    }, optional=("names",)),
}  # fmt: skip
