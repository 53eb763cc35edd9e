"""Everything of one tenant that a verdict depends on, compiled: switches, permissions, profiles and rules. Pure.

Read once per authorization epoch (`approvals.policy_selectors`), then asked per call. Source: DESIGN §5.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final
from uuid import UUID

from approvals.grantmatch import CompiledGrant
from approvals.matchers import CompiledRule, Subject
from approvals.rules import Profile, RuleMatch
from toolsys.domain.calls import Decision, Facts, ProposedAction
from toolsys.kept import Kept

NAMES_KEPT: Final = 512


class SwitchKind(StrEnum):
    """What a kill switch of a tenant may turn off. `tenant` only records: what counts is the tenant's own column."""

    SERVER = "server"
    TOOL = "tool"
    KEY = "key"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether the tenant (agent None), or one agent of it, may use the tools that a glob names."""

    agent: UUID | None
    tools: str
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class Terms:
    """A profile's own times to decide and to use what was decided, in seconds; None leaves the deployment's."""

    expires_seconds: float | None = None
    consume_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ruleset:
    rules: tuple[CompiledRule, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    terms: Mapping[str, Terms] = field(default_factory=dict)
    switched_off: frozenset[tuple[str, str]] = frozenset()
    permissions: tuple[Permission, ...] = ()
    grants: tuple[CompiledGrant, ...] = ()
    _covering: Kept[tuple[CompiledRule, ...]] = field(default_factory=lambda: Kept(NAMES_KEPT), compare=False)

    def matches(self, subject: Subject) -> list[RuleMatch]:
        """Return every rule that matches or may match. Which rules cover a tool's name is found once."""
        covering = self._covering.get(subject.tool_name)
        if covering is None:
            found = tuple(rule for rule in self.rules if rule.covers(subject.tool_name))
            covering = self._covering.put(subject.tool_name, found)
        return [match for rule in covering if (match := rule.judged(subject)) is not None]

    def grants_for(self, action: ProposedAction, facts: Facts, decision: Decision) -> list[CompiledGrant]:
        """Return the grants that say enough for what a decision asks of people, what ends soonest first."""
        return [grant for grant in self.grants if grant.fits(action, facts, decision.needed_seats)]

    def profile(self, name: str) -> Profile:
        """A profile that nobody has written allows no loosening."""
        return self.profiles.get(name) or Profile(name)

    def switch_off(self, targets: Iterable[tuple[SwitchKind, str | None]]) -> str | None:
        """Return the kind of the first switch that is off for one of the targets."""
        return next((kind for kind, target in targets if (kind, target) in self.switched_off), None)

    def permits(self, tool_name: str, agent: UUID) -> bool:
        """Where permissions are listed, for the tenant or for the agent, a tool must be enabled and not disabled."""
        return self._lists(tool_name, None) and self._lists(tool_name, agent)

    def _lists(self, tool_name: str, agent: UUID | None) -> bool:
        listed = [each for each in self.permissions if each.agent == agent]
        named = [each.is_enabled for each in listed if fnmatchcase(tool_name, each.tools)]
        return not listed or (bool(named) and all(named))
