"""`workspace.read_text`: a text file of the run's workspace, or a part of one."""

from typing import Final

from toolsys.builtin.base import builtin_spec
from toolsys.builtin.workspace_access import PATH, worked
from toolsys.domain.capture import HARD_CEILING_FACTOR, OutputTooLarge
from toolsys.domain.context import ToolExecutionContext, WorkspaceFile
from toolsys.domain.results import TextPart, ToolResult
from toolsys.domain.spec import JsonObject, SideEffectClass
from toolsys.domain.trust import TrustLevel

MAXIMUM_OUTPUT: Final = 65_536
CEILING: Final = MAXIMUM_OUTPUT * HARD_CEILING_FACTOR
_FIRST_BYTES: Final = 3  # of a character that begins before the part


class WorkspaceReadText:
    spec = builtin_spec(
        "workspace.read_text",
        "Read a UTF-8 text file of this run's workspace. Large files: read parts with offset and limit, in bytes.",
        {
            "path": PATH,
            "offset": {"type": "integer", "minimum": 0, "maximum": 1 << 40, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": CEILING, "description": "Default: to the end"},
        },
        required=["path"],
        side_effect=SideEffectClass.WORKSPACE_READ,
        maximum_output_bytes=MAXIMUM_OUTPUT,
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        """Raises: OutputTooLarge, where the whole was asked for and is past the hard ceiling."""
        path, offset, limit = arguments["path"], arguments["offset"], arguments.get("limit", CEILING)
        found = await worked(context, lambda workspace: workspace.read_bytes(path, offset=offset, limit=limit))
        if isinstance(found, ToolResult):
            return found
        text, is_lossy = decoded(found)
        end = found.offset + len(found.data)
        if "limit" not in arguments and end < found.total_bytes:
            raise OutputTooLarge(text)
        return ToolResult(
            ok=True,
            content=(TextPart(text=text),),
            structured={
                "path": path, "offset": found.offset, "end": end, "total_bytes": found.total_bytes,
                "is_lossy": is_lossy,
            },
            output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
        )  # fmt: skip


def decoded(part: WorkspaceFile) -> tuple[str, bool]:
    """Return the part's whole characters, and whether anything in it is no UTF-8."""
    data = part.data
    if part.offset:
        skipped = 0
        while skipped < min(_FIRST_BYTES, len(data)) and data[skipped] & 0xC0 == 0x80:
            skipped += 1
        data = data[skipped:]
    if part.offset + len(part.data) < part.total_bytes:
        data = _without_a_begun_character(data)
    text = data.decode("utf-8", "replace")
    return text, "\N{REPLACEMENT CHARACTER}" in text and text.encode("utf-8") != data


def _without_a_begun_character(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if needed > back else data
    return data
