"""A server's prompts as read-only skills: a name of ours, a version that is a hash, bounded metadata, no content.

The same rules as for tools: one bad prompt costs itself, two names that normalize to one are both dropped. A fixed
server has none. Pure. Source: TS "Prompts are skills, and read-only ones".
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from mcpcatalog.remote import CatalogMode, RejectedTool, RemotePrompt, ServerConfig
from toolsys.domain import excerpt, names
from toolsys.domain.canonical import NotCanonical, canonical_bytes, sha256_hex
from toolsys.domain.skills import MAXIMUM_ARGUMENTS, MAXIMUM_DESCRIPTION_BYTES, SkillArgument, SkillDeclaration

MAXIMUM_NAME: Final = 256
MAXIMUM_ARGUMENT_NAME: Final = 64
MAXIMUM_ARGUMENT_DESCRIPTION_BYTES: Final = 300


def skills_of(
    server: ServerConfig, prompts: Iterable[RemotePrompt]
) -> tuple[tuple[SkillDeclaration, ...], tuple[RejectedTool, ...]]:
    """Return the skills in the order of their names, and which prompts make none."""
    found = [] if server.mode is CatalogMode.FIXED else list(prompts)
    rejected = [RejectedTool(prompt.name[:MAXIMUM_NAME], "prompt", why) for prompt in found for why in _defects(prompt)]
    usable = [prompt for prompt in found if not any(_defects(prompt))]
    counted = Counter(_name(server, prompt) for prompt in usable)
    rejected += [
        RejectedTool(each.name, "prompt", "a name twice") for each in usable if counted[_name(server, each)] > 1
    ]
    kept = [_skill(server, each) for each in usable if counted[_name(server, each)] == 1]
    return tuple(sorted(kept, key=lambda skill: skill.name)), tuple(rejected)


def _defects(prompt: RemotePrompt) -> Iterator[str]:
    """Yield at most one."""
    named = [name for name, _, _ in prompt.arguments]
    texts = [prompt.name, prompt.description, *named, *(described for _, described, _ in prompt.arguments)]
    if not prompt.name or len(prompt.name) > MAXIMUM_NAME:
        yield f"a name of 1 to {MAXIMUM_NAME} characters is needed"
    elif len(named) > MAXIMUM_ARGUMENTS:
        yield f"more than {MAXIMUM_ARGUMENTS} arguments"
    elif len(set(named)) < len(named) or not all(0 < len(name) <= MAXIMUM_ARGUMENT_NAME for name in named):
        yield "an argument without a name of its own"
    elif any("\0" in text for text in texts) or not _is_canonical(texts):
        yield "a character that cannot be kept"


def _is_canonical(texts: list[str]) -> bool:
    try:
        canonical_bytes(texts)
    except NotCanonical:
        return False
    return True


def _name(server: ServerConfig, prompt: RemotePrompt) -> str:
    return names.mcp_tool_name(server.server_id, prompt.name)


def _skill(server: ServerConfig, prompt: RemotePrompt) -> SkillDeclaration:
    arguments = tuple(
        SkillArgument(name, excerpt.head(described, MAXIMUM_ARGUMENT_DESCRIPTION_BYTES), required)
        for name, described, required in prompt.arguments
    )
    declared = {
        "name": prompt.name,
        "description": prompt.description,
        "arguments": [list(each) for each in prompt.arguments],
    }
    return SkillDeclaration(
        name=_name(server, prompt),
        version=sha256_hex(canonical_bytes(declared)),
        description=excerpt.head(prompt.description, MAXIMUM_DESCRIPTION_BYTES),
        remote_name=prompt.name,
        arguments=arguments,
    )
