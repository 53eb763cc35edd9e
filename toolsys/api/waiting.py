"""`Prefer: wait=N`: a request that waits for an outcome, woken by notification, holding no database connection.

The number of waiting requests in a process is bounded; where no place is left the answer is 202 at once.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.http import HttpRequest

from toolsys import database
from toolsys.wakeups import Waiter

DEFAULT_SECONDS: Final = 10.0
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=([0-9]{1,9})(?:$|[,;\s])")
_places: Final = threading.BoundedSemaphore(settings.TOOLSYS.waiters_cap)


@dataclass(frozen=True, slots=True)
class Preference:
    """How long the caller wants to wait. `applied` is what the answer confirms of what was sent."""

    seconds: float
    applied: str = ""


def preference(request: HttpRequest, unsaid: float = 0.0) -> Preference:
    """Read the header; `unsaid` seconds where the caller does not say, none for respond-async."""
    sent = request.META.get("HTTP_PREFER", "")[:200].lower()
    found = _WAIT.search(sent)
    if found is not None:
        seconds = min(float(found.group(1)), settings.TOOLSYS.wait_cap_seconds)
        return Preference(seconds, f"wait={seconds:g}")
    return Preference(0.0, "respond-async") if "respond-async" in sent else Preference(unsaid)


def wait[T](
    waiter: Waiter, read: Callable[[], T], is_done: Callable[[T], bool], wanted: Preference, *, looks_first: bool = True
) -> tuple[T, Preference]:
    """Return what was read last, done or as far as it came, and how much of the preference was kept."""
    if wanted.seconds <= 0:
        return read(), wanted
    if not _places.acquire(blocking=False):
        return read(), Preference(0.0)
    try:

        def released() -> T:
            found = read()
            database.release_connection()
            return found

        database.release_connection()
        return waiter.until(released, is_done, wanted.seconds, time.monotonic, looks_first=looks_first), wanted
    finally:
        _places.release()
