"""What an approval is bound to: everything that it was given for, and no verdict stricter than its own."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.contract.store.cases import WRITE, Named, call_of, case_of, held
from tests.contract.store.memory_world import MemoryWorld
from tests.spec.requirements import gate
from toolsys import steps
from toolsys.domain.calls import Decision
from toolsys.domain.spec import IdempotencyClass, RiskLevel
from toolsys.domain.states import PolicyVerdict
from toolsys.ports import Case
from toolsys.problems import Refused


@pytest.fixture
def case() -> Case:
    world = MemoryWorld()
    return case_of(world.store(), call_of(world, WRITE), WRITE)


def with_facts(case: Case, **changes: Any) -> Case:
    return replace(case, facts=replace(case.facts, **changes))


def with_spec(case: Case, **changes: Any) -> Case:
    return replace(case, tool=Named(WRITE.model_copy(update=changes)))


def bound_elsewhere(case: Case) -> Case:
    tool = Named(WRITE)
    tool.binding = "there"
    return replace(case, tool=tool)


CHANGES = {
    "arguments": lambda case: replace(case, normalized=replace(case.normalized, arguments_hash="0" * 64)),
    "tenant": lambda case: with_facts(case, tenant_id="globex"),
    "principal": lambda case: with_facts(case, principal=replace(case.facts.principal, id=UUID(int=99))),
    "run": lambda case: with_facts(case, run=replace(case.facts.run, id=UUID(int=99))),
    "tool": lambda case: with_spec(case, name="demo.other_write"),
    "version": lambda case: with_spec(case, version="2"),
    "risk": lambda case: with_spec(case, risk=RiskLevel.MEDIUM),
    "idempotency": lambda case: with_spec(case, idempotency=IdempotencyClass.IDEMPOTENT),
    "binding": bound_elsewhere,
}


@pytest.mark.parametrize("changed", CHANGES)
@gate("approvals.binding")
def test_whatever_changes_makes_another_digest(case: Case, changed: str) -> None:
    assert steps.approval_digest(CHANGES[changed](case)) != steps.approval_digest(case)


@gate("approvals.binding")
def test_what_does_not_matter_leaves_the_digest(case: Case) -> None:
    facts = case.facts
    later = with_facts(case, authz_epoch=facts.authz_epoch + 1, run=replace(facts.run, manifest=("*",)))
    assert steps.approval_digest(later) == steps.approval_digest(case)


@gate("approvals.binding")
def test_an_expert_s_approval_does_not_cover_what_now_needs_the_client() -> None:
    world = MemoryWorld()
    store, call = world.store(), call_of(world, WRITE)
    world.decide(held(store, call), is_approval=True)
    approved = case_of(store, call, WRITE)
    assert steps.request_approval(approved, _NoDesk()) is None
    approved.decision = Decision(PolicyVerdict.REQUIRE_CLIENT_APPROVAL, "policy.matrix.external_write", "high", "rule")
    with pytest.raises(Refused) as refused:
        steps.request_approval(approved, _NoDesk())
    assert refused.value.reason_code == "policy.approval.not_covering"


class _NoDesk:
    """A call is held once: nobody is asked for terms again."""

    def terms(self, decision: Decision, facts: object) -> Any:
        raise AssertionError("held a second time")
