"""What the tools over a run's workspace share: the path argument, blocking work off the loop, refusals as failures.

What lies in a workspace was put there by calls of a model, so whatever is read from it is untrusted, although the
reader itself is ours. Source: TS "ToolResult" (output_trust), "Output".
"""

import asyncio
from collections.abc import Callable
from typing import Final

from toolsys.builtin.base import failed
from toolsys.domain.context import ToolExecutionContext, WorkspaceHandle, WorkspaceRefused
from toolsys.domain.paths import MAXIMUM_PATH_BYTES
from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject

PATH: Final[JsonObject] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAXIMUM_PATH_BYTES,
    "description": "Relative, with / between names, such as notes/plan.md",
}
_REFUSALS: Final = {
    "not_found": (ToolFailureKind.NOT_FOUND, "There is no such file or folder."),
    "path": (ToolFailureKind.INVALID_ARGUMENTS, "This path cannot be used here. Use plain names with / between them."),
    "kind": (ToolFailureKind.INVALID_ARGUMENTS, "What is there is not a plain file or folder as needed."),
    "name_taken": (ToolFailureKind.INVALID_ARGUMENTS, "A name that differs only in case or accents exists already."),
    "full": (ToolFailureKind.PERMISSION, "The workspace, or the file, would be larger than allowed."),
}


async def worked[T](context: ToolExecutionContext, work: Callable[[WorkspaceHandle], T]) -> T | ToolResult:
    """Do blocking work in the run's workspace; return its value, or the failure that its refusal is."""
    workspace = context.workspace
    if workspace is None:
        return failed(ToolFailureKind.INTERNAL, "this deployment has no workspaces")
    try:
        return await asyncio.to_thread(work, workspace)
    except WorkspaceRefused as refused:
        kind, said = _REFUSALS[refused.reason]
        failure = ToolFailure(kind=kind, reason_code=f"tool.{kind}", detail=f"workspace: {refused.reason}")
        return ToolResult(ok=False, content=(TextPart(text=said),), failure=failure)
