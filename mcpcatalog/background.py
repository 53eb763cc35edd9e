"""Writing from the event loop: in a thread, and holding no database connection afterwards."""

import asyncio
from collections.abc import Callable

from toolsys import database


async def written[T](write: Callable[[], T]) -> T:
    def go() -> T:
        try:
            return write()
        finally:
            database.release_connection()

    return await asyncio.to_thread(go)
