"""The keeper's own view of its leases: never longer than what the database has given."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys import database
from toolsys.domain.calls import Claim
from toolsys.leases import SETTLE_SECONDS, LeaseKeeper

LEASE_SECONDS = 10.0
CALL = UUID(int=1)


class Clock:
    """Implements `ports.Clock`: it moves when it is told to."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def boottime(self) -> float:
        return self.at


def claim(clock: Clock, remaining_seconds: float = 600.0) -> Claim:
    return Claim(
        invocation_id=CALL, tenant_id="acme", tool_name="demo.echo", epoch=1, authz_epoch=1,
        lease_seconds=LEASE_SECONDS, claimed_at_boottime=clock.at, operation_deadline=clock.now(),
        remaining_seconds=remaining_seconds, effect_sent_at=None, attempt_number=1,
    )  # fmt: skip


@pytest.fixture
def clock() -> Clock:
    return Clock()


def answering(clock: Clock, monkeypatch: pytest.MonkeyPatch, *renewed: UUID, takes: float = 0.0) -> Callable[[], None]:
    """Have the database renew these calls, and take so long to say so."""

    def call(statement: str, parameters: Any) -> list[tuple[UUID]]:
        assert "toolsys_renew" in statement
        clock.at += takes
        return [(each,) for each in renewed]

    return lambda: monkeypatch.setattr(database, "call", call)


@gate("lease.kept")
def test_a_renewal_counts_from_before_it_was_asked_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, held = LeaseKeeper(clock, LEASE_SECONDS), claim(clock)
    keeper.hold(held)
    clock.at += 3.0
    asked_at = clock.at
    answering(clock, monkeypatch, CALL, takes=4.0)()
    keeper.renew()
    assert keeper.live_until(held) == asked_at + LEASE_SECONDS


@gate("lease.kept")
def test_no_lease_is_believed_in_past_the_time_to_record_what_ended(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, held = LeaseKeeper(clock, LEASE_SECONDS), claim(clock, remaining_seconds=5.0)
    keeper.hold(held)
    begun = clock.at
    clock.at += 4.0
    answering(clock, monkeypatch, CALL)()
    keeper.renew()
    assert keeper.live_until(held) == max(begun + LEASE_SECONDS, begun + 5.0 + SETTLE_SECONDS)


@gate("lease.kept")
def test_a_call_whose_lease_is_over_is_cancelled_and_one_that_was_passed_over_is_not(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that somebody else had locked is renewed at the next beat: until its lease is over nothing is lost."""
    keeper, held = LeaseKeeper(clock, LEASE_SECONDS), claim(clock)
    keeper.hold(held)
    token, told = keeper.token(held), []
    answering(clock, monkeypatch)()
    for seconds in (LEASE_SECONDS - 1.0, 2.0):
        clock.at += seconds
        keeper.renew()
        told.append(token.is_cancelled)
    assert told == [False, True]
    keeper.drop(held)
    assert (keeper.live_until(held), keeper.token(held).is_cancelled) == (0.0, True)
