"""One command to the queue's server over a connection that this thread keeps: ring, wake.

A client of redis-py takes a pooled connection and counts, retries and observes around each command, for three times
what the command costs. Every wait has a deadline. Used by `queue` and `wakeups` only.
"""

import threading
from typing import Any, Final

import redis
from redis.connection import AbstractConnection

WAIT_SECONDS: Final = 2.0


class _Line(threading.local):
    connection: AbstractConnection | None = None
    pool: Any = None


_line: Final = _Line()


def command(pool: redis.ConnectionPool, *parts: Any) -> Any:
    """Send one command and return the answer; once more over a new connection where the old one has ended.

    The first may then have arrived: for commands that may arrive twice. Raises: redis.RedisError.
    """
    known = _line.connection if _line.pool is pool else None
    if known is not None:
        try:
            return _exchange(known, parts)
        except (redis.ConnectionError, redis.TimeoutError):
            _hang_up()
    bounded = {**pool.connection_kwargs, "socket_timeout": WAIT_SECONDS, "socket_connect_timeout": WAIT_SECONDS}
    _line.connection, _line.pool = pool.connection_class(**bounded), pool
    try:
        return _exchange(_line.connection, parts)
    except (redis.ConnectionError, redis.TimeoutError):
        _hang_up()
        raise


def _exchange(connection: AbstractConnection, parts: tuple[Any, ...]) -> Any:
    packed = connection.pack_command(*parts)  # type: ignore[no-untyped-call]
    connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
    return connection.read_response()


def _hang_up() -> None:
    """An answer that comes late must not be taken for the next one's."""
    if _line.connection is not None:
        _line.connection.disconnect()  # type: ignore[no-untyped-call]
    _line.connection = None
