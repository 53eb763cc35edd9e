"""What a tenant's rule looks at, as it is written and stored, and the compiled form that judges calls. Pure.

An empty list matches everything; lists of one matcher are alternatives, matchers of one rule must all hold. A stored
rule that this build cannot read blocks everything: whatever it was to forbid stays forbidden. Source: DESIGN §5.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from fnmatch import translate
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from approvals import conditions
from approvals.conditions import UNASKED, Answer, CompiledCondition, Condition, Operator, Reading
from approvals.rules import Demand, RuleMatch, Standing
from toolsys.domain.calls import ProposedAction
from toolsys.domain.seats import SEATS_LIMIT, Seat, seat_of
from toolsys.domain.spec import JsonObject, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel, lowest

NAME: Final = r"^[a-z][a-z0-9_-]{0,62}$"
EVERY_DAY: Final = (1, 2, 3, 4, 5, 6, 7)
_WILD: Final = re.compile(r"[*?\[]")

Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=100)]
Labels = Annotated[tuple[TrustLevel, ...], Field(max_length=len(TrustLevel))]


class Hours(BaseModel):
    """Hours of the week, such as working hours. `end` is excluded; before `start` it is of the next day.

    `days` are 1 (Monday) to 7, those on which a window begins. `is_outside` turns the window around.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    days: Annotated[tuple[Annotated[int, Field(ge=1, le=7)], ...], Field(min_length=1, max_length=7)] = EVERY_DAY
    start: time = time(0)
    end: time = time(0)
    timezone: Annotated[str, Field(max_length=64)] = "UTC"
    is_outside: bool = False

    @field_validator("timezone")
    @classmethod
    def _exists(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone") from None
        return name

    def hold(self, local: datetime) -> bool:
        """Say whether they hold at a moment in their own time zone."""
        at, day = local.time(), local.isoweekday()
        if self.start < self.end:
            inside = day in self.days and self.start <= at < self.end
        else:
            day_before = (day - 2) % 7 + 1
            inside = (day in self.days and at >= self.start) or (day_before in self.days and at < self.end)
        return inside is not self.is_outside


class Matchers(BaseModel):
    """Which calls a rule is about. `argument_trust` is the lowest label that any argument of the call carries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: Names = ()
    servers: Names = ()
    side_effects: Annotated[tuple[SideEffectClass, ...], Field(max_length=6)] = ()
    risks: Annotated[tuple[RiskLevel, ...], Field(max_length=3)] = ()
    origin_trust: Labels = ()
    argument_trust: Labels = ()
    agents: Names = ()
    principals: Names = ()
    hours: Hours | None = None
    arguments: Annotated[tuple[Condition, ...], Field(max_length=20)] = ()


class Rule(BaseModel):
    """One version of one rule. `name` never changes, so that `name@version` says which row decided.

    `seats` ask for more people than the verdict's own seat, one entry each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=NAME)]
    version: Annotated[int, Field(ge=1)] = 1
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    verdict: PolicyVerdict
    seats: Annotated[tuple[Seat, ...], Field(max_length=SEATS_LIMIT)] = ()
    match: Matchers = Matchers()

    @model_validator(mode="after")
    def _sits(self) -> "Rule":
        """Raises: ValueError for seats that its verdict does not ask for."""
        if self.seats and not set(seat_of(self.verdict)) & set(self.seats):
            raise ValueError("seats are for a verdict that asks for approval, and hold that verdict's own seat")
        return self


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at, gathered once per evaluation. `labels` has the order of `CompiledRule.members`.

    What several rules ask alike (a condition, hours) is answered once.
    """

    tool_name: str
    labels: tuple[str | None, ...]
    now: datetime
    reading: Reading
    _hours: dict[str, bool] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, action: ProposedAction, *, agent: str, principal: str, now: datetime) -> "Subject":
        """`agent` is its name, `principal` its external id."""
        found = action.classification
        given = [action.argument_trust.get(name, TrustLevel.EXTERNAL_UNTRUSTED) for name in action.arguments]
        trust = lowest(given, default=TrustLevel.PLATFORM)
        labels = (
            action.server_id, found.side_effect, found.risk, action.origin_trust, trust, agent, principal,
        )  # fmt: skip
        return cls(action.tool_name, labels, now, Reading(action.arguments))

    def is_within(self, hours: Hours, key: str) -> bool:
        """Say whether hours hold at the moment of the call; rules mostly share theirs."""
        found = self._hours.get(key)
        if found is None:
            found = self._hours[key] = hours.hold(self.now.astimezone(ZoneInfo(hours.timezone)))
        return found


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`members` are the label matchers that are not empty: which label, and what it may be.

    `asked` has the conditions in the order in which they are asked (`ruleset`): expressions last.
    `is_single`: the first of them says it all.
    `doubtful` are those that a value may leave without an answer, so that the rule only may match.
    """

    label: str
    verdict: PolicyVerdict
    priority: int
    standing: Standing
    demand: Demand
    names: frozenset[str] = frozenset()
    globs: "re.Pattern[str] | None" = None
    members: tuple[tuple[int, frozenset[str]], ...] = ()
    hours: Hours | None = None
    hours_key: str = ""
    arguments: tuple[CompiledCondition, ...] = ()
    asked: tuple[CompiledCondition, ...] = ()
    reason_code: str = ""
    seats: tuple[Seat, ...] = ()
    doubtful: tuple[CompiledCondition, ...] = ()
    is_about_more_than_text: bool = False
    has_expression: bool = False
    first: CompiledCondition | None = None
    is_single: bool = False

    def covers(self, tool_name: str, labels: tuple[str | None, ...]) -> bool:
        """Say whether it is about a tool under these labels (`Subject.labels`)."""
        is_named = tool_name in self.names or (not self.names and self.globs is None)
        if not is_named and (self.globs is None or self.globs.match(tool_name) is None):
            return False
        return all(labels[index] in allowed for index, allowed in self.members)

    def asking(self, order: Sequence[CompiledCondition]) -> "CompiledRule":
        """Return the rule with its conditions in another order."""
        return replace(
            self, asked=tuple(order), first=order[0] if order else None,
            is_single=len(order) == 1 and self.hours is None,
        )  # fmt: skip

    def may_doubt(self, reading: Reading) -> bool:
        """Say whether it could match a call without certainty. A text is never beyond an expression."""
        if self.is_about_more_than_text:
            return True
        for each in self.doubtful:  # noqa: SIM110 - a generator for each of hundreds of rules takes longer than all else
            if reading.is_beyond_text(each):
                return True
        return False

    def judged(self, subject: Subject) -> Answer:
        """Say whether the rule matches a call that it covers; None, where it may."""
        is_certain, reading = True, subject.reading
        known = reading.answers.get
        for condition in self.asked:
            answer = known(condition.key, UNASKED)
            if answer is UNASKED:
                answer = reading.asked(condition)
            if answer is False:
                return False
            if answer is None:
                is_certain = False
        if self.hours is not None and not subject.is_within(self.hours, self.hours_key):
            return False
        return True if is_certain else None

    def match(self, subject: Subject, *, is_certain: bool) -> RuleMatch:
        values: JsonObject = {}
        if self.arguments:
            values = {"arguments": [subject.reading.seen(condition) for condition in self.arguments]}
        return RuleMatch(
            self.label, self.verdict, self.priority, is_certain, self.reason_code, values, self.seats, self.standing
        )


def compiled(rule: Rule) -> CompiledRule:
    match = rule.match
    wild = [glob for glob in match.tools if _WILD.search(glob)]
    listed = (
        match.servers, match.side_effects, match.risks, match.origin_trust, match.argument_trust, match.agents,
        match.principals,
    )  # fmt: skip
    arguments = tuple(map(conditions.compiled, match.arguments))
    doubtful = tuple(each for each in arguments if each.operator is not Operator.EXISTS)
    plain = RuleMatch(f"{rule.name}@{rule.version}", rule.verdict, rule.priority, seats=rule.seats)
    return CompiledRule(
        label=plain.rule,
        verdict=rule.verdict,
        priority=rule.priority,
        standing=plain.rank,
        demand=plain.demand,
        names=frozenset(match.tools) - frozenset(wild),
        globs=re.compile("|".join(map(translate, wild))) if wild else None,
        members=tuple((index, frozenset(names)) for index, names in enumerate(listed) if names),
        hours=match.hours,
        hours_key=match.hours.model_dump_json() if match.hours is not None else "",
        arguments=arguments,
        asked=arguments,
        seats=rule.seats,
        doubtful=doubtful,
        is_about_more_than_text=any(each.pattern is None for each in doubtful),
        has_expression=any(each.pattern is not None for each in arguments),
    )


def read(name: str, version: int, stored: JsonObject) -> CompiledRule:
    """Compile a stored version; one that cannot be read becomes a rule that blocks everything."""
    try:
        return compiled(Rule.model_validate({**stored, "name": name, "version": version}))
    except (ValidationError, re.error):
        plain = RuleMatch(f"{name}@{version}", PolicyVerdict.BLOCK, 0)
        code = "policy.rule.unreadable"
        return CompiledRule(plain.rule, plain.verdict, plain.priority, plain.rank, plain.demand, reason_code=code)


def parsed(value: Any) -> Rule:
    """Raises: pydantic.ValidationError, for whoever shows it to a person."""
    return Rule.model_validate(value)
