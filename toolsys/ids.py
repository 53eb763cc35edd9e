"""Time-ordered identifiers (UUID version 7): new rows land at the end of their index.

Randomness enters the product here and in `config.wiring`; the standard library has `uuid7` from Python 3.14 on.
"""

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """Return a UUIDv7: 48 bits of milliseconds since the epoch, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
