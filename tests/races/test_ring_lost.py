"""What is committed is accepted: where nobody can be rung for, the sweeper finds it, and nobody is told of it."""

from typing import Any

import pytest
import redis

from tests.factories import Tenancy
from tests.races.test_duplicates import rows
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import database, queue, services
from toolsys.domain.calls import Progress
from toolsys.domain.results import TextPart, ToolResult
from toolsys.ports import Runtime

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valkey takes nothing."""

    class Away:
        connection_pool = redis.ConnectionPool(
            connection_class=redis.UnixDomainSocketConnection, path="/nowhere", retry=None
        )

    class Queue:
        key = "away"
        connection = Away()

    monkeypatch.setattr(queue, "call_queue", Queue)


def echoes(count: int) -> list[tuple[str, Any]]:
    return [("demo.echo", {"text": str(number)}) for number in range(count)]


@gate("lost.queue")
@pytest.mark.parametrize("count", [1, 3])
def test_a_step_that_is_committed_is_accepted_though_nobody_could_be_rung_for(
    away: None, acme: Tenancy, worker: Runtime, count: int
) -> None:
    begun = acme.propose(*echoes(count))
    assert [each.state for each in begun] == [Progress.HANDED_OFF] * count
    assert len(rows(acme)) == count


@gate("lost.queue")
def test_a_call_of_a_group_is_told_as_done_though_the_next_could_not_be_rung_for(
    acme: Tenancy, worker: Runtime, request: pytest.FixtureRequest
) -> None:
    begun = acme.propose(*echoes(worker.limits.parallel_cap + 1))
    request.getfixturevalue("away")
    tool = Scripted.echo(DONE)
    (ended,) = services.advance_step(acme.id, tool.installed_in(worker), invocation_id=begun[0].invocation_id)
    assert (ended.state, len(tool.sent)) == (Progress.SETTLED, 1)
    due = database.call("SELECT * FROM toolsys_sweep(%s, %s)", (500, 0.0))
    assert [row for row in due if row[1] == acme.id] == [], "not yet: the grace has not passed"
    last = rows(acme)[-1]
    assert last.status == "authorized"
    assert last.dispatch_after is not None
