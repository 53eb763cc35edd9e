"""Rules as the policy pages show them: what each says in words, its versions, and what changed between two. Reads only.

Transaction: each needs the tenant's, which the console opens.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from approvals import policy_selectors, rule_forms
from approvals.models import PolicyRuleVersion
from toolsys import arguments, inert
from toolsys.arguments import Difference
from toolsys.domain.spec import JsonObject

VERSIONS_LIMIT = 50
_NAMES = {
    "tools": "tool", "servers": "server", "side_effects": "side effect", "risks": "risk",
    "origin_trust": "least trusted in the room", "argument_trust": "least trusted argument", "agents": "agent",
    "principals": "principal",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a rule. `changes` lead from the version before to this one."""

    row: PolicyRuleVersion
    words: list[str]
    changes: list[Difference]

    @property
    def verdict(self) -> str:
        return self.row.verdict.replace("_", " ")


def rules() -> list[Version]:
    """Return the newest version of each rule, those in force first, then by priority and name."""
    found = policy_selectors.newest_versions()
    ordered = sorted(found, key=lambda row: (not row.is_active, -row.priority, row.rule.name))
    return [Version(row, words(row.match), []) for row in ordered]


def versions(rule_id: UUID) -> list[Version]:
    """Return the versions of one rule, the newest first, at most 50; none for a rule that is not the tenant's."""
    found = PolicyRuleVersion.objects.filter(rule_id=rule_id).select_related("rule", "author", "owner")
    rows = list(found.order_by("-version")[: VERSIONS_LIMIT + 1])
    before = [*(arguments.differences(_said(old), _said(new)) for new, old in pairwise(rows)), []]
    return [Version(row, words(row.match), changes) for row, changes in zip(rows, before, strict=False)][
        :VERSIONS_LIMIT
    ]


def words(match: JsonObject) -> list[str]:
    """Say which calls a rule is about, one line a matcher; all must hold."""
    said = [f"{name} is {_any_of(kind, match[kind])}" for kind, name in _NAMES.items() if match.get(kind)]
    if match.get("hours"):
        said.append(f"hours: {rule_forms.HoursField().prepare_value(match['hours'])}")
    conditions = rule_forms.ConditionsField().prepare_value(match.get("arguments", [])) or ""
    said += [f"argument {line}" for line in conditions.splitlines()]
    return [inert.visible(line) for line in said] or ["every call"]


def _any_of(kind: str, values: list[str]) -> str:
    """Names of other people are shown as they are; ours lose their underscores."""
    is_ours = kind in {"side_effects", "risks", "origin_trust", "argument_trust"}
    return " or ".join(value.replace("_", " ") if is_ours else value for value in values)


def as_draft() -> list[JsonObject]:
    """Return the rules in force as the JSON list that a replay takes."""
    return [
        {"name": row.rule.name, "verdict": row.verdict, "priority": row.priority, "match": row.match,
         **({"seats": row.seats} if row.seats else {})}
        for row in policy_selectors.newest_versions() if row.is_active
    ]  # fmt: skip


def _said(row: PolicyRuleVersion) -> dict[str, Any]:
    return {
        "in force": row.is_active,
        "verdict": row.verdict,
        "priority": row.priority,
        "seats": row.seats,
        **row.match,
    }
