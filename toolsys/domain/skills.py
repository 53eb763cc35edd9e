"""What a skill is declared to be, and what follows from where it came from.

A skill is text that changes how a task is done; it registers no tool. Its label is a fact of its source and nothing
that anybody declares. Pure. Source: TS "Skills, and the line between a skill and a tool", DESIGN §12.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toolsys.domain.trust import TrustLevel

MAXIMUM_DESCRIPTION_BYTES: Final = 1_024
MAXIMUM_ARGUMENTS: Final = 32
MAXIMUM_VALUE: Final = 8_192


class SkillSource(StrEnum):
    PLATFORM = "platform"
    AGENT = "agent"
    MCP = "mcp"

    @property
    def trust(self) -> TrustLevel:
        """The label of its content wherever that is inserted. What is ours was configured; all else is external."""
        ours = self is SkillSource.PLATFORM
        return TrustLevel.TRUSTED_CONFIGURATION if ours else TrustLevel.EXTERNAL_UNTRUSTED

    @property
    def is_cacheable(self) -> bool:
        """Say whether it may stand in the byte-stable prefix."""
        return self is SkillSource.PLATFORM

    @property
    def is_read_only(self) -> bool:
        """Only an agent's own skill can be edited: a remote prompt cannot be written back, and a copy would drift."""
        return self is not SkillSource.AGENT


@dataclass(frozen=True, slots=True)
class SkillArgument:
    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class SkillDeclaration:
    """The metadata of one skill. `remote_name` is what its server calls it."""

    name: str
    version: str
    description: str
    remote_name: str = ""
    required_tools: tuple[str, ...] = ()
    arguments: tuple[SkillArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedSkill:
    """One skill that a session may load. `server_id` and `remote_name` are of an MCP prompt."""

    name: str
    version: str
    source: SkillSource
    server_id: str | None = None
    remote_name: str = ""
    arguments: tuple[SkillArgument, ...] = ()
