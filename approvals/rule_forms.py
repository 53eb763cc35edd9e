"""A rule as people write it: fields with one name a line, conditions and hours as short lines, and back again.

Parses and formats; `policy_services.save_rule` judges what was meant and writes. Used by `approvals.policy_admin` only.
"""

import json
import re
from typing import Any, Final

from django import forms

from approvals.matchers import EVERY_DAY, NAME
from toolsys.domain.spec import JsonObject, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel
from toolsys.forms import LinesField
from toolsys.problems import Problem

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LISTS: Final = (
    "tools", "servers", "side_effects", "risks", "origin_trust", "argument_trust", "agents", "principals",
)  # fmt: skip
_HOURS: Final = re.compile(r"(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)")
_HOURS_HELP: Final = "Such as mon tue wed thu fri 09:00-17:00 Europe/Berlin; outside in front turns it around"
_CONDITIONS_HELP: Final = (
    'One a line, all must hold: /pointer operator value, such as /amount gt 100 or /to in ["ana", "bob"]. Operators: '
    "eq ne in lt lte gt gte prefix contains exists matches (a whole RE2 expression)"
)


def _choices(kind: Any) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in kind]


def _ticks(kind: Any, label: str) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        choices=_choices(kind), required=False, widget=forms.CheckboxSelectMultiple, label=label
    )


class ConditionsField(forms.CharField):
    """Lines to conditions as `matchers` reads them."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(f"{each['pointer']} {each['operator']} {json.dumps(each['value'], ensure_ascii=False)}"
                         for each in value)  # fmt: skip

    def to_python(self, value: Any) -> Any:
        return [_condition(line) for line in (super().to_python(value) or "").splitlines() if line.strip()]


class HoursField(forms.CharField):
    """One line to hours as `matchers` reads them; None where it is empty."""

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        days = [DAYS[day - 1] for day in value.get("days", EVERY_DAY)]
        days = [] if len(days) == len(EVERY_DAY) else days
        times = f"{str(value.get('start', '00:00'))[:5]}-{str(value.get('end', '00:00'))[:5]}"
        outside = ["outside"] if value.get("is_outside") else []
        return " ".join([*outside, *days, times, value.get("timezone", "UTC")])

    def to_python(self, value: Any) -> Any:
        words = (super().to_python(value) or "").split()
        if not words:
            return None
        found: JsonObject = {"is_outside": True} if words[0].lower() == "outside" else {}
        days = [DAYS.index(word.lower()) + 1 for word in words if word.lower() in DAYS]
        times = [match for word in words if (match := _HOURS.fullmatch(word))]
        rest = [word for word in words if word.lower() not in {*DAYS, "outside"} and not _HOURS.fullmatch(word)]
        if len(times) > 1 or len(rest) > 1:
            raise forms.ValidationError("Days, one span such as 09:00-17:00, and one time zone.")
        if times:
            found |= {"start": times[0]["start"], "end": times[0]["end"]}
        return found | ({"days": days} if days else {}) | ({"timezone": rest[0]} if rest else {})


class SeatsField(forms.CharField):
    """Words to seats, one for each person."""

    def prepare_value(self, value: Any) -> Any:
        return " ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace(",", " ").split()


class RuleForm(forms.Form):
    """One version of a rule. `seen` is the newest version that the person looked at."""

    name = forms.RegexField(NAME, max_length=63, help_text="Lower-case letters, digits, _ and -; it never changes")
    verdict = forms.ChoiceField(choices=_choices(PolicyVerdict), initial="require_expert_approval")
    priority = forms.IntegerField(min_value=-1000, max_value=1000, initial=0, help_text="A block wins whatever it is")
    seats = SeatsField(
        required=False, max_length=200, help_text="Who must approve where that is more than the verdict's own seat: "
        "expert expert client is two experts and a client",
    )  # fmt: skip
    tools = LinesField(required=False, help_text="Globs, one a line; empty: every tool")
    servers = LinesField(required=False, help_text="Ids of MCP servers, one a line")
    side_effects = _ticks(SideEffectClass, "Side effects")
    risks = _ticks(RiskLevel, "Risks")
    origin_trust = _ticks(TrustLevel, "Least trusted in the room")
    argument_trust = _ticks(TrustLevel, "Least trusted argument")
    agents = LinesField(required=False, help_text="Names, one a line")
    principals = LinesField(required=False, help_text="External ids, one a line")
    hours = HoursField(required=False, max_length=200, help_text=_HOURS_HELP)
    arguments = ConditionsField(required=False, max_length=20_000, help_text=_CONDITIONS_HELP, label="Argument values")
    note = forms.CharField(required=False, max_length=2_000, help_text="Why; readers of the history see it")
    is_active = forms.BooleanField(required=False, initial=True, label="In force", help_text="Untick to withdraw it")
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def match(self) -> JsonObject:
        given = {name: self.cleaned_data[name] for name in (*LISTS, "hours", "arguments")}
        return {name: value for name, value in given.items() if value}

    def add_problem(self, problem: Problem) -> None:
        """Put what the service found at the fields that it found it in."""
        for error in problem.errors:
            parts = [part for part in error.pointer.split("/") if part and part != "match"]
            field = parts[0] if parts and parts[0] in self.fields else None
            where = f" (line {int(parts[1]) + 1})" if len(parts) > 1 and parts[1].isdecimal() else ""
            self.add_error(field, f"{error.message}{where}")
        if not problem.errors:
            self.add_error(None, problem.reason_code)


def initial(row: Any) -> JsonObject:
    """Return a version's values as the form's fields take them."""
    return {
        "name": row.rule.name, "verdict": row.verdict, "priority": row.priority, "is_active": row.is_active,
        "seats": row.seats, "seen": row.version, **row.match,
    }  # fmt: skip


def _condition(line: str) -> JsonObject:
    parts = line.strip().split(None, 2)
    if len(parts) < 3:
        raise forms.ValidationError(f"“{line.strip()[:60]}” is not: /pointer operator value")
    pointer, operator, text = parts
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return {"pointer": pointer, "operator": operator, "value": value}
