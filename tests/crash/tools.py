"""The tools under test: one for each idempotency class, and a twin of each that a person must approve.

All reach the world through a relay, a child process that `prepare` starts and that has sent nothing before the
watermark. They report their own moments; the product's code is not touched.
"""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.crash.expected import Class
from tests.crash.points import Role
from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.binding import tool_digest
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, RiskLevel, SideEffectClass, ToolSpec
from toolsys.ports import NotAvailable, Probe, Tool

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RELAY: Final = (sys.executable, "-S", "-E", "-m", "tests.crash.relay")
LARGE_TEXT: Final = "all work and no play " * 400
ABSENT: Final = "absent"  # a file of this name, holding the tenant's id: nobody is there to connect to


def tool_name(kind: Class, *, held: bool = False, grouped: bool = False) -> str:
    return f"demo.{'held' if held else 'group' if grouped else 'crash'}_{kind.value}"


def _spec(kind: Class, *, held: bool = False, grouped: bool = False) -> ToolSpec:
    if kind is Class.READ:
        side_effect, risk = SideEffectClass.NETWORK_READ, RiskLevel.HIGH if held else RiskLevel.LOW
    else:
        side_effect, risk = SideEffectClass.EXTERNAL_WRITE if held else SideEffectClass.WORKSPACE_WRITE, RiskLevel.LOW
    properties = {
        "mode": {"type": "string", "enum": ["answer", "hang_once", "reset_once", "refuse_once"], "default": "answer"},
        "large": {"type": "boolean", "default": False},
    }
    return builtin_spec(
        tool_name(kind, held=held, grouped=grouped), "Reach the world of the crash matrix.", properties,
        side_effect=side_effect, risk=risk, idempotency=IdempotencyClass(kind.value), timeout_seconds=120,
        maximum_output_bytes=65_536, passes_idempotency_key=kind is Class.CONDITIONAL, allow_parallel=grouped,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """Where the effect server listens, and the lane's folder of gates."""

    port: int
    gates: Path


class CrashTool:
    binding = "world"

    def __init__(self, spec: ToolSpec, world: World, probe: Probe) -> None:
        self.spec = spec
        self._world = world
        self._probe = probe
        self._relays: dict[UUID, asyncio.subprocess.Process] = {}

    async def prepare(self, context: ToolExecutionContext) -> None:
        await self._reach("before_prepare", context)
        absent = self._world.gates / Role.WORLD / ABSENT
        if absent.exists() and absent.read_text() == context.tenant_id:
            raise NotAvailable("tool.server_unreachable", "nobody is there")
        unused = self._relays.pop(context.invocation_id, None)
        if unused is not None:
            unused.kill()
            await unused.wait()
        pipe = asyncio.subprocess.PIPE
        self._relays[context.invocation_id] = await asyncio.create_subprocess_exec(
            *RELAY, stdin=pipe, stdout=pipe, cwd=ROOT
        )
        await self._reach("after_prepare", context)

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        relay = self._relays.pop(context.invocation_id)
        order = json.dumps(self._order(arguments, context)) + "\n"
        answer, _ = await relay.communicate(order.encode())
        await self._reach("after_answer", context)
        if not answer.strip():
            return failed(ToolFailureKind.TRANSPORT, "the connection was reset")
        if json.loads(answer).get("refused"):
            return failed(ToolFailureKind.PERMISSION, "401", reason_code="tool.server_unauthorized", retryable=True)
        return succeeded(json.loads(answer), LARGE_TEXT if arguments["large"] else None)

    def _order(self, arguments: JsonObject, context: ToolExecutionContext) -> dict[str, Any]:
        gates = str(self._world.gates / Role.WORLD)
        request = {
            "call": context.tenant_id, "key": context.idempotency_key, "mode": arguments["mode"], "gates": gates,
            "tenant": context.tenant_id, "deduplicates": self.spec.passes_idempotency_key,
        }  # fmt: skip
        return {"gates": gates, "tenant": context.tenant_id, "port": self._world.port, "request": request}

    async def _reach(self, moment: str, context: ToolExecutionContext) -> None:
        await asyncio.to_thread(self._probe.reached, moment, context.tenant_id)


def grant_digest(kind: Class) -> str:
    """Return what a standing grant of the held twin is bound to."""
    spec = _spec(kind, held=True)
    return tool_digest(spec.name, spec.version, spec.classification, CrashTool.binding)


def crash_tools(world: World, probe: Probe) -> list[Tool]:
    specs = [_spec(kind, held=held) for kind in Class for held in (False, True)]
    return [CrashTool(spec, world, probe) for spec in (*specs, _spec(Class.READ, grouped=True))]
