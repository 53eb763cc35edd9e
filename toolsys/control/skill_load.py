"""`skill.load`: hands the text of one skill to the model, labelled by where it came from.

A control tool: the whole pipeline, no effect of its own, and nothing that it loads becomes a tool. Which skills a
session may load is asked through `FindSkill`, the text of a provider's skill through `SkillReader`.
Source: TS "Control tools", "Skills, and the line between a skill and a tool", "Prompts are skills".
"""

import asyncio
import unicodedata
from collections.abc import Mapping
from typing import Final

from toolsys.builtin.base import builtin_spec, failed
from toolsys.domain import names
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.skills import MAXIMUM_ARGUMENTS, MAXIMUM_VALUE, OfferedSkill
from toolsys.domain.spec import JsonObject, ToolKind
from toolsys.domain.trust import TrustLevel
from toolsys.ports import FindSkill, SkillReader


class SkillLoad:
    spec = builtin_spec(
        "skill.load",
        "Load the text of one skill into this turn, by its name. Some skills take arguments.",
        {
            "name": {"type": "string", "minLength": 1, "maxLength": names.MAXIMUM_NAME_LENGTH},
            "arguments": {
                "type": "object",
                "maxProperties": MAXIMUM_ARGUMENTS,
                "additionalProperties": {"type": "string", "maxLength": MAXIMUM_VALUE},
            },
        },
        required=["name"],
        kind=ToolKind.CONTROL,
        # The label of what any skill may be that is not the platform's own; a result may only be trusted less.
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
        allow_parallel=False,
        timeout_seconds=30,
    )
    binding: Final = ""

    def __init__(self, find: FindSkill, readers: Mapping[str, SkillReader]) -> None:
        """`readers` are by the first segment of the names of their skills."""
        self._find = find
        self._readers = readers

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        """Raises: NotAvailable, where the skill is offered and its text cannot be had."""
        skill = await asyncio.to_thread(self._find, context.tenant_id, context.session_id, arguments["name"])
        reader = self._readers.get(names.domain_of(skill.name)) if skill is not None else None
        if skill is None or reader is None:
            return failed(ToolFailureKind.NOT_FOUND, "this session is offered no such skill")
        given = _spelled_as_declared(skill, arguments.get("arguments", {}))
        if given is None:
            return failed(ToolFailureKind.INVALID_ARGUMENTS, "not what the skill declares", _declared(skill))
        found = await reader.read_skill(skill, given, self.spec, context)
        if not found.ok:
            return found
        said = {"skill": skill.name, "version": skill.version, "source": skill.source.value}
        return found.model_copy(update={"structured": said})


def _spelled_as_declared(skill: OfferedSkill, given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the arguments under the names that their source declares, or None where they are not those.

    Arguments arrive in NFC; whoever declared them gets its own spelling back.
    """
    declared = {unicodedata.normalize("NFC", argument.name): argument for argument in skill.arguments}
    missing = {name for name, argument in declared.items() if argument.is_required} - given.keys()
    if missing or given.keys() - declared.keys():
        return None
    return {declared[name].name: value for name, value in given.items()}


def _declared(skill: OfferedSkill) -> str:
    """Say which arguments there are: names from outside, so that they travel as outside text."""
    listed = [f"{each.name} ({'required' if each.is_required else 'optional'})" for each in skill.arguments]
    return "the skill takes " + (", ".join(listed) or "no arguments")
