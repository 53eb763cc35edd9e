"""The inbox: requests in four tabs, a page at a time, with the seats that are taken. A fixed number of queries.

What expires soonest comes first, to the minute, then what is of the highest risk; among decided ones the newest.
Transaction: each needs the tenant's, which the console opens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from approvals import ballots, selectors, wording
from approvals.selectors import Standing
from toolsys.models import ApprovalRequest

PAGE: Final = 50
# Columns that may be large and that no list shows.
UNSHOWN: Final = (
    "run__manifest", "invocation__step_trace", "invocation__result", "invocation__error",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InboxRow:
    """`taken` of the request's seats have their person."""

    request: ApprovalRequest
    summary: str
    taken: int

    @property
    def seats(self) -> int:
        return len(self.request.seats)


@dataclass(frozen=True, slots=True)
class InboxPage:
    """`after` names the last row of this page, where there are more."""

    rows: list[InboxRow]
    after: str


def page(standing: Standing, tab: str, after: str = "") -> InboxPage:
    """Return one page of a tab. A cursor that cannot be read begins anew, one whose row is gone ends."""
    found, cursor = selectors.of_tab(standing, tab), _cursor(after)
    is_open = tab in {selectors.MINE, "others"}
    in_order: Callable[[QuerySet[ApprovalRequest]], QuerySet[ApprovalRequest]]
    in_order = selectors.in_turn if is_open else _newest
    if cursor is not None:
        found = _following(selectors.in_turn(found), cursor) if is_open else found.filter(pk__lt=cursor)
    # The sort looks at all that waits: by little, and the page's rows are read whole afterwards.
    turns = in_order(found).values("pk")[: PAGE + 1]
    whole = ApprovalRequest.objects.filter(pk__in=turns).select_related(
        "invocation", "run__session__agent", "run__session__principal", "decided_by"
    )
    listed = list(in_order(whole).defer(*UNSHOWN))
    rows = listed[:PAGE]
    taken = ballots.seats_taken(rows)
    return InboxPage(
        [InboxRow(row, wording.summary(row.invocation.arguments), len(taken.get(row.pk, []))) for row in rows],
        str(rows[-1].pk) if len(listed) > PAGE else "",
    )


def _following(found: "QuerySet[ApprovalRequest]", cursor: UUID) -> "QuerySet[ApprovalRequest]":
    """Leave what comes after one row's turn, which is read from the row: only the id travels."""
    last: QuerySet[Any, Any] = selectors.in_turn(ApprovalRequest.objects.filter(pk=cursor))
    turn: dict[str, Any] | None = last.values("minute", "ease").first()
    if turn is None:
        return found.none()
    behind = Q(ease__gt=turn["ease"]) | Q(ease=turn["ease"], pk__gt=cursor)
    return found.filter(expires_at__gte=turn["minute"]).filter(Q(minute__gt=turn["minute"]) | behind)


def _newest(found: "QuerySet[ApprovalRequest]") -> "QuerySet[ApprovalRequest]":
    return found.order_by("-id")


def chosen(identifiers: Sequence[UUID]) -> list[ApprovalRequest]:
    """Return requests that a person ticked, in the order of their ids: whoever locks them does it in this order."""
    found = ApprovalRequest.objects.filter(pk__in=identifiers).select_related(
        "invocation", "run__session__agent", "run__session__principal"
    )
    return list(found.defer(*UNSHOWN).order_by("id"))


def _cursor(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
