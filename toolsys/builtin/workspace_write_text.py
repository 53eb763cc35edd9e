"""`workspace.write_text`: replaces or makes one text file of the run's workspace, as a whole.

Writing the same text twice leaves the same file, so it is idempotent; it changes nothing outside of the run.
"""

from typing import Final

from toolsys.builtin.base import builtin_spec, succeeded
from toolsys.builtin.workspace_access import PATH, worked
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, SideEffectClass

MAXIMUM_CHARACTERS: Final = 524_288


class WorkspaceWriteText:
    spec = builtin_spec(
        "workspace.write_text",
        "Write a UTF-8 text file in this run's workspace; what was there before is replaced. Folders are made.",
        {"path": PATH, "text": {"type": "string", "maxLength": MAXIMUM_CHARACTERS}},
        required=["path", "text"],
        side_effect=SideEffectClass.WORKSPACE_WRITE,
        idempotency=IdempotencyClass.IDEMPOTENT,
        allow_parallel=False,
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        path, data = arguments["path"], arguments["text"].encode("utf-8", "replace")
        is_new = await worked(context, lambda workspace: workspace.write_bytes(path, data))
        if isinstance(is_new, ToolResult):
            return is_new
        # Not whether it is new: a repeated attempt must be able to say the same.
        return succeeded({"path": path, "bytes": len(data)}, f"wrote {len(data):,} bytes")
