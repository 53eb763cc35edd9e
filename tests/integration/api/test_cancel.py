"""Cancelling one call over the API: what was not sent is not sent any more, and what has ended stays as it is."""

import json
from typing import Any

import pytest

from tests.factories import Tenancy, approve
from tests.integration.api.test_api import Api
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import database, queue, services
from toolsys.domain.calls import Disposition
from toolsys.domain.results import TextPart, ToolResult
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"line": "x"})


@pytest.fixture
def api(acme: Tenancy) -> Api:
    return Api(acme)


def cancel(api: Api, call: Disposition) -> Any:
    return api.send("POST", f"/v1/invocations/{call.invocation_id}/cancel", {})


@gate("cancel.call")
def test_a_call_that_was_not_sent_ends_as_cancelled(api: Api, worker: Runtime) -> None:
    acme, tool = api.tenancy, Scripted.write(DONE)
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    approve(acme, held)
    answer = cancel(api, held)
    assert (answer.status_code, answer["Location"]) == (202, f"/v1/invocations/{held.invocation_id}")
    assert queue.bell_id("call", acme.id, held.invocation_id, 0) in queue.call_queue().job_ids
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.reason_code, tool.sent) == ("tool.cancelled", [])
    again = cancel(api, held)
    assert (again.status_code, json.loads(again.content)["outcome"]["reason_code"]) == (200, "tool.cancelled")


@gate("cancel.call")
def test_cancelled_between_claim_and_watermark_nothing_is_sent(api: Api, worker: Runtime) -> None:
    """Preparation takes its time, and the cancellation has returned before it ends."""
    acme = api.tenancy
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    approve(acme, held)
    tool = Scripted.write(DONE)

    async def prepare(context: object) -> None:
        import asyncio

        await asyncio.to_thread(services.cancel_call, tenant_id=acme.id, invocation_id=held.invocation_id)

    tool.prepare = prepare  # type: ignore[method-assign]
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.reason_code, tool.sent) == ("tool.cancelled", [])


@gate("cancel.call")
def test_a_run_that_is_cancelled_marks_each_open_call_of_it(acme: Tenancy, worker: Runtime) -> None:
    """Handed off or held: the watermark looks at the call, too. What has ended is left alone."""
    done, open_call = (acme.propose(("demo.echo", {"text": text}))[0] for text in ("done", "open"))
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    acme.work(worker, done)
    services.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=True, runtime=acme.runtime)
    with tenant_transaction(acme.id):
        rows = Invocation.objects.filter(run=acme.run).values_list("id", "cancel_requested_at")
        marked = {row_id for row_id, cancelled_at in rows if cancelled_at is not None}
    assert marked == {open_call.invocation_id, held.invocation_id}


@gate("cancel.call")
def test_a_call_that_has_ended_stays_as_it_is(api: Api, worker: Runtime) -> None:
    acme = api.tenancy
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.work(worker, call)
    answer = cancel(api, call)
    body = json.loads(answer.content)
    assert (answer.status_code, body["outcome"]["reason_code"]) == (200, "tool.succeeded")


@gate("clock.database")
def test_a_cancelled_call_is_due_by_the_database_s_clock(acme: Tenancy) -> None:
    """The sweeper asks that clock, and so finds the call although its bell is lost."""
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    services.cancel_call(tenant_id=acme.id, invocation_id=call.invocation_id)
    with tenant_transaction(acme.id):
        row = Invocation.objects.filter(pk=call.invocation_id, dispatch_after__lte=database.now())
        assert row.filter(cancel_requested_at__lte=database.now()).exists()


@gate("clock.database")
def test_a_run_s_deadline_is_the_database_s_time(acme: Tenancy) -> None:
    run = services.start_run(
        tenant_id=acme.id, session_id=acme.session.id, manifest=None, deadline_seconds=60.0, correlation_id=""
    )
    assert (run.deadline_at - run.created_at).total_seconds() == pytest.approx(60.0, abs=5.0)


@gate("breaker.answer_only")
def test_the_step_that_brings_a_run_to_the_brink_says_so(api: Api, worker: Runtime) -> None:
    acme = api.tenancy
    for number in range(1, 5):
        api.propose("demo.echo", {"text": "same"}, step=number)
        found = json.loads(api.send("GET", f"{api.steps}/{number}").content)["calls"][0]
        services.advance_step(acme.id, worker, invocation_id=found["invocation_id"])
        body = json.loads(api.send("GET", f"{api.steps}/{number}").content)
        assert (body["status"], body["answer_only"]) == ("completed", number == 4)
