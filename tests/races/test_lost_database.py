"""PostgreSQL goes away while calls are in flight: no call is lost, none is done twice, and the crew serves on.

Backends are terminated at eight points; the cluster is stopped fast and immediately; and a connection is cut between a
COMMIT and its answer, at eight commit points, by a relay that keeps the answer to itself.
"""

import signal
import time

import pytest
from django.db import DatabaseError, connections

from tests.factories import approve
from tests.races.crew import Crew
from tests.races.ground import until
from tests.races.tools import tool_name
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Progress

POINTS = [
    "before_claim", "after_claim", "before_prepare", "before_watermark", "after_watermark", "after_effect",
    "before_result", "after_result",
]  # fmt: skip
KINDS = ["once", "repeatable"]
AT_ONCE = 12
OUTAGE_SECONDS = 17.0
NOTICED_SECONDS = 8.0
pytestmark = pytest.mark.long


def serves(crew: Crew) -> None:
    """Everybody lives, and a new call is done."""
    assert all(crew.living()), "a worker ended because its database was away"
    assert crew.ground.is_running(crew.scheduler), "the scheduler ended because its database was away"
    after = crew.propose(crew.tenancy(), "once")
    assert crew.ended(after)["status"] == "succeeded", "the crew still serves"


def right(crew: Crew, call: Disposition, kind: str) -> None:
    row = crew.ended(call)
    assert crew.faults(call, kind) == []
    allowed = {"succeeded", "uncertain"} if kind == "once" else {"succeeded"}
    assert row["status"] in allowed, row


@gate("lost.database")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_backends_that_are_terminated_lose_and_double_nothing(crew: Crew, point: str, kind: str) -> None:
    tenancy = crew.tenancy()
    crew.ground.close_gate(point, tool_name(kind))
    call = crew.propose(tenancy, kind)
    crew.ground.victim_at(point)
    assert crew.ground.terminate_backends() > 0
    crew.ground.open_gate(point)
    right(crew, call, kind)
    if point in {"before_claim", "after_claim", "before_prepare"}:
        assert crew.row(call)["status"] == "succeeded", "nothing had been sent"
    serves(crew)


@gate("lost.database")
@pytest.mark.parametrize("how", ["fast", "immediate"])
@pytest.mark.parametrize("point", ["after_claim", "after_watermark", "after_effect", "before_result"])
def test_a_cluster_that_stops_and_starts_again_loses_and_doubles_nothing(crew: Crew, point: str, how: str) -> None:
    tenancies = [crew.tenancy() for _ in range(AT_ONCE)]  # a write that could not be recorded fails its whole run
    kinds = [KINDS[number % 2] for number in range(AT_ONCE)]
    crew.ground.close_gate(point, tool_name("once"))
    calls = [(crew.propose(tenancy, kind), kind) for tenancy, kind in zip(tenancies, kinds, strict=True)]
    crew.ground.victim_at(point)
    crew.ground.stop_postgres(how)
    crew.ground.open_gate(point)
    crew.ground.start_postgres()
    for call, kind in calls:
        right(crew, call, kind)
    serves(crew)


@gate("lost.database")
def test_whoever_waits_notices_at_once_that_the_database_is_back(crew: Crew) -> None:
    """A pool that tried ever more seldom would let calls wait for half a minute after a long outage."""
    tenancy = crew.tenancy()
    warm = [crew.propose(tenancy, "repeatable", text=str(number)) for number in range(AT_ONCE)]
    assert {crew.ended(call)["status"] for call in warm} == {"succeeded"}
    crew.ground.stop_postgres("fast")
    time.sleep(OUTAGE_SECONDS)
    crew.ground.start_postgres()
    back = time.monotonic()
    calls = [crew.propose(tenancy, "once", text=str(number)) for number in range(AT_ONCE)]
    assert {crew.ended(call)["status"] for call in calls} == {"succeeded"}
    assert time.monotonic() - back < NOTICED_SECONDS


# -- the commit whose outcome nobody was told


CUT_WHILE_PROPOSING = {
    "intent": ("demo.race_once", {"text": "x"}),
    "hold": ("demo.external_write", {"line": "x"}),
    "refusal": ("demo.unknown", {}),
}


@gate("lost.database")
@pytest.mark.parametrize("what", CUT_WHILE_PROPOSING)
def test_a_proposal_whose_commit_is_unknown_is_submitted_again_and_is_one_row(crew: Crew, what: str) -> None:
    tenancy, name = crew.tenancy(), CUT_WHILE_PROPOSING[what]
    crew.ground.relay.arm("toolsys_commit_proposal")
    with pytest.raises(DatabaseError):
        tenancy.propose(name, step=1)
    assert crew.ground.relay.cuts == 1
    connections.close_all()
    (call,) = tenancy.propose(name, step=1)
    (rows,) = crew.ground.ask("SELECT count(*) FROM tool_invocations WHERE run_id = %s", tenancy.run.id)[0]
    assert rows == 1, "it had been committed, or it had not: one row either way"
    if what == "refusal":
        assert (call.state, call.is_replay) == (Progress.SETTLED, True)
    elif what == "hold":
        assert call.state is Progress.HELD
    else:
        right(crew, call, "once")
        assert len(crew.sends(call)) == 1


CUT_WHILE_WORKING = ["toolsys_commit_claim", "toolsys_commit_watermark", "toolsys_commit_settlement", "toolsys_step_of"]


@gate("lost.database")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", CUT_WHILE_WORKING)
def test_a_commit_of_a_worker_that_is_unknown_loses_and_doubles_nothing(crew: Crew, statement: str, kind: str) -> None:
    tenancy = crew.tenancy()
    crew.ground.relay.arm(statement)
    call = crew.propose(tenancy, kind)
    right(crew, call, kind)
    assert crew.ground.relay.cuts == 1
    if statement in {"toolsys_commit_claim", "toolsys_step_of"}:
        assert crew.row(call)["status"] == "succeeded", "nothing had been sent"
    if statement == "toolsys_commit_settlement":
        assert (crew.row(call)["status"], crew.row(call)["claim_epoch"]) == ("succeeded", 1), "it had been recorded"
    serves(crew)


@gate("lost.database")
def test_a_watermark_that_cannot_be_read_back_sends_nothing_and_is_uncertain(crew: Crew) -> None:
    """Cut as often as the worker asks: it may have committed, so nobody may send, now or later."""
    tenancy = crew.tenancy()
    crew.ground.relay.arm("toolsys_commit_watermark", times=2)
    call = crew.propose(tenancy, "once")
    row = crew.ended(call)
    assert (row["status"], crew.sends(call), crew.ground.relay.cuts) == ("uncertain", [], 2)
    assert crew.faults(call, "once") == []


@gate("lost.database")
def test_an_approved_intent_whose_commit_is_unknown_is_consumed_once(crew: Crew) -> None:
    """The effect address of the demonstration answers nobody, so the call ends unavailable; its approval is used up."""
    tenancy = crew.tenancy()
    (call,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    crew.ground.relay.arm("toolsys_commit_approved_intent")
    approve(tenancy, call)
    crew.ground.ask("UPDATE tool_invocations SET dispatch_after = clock_timestamp() WHERE id = %s", call.invocation_id)
    row = crew.ended(call)
    assert crew.ground.relay.cuts == 1
    (status,) = crew.ground.ask("SELECT status FROM approval_requests WHERE invocation_id = %s", call.invocation_id)[0]
    assert (status, row["reason_code"]) == ("consumed", "tool.server_unreachable")
    assert crew.events(call).count("tool.call.authorized") == 1


@gate("lost.database")
def test_a_release_whose_commit_is_unknown_leaves_the_call_to_be_done_once(crew: Crew) -> None:
    """A worker that is told to stop gives its claim back; the answer is cut, and it stops all the same."""
    tenancy, kind = crew.tenancy(), "once"
    crew.ground.close_gate("after_prepare", tool_name(kind))
    crew.ground.relay.arm("toolsys_commit_release")
    call = crew.propose(tenancy, kind)
    victim = crew.ground.victim_at("after_prepare")
    crew.ground.signal(victim, signal.SIGTERM)
    until(lambda: crew.is_draining(victim), "the worker drains")
    crew.ground.open_gate("after_prepare")
    until(lambda: not crew.ground.is_running(victim), "the worker has ended")
    assert crew.ground.relay.cuts == 1
    row = crew.ended(call)
    assert crew.faults(call, kind) == []
    assert (row["status"], len(crew.sends(call)), row["claim_epoch"]) == ("succeeded", 1, 2)
