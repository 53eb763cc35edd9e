"""`demo.large_output`: streams text of a given size through the bounded reader. For demonstrations and tests."""

import asyncio
from typing import Final

from toolsys.builtin.base import builtin_spec
from toolsys.domain.capture import BoundedReader, hard_ceiling
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import TextPart, ToolResult
from toolsys.domain.spec import JsonObject

LINE_BYTES: Final = 64
MAXIMUM_BYTES: Final = 1 << 30


class DemoLargeOutput:
    spec = builtin_spec(
        "demo.large_output",
        "Return text of this many bytes, in numbered lines. More than allowed is cut off, and the call has failed.",
        {"bytes": {"type": "integer", "minimum": 0, "maximum": MAXIMUM_BYTES}},
        required=["bytes"],
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        """Raises: OutputTooLarge, with what fits."""
        reader, left, number = BoundedReader(hard_ceiling(context.maximum_output_bytes)), arguments["bytes"], 0
        while left > 0:
            line = f"line {number:012}".encode().ljust(LINE_BYTES - 1, b".") + b"\n"
            reader.feed(line[:left])
            left -= LINE_BYTES
            number += 1
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        return ToolResult(ok=True, content=(TextPart(text=reader.text()),))
