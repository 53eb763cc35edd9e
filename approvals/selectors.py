"""Reads for the inbox and the decision page. Transaction: each needs the tenant's, which the console opens."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from approvals import services
from approvals.models import ApprovalVote
from approvals.seating import Check
from toolsys import database, decisions
from toolsys.domain.seats import Seat
from toolsys.domain.spec import RiskLevel
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest, Membership, PolicyDecision

MINE: Final = "mine"
TABS: Final = (MINE, "others", "decided", "expired")
LIST_LIMIT: Final = 200
COUNT_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class DecisionView:
    """Everything that the decision page shows of one request, and what this person may do about it."""

    request: ApprovalRequest
    decision: PolicyDecision | None
    votes: list[ApprovalVote]
    checks: list[Check]
    is_expired: bool
    next_request: UUID | None

    @property
    def verdict(self) -> str:
        return self.request.verdict.replace("_", " ")

    @property
    def is_open(self) -> bool:
        return self.request.status == ApprovalStatus.PENDING and not self.is_expired

    @property
    def may_decide(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def is_weighty(self) -> bool:
        """Approving it takes the password again."""
        return bool(self.request.invocation.risk == RiskLevel.HIGH)

    @property
    def is_settled(self) -> bool:
        return self.request.invocation.completed_at is not None

    @property
    def is_going_on(self) -> bool:
        """A decision or an expiry that a worker has yet to act upon."""
        return not self.is_open and not self.is_settled


def inbox(user: Any, tab: str) -> list[ApprovalRequest]:
    """Return the requests of one tab: what expires soonest first, what was asked last first."""
    found = _tab(user, tab).select_related("invocation", "run__session__agent", "run__session__principal", "decided_by")
    order = ("expires_at", "id") if tab in {MINE, "others"} else ("-id",)
    return list(found.order_by(*order)[:LIST_LIMIT])


def counts(user: Any) -> dict[str, int]:
    return {tab: _tab(user, tab)[:COUNT_LIMIT].count() for tab in TABS}


def waiting_count(user: Any) -> int:
    return _tab(user, MINE)[:COUNT_LIMIT].count()


def decision_view(user: Any, request_id: UUID) -> DecisionView | None:
    found = ApprovalRequest.objects.select_related(
        "invocation__api_key__owner", "run__session__agent", "run__session__principal", "decided_by"
    )
    request = found.filter(pk=request_id).first()
    if request is None:
        return None
    is_expired = request.status == ApprovalStatus.PENDING and decisions.is_expired(request_id)
    waiting = _tab(user, MINE).exclude(pk=request_id).order_by("expires_at", "id")
    return DecisionView(
        request=request,
        decision=PolicyDecision.objects.filter(invocation_id=request.invocation_id).order_by("created_at").first(),
        votes=list(ApprovalVote.objects.filter(request=request).select_related("user").order_by("created_at")),
        checks=services.checks(request, user, is_expired=is_expired),
        is_expired=is_expired,
        next_request=waiting.values_list("id", flat=True).first(),
    )


def _tab(user: Any, tab: str) -> "QuerySet[ApprovalRequest]":
    pending = ApprovalRequest.objects.filter(status=ApprovalStatus.PENDING)
    if tab == "decided":
        return ApprovalRequest.objects.exclude(status__in=[ApprovalStatus.PENDING, ApprovalStatus.EXPIRED])
    if tab == "expired":
        lapsed = pending.filter(expires_at__lte=database.now())
        return lapsed | ApprovalRequest.objects.filter(status=ApprovalStatus.EXPIRED)
    live = pending.filter(expires_at__gt=database.now())
    mine = live.filter(_for_seats(user)).exclude(invocation__api_key__owner=user)
    mine = mine.exclude(pk__in=_voted(user))
    return mine if tab == MINE else live.exclude(pk__in=mine.values("pk"))


def _for_seats(user: Any) -> Q:
    roles = set(Membership.objects.filter(user=user).values_list("role", flat=True))
    found = Q(pk__in=[])
    for seat in Seat:
        if seat.role in roles:
            found |= Q(seats__contains=[seat])
    return found


def _voted(user: Any) -> Any:
    """Requests on which this person's word stands."""
    mine = ApprovalVote.objects.filter(user=user).order_by("request_id", "-number").distinct("request_id")
    return ApprovalVote.objects.filter(pk__in=mine.values("pk"), is_withdrawal=False).values("request_id")
