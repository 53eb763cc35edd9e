"""Corpus B37: what was rolled back never executes, however fast an idle worker is.

A proposal inside somebody's open transaction is refused at the point where it would be rung for, and what it wrote goes
with the transaction. Two real workers stand by, and take what is committed in between.
"""

import pytest
from django.db import transaction

from tests.races.crew import Crew
from tests.races.ground import until
from tests.races.tools import tool_name
from tests.spec.requirements import gate
from toolsys import queue

TRIALS, EVERY = 10_000, 500
pytestmark = pytest.mark.long


@gate("faults.b37")
def test_b37_ten_thousand_rolled_back_proposals_execute_nothing(crew: Crew) -> None:
    tenancy, committed = crew.tenancy(), []
    before = len(crew.ground.world.lines())
    for number in range(TRIALS):
        with pytest.raises(AssertionError, match="enqueue after the commit"), transaction.atomic():
            tenancy.propose((tool_name("once"), {"text": f"rolled back {number}"}))
        if number % EVERY == 0:
            committed.append(crew.propose(tenancy, "once", text=f"committed {number}"))
    assert {crew.ended(call)["status"] for call in committed} == {"succeeded"}
    until(lambda: queue.depth() == 0, "an empty queue")
    (rows,) = crew.ground.ask("SELECT count(*) FROM tool_invocations WHERE tenant_id = %s", tenancy.id)[0]
    assert rows == len(committed) == TRIALS // EVERY
    assert len(crew.ground.world.lines()) - before == len(committed)
    assert all(crew.faults(call, "once") == [] for call in committed)
