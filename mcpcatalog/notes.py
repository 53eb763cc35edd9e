"""Facts that the event loop writes down without anybody waiting: one after another, in a thread of their own.

A fact that cannot be written is logged by its type and lost: it tells people something and decides nothing.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from toolsys import database

log = logging.getLogger(__name__)


class Notes:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "mcp-notes")

    def later(self, write: Callable[[], object]) -> None:
        try:
            self._thread.submit(_written, write)
        except RuntimeError:
            log.warning("a fact came after the end and was not written")

    def close(self) -> None:
        """Write what is left, and take nothing more."""
        self._thread.shutdown()


def _written(write: Callable[[], object]) -> None:
    try:
        write()
    except Exception as error:  # noqa: BLE001 - nobody waits for it, and the next one must be written
        log.warning("a fact could not be written (%s)", type(error).__name__)
        database.discard_connection()
    finally:
        database.release_connection()
