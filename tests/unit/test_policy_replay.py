"""A draft over 10,000 generated calls against numbers worked out by hand, and what a draft may look like."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from approvals import matchers, replays
from approvals.replays import RecordedCall
from approvals.rules import Profile
from approvals.ruleset import Ruleset
from tests.spec.requirements import gate
from tests.unit.test_policy_rules import action, classified
from toolsys.domain.spec import RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel

START = datetime(2026, 11, 1, tzinfo=UTC)
WRITE = classified(SideEffectClass.EXTERNAL_WRITE, RiskLevel.HIGH)
READ = classified(SideEffectClass.EXTERNAL_READ, RiskLevel.LOW)


def generated() -> Iterator[RecordedCall]:
    """10,000 calls over ten days but one step: every tenth a write that was held, the others reads that were allowed.

    Amounts count from 0 to 9,999; every second call is agent `night`'s.
    """
    for number in range(10_000):
        is_write = number % 10 == 0
        yield RecordedCall(
            id=UUID(int=number),
            action=action(
                tool_name="mcp.bank.pay" if is_write else "mcp.bank.read", server_id="bank",
                classification=WRITE if is_write else READ, arguments={"amount": number},
                origin_trust=TrustLevel.USER,
            ),
            agent="night" if number % 2 else "day", principal="ann", profile="default",
            at=START + timedelta(days=10) * number / 9_999,
            verdict=PolicyVerdict.REQUIRE_EXPERT_APPROVAL if is_write else PolicyVerdict.ALLOW,
        )  # fmt: skip


def draft(*rules: dict[str, Any], profiles: dict[str, Profile] | None = None) -> Ruleset:
    return Ruleset(tuple(map(matchers.compiled, replays.drafted({"rules": list(rules)}))), profiles or {})


@gate("policy.replay")
@pytest.mark.slow
def test_ten_thousand_calls_change_as_worked_out_by_hand() -> None:
    found = replays.compare(generated(), draft(
        # Reads of `night` from 5,000 up: odd numbers, never a multiple of ten: 2,500 approvals more.
        {"name": "night", "verdict": "require_client_approval", "match": {
            "agents": ["night"], "arguments": [{"pointer": "/amount", "operator": "gte", "value": 5_000}]}},
        # Payments under 1,000: 100 of 1,000; blocked, so 100 approvals less.
        {"name": "small", "verdict": "block", "priority": -5, "match": {
            "tools": ["*.pay"], "arguments": [{"pointer": "/amount", "operator": "lt", "value": 1_000}]}},
        # Asks for less than the matrix, and no profile allows it: changes nothing.
        {"name": "hopeful", "verdict": "allow", "match": {"tools": ["mcp.bank.pay"]}},
    ))  # fmt: skip
    assert found.calls == 10_000
    assert found.changes == {
        (PolicyVerdict.ALLOW, PolicyVerdict.REQUIRE_CLIENT_APPROVAL): 2_500,
        (PolicyVerdict.REQUIRE_EXPERT_APPROVAL, PolicyVerdict.BLOCK): 100,
    }
    assert (found.approvals_then, found.approvals_with_draft) == (1_000, 3_400)
    assert found.days == 10
    assert found.approvals_a_day == 240
    assert [(change.call.id.int, change.rule) for change in found.examples[:3]] == [
        (0, "small@1"), (10, "small@1"), (20, "small@1"),
    ]  # fmt: skip


@gate("policy.replay")
def test_a_profile_that_allows_it_removes_approvals() -> None:
    profiles = {"default": Profile("default", {SideEffectClass.EXTERNAL_WRITE: PolicyVerdict.OBSERVE})}
    found = replays.compare(generated(), draft({"name": "a", "verdict": "observe", "match": {"tools": ["*.pay"]}},
                                               profiles=profiles))  # fmt: skip
    assert found.changes == {(PolicyVerdict.REQUIRE_EXPERT_APPROVAL, PolicyVerdict.OBSERVE): 1_000}
    assert found.approvals_a_day == -100


@gate("policy.replay")
def test_nothing_recorded_is_no_change() -> None:
    found = replays.compare([], draft())
    assert (found.calls, found.changes.total(), found.approvals_a_day) == (0, 0, 0)


@gate("policy.replay")
@pytest.mark.parametrize("value", [None, 5, {"rule": []}, [{"name": "x"}], [{"name": "x", "verdict": "block"}] * 2])
def test_what_is_no_draft_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        replays.drafted(value)
