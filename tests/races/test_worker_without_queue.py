"""A worker whose queue is away goes on: it is not ended by its own heartbeat, and it is soon back when the queue is."""

import threading
from typing import Any

import pytest
import redis
from rq.worker import SimpleWorker

from tests.integration.test_queue import Hands, bells, hands, serve, work  # noqa: F401 - two are fixtures
from tests.spec.requirements import gate
from toolsys import worker
from toolsys.queue import BellQueue

FIRST, SECOND = "callXacmeXfirstX0", "callXacmeXsecondX0"


@gate("lost.queue")
def test_a_heartbeat_that_cannot_be_told_ends_no_worker(
    bells: BellQueue, hands: Hands, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """RQ tells of a heartbeat after each job, outside of what it protects: the worker would quit there."""
    attempts = threading.Semaphore(0)

    def unheard(*_arguments: Any, **_options: Any) -> None:
        attempts.release()
        raise redis.ConnectionError("away")

    monkeypatch.setattr(SimpleWorker, "heartbeat", unheard)
    monkeypatch.setattr(worker, "HEARTBEAT_SECONDS", 0.0)
    hands.leave.set()
    bells.connection.rpush(bells.key, FIRST, SECOND)
    thread = work(serve(bells, hands, 1, []))
    thread.join(30)
    assert (hands.began, len(bells), thread.is_alive()) == (["first", "second"], 0, False)
    assert attempts.acquire(timeout=0)


@gate("lost.queue")
def test_a_worker_asks_again_soon_after_its_queue_came_back(bells: BellQueue, hands: Hands) -> None:  # noqa: F811
    assert serve(bells, hands, 1, []).max_connection_wait_time <= 2.0
