"""A bounded map for what never changes under its key; the oldest entry goes first. Not a cache with an expiry.

Keys carry what the value depends on (a hash, an authorization epoch), so nothing is ever invalidated.
"""

from collections.abc import Hashable


class Kept[T]:
    """Safe under threads: two of them may compute the same value, and either may stay."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: dict[Hashable, T] = {}

    def get(self, key: Hashable) -> T | None:
        return self._found.get(key)

    def put(self, key: Hashable, value: T) -> T:
        if len(self._found) >= self._limit:
            self._found.pop(next(iter(self._found), None), None)
        self._found[key] = value
        return value
