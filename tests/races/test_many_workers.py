"""Two, four and sixteen workers over many calls: each is executed once, claim epochs grow, and no row is lost.

Every worker goes for every call. Sixty calls here; a thousand in `make races`,
once with threads and runtimes in this process, and once with real worker processes.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.factories import Tenancy
from tests.races.crew import Crew
from tests.races.crowd import together
from tests.races.ground import until
from tests.scripted import Scripted
from tests.spec.requirements import gate
from tests.workers import WorkerRuntime
from toolsys import database, queue
from toolsys.domain.calls import Disposition
from toolsys.domain.results import TextPart, ToolResult
from toolsys.models import Invocation, ToolEvent
from toolsys.ports import Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})
WORKERS = [2, 4, 16]
A_STEP = 20
SEED = 20_261_130


def executed(tool: Scripted) -> Counter[Any]:
    return Counter(context.invocation_id for _, context in tool.sent)


def proposed(tenancy: Tenancy, count: int) -> list[Disposition]:
    """Steps of reads, which may run side by side; each call says something else."""
    found: list[Disposition] = []
    while len(found) < count:
        texts = [f"{len(found) + number}" for number in range(min(A_STEP, count - len(found)))]
        found += tenancy.propose(*(("demo.echo", {"text": text}) for text in texts))
    return found


def for_all(runtimes: list[Runtime], calls: list[Disposition], tenancy: Tenancy) -> list[Callable[[], None]]:
    """Each worker goes through every call, in an order of its own."""

    def one(number: int, runtime: Runtime) -> None:
        mine = list(calls)
        random.Random(SEED + number).shuffle(mine)
        for call in mine:
            tenancy.work(runtime, call)
            database.release_connection()  # one process has one pool for all of them

    return [lambda number=number, runtime=runtime: one(number, runtime)  # type: ignore[misc]
            for number, runtime in enumerate(runtimes)]  # fmt: skip


def named(runtime: Runtime, name: str) -> Runtime:
    """A worker of its own name, with caches of its own, and with room for every thread's claim."""
    store = runtime.store
    assert isinstance(store, SqlStore)
    limits = replace(store.limits, lease_seconds=60.0, parallel_cap=64)
    return replace(runtime, limits=limits, store=replace(store, worker=name, limits=limits))


def play(tenancy: Tenancy, worker: Runtime, workers: int, count: int) -> None:
    tool = Scripted.echo(DONE)
    calls = proposed(tenancy, count)
    runtimes = [named(tool.installed_in(worker), f"worker-{number}") for number in range(workers)]
    raised = [each for each in together(for_all(runtimes, calls, tenancy)) if each is not None]
    assert raised == []
    for call in calls:
        tenancy.finish(runtimes[0], call)
    with tenant_transaction(tenancy.id):
        rows = {row.id: row for row in Invocation.objects.filter(run=tenancy.run)}
        started = Counter(ToolEvent.objects.filter(run_id=tenancy.run.id, type="tool.call.started")
                          .values_list("invocation_id", flat=True))  # fmt: skip
    assert rows.keys() == {call.invocation_id for call in calls}
    assert {row.status for row in rows.values()} == {"succeeded"}
    assert executed(tool) == dict.fromkeys(rows, 1)
    assert {row.id: row.claim_epoch for row in rows.values()} == started == dict.fromkeys(rows, 1)


@gate("race.workers")
@pytest.mark.parametrize("workers", WORKERS)
def test_each_call_is_executed_once_however_many_workers_go_for_it(
    acme: Tenancy, worker: Runtime, workers: int
) -> None:
    play(acme, worker, workers, 60)


@gate("race.workers")
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_with_loops_and_heartbeats_of_their_own_share_the_calls(acme: Tenancy, workers: int) -> None:
    """As processes would, but for the process: each has its event loop, its lease keeper and its connections."""
    tool = Scripted.echo(DONE)
    calls = proposed(acme, 60)
    running = [WorkerRuntime() for _ in range(workers)]
    try:
        runtimes = [named(tool.installed_in(each.runtime), f"own-{number}") for number, each in enumerate(running)]
        assert [each for each in together(for_all(runtimes, calls, acme)) if each is not None] == []
        for call in calls:
            acme.finish(runtimes[0], call)
    finally:
        for each in running:
            each.close()
    assert executed(tool) == dict.fromkeys((call.invocation_id for call in calls), 1)


@pytest.mark.long
@gate("race.workers")
@pytest.mark.parametrize("workers", WORKERS)
def test_a_thousand_calls_are_executed_once_each(acme: Tenancy, worker: Runtime, workers: int) -> None:
    play(acme, worker, workers, 1_000)


@pytest.mark.long
@gate("race.workers")
@pytest.mark.parametrize(("processes", "threads"), [(2, 4), (4, 4), (16, 1)])
def test_a_thousand_calls_are_executed_once_each_by_processes(crew: Crew, processes: int, threads: int) -> None:
    """The first two have four threads; every bell is rung four times over."""
    tenancy = crew.tenancy()
    own = {"TOOLSYS_WORKER_THREADS": str(threads)}
    more = [crew.ground.spawn("worker", **own) for _ in range(processes - crew.WORKERS)]
    crew.wait_for_service(processes)
    kinds = ["read", "repeatable", "keyed", "once"]
    calls = [(crew.propose(tenancy, kinds[number % 4], text=str(number)), kinds[number % 4]) for number in range(1_000)]
    bells = [queue.bell_id("call", tenancy.id, call.invocation_id, 0) for call, _ in calls]
    for _ in range(3):
        random.Random(SEED).shuffle(bells)
        queue.ring_all(bells)
    ended = "SELECT count(*) FROM tool_invocations WHERE tenant_id = %s AND completed_at IS NOT NULL"
    until(lambda: crew.ground.ask(ended, tenancy.id) == [(1_000,)], "a thousand ends", 600.0)
    lines = Counter(line["call"] for line in crew.ground.world.lines())
    found = {str(call.invocation_id): crew.faults(call, kind) for call, kind in calls}
    assert {call: faults for call, faults in found.items() if faults} == {}
    assert sum(lines[str(call.invocation_id)] for call, kind in calls if kind == "once") == 250
    for pid in more:
        crew.ground.kill(pid)
