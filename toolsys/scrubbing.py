"""One call of a tool of this build: what it resolves is taken out of whatever it returns, writes or says.

Every tool's context has a resolver, so the registry hands out none without this; MCP does the same at its own boundary,
where more than the resolved value is secret. Source: TS "ToolExecutionContext", DESIGN §8.
"""

from dataclasses import dataclass, field, replace

from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.context import ArtifactWriter, CredentialResolver, SecretValue, ToolExecutionContext
from toolsys.domain.results import ArtifactRef, ToolResult
from toolsys.domain.scrubbing import cleaned
from toolsys.domain.spec import JsonObject, ToolSpec
from toolsys.ports import NotAvailable, Tool


def watched(tool: Tool) -> Tool:
    """Return the tool for one call. What it cannot prepare stays unprepared: that is a turn of the loop saved."""
    return _WatchedPreparable(tool) if hasattr(tool, "prepare") else _Watched(tool)


@dataclass(slots=True)
class _Seen:
    """What this call has resolved. Implements `CredentialResolver`."""

    resolver: CredentialResolver
    secrets: list[SecretValue]

    async def resolve(self, credential_ref: str) -> SecretValue:
        found = await self.resolver.resolve(credential_ref)
        self.secrets.append(found)
        return found


@dataclass(slots=True)
class _Writer:
    """Implements `ArtifactWriter`."""

    writer: ArtifactWriter
    secrets: list[SecretValue]

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        for secret in self.secrets:
            data = secret.taken_out_of(data)
        return await self.writer.write(data, media_type)


@dataclass(slots=True)
class _Watched:
    """Implements `ports.Tool` and `ports.Placed`."""

    tool: Tool
    secrets: list[SecretValue] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    @property
    def binding(self) -> str:
        return self.tool.binding

    def elsewhere(self) -> str:
        asked = getattr(self.tool, "elsewhere", None)
        found: str = asked() if asked is not None else ""
        return found

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        try:
            found = await self.tool.execute(arguments, self._context(context))
        except NotAvailable as absence:
            raise NotAvailable(absence.reason_code, self._clean(absence.detail)) from None
        except OutputTooLarge as runaway:
            raise OutputTooLarge(self._clean(runaway.partial)) from None
        # What is no result is refused by whoever asked, and nothing of it is kept.
        if not self.secrets or not isinstance(found, ToolResult):
            return found
        return ToolResult.model_validate(cleaned(found.model_dump(), self._clean))

    def _context(self, context: ToolExecutionContext) -> ToolExecutionContext:
        return replace(
            context, credentials=_Seen(context.credentials, self.secrets),
            artifacts=_Writer(context.artifacts, self.secrets),
        )  # fmt: skip

    def _clean(self, text: str) -> str:
        for secret in self.secrets:
            text = secret.taken_out_of(text)
        return text


@dataclass(slots=True)
class _WatchedPreparable(_Watched):
    """Implements `ports.Preparable`, too."""

    async def prepare(self, context: ToolExecutionContext) -> None:
        try:
            await self.tool.prepare(self._context(context))  # type: ignore[attr-defined]
        except NotAvailable as absence:
            raise NotAvailable(absence.reason_code, self._clean(absence.detail)) from None
