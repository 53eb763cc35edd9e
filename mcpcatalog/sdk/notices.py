"""What a connection hears of changed lists, passed on: the first at once, and of a storm of them one a second.

None is the last that counts: what is held back is passed on in the end. Only `mcpcatalog.sdk` imports it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

NOTICE_SECONDS: Final = 1.0


class Notices:
    """Lives on one event loop."""

    def __init__(self, pass_on: Callable[[], object]) -> None:
        self._pass_on = pass_on
        self._passed_at = float("-inf")
        self._waiting: asyncio.TimerHandle | None = None

    def hear(self) -> None:
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(max(loop.time(), self._passed_at + NOTICE_SECONDS), self.flush)

    def flush(self) -> None:
        """Pass on what waits."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting, self._passed_at = None, asyncio.get_running_loop().time()
            self._pass_on()
