"""Valkey is emptied, killed, or comes back with old data, at six moments of a call's life: every call still ends.

The queue only says where to look. What it loses the sweeper finds in PostgreSQL; what it says twice changes nothing.
Nobody of the crew may end because of it.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from redis.exceptions import RedisError

from tests.factories import Tenancy
from tests.races.crew import Crew
from tests.races.moments import at
from tests.races.tools import tool_name
from tests.spec.requirements import gate
from toolsys import provisioning
from toolsys.domain.calls import Disposition
from toolsys.models import Invocation
from toolsys.tenancy import tenant_transaction

HOWS = ["flushed", "killed", "old"]
pytestmark = pytest.mark.long


def only_call(tenancy: Tenancy) -> Disposition:
    """What was committed, though nobody could be told of it."""
    from toolsys.domain.calls import Progress

    with tenant_transaction(tenancy.id):
        return Disposition(Invocation.objects.get(run=tenancy.run).id, Progress.HANDED_OFF)


def before_ring(crew: Crew, tenancy: Tenancy, lose: Callable[[], None]) -> Disposition:
    """The intent is committed, the bell is not rung: where Valkey is gone the request fails, and its call does not."""
    submission = replace(tenancy, runtime=at(tenancy.runtime, "after_intent", lose))
    try:
        crew.propose(submission, "once")
    except RedisError:
        pass
    finally:
        crew.ground.find_queue()
    return only_call(tenancy)


def after_ring(crew: Crew, tenancy: Tenancy, lose: Callable[[], None]) -> Disposition:
    """The bell is on the queue, and nobody has taken it."""

    def ring_and_lose() -> Disposition:
        call = crew.propose(tenancy, "once")
        lose()
        return call

    call: Disposition = crew.deaf(ring_and_lose)
    crew.ground.find_queue()
    return call


def at_gate(point: str, tool: str) -> Callable[[Crew, Tenancy, Callable[[], None]], Disposition]:
    def play(crew: Crew, tenancy: Tenancy, lose: Callable[[], None]) -> Disposition:
        crew.ground.close_gate(point, tool)
        call = crew.propose(tenancy, "once")
        crew.ground.victim_at(point)
        lose()
        crew.ground.open_gate(point)
        crew.ground.find_queue()
        return call

    return play


def while_a_request_waits(crew: Crew, tenancy: Tenancy, lose: Callable[[], None]) -> Disposition:
    """The wake-up is lost; the request looks by itself, and answers with the outcome or with where to ask."""
    key = provisioning.create_api_key(tenancy.id, "api", [])[1]
    answers: list[Any] = []

    def wait() -> None:
        body = {"step_number": 1, "calls": [{"call_id": "a", "name": tool_name("once"), "arguments": {"text": "x"}}]}
        answers.append(Client(raise_request_exception=False).post(
            f"/v1/runs/{tenancy.run.id}/steps", json.dumps(body), content_type="application/json",
            headers={"authorization": f"Bearer {key}", "prefer": "wait=50"},
        ))  # fmt: skip
        connections.close_all()

    crew.ground.close_gate("after_claim", tool_name("once"))
    request = threading.Thread(target=wait, daemon=True)
    request.start()
    crew.ground.victim_at("after_claim")
    lose()
    crew.ground.open_gate("after_claim")
    crew.ground.find_queue()
    request.join(90)
    (answer,) = answers
    assert answer.status_code in {200, 202}, answer.content
    if answer.status_code == 200:
        assert answer.json()["calls"][0]["status"] in {"succeeded", "uncertain"}
    return only_call(tenancy)


def while_sweeping(crew: Crew, tenancy: Tenancy, lose: Callable[[], None]) -> Disposition:
    """The sweeper knows what is due and has not rung: the first bell was lost already."""

    def ring_and_forget() -> Disposition:
        call = crew.propose(tenancy, "once")
        crew.ground.lose_queue("flushed")
        return call

    crew.ground.close_gate("before_sweep_ring")
    call: Disposition = crew.deaf(ring_and_forget)
    crew.ground.victim_at("before_sweep_ring")
    lose()
    crew.ground.open_gate("before_sweep_ring")
    crew.ground.find_queue()
    return call


MOMENTS: dict[str, Callable[[Crew, Tenancy, Callable[[], None]], Disposition]] = {
    "before_ring": before_ring,
    "after_ring": after_ring,
    "while_popped": at_gate("before_job", ""),
    "while_running": at_gate("after_effect", tool_name("once")),
    "while_a_request_waits": while_a_request_waits,
    "while_sweeping": while_sweeping,
}


@gate("lost.queue")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_call_ends_once_whatever_happens_to_the_queue(crew: Crew, moment: str, how: str) -> None:
    tenancy = crew.tenancy()
    if how == "old":
        earlier = crew.deaf(lambda: kept_old(crew, tenancy))
        crew.ended(earlier)
        tenancy = crew.tenancy()
    call = MOMENTS[moment](crew, tenancy, lambda: crew.ground.lose_queue(how))
    row = crew.ended(call)
    assert crew.faults(call, "once") == []
    expected = {"succeeded", "uncertain"} if moment == "while_running" else {"succeeded"}
    assert row["status"] in expected, row
    assert all(crew.living()), "a worker ended because its queue was away"
    assert crew.ground.is_running(crew.scheduler)
    after = crew.propose(crew.tenancy(), "once")
    assert crew.ended(after)["status"] == "succeeded", "the crew still serves"


def kept_old(crew: Crew, tenancy: Tenancy) -> Disposition:
    """Remember a queue that holds a bell which will have been answered long before it comes back."""
    call = crew.propose(tenancy, "once")
    crew.ground.settle_queue_file()
    crew.ground.keep_old_queue()
    return call
