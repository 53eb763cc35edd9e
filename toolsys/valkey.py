"""Lines to the queue's server: a connection that its owner keeps, for commands that each call pays for.

A client of redis-py takes a pooled connection and counts, retries and observes around each command, for three times
what the command costs. Every wait has a deadline. Used by `queue` and `wakeups` only.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

import redis
from redis.connection import AbstractConnection

WAIT_SECONDS: Final = 2.0


class Line:
    """One connection, made when it is needed and again where it has ended. Of one thread at a time.

    `blocks_seconds` is how long the server itself may take to answer, for commands that wait there.
    """

    def __init__(self, pool: redis.ConnectionPool, *, blocks_seconds: float = 0.0) -> None:
        self.pool = pool
        self._blocks_seconds = blocks_seconds
        self._connection: AbstractConnection | None = None

    def command(self, *parts: Any) -> Any:
        """Send one command and return the answer; once more over a new connection where the old one has ended.

        The first may then have arrived: for commands that may arrive twice. Raises: redis.RedisError.
        """
        if self._connection is not None:
            try:
                return self._exchange(self._connection, parts)
            except (redis.ConnectionError, redis.TimeoutError):
                pass
        wait = WAIT_SECONDS + self._blocks_seconds
        bounded = {**self.pool.connection_kwargs, "socket_timeout": wait, "socket_connect_timeout": WAIT_SECONDS}
        self._connection = self.pool.connection_class(**bounded)
        return self._exchange(self._connection, parts)

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()  # type: ignore[no-untyped-call]
        self._connection = None

    def _exchange(self, connection: AbstractConnection, parts: tuple[Any, ...]) -> Any:
        try:
            packed = connection.pack_command(*parts)  # type: ignore[no-untyped-call]
            connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
            return connection.read_response()
        except redis.ResponseError:
            raise
        except BaseException:
            # Also what a signal's handler raised: an answer that comes late must not be taken for the next one's.
            self.hang_up()
            raise


class _Own(threading.local):
    line: Line | None = None


_own: Final = _Own()


def command(pool: redis.ConnectionPool, *parts: Any) -> Any:
    """Send one command over this thread's own line: see `Line.command`. Raises: redis.RedisError."""
    line = _own.line
    if line is None or line.pool is not pool:
        line = _own.line = Line(pool)
    return line.command(*parts)


def listen(pool: redis.ConnectionPool, channel: str) -> Iterator[bytes | None]:
    """Yield what is published there, over a connection of its own; None first: from then on it hears.

    It waits without end, since there may be nothing to say. Raises: redis.RedisError.
    """
    connection = pool.connection_class(**{**pool.connection_kwargs, "socket_timeout": None})
    try:
        connection.send_command("SUBSCRIBE", channel)
        while True:
            kind, _, said = connection.read_response(push_request=True)
            yield said if kind == b"message" else None
    finally:
        connection.disconnect()


def hang_up() -> None:
    """End this thread's own line."""
    if _own.line is not None:
        _own.line.hang_up()
