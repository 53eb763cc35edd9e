"""Who may take which seat of a held call, and what the votes add up to. Pure: facts in, checks out.

Four eyes: neither who proposed, nor who owns the key that proposed, nor who wrote the rule that holds the call. One
person fills one seat, whatever roles they have. A vote counts while its person is entitled to it. Source: DESIGN §5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolsys.domain.seats import Seat, left_of
from toolsys.domain.states import ApprovalStatus, Role


@dataclass(frozen=True, slots=True)
class Check:
    """One condition under which a person may decide; unmet, `reason_code` refuses and `unmet` explains."""

    sentence: str
    holds: bool
    reason_code: str
    unmet: str


@dataclass(frozen=True, slots=True)
class CountedVote:
    """The newest word of one person, where it is no withdrawal and the person is still entitled to the seat."""

    user_id: int
    seat: Seat
    is_approval: bool = True


@dataclass(frozen=True, slots=True)
class Ballot:
    """One request as it stands under its lock. `is_weighty`: deciding it takes the password again."""

    status: ApprovalStatus
    is_expired: bool
    digest: str
    seats: tuple[Seat, ...]
    is_weighty: bool
    is_cancelled: bool
    counted: tuple[CountedVote, ...]

    @property
    def left(self) -> tuple[Seat, ...]:
        return left_of(self.seats, [vote.seat for vote in self.counted])

    def completed_by(self, vote: CountedVote) -> bool:
        """Say whether this vote fills the last seat."""
        return self.left == (vote.seat,)


@dataclass(frozen=True, slots=True)
class Voter:
    """One person in front of one request. `wrote_policy`: the version of the rule that holds the call is theirs."""

    user_id: int
    is_active: bool
    roles: frozenset[Role]
    is_proposer: bool
    owns_key: bool
    wrote_policy: bool

    def seats_of(self, seats: Sequence[Seat]) -> list[Seat]:
        return [seat for seat in seats if self.is_active and seat.role in self.roles]


def checks(ballot: Ballot, voter: Voter) -> list[Check]:
    """Say what is asked of this person now, and what of it holds; the first unmet one refuses."""
    return [*open_checks(ballot), *seat_checks(ballot, voter)]


def open_checks(ballot: Ballot) -> list[Check]:
    is_pending = ballot.status is ApprovalStatus.PENDING
    return [
        Check("It is not decided yet.", is_pending, "approval.decided", f"It is {ballot.status}."),
        Check("There is time left to decide.", not ballot.is_expired, "approval.expired", "The time has run out."),
        Check("The call is still wanted.", not ballot.is_cancelled, "approval.call_ended", "It was cancelled."),
    ]


def seat_checks(ballot: Ballot, voter: Voter) -> list[Check]:
    needed = " or ".join(dict.fromkeys(seat.role.value.replace("_", " ") for seat in ballot.seats))
    has_voted = any(vote.user_id == voter.user_id for vote in ballot.counted)
    return [
        Check(f"It takes the role {needed}.", bool(voter.seats_of(ballot.seats)), "auth.forbidden",
              "You do not have it in this organisation."),
        Check("Four eyes: not who proposed it.", not voter.is_proposer, "approval.own_call", "It is your own."),
        Check("Four eyes: not who answers for the proposing key.", not voter.owns_key, "approval.own_key",
              "You answer for it."),
        Check("Four eyes: not who wrote the rule.", not voter.wrote_policy, "approval.own_policy",
              "You wrote the rule that holds it."),
        Check("One vote a person.", not has_voted, "approval.already_voted", "You have voted."),
    ]  # fmt: skip


def seat_check(ballot: Ballot, voter: Voter) -> Check:
    """What an approval asks beyond a rejection: a seat that is free. Whoever may sit at all may always reject."""
    is_free = bool(voter.seats_of(ballot.left))
    return Check("A seat of yours is free.", is_free, "approval.seat_taken", "It is taken by somebody else.")


def chosen_seat(ballot: Ballot, voter: Voter, *, wanted: Seat | None, is_approval: bool) -> Seat | None:
    """Return the seat that a vote takes: the wanted one, if it is theirs and free, or the first that is."""
    seats = voter.seats_of(ballot.left if is_approval else ballot.seats)
    if wanted is not None:
        return wanted if wanted in seats else None
    return seats[0] if seats else None
