"""What goes wrong beside the call path is logged by its type: a driver's text may hold what a row or a header held."""

import logging
import threading
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import pytest
import redis
from django.db import DatabaseError

from approvals import policy_selectors
from approvals.courier import Courier
from tests.spec.requirements import gate
from toolsys import database, sweeper
from toolsys.sweeper import Chore

SECRET = "Key (secret)=(s3cret value)"
NOTHING = cast(Any, None)


def _fails(*_arguments: object, **_options: object) -> Any:
    raise DatabaseError(SECRET)


def _served(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object] = lambda: None) -> threading.Event:
    """Let the scheduler sweep nothing, as its leader, until its chore or its sweep tells it to stop."""
    stopping = threading.Event()
    monkeypatch.setattr(sweeper, "_is_leader", lambda: True)
    monkeypatch.setattr(sweeper, "_seconds_to_lease_end", lambda: float("inf"))
    monkeypatch.setattr(sweeper, "sweep", lambda _grace: [])

    def once() -> None:
        stopping.set()
        work()

    sweeper.serve(0.01, 0.01, stopping, [Chore(60.0, once)])
    return stopping


def a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()

    def fails() -> bool:
        stopping.set()
        raise redis.RedisError(SECRET)

    monkeypatch.setattr(sweeper, "_is_leader", fails)
    sweeper.serve(0.01, 0.01, stopping)


def a_chore(monkeypatch: pytest.MonkeyPatch) -> None:
    _served(monkeypatch, _fails)


def the_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()

    def fails(_self: Courier, _pool: object) -> None:
        stopping.set()
        _fails()

    monkeypatch.setattr(Courier, "_hand_out", fails)
    Courier(NOTHING, NOTHING, NOTHING).serve(0.01, stopping)


def a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Courier, "deliver", _fails)
    Courier(NOTHING, NOTHING, NOTHING)._deliver_safely("acme", uuid4())


def the_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "call", _fails)
    assert policy_selectors.usable_grants("acme", [uuid4()], None) == frozenset()


@gate("log.types")
@pytest.mark.parametrize("failing", [a_sweep, a_chore, the_outbox, a_message, the_grants])
def test_a_failure_is_logged_by_its_type_and_never_by_its_text(
    failing: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        failing(monkeypatch)
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    kind = "RedisError" if failing is a_sweep else "DatabaseError"
    assert kind in record.getMessage()
    assert "s3cret" not in caplog.text
