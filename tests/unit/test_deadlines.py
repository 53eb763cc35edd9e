"""One deadline for a whole claim, and which declarations let a call run beside others."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import claim, spec
from toolsys.batches import _may_join
from toolsys.domain.spec import IdempotencyClass, SideEffectClass
from toolsys.execution import WorkerExecution

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@gate("attempts.bounded")
def test_what_preparation_took_execution_does_not_have() -> None:
    clock: Any = SimpleNamespace(now=100.0, boottime=lambda: clock.now)
    given: list[float] = []

    def run(work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        given.append(seconds)
        clock.now += 7.0
        return asyncio.run(work)

    async def nothing(*_arguments: Any) -> None:
        return None

    keeper: Any = SimpleNamespace(hold=lambda _: None, drop=lambda _: None)
    loop: Any = SimpleNamespace(run=run)
    tool: Any = SimpleNamespace(prepare=nothing, execute=nothing, spec=spec())
    held = replace(claim(), claimed_at_boottime=100.0, remaining_seconds=10.0)
    context: Any = SimpleNamespace(invocation_id=held.invocation_id, timeout_seconds=10.0)
    execution = WorkerExecution(loop, keeper, clock)
    with execution.keeping(held):
        execution.prepare(tool, context)
        execution.execute(tool, {}, context)
    assert given == [10.0, 3.0]


@gate("parallel.admission")
@pytest.mark.parametrize(
    "changes",
    [
        {"side_effect": SideEffectClass.WORKSPACE_WRITE},
        {"side_effect": SideEffectClass.EXTERNAL_WRITE},
        {"idempotency": IdempotencyClass.IDEMPOTENT},
        {"allow_parallel": False},
        {"timeout_seconds": 11},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_condition_of_a_group_stands_alone(changes: dict[str, Any]) -> None:
    facts: Any = SimpleNamespace(now=NOW, run=SimpleNamespace(deadline_at=NOW + timedelta(seconds=10)))
    assert _may_join(spec(), facts)
    assert not _may_join(spec(**changes), facts)
