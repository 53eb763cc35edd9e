"""Reads what a vote is judged by: the request's ballot, and the person in front of it.

Transaction: each needs the tenant's; `services` calls them under the request's lock. Source: DESIGN §5.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from approvals.models import ApprovalVote, PolicyRuleVersion
from approvals.seating import Ballot, CountedVote, Voter
from toolsys.domain.seats import Seat
from toolsys.domain.spec import RiskLevel
from toolsys.domain.states import ApprovalStatus, Role
from toolsys.models import ApprovalRequest, Invocation, Membership, PolicyDecision


def ballot(row: ApprovalRequest, *, is_expired: bool) -> Ballot:
    call = Invocation.objects.values_list("risk", "cancel_requested_at")
    risk, cancelled_at = call.get(pk=row.invocation_id)
    return Ballot(
        status=ApprovalStatus(row.status), is_expired=is_expired, digest=row.digest,
        seats=tuple(map(Seat, row.seats)), is_weighty=risk == RiskLevel.HIGH,
        is_cancelled=cancelled_at is not None, counted=tuple(counted_votes(row)),
    )  # fmt: skip


def voter(row: ApprovalRequest, user: Any) -> Voter:
    """Read this person afresh: what the edge holds of them may be older than their deactivation."""
    call = Invocation.objects.select_related("api_key", "run__session__principal").defer(
        "result", "step_trace", "arguments"
    )
    found = call.get(pk=row.invocation_id)
    principal = found.run.session.principal.external_id.casefold()
    names = {name.casefold() for name in (user.get_username(), getattr(user, "email", "")) if name}
    return Voter(
        user_id=user.pk,
        is_active=get_user_model().objects.filter(pk=user.pk, is_active=True).exists(),
        roles=frozenset(map(Role, Membership.objects.filter(user=user).values_list("role", flat=True))),
        is_proposer=principal in names,
        owns_key=found.api_key.owner_id == user.pk,
        wrote_policy=_wrote_policy(row, user),
    )


def newest_votes(row: ApprovalRequest) -> list[ApprovalVote]:
    """Return each person's newest vote, in the order of their numbers."""
    newest = {vote.user_id: vote for vote in ApprovalVote.objects.filter(request=row).order_by("number")}
    return sorted(newest.values(), key=lambda vote: vote.number)


def counted_votes(row: ApprovalRequest) -> list[CountedVote]:
    """Leave out what was taken back, and the votes of people who are no longer entitled to their seat."""
    return [CountedVote(vote.user_id, Seat(vote.seat)) for vote in _entitled(newest_votes(row))]


def seats_taken(rows: Sequence[ApprovalRequest]) -> dict[UUID, list[Seat]]:
    """Return the seats that counted votes have taken of each request; two queries, however many."""
    newest = {}
    for vote in ApprovalVote.objects.filter(request__in=[row.pk for row in rows]).order_by("number"):
        newest[vote.request_id, vote.user_id] = vote
    found: dict[UUID, list[Seat]] = {}
    for vote in _entitled(list(newest.values())):
        found.setdefault(vote.request_id, []).append(Seat(vote.seat))
    return found


def _entitled(votes: Sequence[ApprovalVote]) -> list[ApprovalVote]:
    approving = [vote for vote in votes if vote.is_approval and not vote.is_withdrawal]
    people = Membership.objects.filter(user__in=[vote.user_id for vote in approving], user__is_active=True)
    entitled = set(people.values_list("user_id", "role"))
    return [vote for vote in approving if (vote.user_id, Seat(vote.seat).role) in entitled]


def are_alike(request_ids: Sequence[UUID]) -> bool:
    """Say whether all exist, are of one tool and one rule, and none of high risk."""
    rows = ApprovalRequest.objects.filter(pk__in=request_ids)
    calls = list(Invocation.objects.filter(pk__in=rows.values("invocation_id")).values_list("id", "tool_name", "risk"))
    if len(calls) != len(request_ids) or any(risk == RiskLevel.HIGH for _, _, risk in calls):
        return False
    decided = PolicyDecision.objects.filter(invocation__in=[call for call, _, _ in calls])
    rules = set(
        decided.order_by("invocation_id", "created_at").distinct("invocation_id").values_list("rule", flat=True)
    )
    return len({tool for _, tool, _ in calls}) == 1 and len(rules) == 1


def _wrote_policy(row: ApprovalRequest, user: Any) -> bool:
    """Look at the version of the rule that held the call: its author and its owner are one pair of eyes."""
    held = PolicyDecision.objects.filter(invocation_id=row.invocation_id).order_by("created_at", "id")
    name, at, version = (held.values_list("rule", flat=True).first() or "").rpartition("@")
    if not at or not version.isdecimal():
        return False
    found = PolicyRuleVersion.objects.filter(rule__name=name, version=int(version))
    return any(user.pk in pair for pair in found.values_list("author_id", "owner_id"))
