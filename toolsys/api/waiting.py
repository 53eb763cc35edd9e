"""`Prefer: wait=N`: a request that waits for an outcome, woken by notification, holding no database connection.

The number of waiting requests in a process is bounded; where no place is left the answer is 202 at once.
"""

import re
import threading
import time
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest

from toolsys import database
from toolsys.wakeups import Waiter

DEFAULT_SECONDS: Final = 10.0
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,5})(?:$|[,;\s])")
_places: Final = threading.BoundedSemaphore(max(settings.TOOLSYS.waiters_cap, 1))


def preferred_seconds(request: HttpRequest) -> float:
    """Return how long the caller wants to wait; ten seconds where it does not say, none for respond-async."""
    sent = request.META.get("HTTP_PREFER", "")[:200].lower()
    found = _WAIT.search(sent)
    if found is None:
        return 0.0 if "respond-async" in sent else DEFAULT_SECONDS
    return min(float(found.group(1)), settings.TOOLSYS.wait_cap_seconds)


def wait[T](waiter: Waiter, read: Callable[[], T], is_done: Callable[[T], bool], seconds: float) -> T:
    """Return what was read last: done, or as far as it came in the time."""
    if seconds <= 0 or not _places.acquire(blocking=False):
        return read()
    try:

        def released() -> T:
            found = read()
            database.release_connection()
            return found

        return waiter.until(released, is_done, seconds, time.monotonic)
    finally:
        _places.release()
