"""Reads for the inbox and the decision page. Transaction: each needs the tenant's, which the console opens."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, IntegerField, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Cast, Concat, Now, TruncMinute

from approvals import ballots, evidence, services
from approvals.evidence import Alteration
from approvals.models import ApprovalVote, PolicyRuleVersion
from approvals.seating import Ballot, Check
from toolsys import decisions
from toolsys.domain.seats import Seat
from toolsys.domain.spec import RiskLevel
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApiKey, ApprovalRequest, Membership, PolicyDecision, Principal
from toolsys.ports import Sealer

MINE: Final = "mine"
TABS: Final = (MINE, "others", "decided", "expired")
COUNT_LIMIT: Final = 1_000
# Of one person's keys, rules and votes, as many as are looked at to say what waits for them.
OWN_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class DecisionView:
    """Everything that the decision page shows of one request, and what this person may do about it."""

    request: ApprovalRequest
    decision: PolicyDecision | None
    votes: list[ApprovalVote]
    ballot: Ballot
    checks: list[Check]
    altered: list[Alteration]
    is_expired: bool
    next_request: UUID | None
    my_vote: ApprovalVote | None

    @property
    def verdict(self) -> str:
        return self.request.verdict.replace("_", " ")

    @property
    def is_open(self) -> bool:
        return self.request.status == ApprovalStatus.PENDING and not self.is_expired

    @property
    def may_decide(self) -> bool:
        return not self.altered and all(check.holds for check in self.checks)

    @property
    def may_reject(self) -> bool:
        """Whoever may sit at all may reject, whether or not a seat is free."""
        return all(check.holds for check in self.checks if check.reason_code != "approval.seat_taken")

    @property
    def may_withdraw(self) -> bool:
        is_unused = self.is_open or self.request.status == ApprovalStatus.APPROVED
        return self.my_vote is not None and not self.my_vote.is_withdrawal and is_unused

    @property
    def seats(self) -> list[tuple[str, str]]:
        """Each seat with who sits in it, or nobody; a vote of who lost the role sits nowhere."""
        names = {vote.user_id: str(vote.user) for vote in self.votes}
        left = [(vote.seat, names.get(vote.user_id, "")) for vote in self.ballot.counted if vote.is_approval]
        found = []
        for seat in self.ballot.seats:
            taken = next((each for each in left if each[0] == seat), None)
            left = [each for each in left if each is not taken]
            found.append((seat.value, taken[1] if taken else ""))
        return found

    @property
    def state(self) -> str:
        """What a form carries: it differs as soon as anything that a person judged by has changed."""
        seen = [self.request.digest, self.request.status, str(self.is_expired), *(str(vote.pk) for vote in self.votes)]
        return hashlib.sha256("|".join(seen).encode()).hexdigest()[:32]

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


@dataclass(frozen=True, slots=True)
class Standing:
    """What says for whom a request waits, of one person: their roles' seats, and what four eyes keep from them.

    `rules` are labels, as decisions name them; `voted` are open requests on which this person's word stands.
    """

    seats: tuple[Seat, ...]
    keys: tuple[UUID, ...]
    principals: tuple[UUID, ...]
    rules: tuple[str, ...]
    voted: tuple[UUID, ...]


def standing_of(user: Any) -> Standing:
    """Read once for a page, however many lists it has, and in one query: every page shows how many wait."""
    keys = ApiKey.objects.filter(owner=user).order_by("-id")
    wrote = PolicyRuleVersion.objects.filter(Q(author=user) | Q(owner=user)).order_by("-id")
    names = [name for name in (user.get_username(), getattr(user, "email", "")) if name]
    # As far as an index can tell; a decision compares without regard to case.
    called = Principal.objects.filter(external_id__in={form for name in names for form in (name, name.casefold())})
    votes = ApprovalVote.objects.filter(request__status=ApprovalStatus.PENDING, user=user)
    newest = votes.order_by("request_id", "-number").distinct("request_id")
    is_back = Case(When(is_withdrawal=True, then=Value("withdrawn")), default=Value("voted"))
    rows = _told("role", Membership.objects.filter(user=user), "role").union(
        _told("key", keys, "id")[:OWN_LIMIT], _told("principal", called, "id"),
        _told("rule", wrote, Concat("rule__name", Value("@"), "version", output_field=TextField()))[:OWN_LIMIT],
        _told(is_back, newest, "request_id")[:OWN_LIMIT], all=True,
    )  # fmt: skip
    found: dict[str, list[str]] = {}
    for kind, said in rows:
        found.setdefault(kind, []).append(said)
    return Standing(
        seats=tuple(seat for seat in Seat if seat.role in found.get("role", ())),
        keys=tuple(map(UUID, found.get("key", ()))),
        principals=tuple(map(UUID, found.get("principal", ()))),
        rules=tuple(found.get("rule", ())),
        voted=tuple(map(UUID, found.get("voted", ()))),
    )


def _told(kind: Any, rows: "QuerySet[Any]", said: Any) -> "QuerySet[Any, tuple[str, str]]":
    """Make rows of one kind fit beside those of the others."""
    return rows.values_list(Value(kind) if isinstance(kind, str) else kind, Cast(said, TextField()))


def counts(standing: Standing) -> dict[str, int]:
    return {tab: of_tab(standing, tab)[:COUNT_LIMIT].count() for tab in TABS}


def waiting_count(user: Any) -> int:
    """Two queries, or one for whoever has no seat."""
    standing = standing_of(user)
    return of_tab(standing, MINE)[:COUNT_LIMIT].count() if standing.seats else 0


def decision_view(user: Any, request_id: UUID, sealer: Sealer) -> DecisionView | None:
    found = ApprovalRequest.objects.select_related(
        "invocation__api_key__owner", "run__session__agent", "run__session__principal", "decided_by"
    )
    request = found.filter(pk=request_id).first()
    if request is None:
        return None
    is_expired = request.status == ApprovalStatus.PENDING and decisions.is_expired(request_id)
    waiting = in_turn(of_tab(standing_of(user), MINE).exclude(pk=request_id))
    votes = list(ApprovalVote.objects.filter(request=request).select_related("user").order_by("number"))
    return DecisionView(
        request=request,
        decision=PolicyDecision.objects.filter(invocation_id=request.invocation_id).order_by("created_at").first(),
        votes=votes,
        ballot=ballots.ballot(request, is_expired=is_expired),
        checks=services.checks(request, user, is_expired=is_expired),
        altered=evidence.alterations(request, sealer) if request.status == ApprovalStatus.PENDING else [],
        is_expired=is_expired,
        next_request=waiting.values_list("id", flat=True).first(),
        my_vote=next((vote for vote in reversed(votes) if vote.user_id == user.pk), None),
    )


def in_turn(requests: "QuerySet[ApprovalRequest]") -> "QuerySet[ApprovalRequest]":
    """Order by the minute of expiry, as pages show it, then the highest risk, then id; `minute` and `ease` say both."""
    ranks = [When(invocation__risk=risk, then=Value(rank)) for rank, risk in enumerate(reversed(RiskLevel))]
    ease = Case(*ranks, default=Value(0), output_field=IntegerField())
    return requests.annotate(minute=TruncMinute("expires_at"), ease=ease).order_by("minute", "ease", "id")


def of_tab(standing: Standing, tab: str) -> "QuerySet[ApprovalRequest]":
    """Return the requests of one tab, in no order.

    By the statement's time, which an index can be asked for; a decision asks the clock itself.
    """
    pending = ApprovalRequest.objects.filter(status=ApprovalStatus.PENDING)
    if tab == "decided":
        return ApprovalRequest.objects.exclude(status__in=[ApprovalStatus.PENDING, ApprovalStatus.EXPIRED])
    if tab == "expired":
        lapsed = pending.filter(expires_at__lte=Now())
        return lapsed | ApprovalRequest.objects.filter(status=ApprovalStatus.EXPIRED)
    live = pending.filter(expires_at__gt=Now())
    if standing.rules:
        live = live.alias(held_by=held_by())
    mine = _may_decide(standing)
    return live.filter(mine if tab == MINE else ~mine)


def _may_decide(standing: Standing) -> Q:
    """What a decision asks of a person, as far as a list can ask it; who has nothing of a kind is not asked for it."""
    found = Q(pk__in=[])
    for seat in standing.seats:
        found |= Q(seats__contains=[seat])
    if standing.keys:
        found &= ~Q(invocation__api_key__in=standing.keys)
    if standing.principals:
        found &= ~Q(run__session__principal__in=standing.principals)
    if standing.rules:
        found &= ~Q(held_by__in=standing.rules)
    return found & ~Q(pk__in=standing.voted) if standing.voted else found


def held_by() -> Subquery:
    """The rule that held the call, as `ballots` finds it."""
    decided = PolicyDecision.objects.filter(invocation_id=OuterRef("invocation_id")).order_by("created_at", "id")
    return Subquery(decided.values("rule")[:1])
