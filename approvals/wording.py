"""What a call does and why it is held, in plain words: for people who decide, not for machines. Pure.

Words come from the classification and from what policy recorded; nothing that a tool or a server says is among them.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from toolsys import inert
from toolsys.domain.spec import IdempotencyClass, JsonObject, SideEffectClass

EFFECTS: Final = {
    SideEffectClass.NONE: "It computes an answer and touches nothing.",
    SideEffectClass.WORKSPACE_READ: "It reads files of the agent's workspace.",
    SideEffectClass.WORKSPACE_WRITE: "It changes files of the agent's workspace.",
    SideEffectClass.NETWORK_READ: "It fetches something from the network.",
    SideEffectClass.EXTERNAL_READ: "It reads from another system with this organisation's account.",
    SideEffectClass.EXTERNAL_WRITE: "It changes something in another system.",
}
REPETITIONS: Final = {
    IdempotencyClass.READ_ONLY: "It only reads: doing it again changes nothing.",
    IdempotencyClass.IDEMPOTENT: "Doing it twice has the effect of doing it once.",
    IdempotencyClass.CONDITIONALLY_IDEMPOTENT: "The other system is told a key, so that it counts the call once.",
    IdempotencyClass.NON_IDEMPOTENT: "Doing it twice would have two effects, and it cannot be taken back from here.",
}
_OPERATORS: Final = {
    "eq": "is", "ne": "is not", "in": "is one of", "lt": "is below", "lte": "is at most", "gt": "is above",
    "gte": "is at least", "prefix": "begins with", "contains": "contains", "exists": "is there", "matches": "matches",
}  # fmt: skip
_FACTS: Final = {
    "side_effect": "side effect", "risk": "risk", "origin_trust": "least trusted in the room", "matrix": "matrix says",
    "profile": "profile", "rules_not_listed": "further rules not listed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """One rule that matched a call. `conditions` are (argument, relation, the value that the call had)."""

    name: str
    version: int
    verdict: str
    priority: int
    is_certain: bool
    is_deciding: bool
    conditions: tuple[tuple[str, str, str], ...]


def effect(side_effect: str, idempotency: str) -> str:
    """Return two sentences: what kind of thing it does, and whether it can be undone or done twice."""
    said = EFFECTS[SideEffectClass(side_effect)]
    if not SideEffectClass(side_effect).is_write:
        return said
    return f"{said} {REPETITIONS[IdempotencyClass(idempotency)]}"


def facts(matched: JsonObject) -> list[tuple[str, str]]:
    """Return what policy looked at beside the rules, as (name, value)."""
    return [(said, _plain(matched[name])) for name, said in _FACTS.items() if name in matched]


def matched_rules(matched: JsonObject, deciding: str) -> list[MatchedRule]:
    """Return every rule that matched, the standing order kept: "would also have matched" is all but the first."""
    found = []
    for each in matched.get("rules", []):
        name, _, version = str(each.get("rule", "")).partition("@")
        conditions = tuple(map(_condition, each.get("values", {}).get("arguments", [])))
        found.append(MatchedRule(
            name, int(version) if version.isdecimal() else 0, _plain(each.get("verdict", "")), each.get("priority", 0),
            each.get("is_certain", True), each.get("rule") == deciding, conditions,
        ))  # fmt: skip
    return found


def summary(arguments: Any) -> str:
    """Return the beginnings of a call's first values on one line, for lists."""
    if not isinstance(arguments, dict):
        return ""
    plain = [(name, value) for name, value in sorted(arguments.items()) if not isinstance(value, dict | list)]
    said = ", ".join(f"{name}: {' '.join(_short(value).split())}" for name, value in plain[:3])
    shown = inert.visible(said)
    return f"{shown[:99]}…" if len(shown) > 100 else shown


def _condition(seen: JsonObject) -> tuple[str, str, str]:
    value = inert.visible(str(seen["value"])) if "value" in seen else "it is not there"
    operator = str(seen.get("operator", ""))
    return inert.visible(str(seen.get("pointer", ""))), _OPERATORS.get(operator, operator), value


def _short(value: Any) -> str:
    return value[:200] if isinstance(value, str) else json.dumps(value)[:200]


def _plain(value: Any) -> str:
    return str(value).replace("_", " ")
