"""Counts guesses at passwords, across processes and their restarts: a counter in Valkey that ends with its window.

An attempt is counted before it is judged, so that many at once are no more than many in turn. What cannot be counted
is not judged: where the server does not answer, nobody guesses. A server that loses everything forgets a window.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import redis

from toolsys import valkey
from toolsys.queue import call_queue

PREFIX: Final = "guesses:"
# What to wait for where nobody can say how often it was tried.
UNCOUNTED_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Bound:
    """So many attempts about one subject in a window of seconds. The subject itself is not stored."""

    subject: str
    limit: int
    window_seconds: int

    @property
    def key(self) -> str:
        return PREFIX + hashlib.sha256(self.subject.encode()).hexdigest()[:40]


def wait_before(bounds: Sequence[Bound]) -> int:
    """Count one attempt under each bound; return 0 where it may be made, and else the seconds to wait."""
    try:
        return max(map(_counted, bounds))
    except redis.RedisError:
        return UNCOUNTED_SECONDS


def forget(bounds: Sequence[Bound]) -> None:
    """The right password: what came before it was a person who had mistyped. A lost answer leaves the count."""
    try:
        _command("DEL", *(bound.key for bound in bounds))
    except redis.RedisError:
        return


def take_back(bounds: Sequence[Bound]) -> None:
    """The right password: this attempt was no guess, and says nothing of those before it. A lost answer leaves it."""
    try:
        for bound in bounds:
            if int(_command("DECR", bound.key)) < 0:  # its window had ended
                _command("DEL", bound.key)
    except redis.RedisError:
        return


def said(seconds: int) -> str:
    """Name a wait in words."""
    if seconds < 60:
        return f"{seconds} second{'s' if seconds != 1 else ''}"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minute{'s' if minutes != 1 else ''}"


def _counted(bound: Bound) -> int:
    _command("SET", bound.key, 0, "EX", bound.window_seconds, "NX")
    count = int(_command("INCR", bound.key))
    left = int(_command("TTL", bound.key))
    if left < 0:  # the window ended between the first and the second command
        _command("EXPIRE", bound.key, bound.window_seconds)
        left = bound.window_seconds
    return max(left, 1) if count > bound.limit else 0


def _command(*parts: object) -> bytes:
    found: bytes = valkey.command(call_queue().connection.connection_pool, *parts)
    return found
