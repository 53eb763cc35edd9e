"""The sweeper: asks PostgreSQL what should be looked at again, and rings. It decides nothing.

One is active at a time, by advisory lock; a second one waits and takes over. What a worker finds there it judges by
the recovery table. Source: DESIGN §4 and §13.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import redis
from django.db import DatabaseError

from toolsys import database, queue

log = logging.getLogger("toolsys.sweeper")
LOCK: Final = 0x746F6F6C  # "tool"
BATCH: Final = 500
# Between two sweeps at least, seconds, however many leases are about to end; and how long a stop waits for a chore.
SHORTEST_PAUSE: Final = 0.02
CHORE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Due:
    kind: str
    tenant_id: str
    id: str
    epoch: int

    def bell(self) -> str:
        if self.kind == "step":
            return queue.bell_id("step", self.tenant_id, self.id)
        return queue.bell_id("call", self.tenant_id, self.id, self.epoch)


def sweep(grace_seconds: float) -> list[Due]:
    """Name what is due and ring for each. Safe to run twice: a ring says nothing new."""
    found = [Due(*row) for row in database.call("SELECT * FROM toolsys_sweep(%s, %s)", (BATCH, grace_seconds))]
    queue.ring_all([due.bell() for due in found])
    return found


@dataclass(slots=True)
class Chore:
    """Other work of the one active scheduler, every so often, on a thread of its own: no sweep waits for it.

    It must be bounded, and safe beside the first pass of the next scheduler.
    """

    every_seconds: float
    work: Callable[[], object]
    due: float = 0.0

    def run_if_due(self) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + self.every_seconds
            self.work()


def serve(sweep_seconds: float, grace_seconds: float, stopping: threading.Event, chores: Sequence[Chore] = ()) -> None:
    """Sweep every `sweep_seconds`, and when a lease ends, while this process holds the lock, until told to stop."""
    leading = threading.Event()
    side = threading.Thread(target=_do_chores, args=(chores, sweep_seconds, leading, stopping), name="chores")
    side.daemon = True
    side.start()
    while not stopping.is_set():
        until = time.monotonic() + sweep_seconds
        try:
            if _is_leader():
                leading.set()
                # Asked before the sweep: a lease that ends between the two is then swept at once, and not overlooked.
                lease_end = time.monotonic() + _seconds_to_lease_end()
                _count(sweep(grace_seconds))
                until = min(until, lease_end)
            else:
                leading.clear()
        except (DatabaseError, redis.RedisError, OSError) as error:
            leading.clear()
            # Its type only, here and below: the text of a database error may hold a row's values.
            log.error("sweep failed (%s); trying again", type(error).__name__)
            database.end_session()
        stopping.wait(max(until - time.monotonic(), SHORTEST_PAUSE))
    side.join(CHORE_SECONDS)


def _do_chores(
    chores: Sequence[Chore], every_seconds: float, leading: threading.Event, stopping: threading.Event
) -> None:
    while not stopping.wait(every_seconds):
        for chore in chores:
            if stopping.is_set() or not leading.is_set():
                break
            try:
                chore.run_if_due()
            except (DatabaseError, redis.RedisError, OSError) as error:
                log.error("a chore failed (%s); it is tried again when it is due", type(error).__name__)
                database.discard_connection()
        database.release_connection()


def _seconds_to_lease_end() -> float:
    """Ask when the next lease ends. A living worker will have renewed it; a dead one's call is then found at once."""
    seconds = database.call("SELECT toolsys_next_lease_end()", ())[0][0]
    return float("inf") if seconds is None else float(seconds)


def _is_leader() -> bool:
    """Session-level advisory lock: held by this process's one connection until that is ended, never only given back."""
    return bool(database.call("SELECT pg_try_advisory_lock(%s)", (LOCK,))[0][0])


def _count(found: list[Due]) -> None:
    if found:
        log.info("rang for %d due calls and steps", len(found))
