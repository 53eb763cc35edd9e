"""Wakes requests that wait: one subscriber thread per process, one event per waiter, no polling of the queue.

A message is only a hint. A waiter registers before its commit, reads the answer from the row, and looks again by
itself every so often, so that a lost message costs time and never an answer. Source: DESIGN §13.
"""

import logging
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import redis

from toolsys import valkey
from toolsys.queue import call_queue

log = logging.getLogger("toolsys.wakeups")
RECHECK_SECONDS: Final = 1.0
RECONNECT_SECONDS: Final = 0.5


def step_key(run_id: object, step_number: int) -> str:
    return f"{run_id}/{step_number}"


class Hub:
    """The process's waiters by key, of one channel: it listens where it waits for something, and only there."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self._waiters: dict[str, set[threading.Event]] = defaultdict(set)
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._pid = 0

    @contextmanager
    def waiting(self, key: str) -> Iterator["Waiter"]:
        """Register before what is waited for can be committed."""
        self._start()
        event = threading.Event()
        with self._lock:
            self._waiters[key].add(event)
        try:
            yield Waiter(event)
        finally:
            with self._lock:
                self._waiters[key].discard(event)
                if not self._waiters[key]:
                    del self._waiters[key]

    def _start(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                threading.Thread(target=self._listen, name="wake-hub", daemon=True).start()
                self._ready.wait(2.0)
                self._pid = os.getpid()

    def _listen(self) -> None:
        while True:
            try:
                self._subscribe()
            except redis.RedisError:
                log.warning("wake-up subscription lost; subscribing again")
            threading.Event().wait(RECONNECT_SECONDS)

    def _subscribe(self) -> None:
        for said in valkey.listen(call_queue().connection.connection_pool, self.channel):
            if said is None:
                self._ready.set()
            else:
                self.fire(said.decode())

    def fire(self, key: str) -> None:
        """Wake this process's waiters."""
        with self._lock:
            for event in self._waiters.get(key, ()):
                event.set()


class Waiter:
    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def wait(self, seconds: float) -> bool:
        """Wait for one wake-up; return whether there was one."""
        was_woken = self._event.wait(seconds)
        self._event.clear()
        return was_woken

    def until[T](
        self, read: Callable[[], T], is_done: Callable[[T], bool], seconds: float, clock: Callable[[], float],
        *, looks_first: bool = True,
    ) -> T:  # fmt: skip
        """Read after each wake-up until done or out of time; returns what was read last.

        `looks_first` is False where the caller has just begun what it waits for: its first read would be too early.
        """
        end = clock() + seconds
        if not looks_first:
            self._event.wait(min(RECHECK_SECONDS, seconds))
        while True:
            self._event.clear()
            found = read()
            left = end - clock()
            if is_done(found) or left <= 0:
                return found
            self._event.wait(min(RECHECK_SECONDS, left))


HUB: Final = Hub("toolsys:wake")
# Some run has ended, of whatever tenant: whoever holds something for its session looks what is still in use.
RUNS: Final = Hub("toolsys:runs")
RUN_ENDED: Final = "run-ended"


def wake(key: str, hub: Hub = HUB) -> None:
    """Tell every process that something about `key` has been committed."""
    try:
        valkey.command(call_queue().connection.connection_pool, "PUBLISH", hub.channel, key)
    except redis.RedisError:
        log.warning("could not publish a wake-up; waiters will look by themselves")
