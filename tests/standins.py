"""Tools that tests script, standing in for a builtin that the session has pinned."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.ports import Runtime, Tool, ToolRegistry

Answer = Callable[[JsonObject, ToolExecutionContext], Awaitable[ToolResult]]


class StandIn:
    """Answers as the test says, under the spec of the tool that it replaces with `changes`."""

    def __init__(self, original: Tool, answer: Answer, changes: JsonObject) -> None:
        self.spec = original.spec.model_copy(update=changes)
        self.binding = original.binding
        self._answer = answer

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        return await self._answer(arguments, context)


class _Replacing:
    def __init__(self, registry: ToolRegistry, name: str, answer: Answer, changes: JsonObject) -> None:
        self._registry = registry
        self._name = name
        self._answer = answer
        self._changes = changes

    def resolve(self, name: str, facts: Any) -> Tool | None:
        found = self._registry.resolve(name, facts)
        if found is None or found.spec.name != self._name:
            return found
        return StandIn(found, self._answer, self._changes)


def with_tool(runtime: Runtime, answer: Answer, name: str = "demo.echo", **changes: Any) -> Runtime:
    """Return the runtime with one tool answering as the test says."""
    return replace(runtime, registry=_Replacing(runtime.registry, name, answer, changes))


def always(result: ToolResult) -> Answer:
    async def answer(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        return result

    return answer
