"""An RQ worker that does not fork: job threads beside one event loop, three queue round trips a job.

A fork a job would cost 30 ms and every open connection. RQ decides nothing here: it neither retries nor requeues,
what it loses the sweeper finds in PostgreSQL. Started by `manage.py worker`. Source: DESIGN §13.
"""

import logging
import queue as stdlib_queue
import threading
import time
from typing import Any, Final

import redis
from django.db import close_old_connections
from rq import Queue
from rq.job import Job
from rq.utils import now
from rq.worker import SimpleWorker

from toolsys.ports import Runtime

log = logging.getLogger("toolsys.worker")
HEARTBEAT_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 8.0
GARBAGE_KEPT: Final = 1000


class ThreadWorker(SimpleWorker):
    """Dequeues on the main thread and runs jobs on `threads` others, never more jobs than threads."""

    log_job_description = False

    def __init__(self, queues: list[Queue], *, runtime: Runtime, threads: int, **options: Any) -> None:
        super().__init__(queues, **options)
        self._runtime = runtime
        self._slots = threading.Semaphore(threads)
        self._threads = threads
        self._jobs: stdlib_queue.SimpleQueue[tuple[Job, Queue]] = stdlib_queue.SimpleQueue()
        self._last_heartbeat = 0.0

    def work(self, *args: Any, **kwargs: Any) -> bool:
        """Serve until told to stop; then give the calls in hand a bounded time to finish."""
        for number in range(self._threads):
            threading.Thread(target=self._serve, name=f"job-{number}", daemon=True).start()
        try:
            return bool(super().work(*args, **kwargs))
        finally:
            self._drain()

    def execute_job(self, job: Job, queue: Queue) -> None:
        self._slots.acquire()
        self._jobs.put((job, queue))

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """At most one a second, where RQ sends four a job."""
        if pipeline is None:
            if time.monotonic() - self._last_heartbeat < HEARTBEAT_SECONDS:
                return
            self._last_heartbeat = time.monotonic()
        super().heartbeat(timeout, pipeline)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        if state != getattr(self, "_state", None):
            super().set_state(state, pipeline)

    def subscribe(self) -> None:
        """Take no commands over the queue: signals stop a worker, PostgreSQL stops a call."""

    def unsubscribe(self) -> None:
        """There is nothing to leave."""

    def procline(self, message: str) -> None:
        """Leave the process title alone: it would cost a system call a job."""

    def run_maintenance_tasks(self) -> None:
        """Only bound the garbage of killed workers: RQ's own clean-up would judge jobs by its own clocks."""
        for queue in self.queues:
            self.connection.ltrim(queue.intermediate_queue_key, 0, GARBAGE_KEPT)
        self.last_cleaned_at = now()  # type: ignore[assignment]

    def _serve(self) -> None:
        while True:
            job, queue = self._jobs.get()
            try:
                self._perform(job, queue)
            finally:
                self._slots.release()

    def _perform(self, job: Job, queue: Queue) -> None:
        succeeded = False
        try:
            job.func(self._runtime, *job.args)
            succeeded = True
        except Exception:
            # The row stands as it was committed; the sweeper names it again. Nothing is recorded as failed here.
            log.exception("job %s ended with an exception", job.id)
        finally:
            close_old_connections()
        self._finish(job, queue, "successful_job_count" if succeeded else "failed_job_count")

    def _finish(self, job: Job, queue: Queue, counter: str) -> None:
        try:
            with self.connection.pipeline(transaction=False) as pipe:
                pipe.lrem(queue.intermediate_queue_key, 1, job.id)
                pipe.delete(job.key)
                pipe.hincrby(self.key, counter, 1)
                pipe.execute()
        except redis.RedisError:
            log.warning("could not tidy up after job %s", job.id)

    def _drain(self) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        for _ in range(self._threads):
            if not self._slots.acquire(timeout=max(until - time.monotonic(), 0.01)):
                log.warning("stopping with calls still running; their leases will pass and they will be recovered")
                return
