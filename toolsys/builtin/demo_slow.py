"""`demo.slow`: takes its time, and stops when it is told to. For demonstrations and tests of deadlines."""

import asyncio
from typing import Final

from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject

LOOK_SECONDS: Final = 0.05
MAXIMUM_SECONDS: Final = 300


class DemoSlow:
    spec = builtin_spec(
        "demo.slow",
        "Wait for a number of seconds, then succeed.",
        {"seconds": {"type": "number", "minimum": 0, "maximum": MAXIMUM_SECONDS, "default": 1}},
        timeout_seconds=MAXIMUM_SECONDS + 10,
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        loop = asyncio.get_running_loop()
        until = loop.time() + arguments["seconds"]
        while (left := until - loop.time()) > 0:
            if context.cancellation.is_cancelled:
                return failed(ToolFailureKind.INTERNAL, "told to stop", reason_code="tool.cancelled")
            await asyncio.sleep(min(left, LOOK_SECONDS))
        return succeeded({"seconds": arguments["seconds"]})
