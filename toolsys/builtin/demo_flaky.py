"""`demo.flaky`: fails the first attempts of a call as a lost connection would, then succeeds. For demonstrations."""

from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject


class DemoFlaky:
    spec = builtin_spec(
        "demo.flaky",
        "Fail the first attempts of this call with a failure that may be retried, then succeed.",
        {
            "failures": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
            "retry_after_seconds": {"type": "number", "minimum": 0, "maximum": 60, "default": 0},
        },
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        """Nothing is remembered here: the attempt's number, which the row carries, decides."""
        if context.attempt_number <= arguments["failures"]:
            wait = arguments["retry_after_seconds"] or None
            detail = f"attempt {context.attempt_number} of {arguments['failures']} that fail"
            return failed(ToolFailureKind.TRANSPORT, detail, retryable=True, retry_after_seconds=wait)
        return succeeded({"attempt": context.attempt_number})
