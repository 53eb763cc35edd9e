"""An RQ worker that does not fork: job threads beside one event loop, one queue round trip a job.

A fork a job would cost 30 ms and every open connection. RQ decides nothing here: it neither retries nor requeues,
what it loses the sweeper finds in PostgreSQL. Started by `manage.py worker`. Source: DESIGN §13.
"""

import logging
import queue as stdlib_queue
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import redis
from django.db import connections
from rq import Queue
from rq.exceptions import DequeueTimeout, StopRequested
from rq.job import Job
from rq.utils import now
from rq.worker import SimpleWorker, WorkerStatus

from toolsys.ports import Runtime
from toolsys.queue import Bell, BellQueue, ring_all

log = logging.getLogger("toolsys.worker")
HEARTBEAT_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 8.0
# How long one question to an empty queue takes, and a stop that went unheard.
ASK_SECONDS: Final = 2
# After a queue that was away.
AGAIN_SECONDS: Final = 1.0


class ThreadWorker(SimpleWorker):
    """Dequeues on the main thread and runs jobs on `threads` others, never more jobs than threads. Never in a burst."""

    queue_class = BellQueue
    job_class = Bell
    log_job_description = False

    def __init__(
        self, queues: list[Queue], *, runtime: Runtime, threads: int, stop_sending: Callable[[], None], **options: Any
    ) -> None:
        """`stop_sending` is called when the worker is told to stop: what was not sent by then is given back."""
        super().__init__(queues, **options)
        self._runtime = runtime
        self._stop_sending = stop_sending
        self._stopping = threading.Event()
        self._draining = threading.Event()
        self._slots = threading.Semaphore(threads)
        self._hands: list[stdlib_queue.SimpleQueue[Job]] = [stdlib_queue.SimpleQueue() for _ in range(threads)]
        self._idle = list(self._hands)
        self._last_heartbeat = 0.0

    def work(self, *args: Any, **kwargs: Any) -> bool:
        """Serve until told to stop; then give the calls in hand a bounded time to finish."""
        for number, hand in enumerate(self._hands):
            threading.Thread(target=self._serve, args=(hand,), name=f"job-{number}", daemon=True).start()
        try:
            return bool(super().work(*args, **kwargs))
        finally:
            self._drain()

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Take a bell only when a thread is free: what is left on the queue another worker may take.

        Raises: StopRequested.
        """
        while not self._slots.acquire(timeout=HEARTBEAT_SECONDS):
            if self._stopping.is_set():
                raise StopRequested
            self.heartbeat()
        self.set_state(WorkerStatus.IDLE)
        found = None
        try:
            while not self._stopping.is_set():
                found = self._ask()
                if found is not None:
                    return found
            raise StopRequested
        finally:
            if found is None:
                self._slots.release()

    def _ask(self) -> tuple[Job, Queue] | None:
        """One question to the queues. RQ's own logs, counts and reads clocks around it, for more than it costs."""
        self.heartbeat()
        try:
            return self.queue_class.dequeue_any(self.queues, ASK_SECONDS, self.connection)
        except DequeueTimeout:
            return None
        except (redis.ConnectionError, redis.TimeoutError) as error:
            log.warning("the queue cannot be asked (%s); trying again", type(error).__name__)
            time.sleep(AGAIN_SECONDS)
            return None

    def handle_warm_shutdown_request(self) -> None:
        """RQ raises out of the signal's handler, wherever the main thread is: a stop that is caught there is kept."""
        self._stopping.set()
        super().handle_warm_shutdown_request()  # type: ignore[no-untyped-call]

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Hand it to the thread that was free last: its connection, and the plans behind that, are still warm."""
        self._idle.pop().put(job)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """At most one a second, where RQ sends four a job; one that cannot be told is no reason to quit."""
        if pipeline is None:
            if time.monotonic() - self._last_heartbeat < HEARTBEAT_SECONDS:
                return
            self._last_heartbeat = time.monotonic()
        try:
            super().heartbeat(timeout, pipeline)
        except redis.RedisError as error:
            log.warning("a heartbeat could not be told (%s)", type(error).__name__)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        if state != getattr(self, "_state", None):
            super().set_state(state, pipeline)

    def subscribe(self) -> None:
        """Take no commands over the queue: signals stop a worker, PostgreSQL stops a call."""

    def unsubscribe(self) -> None:
        """There is nothing to leave."""

    def procline(self, message: str) -> None:
        """Leave the process title alone: it would cost a system call a job."""

    def check_for_suspension(self, burst: bool) -> None:
        """Take no pause from Redis (RQ asks before every job): the switches are PostgreSQL's."""

    def run_maintenance_tasks(self) -> None:
        """Clean nothing: RQ would judge jobs by its own clocks, and a bell leaves nothing behind."""
        self.last_cleaned_at = now()  # type: ignore[assignment]

    def _serve(self, hand: "stdlib_queue.SimpleQueue[Job]") -> None:
        while True:
            job = hand.get()
            try:
                self._perform(job)
            finally:
                self._idle.append(hand)
                self._slots.release()

    def _perform(self, job: Job) -> None:
        try:
            if self._draining.is_set():
                ring_all([job.id])
                return
            job.func(self._runtime, *job.args)
        except Exception as error:  # noqa: BLE001
            # The row stands as it was committed; the sweeper names it again. The text may hold what a statement was
            # given, so only the type and the place are logged.
            log.error("job %s ended with %s%s", job.id, type(error).__name__, _place(error))
            # What was left open or broken is closed: the next job begins with a connection of the pool.
            connections.close_all()

    def _drain(self) -> None:
        self._draining.set()
        self._stop_sending()
        until = time.monotonic() + DRAIN_SECONDS
        for _ in self._hands:
            if not self._slots.acquire(timeout=max(until - time.monotonic(), 0.01)):
                log.warning("stopping with calls still running; their leases will pass and they will be recovered")
                return


def _place(error: Exception) -> str:
    """Name the lines that an error came through, without what they held."""
    frames = traceback.extract_tb(error.__traceback__)
    return "".join(f" < {Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
