"""The five causes that make an advertised tool uncallable: each shows at call time, with its own code."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import spec
from toolsys import attempts, steps
from toolsys.domain import reasons
from toolsys.domain.calls import Facts
from toolsys.domain.spec import JsonObject, SideEffectClass
from toolsys.domain.states import OutcomeStatus
from toolsys.ports import Case, NotAvailable, Tool, ToolRegistry
from toolsys.problems import Refused

FOUND_WHILE_CONNECTING = ("tool.server_unreachable", "tool.server_unauthorized", "tool.device_offline")


class Gone:
    """A registry whose pinned tool was withdrawn."""

    def resolve(self, name: str, facts: Facts) -> Tool | None:
        raise NotAvailable("tool.withdrawn", "for operators: not for the model")


def case(*, scopes: frozenset[str] = frozenset(), effect_sent: bool = False, **changes: Any) -> Case:
    declared = spec(**changes)
    facts = SimpleNamespace(key=SimpleNamespace(is_live=True), scopes=scopes, agent=SimpleNamespace(name="a"))
    found = {
        "facts": facts, "spec": declared, "classification": declared.classification, "claim": None,
        "call": SimpleNamespace(name=declared.name), "row": SimpleNamespace(effect_sent=effect_sent),
    }  # fmt: skip
    return cast("Case", SimpleNamespace(**found))


@gate("registry.availability")
def test_a_revoked_scope_denies() -> None:
    guarded: JsonObject = {"required_scopes": frozenset({"web.use", "web.more"})}
    steps.check_scopes(case(scopes=frozenset({"web.use", "web.more"}), **guarded))
    with pytest.raises(Refused) as refused:
        steps.check_scopes(case(scopes=frozenset({"web.use"}), **guarded))
    assert refused.value.reason_code == "policy.scope.missing"
    assert reasons.reason("policy.scope.missing").status is OutcomeStatus.DENIED


@gate("registry.availability")
def test_a_withdrawn_tool_is_unavailable_and_its_detail_stays_here() -> None:
    with pytest.raises(Refused) as refused:
        steps.resolve_tool(case(), cast("ToolRegistry", Gone()))
    outcome = reasons.outcome(refused.value.reason_code, "math.evaluate").as_fields()
    assert (outcome["status"], outcome["reason_code"]) == ("unavailable", "tool.withdrawn")
    assert "operators" not in str(outcome)


@gate("registry.availability")
@pytest.mark.parametrize("code", FOUND_WHILE_CONNECTING)
def test_what_cannot_be_reached_is_unavailable_with_its_cause(code: str) -> None:
    output = attempts.conclude_unavailable(case(), NotAvailable(code, "the address of the server"))
    assert (output.outcome_status, output.reason_code, output.payload) == (OutcomeStatus.UNAVAILABLE, code, {})


@gate("registry.availability", "recovery.unrecorded")
@pytest.mark.parametrize("code", FOUND_WHILE_CONNECTING)
def test_a_write_that_an_earlier_attempt_sent_is_uncertain_instead(code: str) -> None:
    sent = case(side_effect=SideEffectClass.EXTERNAL_WRITE, effect_sent=True)
    assert attempts.conclude_unavailable(sent, NotAvailable(code)).reason_code == "tool.outcome_unknown"


@gate("registry.availability")
def test_the_five_causes_are_told_apart() -> None:
    codes = {"policy.scope.missing", "tool.withdrawn", *FOUND_WHILE_CONNECTING}
    assert {code: reasons.reason(code).status for code in codes} == {
        "policy.scope.missing": OutcomeStatus.DENIED,
        "tool.withdrawn": OutcomeStatus.UNAVAILABLE,
        "tool.server_unreachable": OutcomeStatus.UNAVAILABLE,
        "tool.server_unauthorized": OutcomeStatus.UNAVAILABLE,
        "tool.device_offline": OutcomeStatus.UNAVAILABLE,
    }
