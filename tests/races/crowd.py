"""Many at once, from one line: threads that begin together, each with connections of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from django.db import connections

PATIENCE_SECONDS: Final = 120.0


def together[T](deeds: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Do all of it at the same moment; return what each gave or raised, in the given order."""
    line = threading.Barrier(len(deeds))

    def one(deed: Callable[[], T]) -> T | Exception:
        try:
            line.wait(PATIENCE_SECONDS)
            return deed()
        except Exception as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(deeds)) as pool:
        return list(pool.map(one, deeds))
