"""Seats: how many people of which kind must approve a call, and whether those who did are enough. Pure.

Seats are written as a list, one entry for each person: two experts and a client are `expert, expert, client`. A client
stands above an expert, as in the order of verdicts. Source: DESIGN §3 and §5.
"""

from collections.abc import Sequence
from typing import Final

from toolsys.domain.ordered import Ordered
from toolsys.domain.states import PolicyVerdict, Role

SEATS_LIMIT: Final = 6


class Seat(Ordered):
    EXPERT = "expert"
    CLIENT = "client"

    @property
    def role(self) -> Role:
        """The role that a person must have to take this seat."""
        return Role.EXPERT_APPROVER if self is Seat.EXPERT else Role.CLIENT_APPROVER


def seat_of(verdict: PolicyVerdict) -> tuple[Seat, ...]:
    """Return the one seat that a verdict asks for by itself; none for a verdict that asks for nobody."""
    if verdict is PolicyVerdict.REQUIRE_EXPERT_APPROVAL:
        return (Seat.EXPERT,)
    return (Seat.CLIENT,) if verdict is PolicyVerdict.REQUIRE_CLIENT_APPROVAL else ()


def covers(held: Sequence[Seat], needed: Sequence[Seat]) -> bool:
    """Say whether every needed seat finds somebody of its own: no more people than sit, and clients for clients."""
    clients = sum(seat is Seat.CLIENT for seat in needed)
    return len(needed) <= len(held) and clients <= sum(seat is Seat.CLIENT for seat in held)


def left_of(needed: Sequence[Seat], taken: Sequence[Seat]) -> tuple[Seat, ...]:
    """Return the seats that nobody has taken yet, in the order in which they are asked for."""
    left = list(needed)
    for seat in taken:
        if seat in left:
            left.remove(seat)
    return tuple(left)


def weight(seats: Sequence[Seat]) -> tuple[int, int]:
    """Return what orders demands for seats: more people first, then more clients among them."""
    return len(seats), sum(seat is Seat.CLIENT for seat in seats)
