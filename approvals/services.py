"""Deciding a held call: votes in seats, taking a vote back, and several requests at once. One transaction each.

A vote locks its request first, so that two people decide one after the other; the last seat, or the first rejection,
decides. A key alone never can: every function takes a person. Source: DESIGN §5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from approvals import ballots, evidence, pace, seating
from approvals.models import ApprovalVote
from approvals.seating import Ballot, Check, CountedVote, Voter
from toolsys import decisions
from toolsys.decisions import SeatVote
from toolsys.domain.rejections import Rejection
from toolsys.domain.seats import Seat
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest
from toolsys.ports import Sealer
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

NOTE_LIMIT: Final = 2_000
BULK_APPROVALS: Final = 10
BULK_REJECTIONS: Final = 50


def decide(
    *, tenant_id: str, request_id: UUID, user: Any, is_approval: bool, note: str, digest: str, sealer: Sealer,
    seat: Seat | None = None, rejection: Rejection | None = None, is_reauthenticated: bool = False,
) -> ApprovalRequest:  # fmt: skip
    """Record one person's vote; where it decides, the call goes on in a worker after the commit.

    `digest` is what the person was shown: if the request is about something else by now, nothing is decided. What was
    altered since it was held (`evidence`) can only be rejected. `rejection` is what the agent is told.
    `is_reauthenticated`: the edge has just checked the password; approving a call of high risk takes it.
    Raises: Problem (request.not_found, request.invalid, auth.forbidden, approval.*).
    """
    _check_words(note, rejection, is_approval=is_approval)
    with tenant_transaction(tenant_id):
        locked = decisions.lock_request(request_id)
        ballot, voter = ballots.ballot(locked.row, is_expired=locked.is_expired), ballots.voter(locked.row, user)
        _require(seating.checks(ballot, voter))
        if ballot.digest != digest:
            raise Problem("approval.changed")
        if is_approval and evidence.alterations(locked.row, sealer):
            raise Problem("approval.altered")
        vote = CountedVote(user.pk, _seat(ballot, voter, seat, is_approval=is_approval), is_approval)
        if is_approval and ballot.is_weighty and not is_reauthenticated:
            raise Problem("approval.password_needed")
        _keep(locked.row, vote, digest, note, rejection=rejection, is_reauthenticated=is_reauthenticated)
        return _concluded(locked.row, ballot, vote, user, rejection)


def withdraw(*, tenant_id: str, request_id: UUID, user: Any, note: str = "") -> ApprovalRequest:
    """Take one's vote back: its seat is free again. An approval that is not used yet is void with it.

    Raises: Problem (request.not_found, request.invalid, approval.no_vote, approval.decided, approval.expired).
    """
    _check_words(note, None, is_approval=True)
    with tenant_transaction(tenant_id):
        locked = decisions.lock_request(request_id)
        row, ballot = locked.row, ballots.ballot(locked.row, is_expired=locked.is_expired)
        mine = next((vote for vote in ballots.newest_votes(row) if vote.user_id == user.pk), None)
        if mine is None or mine.is_withdrawal:
            raise Problem("approval.no_vote")
        if ballot.status is not ApprovalStatus.APPROVED:
            _require(seating.open_checks(ballot))
        vote = CountedVote(user.pk, Seat(mine.seat), is_approval=False)
        _keep(row, vote, row.digest, note, is_withdrawal=True)
        if ballot.status is ApprovalStatus.PENDING:
            return row
        left = [SeatVote(each.user_id, each.seat) for each in ballot.counted if each.user_id != user.pk]
        return decisions.record_decision(row, ApprovalStatus.VOIDED, user=user, votes=left)


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one request of several: its status, or the code that refused this one."""

    request_id: UUID
    status: str | None
    reason_code: str | None = None


def decide_many(
    *, tenant_id: str, shown: Sequence[tuple[UUID, str]], user: Any, is_approval: bool, note: str, sealer: Sealer,
    rejection: Rejection | None = None, is_reauthenticated: bool = False,
) -> list[Decided]:  # fmt: skip
    """Decide several requests, each with the digest that was shown and in a transaction of its own.

    Approvals together are bounded, of one tool and one rule, and never of high risk; rejections are bounded only.
    Raises: Problem (request.invalid, approval.bulk_mixed), with nothing decided.
    """
    limit = BULK_APPROVALS if is_approval else BULK_REJECTIONS
    if not 1 <= len(shown) <= limit or len({request_id for request_id, _ in shown}) != len(shown):
        raise Problem("request.invalid", [FieldError("/requests", f"1 to {limit}, each of them once")])
    _check_words(note, rejection, is_approval=is_approval)
    if is_approval:
        with tenant_transaction(tenant_id):
            if not ballots.are_alike([request_id for request_id, _ in shown]):
                raise Problem("approval.bulk_mixed")
    found = []
    for request_id, digest in shown:
        try:
            decided = decide(
                tenant_id=tenant_id, request_id=request_id, user=user, is_approval=is_approval, note=note,
                digest=digest, sealer=sealer, rejection=rejection, is_reauthenticated=is_reauthenticated,
            )  # fmt: skip
            found.append(Decided(request_id, decided.status))
        except Problem as problem:
            found.append(Decided(request_id, None, problem.reason_code))
    return found


def checks(request: ApprovalRequest, user: Any, *, is_expired: bool) -> list[Check]:
    """Say what `decide` would ask of this person now, and what of it holds. Transaction: needs the tenant's."""
    ballot, voter = ballots.ballot(request, is_expired=is_expired), ballots.voter(request, user)
    return [*seating.seat_checks(ballot, voter), seating.seat_check(ballot, voter), *seating.open_checks(ballot)]


def _check_words(note: str, rejection: Rejection | None, *, is_approval: bool) -> None:
    if not is_approval and not note.strip():
        raise Problem("request.invalid", [FieldError("/note", "say why")])
    if is_approval and rejection is not None:
        raise Problem("request.invalid", [FieldError("/reject_code", "only with a rejection")])
    if len(note) > NOTE_LIMIT or "\0" in note:
        raise Problem("request.invalid", [FieldError("/note", f"at most {NOTE_LIMIT:,} characters")])


def _require(wanted: Sequence[Check]) -> None:
    for check in wanted:
        if not check.holds:
            raise Problem(check.reason_code)


def _seat(ballot: Ballot, voter: Voter, wanted: Seat | None, *, is_approval: bool) -> Seat:
    if wanted is not None and wanted not in voter.seats_of(ballot.seats):
        raise Problem("auth.forbidden")
    if is_approval:
        _require([seating.seat_check(ballot, voter)])
    seat = seating.chosen_seat(ballot, voter, wanted=wanted, is_approval=is_approval)
    if seat is None:
        raise Problem("approval.seat_taken")
    return seat


def _keep(
    row: ApprovalRequest, vote: CountedVote, digest: str, note: str, *, rejection: Rejection | None = None,
    is_withdrawal: bool = False, is_reauthenticated: bool = False,
) -> None:  # fmt: skip
    """Write the vote; its number is the next one under the request's lock."""
    kept = ApprovalVote.objects.create(
        tenant_id=row.tenant_id, request=row, user_id=vote.user_id, seat=vote.seat, is_approval=vote.is_approval,
        number=ApprovalVote.objects.filter(request=row).count() + 1, is_withdrawal=is_withdrawal,
        is_reauthenticated=is_reauthenticated, rejection=rejection or "", note=note.strip(), digest=digest,
    )  # fmt: skip
    if not is_withdrawal:
        transaction.on_commit(partial(pace.count, kept, row.created_at), robust=True)


def _concluded(
    row: ApprovalRequest, ballot: Ballot, vote: CountedVote, user: Any, rejection: Rejection | None
) -> ApprovalRequest:
    """One rejection decides; an approval does when every seat has its person."""
    if not vote.is_approval:
        code = rejection.reason_code if rejection is not None else f"policy.approval.{vote.seat}_rejected"
        return decisions.record_decision(row, ApprovalStatus.REJECTED, user=user, votes=[], rejection_code=code)
    if not ballot.completed_by(vote):
        return row
    counted = [SeatVote(each.user_id, each.seat) for each in (*ballot.counted, vote)]
    return decisions.record_decision(row, ApprovalStatus.APPROVED, user=user, votes=counted)
