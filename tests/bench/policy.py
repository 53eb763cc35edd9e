"""How long one policy evaluation takes with 200 tenant rules. `python -m tests.bench.policy`; no server is needed.

Rule sets: as tenants write them (most rules are about other tools); every rule covers the tool and looks at one value;
every rule looks at hours and four values; every rule matches. Then an upper bound without a budget: every rule matches
an expression of its own. Prints microseconds.
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
from toolsys.domain.spec import JsonObject

RULES, ROUNDS, BUDGET_MICROSECONDS = 200, 2_000, 500


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


def measured(name: str, match: Callable[[int], JsonObject]) -> float:
    rules = [
        Rule.model_validate({"name": f"r{n}", "verdict": "block", "priority": n % 7, "match": match(n)})
        for n in range(RULES)
    ]
    ruleset = Ruleset(tuple(map(matchers.compiled, rules)))
    gate = RuleGate(lambda tenant_id, epoch: ruleset, no_grants)
    call = action(
        tool_name="mcp.server_1.send", server_id="server_1", arguments_hash=uuid4().hex,
        arguments={"to": "ann@example.com", "amount": 250, "labels": ["red", "blue"], "body": "x" * 2_000},
    )  # fmt: skip
    at, taken = facts(), []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        gate.evaluate(call, at)
        taken.append((time.perf_counter_ns() - began) / 1000)
    taken.sort()
    middle = statistics.median(taken)
    print(f"{name:12} rules={RULES} p50={middle:.0f} us p95={taken[ROUNDS * 95 // 100]:.0f} us")
    return middle


if __name__ == "__main__":
    slowest = max(measured("usual", usual), measured("covering", covering))
    slowest = max(slowest, measured("conditions", conditions), measured("matching", matching))
    measured("expressions", expressions)
    print(f"budget: p50 <= {BUDGET_MICROSECONDS} us for all but the last")
    raise SystemExit(slowest > BUDGET_MICROSECONDS)
