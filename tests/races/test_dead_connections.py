"""Nobody works over a connection whose server went away: the first question afterwards is answered.

Else a write that ran would be tried to be recorded over one dead connection after another, until its lease is over, and
each thread that keeps a connection between its jobs would fail one job.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import OperationalError, connections, transaction

from tests.integration.processes import eventually
from tests.spec.requirements import gate
from toolsys import database as database_calls

pytestmark = pytest.mark.slow

IDLE = 4
MINE = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid = ANY(%s)"


@pytest.fixture
def idle(database: None) -> Iterator[list[int]]:
    """Backends of connections that wait in the pool."""
    connections.close_all()
    line = threading.Barrier(IDLE)

    def hold(_number: int) -> int:
        wrapper: Any = connections["default"]
        wrapper.ensure_connection()
        line.wait(60)
        pid = int(wrapper.connection.info.backend_pid)
        connections.close_all()
        return pid

    with ThreadPoolExecutor(IDLE) as pool:
        yield list(pool.map(hold, range(IDLE)))
    connections.close_all()


@gate("lost.database")
def test_dead_connections_are_not_handed_out(idle: list[int]) -> None:
    for pid in idle:
        _end(pid)
    for _ in range(IDLE * 2):
        assert database_calls.call("SELECT 1", ()) == [(1,)]
        connections["default"].close()


@gate("lost.database")
@pytest.mark.parametrize("ask", ["function", "table", "transaction"])
def test_a_thread_that_kept_its_connection_takes_another(database: None, ask: str) -> None:
    asked = {
        "function": lambda: database_calls.call("SELECT 1", ())[0][0],
        "table": lambda: ContentType.objects.count() and 1,
        "transaction": _in_a_transaction,
    }[ask]
    assert asked() == 1
    wrapper: Any = connections["default"]
    _end(wrapper.connection.info.backend_pid)
    assert asked() == 1


@gate("lost.database")
def test_a_transaction_does_not_go_on_over_another_connection(database: None) -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        _lose_the_connection_between_two_questions()
    assert database_calls.call("SELECT 1", ()) == [(1,)]


def _lose_the_connection_between_two_questions() -> None:
    assert database_calls.call("SELECT 1", ()) == [(1,)]
    wrapper: Any = connections["default"]
    _end(wrapper.connection.info.backend_pid)
    database_calls.call("SELECT 1", ())


def _in_a_transaction() -> int:
    with transaction.atomic():
        return ContentType.objects.count() and 1


def _end(pid: int) -> None:
    """As the application's own role, over a connection of its own: a role may end its own backends."""
    import psycopg

    wrapper: Any = connections["default"]
    parameters = {name: value for name, value in wrapper.get_connection_params().items()
                  if name in {"dbname", "user", "password", "host", "port"}}  # fmt: skip
    with psycopg.connect(**parameters, autocommit=True) as link:
        link.execute("SELECT pg_terminate_backend(%s)", [pid])
        eventually(lambda: link.execute(MINE, [[pid]]).fetchone() is None, f"the end of {pid}", 60.0)
