"""`workspace.list`: what lies in the run's workspace, or in one folder of it."""

from typing import Final

from toolsys.builtin.base import builtin_spec
from toolsys.builtin.workspace_access import worked
from toolsys.domain.context import ToolExecutionContext, WorkspaceEntry
from toolsys.domain.paths import MAXIMUM_DEPTH, MAXIMUM_PATH_BYTES
from toolsys.domain.results import TextPart, ToolResult
from toolsys.domain.spec import JsonObject, SideEffectClass
from toolsys.domain.trust import TrustLevel

MAXIMUM_ENTRIES: Final = 500


class WorkspaceList:
    spec = builtin_spec(
        "workspace.list",
        "List files and folders of this run's workspace.",
        {
            "path": {"type": "string", "maxLength": MAXIMUM_PATH_BYTES, "default": "", "description": "A folder"},
            "depth": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_DEPTH, "default": MAXIMUM_DEPTH},
        },
        side_effect=SideEffectClass.WORKSPACE_READ,
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        path, depth = arguments["path"], arguments["depth"]
        found = await worked(
            context, lambda workspace: workspace.list_entries(path, depth=depth, limit=MAXIMUM_ENTRIES)
        )
        if isinstance(found, ToolResult):
            return found
        entries, has_more = found
        lines = [_line(entry) for entry in entries] or ["(empty)"]
        return ToolResult(
            ok=True,
            content=(TextPart(text="\n".join(lines + (["(there are more)"] if has_more else []))),),
            structured={
                "entries": [{"path": e.path, "kind": e.kind, "bytes": e.size_bytes} for e in entries],
                "has_more": has_more,
            },
            # The names were chosen by calls of a model.
            output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
        )


def _line(entry: WorkspaceEntry) -> str:
    return f"{entry.path}/" if entry.kind == "directory" else f"{entry.path}  {entry.kind}, {entry.size_bytes:,} bytes"
