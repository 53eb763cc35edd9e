"""The application's idempotency key: the same call gives the same key on every attempt and on every worker.

`attempt_number` is deliberately no input; `step_number` and `tool_version` are. The version tag makes a future
change a new key space. Source: TS "The key"; DESIGN §1 for arguments without a canonical form.
"""

import hashlib
from typing import Final
from uuid import UUID

KEY_SPACE: Final = "veetbot.tool.v1"
RAW_KEY_SPACE: Final = "veetbot.tool.raw.v1"


def idempotency_key(
    *, run_id: UUID, step_number: int, call_id: str, tool_name: str, tool_version: str, arguments_hash: str
) -> str:
    """Return 64 hexadecimal characters, passed to remote services verbatim.

    Raises: ValueError for a NUL in an input: two calls could be joined to one key.
    """
    parts = (KEY_SPACE, str(run_id), str(step_number), call_id, tool_name, tool_version, arguments_hash)
    if any("\0" in part for part in parts):
        raise ValueError("an input of the key holds NUL")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def raw_arguments_hash(raw: bytes) -> str:
    """Hash arguments that have no canonical form, in a key space of their own."""
    return hashlib.sha256(RAW_KEY_SPACE.encode() + b"\0" + raw).hexdigest()
