"""Tools whose answers a test writes down: the spec of a real builtin, with another execution behind it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from django.db import connections

from toolsys.builtin.demo import DemoEcho, DemoExternalWrite
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject, ToolSpec
from toolsys.ports import Runtime, Tool

Answer = ToolResult | BaseException | Callable[[], ToolResult]


class Scripted:
    """Gives the written answers in order, the last one for ever. `sent` is what it was called with."""

    binding = ""

    def __init__(self, spec: ToolSpec, *answers: Answer, prepared: Sequence[BaseException | None] = ()) -> None:
        self.spec = spec
        self.sent: list[tuple[JsonObject, ToolExecutionContext]] = []
        self._answers = list(answers)
        self._prepared = list(prepared)

    @classmethod
    def echo(cls, *answers: Answer, prepared: Sequence[BaseException | None] = ()) -> "Scripted":
        return cls(DemoEcho.spec, *answers, prepared=prepared)

    @classmethod
    def write(cls, *answers: Answer, prepared: Sequence[BaseException | None] = ()) -> "Scripted":
        return cls(DemoExternalWrite.spec, *answers, prepared=prepared)

    async def prepare(self, context: ToolExecutionContext) -> None:
        absence = self._prepared.pop(0) if self._prepared else None
        if absence is not None:
            raise absence

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        self.sent.append((arguments, context))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return await asyncio.to_thread(_told, answer) if callable(answer) else answer

    def installed_in(self, runtime: Runtime) -> Runtime:
        return replace(runtime, registry=_Instead(runtime, self))


def _told(answer: Callable[[], ToolResult]) -> ToolResult:
    """Off the event loop, so that it may use the database."""
    try:
        return answer()
    finally:
        connections.close_all()


class _Instead:
    """The registry, with one tool in place of the builtin of its name and under that one's binding."""

    def __init__(self, runtime: Runtime, tool: Scripted) -> None:
        self._registry = runtime.registry
        self._tool = tool

    def resolve(self, name: str, facts: object) -> Tool | None:
        found = self._registry.resolve(name, facts)  # type: ignore[arg-type]
        if found is None or found.spec.name != self._tool.spec.name:
            return found
        self._tool.binding = found.binding
        return self._tool


def failing(kind: ToolFailureKind, reason_code: str, retry_after: float | None = None) -> ToolResult:
    failure = ToolFailure(kind=kind, reason_code=reason_code, retry_after_seconds=retry_after)
    return ToolResult(ok=False, failure=failure)
