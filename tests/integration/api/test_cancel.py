"""Cancelling one call over the API: what was not sent is not sent any more, and what has ended stays as it is."""

import json
from typing import Any

import pytest

from tests.factories import Tenancy, approve
from tests.integration.api.test_api import Api
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import queue, services
from toolsys.domain.calls import Disposition
from toolsys.domain.results import TextPart, ToolResult
from toolsys.ports import Runtime

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

        await asyncio.to_thread(
            services.cancel_call, tenant_id=acme.id, invocation_id=held.invocation_id, runtime=acme.runtime
        )

    tool.prepare = prepare  # type: ignore[method-assign]
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.reason_code, tool.sent) == ("tool.cancelled", [])


@gate("cancel.call")
def test_a_call_that_has_ended_stays_as_it_is(api: Api, worker: Runtime) -> None:
    acme = api.tenancy
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.work(worker, call)
    answer = cancel(api, call)
    body = json.loads(answer.content)
    assert (answer.status_code, body["outcome"]["reason_code"]) == (200, "tool.succeeded")


@gate("breaker.answer_only")
def test_the_step_that_brings_a_run_to_the_brink_says_so(api: Api, worker: Runtime) -> None:
    acme = api.tenancy
    for number in range(1, 5):
        api.propose("demo.echo", {"text": "same"}, step=number)
        found = json.loads(api.send("GET", f"{api.steps}/{number}").content)["calls"][0]
        services.advance_step(acme.id, worker, invocation_id=found["invocation_id"])
        body = json.loads(api.send("GET", f"{api.steps}/{number}").content)
        assert (body["status"], body["answer_only"]) == ("completed", number == 4)
