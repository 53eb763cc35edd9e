"""Bells on a real queue, and what our worker class uses of RQ: one pop a job, nothing stored, nothing that stops it."""

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from rq import Queue
from rq.exceptions import DequeueTimeout, NoSuchJobError
from rq.worker import SimpleWorker

from tests.spec.requirements import gate
from toolsys import queue, wakeups, worker
from toolsys.queue import Bell, BellQueue
from toolsys.worker import ThreadWorker

CALL = str(uuid.uuid4())


@pytest.fixture
def bells(database: None) -> Iterator[BellQueue]:
    """A queue of this test's own: nobody else pops from it."""
    connection = queue.call_queue().connection
    found = BellQueue(f"test-{uuid.uuid4().hex}", connection=connection, serializer=queue.call_queue().serializer)  # type: ignore[no-untyped-call]
    yield found
    connection.delete(found.key)


@gate("queue.bells")
@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        ("call", ("a_b-c", CALL, "4"), "toolsys.jobs.advance_call"),
        ("step", ("acme", CALL), "toolsys.jobs.advance_step"),
        ("refresh", ("mcp", "acme", "time_2"), "toolsys.jobs.refresh_provider"),
    ],
)
def test_an_id_says_everything(bells: BellQueue, kind: str, fields: tuple[str, ...], path: str) -> None:
    bell = Bell.fetch(queue.bell_id(kind, *fields), bells.connection)
    assert (bell.func_name, tuple(bell.args), bell.kwargs) == (path, fields, {})
    assert callable(bell.func)


@gate("queue.bells")
@pytest.mark.parametrize("identifier", ["", "call", "nothingXacme", "os.system", "callXa b", "0f" * 16])
def test_what_is_no_bell_is_taken_off_and_never_stops_a_worker(bells: BellQueue, identifier: str) -> None:
    bells.connection.rpush(bells.key, identifier, queue.bell_id("call", "acme", CALL, 0))
    if identifier != "call":
        with pytest.raises(DequeueTimeout):
            BellQueue.dequeue_any([bells], 1, bells.connection)
    else:
        BellQueue.dequeue_any([bells], 1, bells.connection)
    found = BellQueue.dequeue_any([bells], 1, bells.connection)
    assert found is not None
    assert found[0].args == ["acme", CALL, "0"]


@gate("queue.bells")
def test_a_field_that_would_be_read_as_two_is_refused() -> None:
    with pytest.raises(AssertionError):
        queue.bell_id("call", "aXb", CALL, 0)
    with pytest.raises(NoSuchJobError):
        Bell.fetch("elseXacme", queue.call_queue().connection)


@gate("queue.bells")
def test_a_ring_stores_nothing_but_the_bell(bells: BellQueue) -> None:
    connection = bells.connection
    before = connection.keys("rq:job:*")
    connection.rpush(bells.key, queue.bell_id("call", "acme", CALL, 0))
    assert BellQueue.dequeue_any([bells], 1, connection) is not None
    assert connection.keys("rq:job:*") == before
    assert connection.exists(bells.intermediate_queue_key) == 0


@dataclass
class Hands:
    """Stands for the runtime: what jobs do with it is recorded, and how many do so at a time."""

    began: list[str] = field(default_factory=list)
    inside: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    leave: threading.Event = field(default_factory=threading.Event)


def hold(hands: Any, tenant_id: str, call: str, epoch: str) -> None:
    hands.began.append(call)
    hands.inside.release()
    if call == "bad":
        raise ValueError("secret value of a row")
    hands.leave.wait(20)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    monkeypatch.setitem(queue.JOBS, "call", f"{__name__}.hold")
    return Hands()


def serve(bells: Queue, hands: Hands, threads: int, stopped: list[str]) -> ThreadWorker:
    return ThreadWorker(
        [bells], runtime=hands, threads=threads, stop_sending=lambda: stopped.append("told"),  # type: ignore[arg-type]
        connection=bells.connection, serializer=bells.serializer, name=f"test-{uuid.uuid4().hex}",
    )  # fmt: skip


def work(worker: ThreadWorker) -> threading.Thread:
    """Run it beside the test. Signals belong to the main thread: the test asks it to stop itself.

    Not as a burst: such a worker stops at an empty queue, and rings again for what no thread has begun by then.
    """
    worker._install_signal_handlers = lambda: None  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: worker.work(logging_level="CRITICAL"), daemon=True)
    thread.start()
    return thread


def stop(worker: ThreadWorker, thread: threading.Thread) -> None:
    worker.handle_warm_shutdown_request()
    thread.join(20)
    assert not thread.is_alive()


@gate("queue.bells")
def test_a_bell_stays_on_the_queue_until_a_thread_is_free(bells: BellQueue, hands: Hands) -> None:
    names = [str(uuid.uuid4()) for _ in range(3)]
    bells.connection.rpush(bells.key, *(queue.bell_id("call", "acme", name, 0) for name in names))
    serving = serve(bells, hands, 2, [])
    thread = work(serving)
    for _ in range(2):
        assert hands.inside.acquire(timeout=10)
    assert (sorted(hands.began), len(bells)) == (sorted(names[:2]), 1)
    hands.leave.set()
    assert hands.inside.acquire(timeout=10)
    stop(serving, thread)
    # Which of two threads says first that it began is theirs to race for.
    assert (set(hands.began[:2]), hands.began[2:], len(bells)) == (set(names[:2]), names[2:], 0)


@gate("queue.bells")
@pytest.mark.parametrize("is_full", [False, True], ids=["idle", "every thread busy"])
def test_a_stop_is_heard_although_somebody_caught_what_its_signal_raised(
    bells: BellQueue, hands: Hands, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """Out of a signal handler an exception is raised within anybody's `except`, or where nothing can be raised."""
    monkeypatch.setattr(worker, "ASK_SECONDS", 1)
    stopped: list[str] = []
    serving = serve(bells, hands, 1, stopped)
    thread = work(serving)
    bells.connection.rpush(bells.key, queue.bell_id("call", "acme", str(uuid.uuid4()), 0))
    assert hands.inside.acquire(timeout=10), "it serves"
    if not is_full:
        hands.leave.set()
    serving.handle_warm_shutdown_request()
    end = time.monotonic() + 6
    while not stopped and time.monotonic() < end:
        time.sleep(0.01)
    assert stopped == ["told"], "what is in hand must hear at once that nothing more may leave"
    hands.leave.set()
    thread.join(20)
    assert not thread.is_alive()


@gate("queue.bells")
def test_a_job_that_raises_is_logged_without_its_values_and_stops_nothing(
    bells: BellQueue, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    hands.leave.set()
    bells.connection.rpush(bells.key, "callXacmeXbadX0", "callXacmeXgoodX0")
    serving = serve(bells, hands, 1, [])
    thread = work(serving)
    for _ in range(2):
        assert hands.inside.acquire(timeout=10)
    stop(serving, thread)
    assert hands.began == ["bad", "good"]
    assert "ValueError" in caplog.text
    assert "secret value" not in caplog.text


@gate("worker.drain")
def test_what_was_popped_and_not_begun_is_rung_for_again(
    bells: BellQueue, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[str] = []
    monkeypatch.setattr("toolsys.worker.ring_all", rung.extend)
    stopped: list[str] = []
    worker = serve(bells, hands, 1, stopped)
    worker._drain()
    worker._perform(Bell.fetch(queue.bell_id("call", "acme", CALL, 0), bells.connection))
    assert (rung, stopped, hands.began) == ([queue.bell_id("call", "acme", CALL, 0)], ["told"], [])


@gate("lost.queue")
def test_a_heartbeat_that_cannot_be_told_ends_no_worker(
    bells: BellQueue, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RQ tells of one after each job, outside of what it protects: the worker would quit there."""
    attempts = threading.Semaphore(0)

    def unheard(*_arguments: Any, **_options: Any) -> None:
        attempts.release()
        raise redis.ConnectionError("away")

    monkeypatch.setattr(SimpleWorker, "heartbeat", unheard)
    monkeypatch.setattr(worker, "HEARTBEAT_SECONDS", 0.0)
    hands.leave.set()
    bells.connection.rpush(bells.key, "callXacmeXfirstX0", "callXacmeXsecondX0")
    serving = serve(bells, hands, 1, [])
    thread = work(serving)
    for _ in range(2):
        assert hands.inside.acquire(timeout=10)
    stop(serving, thread)
    assert (hands.began, len(bells)) == (["first", "second"], 0)
    assert attempts.acquire(timeout=0)


@gate("lost.queue")
def test_a_worker_asks_again_soon_after_its_queue_came_back(
    bells: BellQueue, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, asked = BellQueue.dequeue_any, threading.Semaphore(0)

    def away_once(*given: Any, **named: Any) -> Any:
        if asked.acquire(blocking=False):
            return really(*given, **named)
        asked.release()
        raise redis.ConnectionError("away")

    monkeypatch.setattr(BellQueue, "dequeue_any", away_once)
    bells.connection.rpush(bells.key, queue.bell_id("call", "acme", CALL, 0))
    hands.leave.set()
    serving = serve(bells, hands, 1, [])
    thread = work(serving)
    assert hands.inside.acquire(timeout=5), "RQ would sleep ever longer, up to a minute"
    stop(serving, thread)


@gate("wakeups.one_channel")
def test_who_waits_for_steps_alone_hears_of_nothing_else(database: None) -> None:
    """A worker waits for runs that end, and would else be woken by every call of every process."""
    steps, runs = wakeups.Hub(f"test:{uuid.uuid4().hex}"), wakeups.Hub(f"test:{uuid.uuid4().hex}")
    with steps.waiting("a") as step, runs.waiting("a") as run:
        wakeups.wake("a", steps)
        assert step.wait(5)
        assert not run.wait(0.2)
        wakeups.wake("a", runs)
        assert run.wait(5)
        assert not step.wait(0.2)
