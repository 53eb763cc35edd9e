"""A label of a metric whose values come from outside, bounded: each value of a label is a time series for ever."""

import threading
from typing import Final

OTHER: Final = "other"


class BoundedLabel:
    """Keeps the first `maximum` names of a process apart and counts the rest together, as `OTHER`."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, name: str) -> str:
        if name in self._seen:
            return name
        with self._lock:
            # Another thread may have taken the last place, or have added this very name.
            if name not in self._seen and len(self._seen) >= self._maximum:
                return OTHER
            self._seen.add(name)
        return name
