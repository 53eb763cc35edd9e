"""A use of a grant is taken with the intent of a new call, or the store says that what was read no longer holds."""

from dataclasses import replace
from uuid import UUID

from tests.contract.store.cases import WRITE, call_of, case_of
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import Invocation, Progress
from toolsys.ports import Case


def granted(world: World, grant: UUID, number: int) -> Case:
    case = case_of(world.store(), call_of(world, WRITE, number=number, arguments={"line": str(number)}), WRITE)
    assert case.decision is not None
    case.decision, case.terms = replace(case.decision, grant=grant), None
    return case


@gate("grants.last_use")
def test_the_last_use_is_taken_once(world: World) -> None:
    grant = world.grant(1)
    before = world.row_count()
    first, second = granted(world, grant, 1), granted(world, grant, 2)
    assert isinstance(world.store().commit_intent(first), Invocation)
    late = world.store().commit_intent(second)
    assert not isinstance(late, Invocation)
    assert (late.state, world.uses_left(grant), world.row_count()) == (Progress.STALE, 0, before + 1)
