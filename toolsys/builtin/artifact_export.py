"""`artifact.export`: keeps a file of the run's workspace as an artifact, for people and programs to fetch.

It moves bytes into the store and never out of it: no tool reads an artifact back. Each attempt makes an artifact of
its own and only the recorded one is adopted, so repeating it is harmless. Source: TS "Output".
"""

from typing import Final

from toolsys.builtin.base import builtin_spec, failed
from toolsys.builtin.workspace_access import PATH, worked
from toolsys.domain import media
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ArtifactPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, JsonObject, SideEffectClass
from toolsys.domain.trust import TrustLevel

MAXIMUM_BYTES: Final = 4_194_304


class ArtifactExport:
    spec = builtin_spec(
        "artifact.export",
        "Keep a file of this run's workspace as an artifact that people can download.",
        {"path": PATH},
        required=["path"],
        side_effect=SideEffectClass.WORKSPACE_READ,
        idempotency=IdempotencyClass.IDEMPOTENT,
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
        allow_parallel=False,
        timeout_seconds=30,
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        path = arguments["path"]
        found = await worked(context, lambda workspace: workspace.read_bytes(path, offset=0, limit=MAXIMUM_BYTES))
        if isinstance(found, ToolResult):
            return found
        if found.total_bytes > len(found.data):
            return failed(ToolFailureKind.OUTPUT_TOO_LARGE, f"the file has {found.total_bytes:,} bytes")
        reference = await context.artifacts.write(found.data, media.of_path(path))
        return ToolResult(
            ok=True,
            content=(ArtifactPart(artifact=reference),),
            artifacts=(reference,),
            structured={"path": path, "artifact_id": str(reference.artifact_id), "bytes": reference.size_bytes},
        )
