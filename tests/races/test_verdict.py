"""The verdict can say no: each rule has a call that breaks it and no other, and good calls break none."""

from typing import Any

import pytest

from tests.races.verdict import RULES, Found, faults
from tests.spec.requirements import gate

BEGUN, SENT = "tool.call.started", {"key": "k", "pid": 1}


def found(kind: str, status: str, *, sends: int = 1, ends: int = 1, claims: int = 1, **changes: Any) -> Found:
    row = {"status": status, "claim_epoch": 1, "effect_sent_at": "then" if sends else None, **changes}
    end = "tool.call.completed" if status == "succeeded" else f"tool.call.{status}"
    return Found(kind, row, [SENT] * sends, [BEGUN] * claims + [end] * ends)


GOOD = [
    found("once", "succeeded"), found("once", "uncertain"), found("once", "uncertain", sends=0),
    found("repeatable", "succeeded", sends=2), found("read", "failed"), found("once", "failed", sends=0),
    found("once", "denied", sends=0, claims=0, claim_epoch=0),
]  # fmt: skip
BAD = {
    "lost: it has not ended": found("once", "running", ends=0),
    "doubled: sent more than once": found("once", "succeeded", sends=2),
    "succeeded, and never sent": found("once", "succeeded", sends=0),
    "failed or denied, and a write was sent": found("keyed", "failed"),
    "uncertain, and it could have been repeated": found("repeatable", "uncertain"),
    "sent without a watermark": found("once", "succeeded", effect_sent_at=None),
    "sent under several keys": Found(
        "keyed", {"status": "succeeded", "claim_epoch": 1, "effect_sent_at": "then"}, [SENT, {**SENT, "key": "other"}],
        [BEGUN, "tool.call.completed"],
    ),
    "not exactly one event of its end": found("once", "succeeded", ends=2),
    "not one event for each claim": found("once", "succeeded", claims=2),
}  # fmt: skip


@gate("race.workers")
@pytest.mark.parametrize("call", GOOD)
def test_a_good_call_breaks_no_rule(call: Found) -> None:
    assert faults(call) == []


@gate("race.workers")
@pytest.mark.parametrize("rule", [text for text, _ in RULES])
def test_each_rule_is_broken_by_its_own_call(rule: str) -> None:
    assert faults(BAD[rule]) == [rule]
