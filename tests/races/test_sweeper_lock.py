"""A sweep that failed leaves its lock nowhere: a session's lock on a connection in the pool would stop every sweep."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from django.db import DatabaseError, connections

from tests.spec.requirements import gate
from toolsys import database, sweeper

PATIENCE_SECONDS = 60.0


@pytest.fixture
def several_connections(database: None) -> Iterator[None]:
    """The pool holds more than one, so that who gives one back is given another."""
    connections.close_all()
    line = threading.Barrier(3)

    def hold(_number: int) -> None:
        connections["default"].ensure_connection()
        line.wait(PATIENCE_SECONDS)
        connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(hold, range(3)))
    yield
    connections.close_all()


@gate("lost.queue")
@pytest.mark.parametrize("failure", [redis.ConnectionError("away"), DatabaseError("refused")])
def test_who_failed_to_sweep_once_sweeps_again(
    several_connections: None, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    stopping, failures, swept = threading.Event(), [failure], threading.Event()

    def sweep(_grace_seconds: float) -> list[sweeper.Due]:
        if failures:
            raise failures.pop()
        swept.set()
        stopping.set()
        return []

    def serve() -> None:
        sweeper.serve(0.01, 0.0, stopping)
        database.end_session()

    monkeypatch.setattr(sweeper, "sweep", sweep)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        assert swept.wait(PATIENCE_SECONDS / 6), "the lock was left with a connection that nobody uses"
    finally:
        stopping.set()
        thread.join(PATIENCE_SECONDS)
    assert database.call("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", ())[0][0] == 0
