"""The thread's own line to Valkey: it survives a cut, waits no longer than its deadline, and mixes up no answers."""

import time
import uuid
from collections.abc import Iterator

import pytest
import redis

from toolsys import queue, valkey


@pytest.fixture
def pool() -> Iterator[redis.ConnectionPool]:
    found = queue.call_queue().connection.connection_pool
    yield found
    valkey.hang_up()


@pytest.fixture
def beside() -> redis.Redis:
    """A second client: what the line does is looked at from outside."""
    found: redis.Redis = queue.call_queue().connection
    return found


def test_a_command_is_answered(pool: redis.ConnectionPool) -> None:
    key = f"line:{uuid.uuid4().hex}"
    assert [valkey.command(pool, "RPUSH", key, "a"), valkey.command(pool, "RPUSH", key, "b", "c")] == [1, 3]


def test_a_cut_line_is_made_anew(pool: redis.ConnectionPool, beside: redis.Redis) -> None:
    name = valkey.command(pool, "CLIENT", "ID")
    beside.execute_command("CLIENT", "KILL", "ID", name)  # type: ignore[no-untyped-call]
    assert valkey.command(pool, "PING") == b"PONG"
    assert valkey.command(pool, "CLIENT", "ID") != name


def test_an_error_of_the_server_is_raised_and_the_line_goes_on(pool: redis.ConnectionPool) -> None:
    name = valkey.command(pool, "CLIENT", "ID")
    with pytest.raises(redis.ResponseError):
        valkey.command(pool, "NOSUCHCOMMAND")
    assert valkey.command(pool, "CLIENT", "ID") == name


def test_what_is_interrupted_leaves_no_answer_behind(
    pool: redis.ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RQ stops a worker by an exception out of a signal's handler, wherever that finds it."""
    line = valkey.Line(pool, blocks_seconds=1)
    line.command("PING")

    class Stop(BaseException): ...

    def interrupted(*_given: object, **_named: object) -> None:
        raise Stop

    monkeypatch.setattr(line._connection, "read_response", interrupted)
    with pytest.raises(Stop):
        line.command("CLIENT", "ID")
    assert line.command("PING") == b"PONG"
    line.hang_up()


def test_a_line_waits_longer_for_a_command_that_waits(
    pool: redis.ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "WAIT_SECONDS", 0.5)
    line = valkey.Line(pool, blocks_seconds=5)
    assert line.command("BLPOP", f"line:{uuid.uuid4().hex}", 1) is None
    line.hang_up()


def test_a_late_answer_is_nobodys(
    pool: redis.ConnectionPool, beside: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "WAIT_SECONDS", 0.2)
    valkey.hang_up()
    key = f"line:{uuid.uuid4().hex}"
    valkey.command(pool, "PING")
    beside.execute_command("CLIENT", "PAUSE", 1500, "WRITE")  # type: ignore[no-untyped-call]
    begun = time.monotonic()
    with pytest.raises(redis.TimeoutError):
        valkey.command(pool, "RPUSH", key, "late")
    assert time.monotonic() - begun < 1.2
    assert valkey.command(pool, "PING") == b"PONG"
