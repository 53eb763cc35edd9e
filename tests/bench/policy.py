"""How long one policy evaluation takes with 200 tenant rules. `python -m tests.bench.policy`; no server is needed.

Rule sets: as tenants write them (most rules are about other tools); every rule covers the tool and looks at one value;
every rule looks at hours and four values; every rule matches; every rule has an expression of its own, none of which
matches, or each; one rule allows what all others would hold. Each call is another one. Prints microseconds of CPU time
a call: the median of 200 rounds of ten.
"""

import statistics
import time
from collections.abc import Callable
from uuid import uuid4

from approvals import matchers
from approvals.gate import RuleGate, no_grants
from approvals.matchers import Rule
from approvals.ruleset import Ruleset
from tests.unit.test_policy_matchers import facts
from tests.unit.test_policy_rules import action
from toolsys.domain.calls import ProposedAction
from toolsys.domain.spec import JsonObject

RULES, ROUNDS, BUDGET_MICROSECONDS = 200, 200, 500
# Reading the clock of the thread takes longer than a call: it is read once for several.
EACH = 10


def usual(number: int) -> JsonObject:
    return {"tools": [f"mcp.server_{number % 40}.*"], "agents": ["assistant", f"other_{number}"]}


def covering(number: int) -> JsonObject:
    return {"tools": ["mcp.*"], "arguments": [{"pointer": "/amount", "operator": "gt", "value": 10_000 + number}]}


def conditions(number: int) -> JsonObject:
    """Covers every tool; three conditions hold and the last does not."""
    return {
        "tools": ["mcp.*"], "servers": ["server_1"], "agents": ["assistant"],
        "hours": {"start": "09:00", "end": "17:00", "timezone": "Europe/Berlin"},
        "arguments": [
            {"pointer": "/to", "operator": "contains", "value": "@example.com"},
            {"pointer": "/amount", "operator": "gt", "value": 5},
            {"pointer": "/labels", "operator": "contains", "value": "red"},
            {"pointer": "/amount", "operator": "gt", "value": 10_000 + number},
        ],
    }  # fmt: skip


def expressions(number: int) -> JsonObject:
    return {"arguments": [{"pointer": "/to", "operator": "matches", "value": f".*{number}@example[.]com"}]}


def matching(number: int) -> JsonObject:
    """Every rule matches, by a value of its own."""
    return {"tools": ["mcp.*"], "arguments": [{"pointer": "/amount", "operator": "gt", "value": number}]}


def expressed(number: int) -> JsonObject:
    """Every rule matches, by an expression of its own."""
    return {"arguments": [{"pointer": "/to", "operator": "matches", "value": f".*(x{number})?@example[.]com"}]}


def blocked(number: int) -> JsonObject:
    return {"verdict": "block", "priority": number % 7}


def loosened(number: int) -> JsonObject:
    """One rule allows and stands before all others, each of which asks for more."""
    return {"verdict": "require_expert_approval" if number else "allow", "priority": 0 if number else 9}


def measured(name: str, match: Callable[[int], JsonObject], says: Callable[[int], JsonObject] = blocked) -> float:
    rules = [Rule.model_validate({"name": f"r{n}", "match": match(n), **says(n)}) for n in range(RULES)]
    ruleset = Ruleset(tuple(map(matchers.compiled, rules)))
    gate = RuleGate(lambda tenant_id, epoch: ruleset, no_grants)
    at, taken = facts(), []
    for _ in range(ROUNDS):
        calls = [call(uuid4().hex) for _ in range(EACH)]
        began = time.thread_time_ns()
        for each in calls:
            gate.evaluate(each, at)
        taken.append((time.thread_time_ns() - began) / 1000 / EACH)
    taken.sort()
    middle = statistics.median(taken)
    print(f"{name:12} rules={RULES} p50={middle:.0f} us p95={taken[ROUNDS * 95 // 100]:.0f} us")
    return middle


def call(digest: str) -> ProposedAction:
    return action(
        tool_name="mcp.server_1.send", server_id="server_1", arguments_hash=digest, arguments={
            "to": f"{digest}@example.com", "amount": 250, "labels": ["red", "blue"], "body": "x" * 2_000,
        },
    )  # fmt: skip


if __name__ == "__main__":
    slowest = max(measured("usual", usual), measured("covering", covering))
    slowest = max(slowest, measured("conditions", conditions), measured("matching", matching))
    slowest = max(slowest, measured("expressions", expressions), measured("expressed", expressed))
    slowest = max(slowest, measured("loosened", matching, loosened), measured("loosened too", expressed, loosened))
    print(f"budget: p50 <= {BUDGET_MICROSECONDS} us")
    raise SystemExit(slowest > BUDGET_MICROSECONDS)
