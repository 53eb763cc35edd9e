"""Everything of one tenant that a verdict depends on, compiled: switches, permissions, profiles and rules. Pure.

Read once per authorization epoch (`approvals.policy_selectors`), then asked per call. Source: DESIGN §5.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final
from uuid import UUID

from approvals.conditions import UNASKED
from approvals.grantmatch import CompiledGrant
from approvals.matchers import CompiledRule, Subject
from approvals.rules import LISTED, Demand, Profile, RuleMatch
from approvals.screens import Screens
from toolsys.domain.calls import Decision, Facts, ProposedAction
from toolsys.kept import Kept

NAMES_KEPT: Final = 512
_NOTHING: Final = Demand(-1, (0, 0))


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
class Covering:
    """The rules about one tool under one set of labels, in their standing order, and what is asked of them together."""

    rules: tuple[CompiledRule, ...]
    screens: Screens


class Tally:
    """The rules that match a call, counted up in their standing order.

    The first that matches for certain decides, but for one that only may match and asks for more than it. What cannot
    change that any more is asked only to be listed: while there is room, and no expressions.
    """

    __slots__ = ("_reached", "_subject", "found", "is_settled", "omitted")

    def __init__(self, subject: Subject) -> None:
        self._subject, self._reached = subject, _NOTHING
        self.found: list[RuleMatch] = []
        self.is_settled = False
        self.omitted = 0

    def is_moot(self, rule: CompiledRule) -> bool:
        """Count a rule out that nobody needs to ask."""
        is_listed = len(self.found) < LISTED and not rule.has_expression
        if is_listed or (rule.demand > self._reached and rule.may_doubt(self._subject.reading)):
            return False
        self.omitted += 1
        return True

    def take(self, rule: CompiledRule, *, is_certain: bool) -> None:
        if self.is_settled and is_certain and len(self.found) >= LISTED:
            self.omitted += 1
            return
        self.found.append(rule.match(self._subject, is_certain=is_certain))
        if not (self.is_settled and is_certain):
            self._reached = max(self._reached, rule.demand)
            self.is_settled = self.is_settled or is_certain


def _covering(rules: Sequence[CompiledRule]) -> Covering:
    """What few rules ask is asked first, since it is what tells them apart; expressions cost most, and are last."""
    asked = [each for rule in rules for each in rule.asked]
    times = Counter(each.key for each in asked)
    ordered = [
        rule.asking(sorted(rule.asked, key=lambda each: (each.pattern is not None, times[each.key])))
        for rule in sorted(rules, key=lambda rule: rule.standing)
    ]
    screens = Screens((each.pointer, each.key, each.pattern) for each in asked if each.pattern is not None)
    return Covering(tuple(ordered), screens)


@dataclass(frozen=True, slots=True)
class Ruleset:
    rules: tuple[CompiledRule, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    terms: Mapping[str, Terms] = field(default_factory=dict)
    switched_off: frozenset[tuple[str, str]] = frozenset()
    permissions: tuple[Permission, ...] = ()
    grants: tuple[CompiledGrant, ...] = ()
    _covering: Kept[Covering] = field(default_factory=lambda: Kept(NAMES_KEPT), compare=False)

    def matches(self, subject: Subject) -> tuple[list[RuleMatch], int]:
        """Return the rules that match or may match, and how many more are not told of."""
        covering, tally = self._covered(subject), Tally(subject)
        reading = subject.reading
        reading.screens, known = covering.screens, reading.answers.get
        for rule in covering.rules:
            if tally.is_settled and tally.is_moot(rule):
                continue
            # Most rules end at their first condition: to look here saves a call for each of hundreds.
            first, answer = rule.first, None
            if first is not None:
                answer = known(first.key, UNASKED)
                if answer is UNASKED:
                    answer = reading.asked(first)
                if answer is False:
                    continue
            if not rule.is_single:
                answer = rule.judged(subject)
            if answer is not False:
                tally.take(rule, is_certain=answer is True)
        return tally.found, tally.omitted

    def _covered(self, subject: Subject) -> Covering:
        """Which rules cover a tool under its labels is found once."""
        key = (subject.tool_name, subject.labels)
        covering = self._covering.get(key)
        if covering is None:
            covering = self._covering.put(key, _covering([rule for rule in self.rules if rule.covers(*key)]))
        return covering

    def grants_for(self, action: ProposedAction, facts: Facts, decision: Decision) -> list[CompiledGrant]:
        """Return the grants that say enough for what a decision asks of people, what ends soonest first."""
        return [grant for grant in self.grants if grant.fits(action, facts, decision.needed_seats)]

    def profile(self, name: str) -> Profile:
        """A profile that nobody has written allows no loosening."""
        return self.profiles.get(name) or Profile(name)

    def switch_off(self, targets: Iterable[tuple[SwitchKind, str | None]]) -> str | None:
        """Return the kind of the first switch that is off for one of the targets; a tool's may be a glob."""
        if not self.switched_off:
            return None
        return next((kind for kind, target in targets if target is not None and self._is_off(kind, target)), None)

    def _is_off(self, kind: SwitchKind, target: str) -> bool:
        if (kind, target) in self.switched_off or kind is not SwitchKind.TOOL:
            return (kind, target) in self.switched_off
        return any(of == kind and fnmatchcase(target, glob) for of, glob in self.switched_off)

    def permits(self, tool_name: str, agent: UUID) -> bool:
        """Where permissions are listed, for the tenant or for the agent, a tool must be enabled and not disabled."""
        return self._lists(tool_name, None) and self._lists(tool_name, agent)

    def _lists(self, tool_name: str, agent: UUID | None) -> bool:
        listed = [each for each in self.permissions if each.agent == agent]
        named = [each.is_enabled for each in listed if fnmatchcase(tool_name, each.tools)]
        return not listed or (bool(named) and all(named))
