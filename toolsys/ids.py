"""Time-ordered identifiers (UUID version 7): new rows land at the end of their index, in the order of their making.

Randomness enters the product here and in `config.wiring`; the standard library has `uuid7` from Python 3.14 on.
"""

import os
import threading
import time
from datetime import datetime
from typing import Final
from uuid import UUID

_lock: Final = threading.Lock()
_last = 0


def earliest(moment: datetime) -> UUID:
    """Return the lower bound of the ids that are made from a moment on: an index by id is one by time."""
    return UUID(int=max(int(moment.timestamp() * 1000), 0) << 80)


def uuid7() -> UUID:
    """Return a UUIDv7 that is later than every one made by this process before.

    48 bits of milliseconds since the epoch, 12 bits that count within one, 62 random bits (RFC 9562, 6.2 method 1).
    """
    global _last
    with _lock:
        # A full count, or a clock set back, borrows from the next millisecond.
        _last = max(time.time_ns() // 1_000_000 << 12, _last + 1)
        moment = _last
    value = (moment >> 12) << 80 | 0x7 << 76 | (moment & 0xFFF) << 64 | int.from_bytes(os.urandom(8))
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)
