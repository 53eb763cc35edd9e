"""The last question before the first byte of a call leaves: does this process's lease still live?

The watermark is committed before a tool begins; looking up a name, connecting and TLS may then take longer than a
lease, or the process may be frozen meanwhile. Step 10 says in the call's own context whom to ask, and whoever writes
the first byte asks. What belongs to no call (a handshake, a token) may always leave. When a call's first byte was let
out is evidence for whoever has to find out what became of it. Source: DESIGN §4.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

MAY_SEND: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("may_send", default=None)


def may_leave() -> bool:
    asked = MAY_SEND.get()
    return asked is None or asked()


class Departure:
    """The question of one attempt, made when its watermark is held; `first_us` is when the answer was first yes.

    In microseconds since then. No byte leaves earlier; how much of what was let out arrived, nobody here knows.
    """

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self._may_send = may_send
        self._begun = time.perf_counter()
        self.first_us: int | None = None

    def __call__(self) -> bool:
        may = self._may_send()
        if may and self.first_us is None:
            self.first_us = round((time.perf_counter() - self._begun) * 1_000_000)
        return may
