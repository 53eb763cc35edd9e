"""API keys: `tsk_<prefix>_<secret>`. The prefix finds the row, the secret's SHA-256 is all that is stored.

The secret has 256 random bits, so a fast hash is the right one. The fixed shape lets secret scanners find leaks.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

PREFIX_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
PREFIX_LENGTH: Final = 8
_SHAPE: Final = re.compile(r"^tsk_([0-9a-z]{8})_([A-Za-z0-9_-]{43})\Z")


@dataclass(frozen=True, slots=True)
class KeyParts:
    prefix: str
    secret_sha256: str


def generate() -> str:
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(PREFIX_LENGTH))
    return f"tsk_{prefix}_{secrets.token_urlsafe(32)}"


def parse(key: str) -> KeyParts | None:
    """Return what identifies a key, or None where the text has not the shape of one."""
    found = _SHAPE.match(key)
    if found is None:
        return None
    return KeyParts(found.group(1), hashlib.sha256(found.group(2).encode()).hexdigest())
