"""How many of one tenant's servers a worker looks at at a time: slow ones must not fill its job threads.

What is asked for while a tenant's turns are taken is done by a thread that has one, once, however often it was asked.
Pure; in memory only: whoever opens the next session asks again for what a worker took with it.
"""

import threading
from collections import Counter
from collections.abc import Generator
from typing import Final

TURNS: Final = 3


class Turns:
    def __init__(self, limit: int = TURNS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, None]] = {}

    def of(self, tenant_id: str, key: str) -> Generator[str]:
        """Yield what the calling thread has to do: this key and what comes meanwhile, or nothing at all."""
        with self._lock:
            if self._taken[tenant_id] >= self._limit:
                self._waiting.setdefault(tenant_id, {})[key] = None
                return
            self._taken[tenant_id] += 1
        found: str | None = key
        try:
            while found is not None:
                yield found
                found = self._next(tenant_id)
        finally:
            if found is not None:  # whoever did the work failed at it
                self._give_back(tenant_id)

    def _next(self, tenant_id: str) -> str | None:
        """Take what waits; or give the turn back, in the same moment, so that nothing is left waiting for nobody."""
        with self._lock:
            waiting = self._waiting.get(tenant_id)
            if waiting:
                found = next(iter(waiting))
                del waiting[found]
                return found
            self._end(tenant_id)
            return None

    def _give_back(self, tenant_id: str) -> None:
        with self._lock:
            self._end(tenant_id)

    def _end(self, tenant_id: str) -> None:
        self._taken[tenant_id] -= 1
        if not self._taken[tenant_id]:
            del self._taken[tenant_id]
            self._waiting.pop(tenant_id, None)
