"""Telling somebody, in a thread, how far something on the event loop has come: the newest word only, one at a time.

Whoever listens may be slow or fail; what is told about goes on all the same. Used by `mcpcatalog.checking`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mcpcatalog.background import written

log = logging.getLogger(__name__)
END_SECONDS: Final = 2.0


class News[T]:
    """Lives on one loop. `tell` runs in threads, never twice at once."""

    def __init__(self, tell: Callable[[T], object]) -> None:
        self._tell = tell
        self._newest: list[T] = []
        self._telling: asyncio.Task[None] | None = None

    def note(self, word: T) -> None:
        """Let this be told next; what was not told yet is not told any more."""
        self._newest = [word]
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._go())

    async def end(self) -> None:
        """Wait a little for what is being told. Nothing is told after it that was not begun."""
        self._newest = []
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=END_SECONDS)

    async def _go(self) -> None:
        while self._newest:
            word = self._newest.pop()
            try:
                await written(lambda word=word: self._tell(word))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - who listens must not end what is told about
                log.warning("progress was not told error=%s", type(error).__name__)
