"""The last question before the first byte of a call leaves: does this process's lease still live?

The watermark is committed before a tool begins; looking up a name, connecting and TLS may then take longer than a
lease, or the process may be frozen meanwhile. Step 10 says in the call's own context whom to ask, and whoever writes
the first byte asks. What belongs to no call (a handshake, a token) may always leave. Source: DESIGN §4.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

MAY_SEND: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("may_send", default=None)


def may_leave() -> bool:
    asked = MAY_SEND.get()
    return asked is None or asked()
