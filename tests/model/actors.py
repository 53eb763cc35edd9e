"""Actors: threads of which one runs at a time, each only as far as its next point.

An actor pauses wherever the store's probe, a read or a tool tells it a point; the scheduler steps it, leaves it lie
(a frozen process) or crashes it there. Threads are kept and used again: making one costs more than a step.
"""

import threading
from collections.abc import Callable
from typing import Final

STEP_SECONDS: Final = 20.0


class Crash(BaseException):
    """The process died at this point. Nothing may catch it."""


class Stuck(RuntimeError):
    """An actor did not reach its next point in time: the search itself is broken."""


class Actor:
    """Implements `ports.Probe`. `point` is where the actor pauses, `error` what its last work raised."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.point = "idle"
        self.is_busy = False
        self.error: Exception | None = None
        self._is_doomed = False
        self._work: Callable[[], None] = lambda: None
        # Two locks handed to and fro, each released by the other side: far quicker than semaphores.
        self._go = threading.Lock()
        self._paused = threading.Lock()
        self._go.acquire()
        self._paused.acquire()
        threading.Thread(target=self._serve, name=f"model-{name}", daemon=True).start()

    def begin(self, work: Callable[[], None]) -> None:
        """Give it work, and run it to the first point."""
        assert not self.is_busy
        self._work, self.is_busy, self.error = work, True, None
        self.step()

    def step(self) -> None:
        """Run it to its next point, or to the end of its work. Raises: Stuck."""
        assert self.is_busy
        self._go.release()
        if not self._paused.acquire(timeout=STEP_SECONDS):
            raise Stuck(f"{self.name} after {self.point}")

    def crash(self) -> None:
        """Let it die where it pauses."""
        self._is_doomed = True
        self.step()
        self._is_doomed = False

    def pause(self, point: str) -> None:
        """Called on the actor's own thread. Raises: Crash."""
        self.point = point
        self._paused.release()
        self._go.acquire()
        if self._is_doomed:
            raise Crash(point)

    def reached(self, point: str, tool_name: str) -> None:
        self.pause(point)

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            try:
                self._work()
            except Crash:
                pass
            except Exception as error:
                self.error = error
            self.point, self.is_busy = "idle", False
            self._paused.release()


class ActorPool:
    """Hands out actors by name, each schedule the same ones."""

    def __init__(self) -> None:
        self._actors: dict[str, Actor] = {}

    def take(self, name: str) -> Actor:
        if name not in self._actors:
            self._actors[name] = Actor(name)
        actor = self._actors[name]
        assert not actor.is_busy, f"{name} was left at {actor.point}"
        actor.error = None
        return actor
