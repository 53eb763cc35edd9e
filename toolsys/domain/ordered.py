"""String enumerations whose members are declared from the mildest to the strictest.

The order of declaration is the order of strictness everywhere in the product, so "the stricter wins" is
one function and never a comparison of spellings. Pure; imported by the other domain modules only.
"""

from enum import StrEnum
from typing import Self


class Ordered(StrEnum):
    """A `StrEnum` ordered by declaration; the last member is the strictest."""

    @property
    def rank(self) -> int:
        return _ranks(type(self))[self]

    @classmethod
    def strictest_member(cls) -> Self:
        return list(cls)[-1]

    def stricter(self, other: Self) -> Self:
        """Return whichever of the two is declared later."""
        return self if self.rank >= other.rank else other


_CACHE: dict[type[Ordered], dict[Ordered, int]] = {}


def _ranks(kind: type[Ordered]) -> dict[Ordered, int]:
    found = _CACHE.get(kind)
    if found is None:
        found = _CACHE[kind] = {member: index for index, member in enumerate(kind)}
    return found


def strictest[T: Ordered](members: list[T], default: T) -> T:
    """Return the strictest of `members`, or `default` when there is none."""
    return max(members, key=lambda member: member.rank) if members else default
