"""What a worker does for its connections besides calls: it warms up at its start, and lets go of sessions that ended.

Warming up looks anew at what may have changed with a release (stdio) or is too old (HTTP), one server at a time and
with more patience than a person has, because services restart together. It records what it saw, never that it failed.
Source: TS "Discovery" (ADR-0131), "Each API and worker process checks its own connections".
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import DatabaseError

from mcpcatalog import selectors
from mcpcatalog.provider import McpProvider, Workbench
from toolsys import database, wakeups
from toolsys.selectors import sessions_in_use

log = logging.getLogger(__name__)
SWEEP_SECONDS: Final = 30.0
# However many runs end, the database is asked at most this often.
MINIMUM_PAUSE_SECONDS: Final = 0.5
STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Warming:
    """At most `attempts` rounds over what is left, `retry_seconds` apart; `connect_seconds` for each handshake."""

    attempts: int = 5
    retry_seconds: float = 30.0
    connect_seconds: float = 60.0


class Upkeep:
    """The two background threads of one worker process."""

    def __init__(
        self, provider: McpProvider, workbench: Workbench, warming: Warming, sweep_seconds: float = SWEEP_SECONDS
    ) -> None:
        self._provider = provider
        self._workbench = workbench
        self._warming = warming
        self._sweep_seconds = min(sweep_seconds, SWEEP_SECONDS)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
            for name, work in (("mcp-warm-up", self.warm_up), ("mcp-upkeep", self._keep))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        wakeups.RUNS.fire(wakeups.RUN_ENDED)
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def warm_up(self) -> None:
        """Look at every enabled server that this process cannot yet pin from memory."""
        for number in range(self._warming.attempts):
            if number and self._stopping.wait(self._warming.retry_seconds):
                return
            left = 0
            for tenant_id, server_id in selectors.all_enabled_servers():
                if self._stopping.is_set():
                    return
                left += not self._provider.warm(tenant_id, server_id, self._warming.connect_seconds)
                database.release_connection()
            if not left:
                return

    def sweep(self) -> None:
        """Let go of what is held for sessions that nobody uses any more, whoever ended them, and of what remembers
        nothing where a session's runs all wait for people (decision record 22).
        """
        held: dict[str, set[UUID]] = defaultdict(set)
        for tenant_id, session_id in self._workbench.sessions():
            held[tenant_id].add(session_id)
        for tenant_id, session_ids in held.items():
            in_use = sessions_in_use(tenant_id, session_ids)
            for session_id in session_ids:
                if session_id not in in_use:
                    self._workbench.release_session(tenant_id, session_id)
                elif in_use[session_id]:
                    self._workbench.rest_session(session_id)

    def _keep(self) -> None:
        with wakeups.RUNS.waiting(wakeups.RUN_ENDED) as waiter:
            while not self._stopping.is_set():
                waiter.wait(self._sweep_seconds)
                if self._stopping.wait(MINIMUM_PAUSE_SECONDS):
                    return
                try:
                    self.sweep()
                except (DatabaseError, TimeoutError) as error:
                    log.warning("a sweep of the connections failed (%s); trying again", type(error).__name__)
                    database.discard_connection()
                finally:
                    database.release_connection()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - what warms and sweeps must never end what works
            log.error("%s ended with %s", threading.current_thread().name, type(error).__name__)
        finally:
            database.release_connection()
