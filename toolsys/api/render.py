"""How sessions, runs and calls look to a runtime. Shapes only: every value comes from a selector."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from toolsys.domain.repetition import is_last_before_loop
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import InvocationStatus
from toolsys.dryruns import Foreseen
from toolsys.explanations import Explanation
from toolsys.models import AgentSession, Run
from toolsys.selectors import ArtifactView, CallView, SkillView

FORMATS: Final = ("native", "mcp", "openai", "anthropic")
MAXIMUM_ALIAS: Final = 64


def session(row: AgentSession, format_name: str) -> JsonObject:
    visible = [spec for _, spec in sorted(row.tool_set.tools.items()) if spec.get("model_visible", True)]
    body: JsonObject = {
        "id": row.id, "agent": row.agent.name, "principal": row.principal.external_id, "profile": row.profile,
        "environment": row.environment, "tool_schema_sha256": row.tool_schema_sha256, "created_at": row.created_at,
        "tools": [_TOOLS[format_name](spec) for spec in visible], "withheld": row.withheld_tools,
    }  # fmt: skip
    if format_name in {"openai", "anthropic"}:
        body["names"] = {alias(spec["name"]): spec["name"] for spec in visible}
    return body


def alias(name: str) -> str:
    """Return a name of at most 64 of `[a-zA-Z0-9_-]`, which is all that some model APIs take.

    A function of the name alone; a name that another one could be flattened to carries a digest of itself.
    """
    flat = re.sub(r"[^a-zA-Z0-9_-]", "__", name)
    if len(flat) <= MAXIMUM_ALIAS and "__" not in name and "_." not in name:
        return flat
    return f"{flat[: MAXIMUM_ALIAS - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def skill(view: SkillView) -> JsonObject:
    """The label goes with the metadata: of what is not the platform's, the description is text from outside."""
    return {
        "id": view.id, "name": view.name, "version": view.version, "description": view.description,
        "required_tools": list(view.required_tools), "source": view.source.value, "server_id": view.server_id,
        "trust": view.source.trust.value, "is_read_only": view.source.is_read_only,
        "is_cacheable": view.source.is_cacheable, "arguments": list(view.arguments),
    }  # fmt: skip


def run(row: Run, pending_approvals: int = 0) -> JsonObject:
    return {
        "id": row.id, "session_id": row.session_id, "status": row.status, "manifest": row.manifest,
        "calls_left": row.calls_left, "deadline_at": row.deadline_at, "created_at": row.created_at,
        "ended_at": row.ended_at,
        "correlation_id": row.correlation_id, "failure_reason_code": row.failure_reason_code or None,
        "pending_approval_count": pending_approvals,
    }  # fmt: skip


def step(
    run_id: Any, number: int, names: Sequence[str], calls: Iterable[CallView], replays: frozenset[Any]
) -> JsonObject:
    """One step with its calls in order; a call that has not begun stands as `not_started`.

    `answer_only` tells the runtime to have its next turn answer from what it has: every call of it would be refused.
    """
    known = {view.call_index: view for view in calls}
    shown = [
        call(known[index], is_replay=known[index].id in replays) if index in known else _not_started(name)
        for index, name in enumerate(names)
    ]
    status = step_status(shown)
    answers_only = status == "completed" and any(is_last_before_loop(view.identical_count) for view in known.values())
    return {"run_id": run_id, "step_number": number, "status": status, "answer_only": answers_only, "calls": shown}


def dry_run(run_id: Any, number: int, foreseen: Sequence[Foreseen]) -> JsonObject:
    """`outcome_status` is what a refusal would be; null for a call that would be held, or go on."""
    calls = [
        {"call_id": each.call_id, "name": each.name, "outcome_status": each.outcome_status, "verdict": each.verdict,
         "reason_code": each.reason_code, "rule": each.rule, "is_held": each.is_held, "seats": each.seats}
        for each in foreseen
    ]  # fmt: skip
    return {"run_id": run_id, "step_number": number, "status": "dry_run", "calls": calls}


def explanation(found: Explanation) -> JsonObject:
    steps = [
        {"number": step.number, "name": step.name, "times": step.times, "saw": step.saw, "decided": step.decided,
         "is_deciding": step.is_deciding}
        for step in found.steps
    ]  # fmt: skip
    return {
        "invocation_id": found.invocation_id, "name": found.tool_name, "status": found.status,
        "reason_code": found.reason_code, "message": found.message, "steps": steps,
    }  # fmt: skip


def step_status(calls: Sequence[JsonObject]) -> str:
    if all(each["outcome"] is not None for each in calls):
        return "completed"
    is_held = any(each["status"] == InvocationStatus.WAITING_FOR_APPROVAL for each in calls)
    return "waiting_for_approval" if is_held else "in_progress"


def call(view: CallView, *, is_replay: bool = False) -> JsonObject:
    payload = view.payload
    return {
        "call_id": view.call_id, "invocation_id": view.id, "run_id": view.run_id, "step_number": view.step_number,
        "name": view.tool_name, "status": view.status, "outcome": view.outcome_fields(),
        "content": payload.get("content", []), "context_content": payload.get("context_content", ""),
        "structured": payload.get("structured"), "output_trust": view.output_trust, "truncated": view.truncated,
        "artifact_id": view.artifact_id, "artifacts": payload.get("artifacts", []),
        "approval_id": view.approval_id, "is_replay": is_replay,
        "idempotency_key": view.idempotency_key, "attempt_number": view.attempt_number,
        "effect_sent": view.effect_sent, "created_at": view.created_at, "started_at": view.started_at,
        "completed_at": view.completed_at,
    }  # fmt: skip


def artifact(view: ArtifactView) -> JsonObject:
    return {
        "id": view.id, "invocation_id": view.invocation_id, "run_id": view.run_id, "media_type": view.media_type,
        "size_bytes": view.size_bytes, "sha256": view.sha256, "trust": view.trust, "created_at": view.created_at,
    }  # fmt: skip


def _not_started(call_id: str) -> JsonObject:
    return {"call_id": call_id, "status": "not_started", "outcome": None}


def _native(spec: JsonObject) -> JsonObject:
    shown = ("name", "version", "description", "input_schema", "output_schema", "side_effect", "risk", "idempotency",
             "output_trust", "timeout_seconds", "deprecated")  # fmt: skip
    return {name: spec[name] for name in shown}


def _mcp(spec: JsonObject) -> JsonObject:
    shown = {"name": spec["name"], "description": spec["description"], "inputSchema": spec["input_schema"]}
    return shown | ({"outputSchema": spec["output_schema"]} if spec["output_schema"] else {})


def _openai(spec: JsonObject) -> JsonObject:
    function = {"name": alias(spec["name"]), "description": spec["description"], "parameters": spec["input_schema"]}
    return {"type": "function", "function": function}


def _anthropic(spec: JsonObject) -> JsonObject:
    return {"name": alias(spec["name"]), "description": spec["description"], "input_schema": spec["input_schema"]}


_TOOLS: Final = {"native": _native, "mcp": _mcp, "openai": _openai, "anthropic": _anthropic}
