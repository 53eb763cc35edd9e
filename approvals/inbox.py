"""The inbox: requests in four tabs, a page at a time, with the seats that are taken. A fixed number of queries.

What expires soonest comes first, and among decided ones the newest. Transaction: each needs the tenant's, which the
console opens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q

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
    """Return one page of a tab. A cursor that cannot be read begins anew."""
    found = selectors.of_tab(standing, tab).select_related(
        "invocation", "run__session__agent", "run__session__principal", "decided_by"
    )
    is_open = tab in {selectors.MINE, "others"}
    cursor = _cursor(after)
    if cursor is not None:
        at, identifier = cursor
        later = Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=identifier)
        found = found.filter(later if is_open else Q(pk__lt=identifier))
    ordered = found.defer(*UNSHOWN).order_by(*(("expires_at", "id") if is_open else ("-id",)))
    rows = list(ordered[: PAGE + 1])
    taken = ballots.seats_taken(rows[:PAGE])
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    return InboxPage(
        [InboxRow(row, wording.summary(row.invocation.arguments), len(taken.get(row.pk, []))) for row in rows[:PAGE]],
        f"{last.expires_at.isoformat()}~{last.pk}" if last is not None else "",
    )


def chosen(identifiers: Sequence[UUID]) -> list[ApprovalRequest]:
    """Return requests that a person ticked, in the order of their ids: whoever locks them does it in this order."""
    found = ApprovalRequest.objects.filter(pk__in=identifiers).select_related(
        "invocation", "run__session__agent", "run__session__principal"
    )
    return list(found.defer(*UNSHOWN).order_by("id"))


def _cursor(text: str) -> tuple[datetime, UUID] | None:
    at, _, identifier = text.partition("~")
    try:
        moment = datetime.fromisoformat(at)
        return (moment, UUID(identifier)) if moment.tzinfo is not None else None
    except ValueError:
        return None
