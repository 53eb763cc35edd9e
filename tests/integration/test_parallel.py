"""Steps whose calls run side by side: which are admitted, how many at a time, and that one ending ends no other."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connections
from django.utils import timezone

from tests.factories import Tenancy
from tests.scripted import Scripted, failing
from tests.spec.requirements import gate
from toolsys import queue
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.results import TextPart, ToolFailureKind, ToolResult
from toolsys.models import Invocation, RunStep
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})


def groups(tenancy: Tenancy) -> set[UUID | None]:
    with tenant_transaction(tenancy.id):
        rows = set(Invocation.objects.filter(run=tenancy.run).values_list("parallel_group", flat=True))
        assert set(RunStep.objects.filter(run=tenancy.run).values_list("parallel_group", flat=True)) == rows
    return rows


def rung(calls: list[Disposition]) -> list[int]:
    """Positions of the calls that somebody was rung for."""
    waiting = [each.split(queue.SEPARATOR)[2] for each in queue.call_queue().job_ids]
    return [index for index, call in enumerate(calls) if str(call.invocation_id) in waiting]


@gate("parallel.admission")
def test_reads_that_allow_it_begin_together(acme: Tenancy) -> None:
    begun = acme.propose(*(("demo.echo", {"text": str(n)}) for n in range(3)))
    assert [each.state for each in begun] == [Progress.HANDED_OFF] * 3
    (group,) = groups(acme)
    assert group is not None
    assert rung(begun) == [0, 1, 2]


@gate("parallel.admission")
@pytest.mark.parametrize(
    "other",
    [("demo.external_write", {"line": "x"}), ("demo.unknown", {}), ("", {})],
    ids=["write", "unknown", "nameless"],
)
def test_one_call_that_may_not_puts_the_whole_step_in_order(acme: Tenancy, other: tuple[str, object]) -> None:
    begun = acme.propose(("demo.echo", {"text": "x"}), other, ("demo.echo", {"text": "y"}))
    assert len(begun) == 1
    assert groups(acme) == {None}


@gate("parallel.admission")
def test_a_call_that_outlasts_its_run_puts_the_whole_step_in_order(acme: Tenancy) -> None:
    with tenant_transaction(acme.id):
        acme.run.deadline_at = timezone.now() + timedelta(seconds=5)
        acme.run.save()
    assert len(acme.propose(("demo.echo", {"text": "x"}), ("demo.echo", {"text": "y"}))) == 1


@gate("parallel.admission")
def test_a_replayed_step_keeps_its_group(acme: Tenancy) -> None:
    calls = [("demo.echo", {"text": str(n)}) for n in range(2)]
    first = acme.propose(*calls, step=1)
    again = acme.propose(*calls, step=1)
    assert [each.invocation_id for each in again] == [each.invocation_id for each in first]
    assert len(groups(acme)) == 1


@gate("parallel.cap")
def test_eight_run_at_a_time_and_each_rings_for_one_more(acme: Tenancy, worker: Runtime) -> None:
    begun = acme.propose(*(("demo.echo", {"text": str(n)}) for n in range(11)))
    assert rung(begun) == list(range(8))
    acme.work(worker, begun[2])
    assert rung(begun) == [*range(8), 10]


@gate("parallel.cap")
def test_the_claim_itself_keeps_the_cap(acme: Tenancy, worker: Runtime) -> None:
    begun = acme.propose(*(("demo.echo", {"text": str(n)}) for n in range(9)))
    inside, leave = threading.Semaphore(0), threading.Event()

    async def execute(arguments: object, context: object) -> ToolResult:
        inside.release()
        while not leave.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
        return DONE

    tool = Scripted.echo(DONE)
    tool.execute = execute  # type: ignore[method-assign]
    runtime = tool.installed_in(worker)

    def work(call: Disposition) -> Disposition:
        try:
            return acme.work(runtime, call)[0]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(work, call) for call in begun[:8]]
        for _ in running:
            assert inside.acquire(timeout=20)
        try:
            assert acme.work(runtime, begun[8])[0].state is Progress.IN_FLIGHT
        finally:
            leave.set()
        assert {each.result(20).reason_code for each in running} == {"tool.succeeded"}
    assert acme.work(worker, begun[8])[0].reason_code == "tool.succeeded"


@gate("parallel.siblings")
def test_a_call_that_fails_ends_no_sibling_and_the_step_ends_with_the_last(acme: Tenancy, worker: Runtime) -> None:
    begun = acme.propose(*(("demo.echo", {"text": str(n)}) for n in range(3)))
    broken = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error")).installed_in(worker)
    assert acme.work(broken, begun[1])[0].reason_code == "tool.upstream_error"
    assert acme.work(worker, begun[2])[0].reason_code == "tool.succeeded"
    with tenant_transaction(acme.id):
        assert RunStep.objects.get(run=acme.run).completed_at is None
    assert acme.work(worker, begun[0])[0].reason_code == "tool.succeeded"
    with tenant_transaction(acme.id):
        assert RunStep.objects.get(run=acme.run).completed_at is not None
