"""What an error says about the effect, what a cancelled or stalled call leaves, and how soon a dead server is seen."""

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcpcatalog import remote
from mcpcatalog.remote import CallSpec, KeyPlace
from tests.factories import Tenancy, approve
from tests.integration.mcp.conftest import Bench, Doors, House, peer
from tests.integration.mcp.test_ladder import KEYED, READ, WRITE
from tests.integration.processes import eventually
from tests.spec.requirements import gate
from toolsys.domain.calls import Progress
from toolsys.domain.spec import Classification
from toolsys.domain.states import OutcomeStatus

pytestmark = pytest.mark.slow

REPORTED_SECONDS = 0.1


def outcome_of(
    tenancy: Tenancy, house: House, doors: Doors, classification: Classification, calls: list[str]
) -> tuple[OutcomeStatus | None, str | None, list[dict[str, Any]]]:
    """Call once through the pipeline; return how it ended, and what was sent with each attempt."""
    name, behaviour = doors.peer(calls=list(calls))
    config = doors.at(name, tenancy.id, classification=classification, key_place=KeyPlace.META, key_name="key")
    tenancy = house.offer(tenancy, config)
    (call,) = tenancy.propose((f"mcp.{name}.t", {"n": 1}))
    if call.state is Progress.HELD:
        approve(tenancy, call)
    tenancy.finish(house.runtime, call)
    found = tenancy.call(call)
    sent = [message["params"]["_meta"] for method, _, message in behaviour.seen if method == "tools/call"]
    return found.outcome_status, found.reason_code, sent


UNKNOWN = (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
FAILED = (OutcomeStatus.FAILED, "tool.upstream_error")


@gate("effects.proof")
@pytest.mark.parametrize(
    ("classification", "answer", "expected", "sends"),
    [
        (WRITE, "failed", UNKNOWN, 1),
        (WRITE, "failed_proven", FAILED, 1),
        (WRITE, "drop", UNKNOWN, 1),
        (READ, "failed", FAILED, 1),
        (KEYED, "failed_proven", FAILED, 1),
    ],
    ids=["write", "write-proven", "write-dropped", "read", "keyed-proven"],
)
def test_only_the_server_s_proof_makes_a_failed_write_an_ordinary_failure(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, classification: Classification, answer: str,
    expected: tuple[OutcomeStatus, str], sends: int,
) -> None:  # fmt: skip
    *found, sent = outcome_of(acme, houses(), doors, classification, [answer])
    assert (tuple(found), len(sent)) == (expected, sends)


@gate("effects.replayed")
@pytest.mark.parametrize("first", ["failed", "drop"])
def test_a_keyed_call_without_proof_is_replayed_with_its_key(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, first: str
) -> None:
    *found, sent = outcome_of(acme, houses(), doors, KEYED, [first, "ok"])
    assert tuple(found) == (OutcomeStatus.SUCCEEDED, "tool.succeeded")
    assert len(sent) == 2
    assert len({meta["key"] for meta in sent}) == 1


@gate("effects.replayed")
def test_a_keyed_call_that_stays_without_proof_ends_uncertain_within_the_bound(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    house = houses()
    *found, sent = outcome_of(acme, house, doors, KEYED, ["failed"])
    assert tuple(found) == UNKNOWN
    assert len(sent) == house.runtime.limits.max_attempts


@gate("calls.progress")
def test_progress_is_kept_and_extends_nothing(bench: Callable[..., Bench], doors: Doors) -> None:
    here = bench()
    name, _ = doors.peer(calls=["progress", "progress_stalled"])
    config = doors.at(name)
    assert here.call(config).progress == {"progress_updates": 2}
    begun = time.monotonic()
    with pytest.raises(remote.RequestTimeout) as raised:
        here.call(config, seconds=0.5)
    assert time.monotonic() - begun < 3
    assert str(raised.value).endswith("(progress was 2 of 5)")
    assert "ignore" not in str(raised.value), "a server's words about it are not kept"


@gate("calls.cancelled")
def test_whoever_cancels_a_call_tells_the_server(bench: Callable[..., Bench]) -> None:
    """Over a pipe by a message; over HTTP of the stateless revision the request itself is closed."""
    here = bench()
    connection = here.connect(peer("listening"))
    call = asyncio.run_coroutine_threadsafe(connection.call(CallSpec("wait", {}, 20.0)), here.loop.loop)
    eventually(lambda: not connection.is_idle, "the call is on its way")
    time.sleep(0.2)
    call.cancel()
    eventually(lambda: connection.is_idle, "its end")
    seen = here.run(connection.call(CallSpec("cancelled", {}, 5.0))).structured
    assert len(seen["requests"]) == 1


@gate("calls.cancelled")
def test_a_cancelled_request_is_closed_over_http(bench: Callable[..., Bench], doors: Doors) -> None:
    here = bench()
    name, behaviour = doors.peer(calls=["hang"])
    connection = here.connect(doors.at(name))
    call = asyncio.run_coroutine_threadsafe(connection.call(CallSpec("t", {}, 20.0)), here.loop.loop)
    eventually(lambda: behaviour.running == 1, "the call arrived")
    call.cancel()
    eventually(lambda: behaviour.running == 0, "the server saw it go")


@gate("calls.dead_server")
def test_a_server_that_is_killed_during_a_call_is_reported_at_once(bench: Callable[..., Bench]) -> None:
    """The median counts: other people's work on this machine is not the server's death."""
    here, seconds = bench(), []
    for number in range(5):
        connection = here.connect(peer(), f"s{number}")
        pid = here.run(connection.call(CallSpec("environment", {}, 5.0))).structured["pid"]
        call = asyncio.run_coroutine_threadsafe(connection.call(CallSpec("hang", {}, 20.0)), here.loop.loop)
        eventually(lambda connection=connection: not connection.is_idle, "the call is on its way")  # type: ignore[misc]
        time.sleep(0.05)
        begun = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(remote.ServerUnreachable):
            call.result(5)
        seconds.append(time.monotonic() - begun)
        assert isinstance(call.exception(), remote.ServerUnreachable)
    assert statistics.median(seconds) < REPORTED_SECONDS
