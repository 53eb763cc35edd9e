"""The tools under test, one for each idempotency class: an effect is one line, synced, in a file outside the worker.

They need no approval. Each says when it is before and after its preparation, and after its effect, so that a process
can be stopped there. The file is what the world remembers: it outlives whoever wrote the line.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, Final

from toolsys.builtin.base import builtin_spec, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, RiskLevel, SideEffectClass
from toolsys.ports import Probe, Tool

CLASSES: Final = {
    "read": IdempotencyClass.READ_ONLY, "repeatable": IdempotencyClass.IDEMPOTENT,
    "keyed": IdempotencyClass.CONDITIONALLY_IDEMPOTENT, "once": IdempotencyClass.NON_IDEMPOTENT,
}  # fmt: skip


def tool_name(kind: str) -> str:
    return f"demo.race_{kind}"


class World:
    """The effect file. Appending one line at a time is atomic; who dies before it has done nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def act(self, context: ToolExecutionContext) -> None:
        line = {"call": str(context.invocation_id), "key": context.idempotency_key, "pid": os.getpid(),
                "attempt": context.attempt_number, "at": time.time()}  # fmt: skip
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
            os.fsync(file)
        finally:
            os.close(file)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def of(self, call: object) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["call"] == str(call)]


class RaceTool:
    binding = "world"

    def __init__(self, kind: str, world: World, probe: Probe) -> None:
        is_read = kind == "read"
        self.spec = builtin_spec(
            tool_name(kind), "Leave one line in the world of the races.",
            {"text": {"type": "string", "maxLength": 64}, "seconds": {"type": "number", "minimum": 0, "default": 0}},
            required=["text"], risk=RiskLevel.LOW, idempotency=CLASSES[kind], timeout_seconds=60,
            side_effect=SideEffectClass.NETWORK_READ if is_read else SideEffectClass.WORKSPACE_WRITE,
            passes_idempotency_key=kind == "keyed", allow_parallel=is_read,
        )  # fmt: skip
        self._world = world
        self._probe = probe

    async def prepare(self, context: ToolExecutionContext) -> None:
        await self._reach("before_prepare")
        await self._reach("after_prepare")

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        await asyncio.to_thread(self._world.act, context)
        await self._reach("after_effect")
        await asyncio.sleep(arguments["seconds"])
        return succeeded({"text": arguments["text"]})

    async def _reach(self, point: str) -> None:
        await asyncio.to_thread(self._probe.reached, point, self.spec.name)


def race_tools(world: World, probe: Probe) -> list[Tool]:
    return [RaceTool(kind, world, probe) for kind in CLASSES]
