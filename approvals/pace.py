"""How fast people decide: what a tenant's approvers look at to see that one of them is tired, or decides blindly.

One query over the newest votes, bounded. The metric counts the same for the whole house and names nobody.
Transaction: needs the tenant's. Source: notes on the console, §2.1 line 22.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Aggregate, Count, DurationField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Now
from prometheus_client import Histogram

from approvals.models import ApprovalVote

LOOKED_AT: Final = 5_000
PEOPLE: Final = 50
QUICK: Final = timedelta(seconds=3)
SECONDS: Final = Histogram(
    "approval_vote_seconds", "From the request to a person's vote.", ["vote"],
    buckets=(1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0),
)  # fmt: skip


class _Median(Aggregate):
    function = "percentile_cont"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = DurationField()


@dataclass(frozen=True, slots=True)
class Pace:
    """One person's votes of the last day. `median` lies between the request and the vote; `quick` took under 3 s."""

    name: str
    last_hour: int
    last_day: int
    approved: int
    quick: int
    median: timedelta

    @property
    def median_seconds(self) -> int:
        return round(self.median.total_seconds())


def of_people() -> list[Pace]:
    """Return whoever voted in the last day, the busiest first; votes taken back are no decisions."""
    newest = ApprovalVote.objects.order_by("-id").values("pk")[:LOOKED_AT]
    votes = ApprovalVote.objects.filter(
        pk__in=newest, is_withdrawal=False, created_at__gt=Now() - timedelta(days=1)
    ).annotate(took=ExpressionWrapper(F("created_at") - F("request__created_at"), output_field=DurationField()))
    found = votes.values("user_id", "user__username").annotate(
        last_hour=Count("pk", filter=Q(created_at__gt=Now() - timedelta(hours=1))), last_day=Count("pk"),
        approved=Count("pk", filter=Q(is_approval=True)), quick=Count("pk", filter=Q(took__lt=QUICK)),
        median=_Median("took"),
    )  # fmt: skip
    rows: QuerySet[Any, Any] = found.order_by("-last_day", "user_id")
    told = rows.values_list("user__username", "last_hour", "last_day", "approved", "quick", "median")
    return [Pace(*each) for each in told[:PEOPLE]]


def count(vote: ApprovalVote, asked_at: Any) -> None:
    """Count one vote that is committed."""
    seconds = max((vote.created_at - asked_at).total_seconds(), 0.0)
    SECONDS.labels("approve" if vote.is_approval else "reject").observe(seconds)
