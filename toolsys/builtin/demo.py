"""`demo.echo` and `demo.external_write`: a no-op and a real effect, for demonstrations and tests only.

They exist where the demo is switched on. The write appends one line to an effect log kept by another process, over
the egress client like everything that leaves; it is not idempotent, and says so.
"""

import json

from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, RiskLevel, SideEffectClass
from toolsys.domain.trust import TrustLevel
from toolsys.egress import EgressError, EgressPolicy, EgressRefused, post_json


class DemoEcho:
    spec = builtin_spec(
        "demo.echo", "Return the text that was given.", {"text": {"type": "string", "maxLength": 65_536, "default": ""}}
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        return succeeded({"text": arguments["text"]}, arguments["text"])


class DemoExternalWrite:
    spec = builtin_spec(
        "demo.external_write",
        "Append one line to the demonstration's effect log. Not idempotent.",
        {
            "line": {"type": "string", "minLength": 1, "maxLength": 2_000},
            "hold": {"type": "boolean", "default": False, "description": "Keep the request open until released"},
        },
        required=["line"],
        side_effect=SideEffectClass.EXTERNAL_WRITE,
        risk=RiskLevel.HIGH,
        idempotency=IdempotencyClass.NON_IDEMPOTENT,
        required_scopes=frozenset({"demo.write"}),
        timeout_seconds=30,
        allow_parallel=False,
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
    )

    def __init__(self, url: str, policy: EgressPolicy) -> None:
        self._url = url
        self._policy = policy
        self.binding = url

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        body = {"line": arguments["line"], "hold": arguments["hold"], "key": context.idempotency_key}
        try:
            answer = await post_json(
                self._url, body, policy=self._policy, timeout_seconds=context.timeout_seconds, maximum_bytes=65_536
            )
        except EgressError as silence:
            return _unanswered(silence)
        if answer.status != 200:
            # Whoever stands in between says 502 also of what has happened.
            kind = ToolFailureKind.UPSTREAM_ERROR if answer.status < 500 else ToolFailureKind.OUTCOME_UNKNOWN
            return failed(kind, f"status {answer.status}", answer.body.decode("utf-8", "replace"))
        return succeeded(json.loads(answer.body))


def _unanswered(silence: EgressError) -> ToolResult:
    """Where the request may have arrived, only the effect log knows what happened; else nothing did."""
    kind, code = ToolFailureKind.NOT_FOUND, "tool.server_unreachable"
    if silence.was_sent:
        kind, code = ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown"
    elif isinstance(silence, EgressRefused):
        kind, code = ToolFailureKind.PERMISSION, "tool.egress_denied"
    return ToolResult(ok=False, failure=ToolFailure(kind=kind, reason_code=code, detail=silence.reason))
