"""The grammar of tool names, the partition of their domains, and the normalization of remote names.

Pure functions of their input: a name never depends on discovery order or on the rest of a catalog, because
it is serialized into a byte-stable prompt prefix. Source: TS "Names", decision 4 and 5.
"""

import hashlib
import re
import unicodedata
from typing import Final

from toolsys.domain.spec import ToolSource

MAXIMUM_NAME_LENGTH: Final = 96
NAME_PATTERN: Final = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\Z")
SERVER_ID_PATTERN: Final = re.compile(r"^[a-z][a-z0-9_]*\Z")
MAXIMUM_REMOTE_LENGTH: Final = 48
_GLOB: Final = re.compile(r"[a-z0-9_.*?\[\]!-]{1,200}\Z")

BUILTIN_DOMAINS: Final = frozenset({
    "system", "math", "workspace", "sandbox", "artifact", "demo", "delegate", "conversation", "context", "tool",
    "skill", "memory", "schedule", "knowledge", "web", "browser", "email", "people", "image", "video",
})  # fmt: skip
CONTROL_DOMAINS: Final = frozenset({"conversation", "context", "tool"})
RESERVED_DOMAINS: Final = {"mcp": ToolSource.MCP, "device": ToolSource.DEVICE}
CONTROL_TOOLS: Final = frozenset({
    "conversation.ask_user", "delegate.run", "context.update_working_state", "skill.load", "tool.call",
})  # fmt: skip


def is_valid_name(name: str) -> bool:
    return len(name) <= MAXIMUM_NAME_LENGTH and NAME_PATTERN.match(name) is not None


def normalize_glob(written: str) -> str:
    """Return a glob over tool names, or one name, as a person means it: names are lower-case ASCII.

    Raises: ValueError for what no name can hold: a letter that only looks like one would match nothing, silently.
    """
    found = written.strip().lower() if written.isascii() else written
    if _GLOB.match(found) is None:
        raise ValueError("tool names are of a-z, 0-9, _ and dots; globs add * ? [ ] ! -")
    return found


def domain_of(name: str) -> str:
    return name.partition(".")[0]


def is_valid_server_id(server_id: str) -> bool:
    return len(server_id) <= MAXIMUM_REMOTE_LENGTH and SERVER_ID_PATTERN.match(server_id) is not None


def normalize_remote_name(remote_name: str) -> str:
    """Map a name that a server reported to one registry segment, at most 48 characters."""
    lowered = unicodedata.normalize("NFC", remote_name).lower()
    cleaned = re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", lowered)).strip("_")
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"t_{cleaned}"
    if len(cleaned) > MAXIMUM_REMOTE_LENGTH:
        digest = hashlib.sha256(remote_name.encode("utf-8", "surrogatepass")).hexdigest()
        cleaned = f"{cleaned[:40]}_{digest[:7]}"
    return cleaned


def mcp_tool_name(server_id: str, remote_name: str) -> str:
    return f"mcp.{server_id}.{normalize_remote_name(remote_name)}"
