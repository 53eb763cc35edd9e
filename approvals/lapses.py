"""What nobody decided: the share of held calls that expired in the last day, by the rule that held them.

One query over the newest requests, bounded. Transaction: needs the tenant's.
Source: notes on the console, §2.1 line 22.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from approvals import selectors
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest

LOOKED_AT: Final = 5_000
RULES: Final = 50


@dataclass(frozen=True, slots=True)
class Lapses:
    """Of the requests that one rule held and that ended in the last day: how many expired with nothing decided."""

    rule: str
    ended: int
    expired: int

    @property
    def percent(self) -> int:
        return round(100 * self.expired / self.ended) if self.ended else 0


def of_rules() -> tuple[Lapses, list[Lapses]]:
    """Return all rules together, and those by themselves of which most expired.

    A request that is not swept yet has expired all the same. Whatever else ended (decided, voided) counts as ended.
    """
    newest = ApprovalRequest.objects.order_by("-id").values("pk")[:LOOKED_AT]
    is_expired = Q(status=ApprovalStatus.EXPIRED) | Q(status=ApprovalStatus.PENDING, expires_at__lte=Now())
    requests = ApprovalRequest.objects.annotate(
        rule=selectors.held_by(), ended_at=Coalesce("decided_at", "expires_at")
    ).filter(pk__in=newest, ended_at__gt=Now() - timedelta(days=1))
    ended = requests.exclude(status=ApprovalStatus.PENDING, expires_at__gt=Now())
    counted: QuerySet[Any, Any] = ended.values("rule").annotate(all=Count("pk"), expired=Count("pk", filter=is_expired))
    found = [Lapses(*each) for each in counted.values_list("rule", "all", "expired").order_by("-expired", "rule")]
    whole = Lapses("", sum(each.ended for each in found), sum(each.expired for each in found))
    return whole, [each for each in found if each.expired][:RULES]
