"""The same thing said twice, or four times at once: one row, one execution, the recorded outcome to all who ask.

Sixty-six cases: submissions through the service and through the HTTP view, and deliveries of the queue and of the
sweeper. Each case counts rows, claims and executions; nothing is decided by the order in which threads happen to run.
"""

import json
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.factories import Tenancy, approve, events_of
from tests.races.crowd import together
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import database, jobs, provisioning, queue, services
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.results import TextPart, ToolResult
from toolsys.models import ApprovalRequest, Invocation, Run, RunStep
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.queue import Bell
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})
CROWDS = [2, 4, 8]
READ, WRITE = ("demo.echo", {"text": "x"}), ("demo.external_write", {"line": "x"})
ACCEPTED, CONFLICT = "accepted", "conflict"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one submitter was told: `kind` is accepted or conflict, and whether it was told of a replay."""

    kind: str
    is_replay: bool = False
    calls: tuple[str, ...] = ()


Submit = Callable[[int, tuple[str, Any]], Answer]


def through_service(tenancy: Tenancy) -> Submit:
    def submit(step: int, call: tuple[str, Any]) -> Answer:
        try:
            found = tenancy.propose(call, step=step)
        except Problem as problem:
            return Answer(CONFLICT if problem.reason_code == "step.conflict" else problem.reason_code)
        return Answer(ACCEPTED, all(each.is_replay for each in found), tuple(str(each.invocation_id) for each in found))

    return submit


def through_view(tenancy: Tenancy) -> Submit:
    key = provisioning.create_api_key(tenancy.id, "api", ["demo.write", "trust.assert"])[1]
    # A server loads its middleware once; loaded by many threads at once it would register its counters twice.
    Client().handler.load_middleware()

    def submit(step: int, call: tuple[str, Any]) -> Answer:
        body = {"step_number": step, "calls": [{"call_id": "call_0", "name": call[0], "arguments": call[1]}]}
        response = Client().post(
            f"/v1/runs/{tenancy.run.id}/steps", json.dumps(body), content_type="application/json",
            headers={"authorization": f"Bearer {key}", "prefer": "respond-async"},
        )  # fmt: skip
        if response.status_code == 409:
            assert response.json()["code"] == "step.conflict"
            return Answer(CONFLICT)
        assert response.status_code in {200, 202}, response.content
        calls = response.json()["calls"]
        is_replay = response.headers.get("Idempotent-Replayed") == "true"
        assert is_replay == all(each.get("is_replay", False) for each in calls)
        return Answer(ACCEPTED, is_replay, tuple(each["invocation_id"] for each in calls))

    return submit


@pytest.fixture(params=[through_service, through_view], ids=["service", "view"])
def submit(request: pytest.FixtureRequest, acme: Tenancy) -> Submit:
    made: Submit = request.param(acme)
    return made


def at_once(deed: Callable[[int], Answer], crowd: int) -> list[Answer]:
    """Raises: whatever one of the crowd raised."""
    answers = []
    for found in together([lambda number=number: deed(number) for number in range(crowd)]):  # type: ignore[misc]
        if isinstance(found, Exception):
            raise found
        answers.append(found)
    return answers


def counts(tenancy: Tenancy) -> dict[str, int]:
    """Rows of this tenant's run; decisions and payloads follow the calls."""
    with tenant_transaction(tenancy.id):
        return {
            "steps": RunStep.objects.filter(run=tenancy.run).count(),
            "calls": Invocation.objects.filter(run=tenancy.run).count(),
            "held": ApprovalRequest.objects.filter(run=tenancy.run).count(),
        }


def rows(tenancy: Tenancy) -> list[Invocation]:
    with tenant_transaction(tenancy.id):
        return list(Invocation.objects.filter(run=tenancy.run).order_by("step_number", "call_index"))


def finished(tenancy: Tenancy, runtime: Runtime) -> list[Invocation]:
    """Deliver every row's job once, and read the rows."""
    for row in rows(tenancy):
        tenancy.finish(runtime, Disposition(row.id, Progress.HANDED_OFF))
    return rows(tenancy)


# -- submissions: eight kinds, two ways in, crowds of two, four and eight


@gate("dedup.concurrent", "gate.8")
@pytest.mark.parametrize("crowd", CROWDS)
def test_the_same_step_at_once_is_one_row_and_runs_once(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    answers = at_once(lambda _number: submit(1, READ), crowd)
    assert {answer.kind for answer in answers} == {ACCEPTED}
    assert len({answer.calls for answer in answers}) == 1
    assert counts(acme) == {"steps": 1, "calls": 1, "held": 0}
    (row,) = finished(acme, tool.installed_in(worker))
    assert (row.status, row.claim_epoch, len(tool.sent)) == ("succeeded", 1, 1)


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_the_same_step_with_other_bodies_at_once_is_taken_once_and_conflicts_else(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    answers = at_once(lambda number: submit(1, ("demo.echo", {"text": str(number)})), crowd)
    assert Counter(answer.kind for answer in answers) == {ACCEPTED: 1, CONFLICT: crowd - 1}
    assert counts(acme) == {"steps": 1, "calls": 1, "held": 0}
    winner = next(number for number, answer in enumerate(answers) if answer.kind == ACCEPTED)
    (row,) = finished(acme, tool.installed_in(worker))
    assert (row.status, [arguments for arguments, _ in tool.sent]) == ("succeeded", [{"text": str(winner)}])


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_the_same_call_id_in_other_steps_is_another_call(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    answers = at_once(lambda number: submit(number + 1, READ), crowd)
    assert len({answer.calls for answer in answers}) == crowd
    assert counts(acme) == {"steps": crowd, "calls": crowd, "held": 0}
    done = finished(acme, tool.installed_in(worker))
    assert {row.status for row in done} == {"succeeded"}
    assert len({row.idempotency_key for row in done}) == len(tool.sent) == crowd


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_repeat_while_the_call_runs_attaches_to_it(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    answers: list[Answer] = []

    def repeated() -> ToolResult:
        answers.extend(at_once(lambda _number: submit(1, READ), crowd))
        return DONE

    tool = Scripted.echo(repeated)
    first = submit(1, READ)
    (row,) = finished(acme, tool.installed_in(worker))
    assert answers == [Answer(ACCEPTED, is_replay=False, calls=first.calls)] * crowd
    assert (row.status, row.claim_epoch, len(tool.sent)) == ("succeeded", 1, 1)
    assert counts(acme) == {"steps": 1, "calls": 1, "held": 0}


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_repeat_while_the_call_is_held_is_the_same_approval(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.write(DONE)
    first = submit(1, WRITE)
    answers = at_once(lambda _number: submit(1, WRITE), crowd)
    assert answers == [Answer(ACCEPTED, is_replay=False, calls=first.calls)] * crowd
    assert counts(acme) == {"steps": 1, "calls": 1, "held": 1}
    approve(acme, Disposition(rows(acme)[0].id, Progress.HELD))
    (row,) = finished(acme, tool.installed_in(worker))
    assert (row.status, row.claim_epoch, len(tool.sent)) == ("succeeded", 1, 1)


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_repeat_of_a_terminal_call_is_a_flagged_replay(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    first = submit(1, READ)
    finished(acme, tool.installed_in(worker))
    answers = at_once(lambda _number: submit(1, READ), crowd)
    assert answers == [Answer(ACCEPTED, is_replay=True, calls=first.calls)] * crowd
    (row,) = finished(acme, tool.installed_in(worker))
    assert (row.claim_epoch, len(tool.sent), counts(acme)["calls"]) == (1, 1, 1)


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_repeat_of_a_cancelled_call_runs_nothing(acme: Tenancy, worker: Runtime, submit: Submit, crowd: int) -> None:
    tool = Scripted.echo(DONE)
    first = submit(1, READ)
    services.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=True, runtime=acme.runtime)
    before = at_once(lambda _number: submit(1, READ), crowd)
    assert before == [Answer(ACCEPTED, is_replay=False, calls=first.calls)] * crowd
    (row,) = finished(acme, tool.installed_in(worker))
    assert (row.status, row.reason_code, len(tool.sent)) == ("failed", "tool.run_cancelled", 0)
    after = at_once(lambda _number: submit(1, READ), crowd)
    assert after == [Answer(ACCEPTED, is_replay=True, calls=first.calls)] * crowd
    assert counts(acme) == {"steps": 1, "calls": 1, "held": 0}


@gate("dedup.concurrent")
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_repeat_after_its_run_has_expired_still_gives_the_recorded_outcome(
    acme: Tenancy, worker: Runtime, submit: Submit, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    first = submit(1, READ)
    finished(acme, tool.installed_in(worker))
    with tenant_transaction(acme.id):
        Run.objects.filter(pk=acme.run.id).update(deadline_at=timezone.now() - timedelta(seconds=1))
    answers = at_once(lambda _number: submit(1, READ), crowd)
    assert answers == [Answer(ACCEPTED, is_replay=True, calls=first.calls)] * crowd
    assert (len(tool.sent), counts(acme)) == (1, {"steps": 1, "calls": 1, "held": 0})


# -- deliveries: what the queue and the sweeper bring twice


def begun(tenancy: Tenancy, call: tuple[str, Any]) -> Disposition:
    (found,) = tenancy.propose(call, step=1)
    if call is WRITE:
        approve(tenancy, found)
    return found


def tool_for(call: tuple[str, Any]) -> Scripted:
    return Scripted.echo(DONE) if call is READ else Scripted.write(DONE)


def deliver(runtime: Runtime, bell: str) -> None:
    """Do what a worker does with one bell of the queue."""
    job = Bell.fetch(bell, queue.call_queue().connection)
    job.func(runtime, *job.args)


def delivered(runtime: Runtime, bells: list[str]) -> None:
    found = together([lambda bell=bell: deliver(runtime, bell) for bell in bells])  # type: ignore[misc]
    assert [each for each in found if isinstance(each, Exception)] == []


def once(tenancy: Tenancy, tool: Scripted, call: Disposition) -> None:
    (row,) = rows(tenancy)
    assert (row.status, row.claim_epoch, len(tool.sent)) == ("succeeded", 1, 1)
    told = Counter(events_of(tenancy, call))
    assert (told["tool.call.started"], told["tool.call.completed"], max(told.values())) == (1, 1, 1)


@gate("dedup.delivered_twice")
@pytest.mark.parametrize("call", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_job_that_is_delivered_many_times_at_once_runs_once(
    acme: Tenancy, worker: Runtime, crowd: int, call: tuple[str, Any]
) -> None:
    tool = tool_for(call)
    proposed = begun(acme, call)
    bell = queue.bell_id("call", acme.id, proposed.invocation_id, 0)
    delivered(tool.installed_in(worker), [bell] * crowd)
    once(acme, tool, proposed)


def swept(tenancy: Tenancy, call: Disposition) -> list[str]:
    """What the sweeper would ring for this tenant now, had the grace passed."""
    with tenant_transaction(tenancy.id):
        Invocation.objects.filter(pk=call.invocation_id).update(dispatch_after=timezone.now() - timedelta(seconds=1))
    due = database.call("SELECT * FROM toolsys_sweep(%s, %s)", (500, 2.0))
    return [queue.bell_id("call", row[1], row[2], row[3]) for row in due if row[1] == tenancy.id]


@gate("dedup.delivered_twice")
@pytest.mark.parametrize("call", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize("crowd", CROWDS)
def test_a_job_and_a_ring_of_the_sweeper_together_run_once(
    acme: Tenancy, worker: Runtime, crowd: int, call: tuple[str, Any]
) -> None:
    tool = tool_for(call)
    proposed = begun(acme, call)
    rung = swept(acme, proposed)
    assert len(rung) == 1
    bell = queue.bell_id("call", acme.id, proposed.invocation_id, 0)
    delivered(tool.installed_in(worker), [*rung, bell] * (crowd // 2))
    once(acme, tool, proposed)


@gate("dedup.delivered_twice")
@pytest.mark.parametrize("crowd", CROWDS)
def test_bells_for_a_step_and_for_its_calls_together_keep_the_order(acme: Tenancy, worker: Runtime, crowd: int) -> None:
    """A write before a read: one after the other, each once, whoever is rung for what."""
    write, read = Scripted.write(DONE), Scripted.echo(DONE)
    runtime = read.installed_in(write.installed_in(worker))
    (held,) = acme.propose(WRITE, READ, step=1)
    approve(acme, held)
    with tenant_transaction(acme.id):
        step = RunStep.objects.get(run=acme.run)
    bells = [queue.bell_id("step", acme.id, step.id), queue.bell_id("call", acme.id, held.invocation_id, 0)]
    delivered(runtime, bells * (crowd // 2))
    for _ in range(worker.limits.max_attempts):
        jobs.advance_step(runtime, acme.id, str(step.id))
    assert [(row.status, row.claim_epoch) for row in rows(acme)] == [("succeeded", 1)] * 2
    assert (len(write.sent), len(read.sent), counts(acme)) == (1, 1, {"steps": 1, "calls": 2, "held": 1})
    first, second = rows(acme)
    assert first.completed_at is not None
    assert second.created_at >= first.completed_at


@gate("dedup.delivered_twice")
@pytest.mark.parametrize("crowd", CROWDS)
def test_late_deliveries_of_an_ended_call_and_of_none_change_nothing(
    acme: Tenancy, worker: Runtime, crowd: int
) -> None:
    tool = Scripted.echo(DONE)
    runtime = tool.installed_in(worker)
    proposed = begun(acme, READ)
    bell = queue.bell_id("call", acme.id, proposed.invocation_id, 0)
    deliver(runtime, bell)
    nobody = queue.bell_id("call", acme.id, uuid.uuid4(), 0)
    delivered(runtime, [bell, nobody] * (crowd // 2))
    once(acme, tool, proposed)
