"""Forms of the policy pages beside rules: switches, permissions, a draft to replay, and a call to foresee.

They parse and check shapes; services write. Used by the admin modules of this app only.
"""

import json
from typing import Any

from django import forms

from approvals import replays
from approvals.ruleset import SwitchKind
from toolsys.domain.trust import TrustLevel
from toolsys.problems import plainly

REPLAY_LIMIT = 5_000


class JsonField(forms.CharField):
    """A JSON text, bounded; what it holds is the caller's to judge."""

    widget = forms.Textarea(attrs={"rows": 8, "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        if not text.strip():
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise forms.ValidationError("This is not JSON.") from None


class SwitchForm(forms.Form):
    kind = forms.ChoiceField(choices=[(kind.value, kind.value) for kind in SwitchKind])
    target = forms.CharField(
        max_length=200, help_text="A server's id, a tool's name or a glob (mcp.mail.*), or an API key's id"
    )
    is_off = forms.TypedChoiceField(
        label="Turn", choices=[("off", "off: nothing of it passes any more"), ("on", "on again")],
        coerce=lambda value: value == "off",
    )  # fmt: skip
    note = forms.CharField(max_length=2_000, help_text="Why; everybody who looks at the switch reads it")


class PermissionForm(forms.Form):
    tools = forms.CharField(max_length=200, help_text="A glob over tool names, such as mcp.time.*")
    agent = forms.ChoiceField(required=False, help_text="Empty: the whole organisation")
    is_enabled = forms.TypedChoiceField(
        label="The tools are", choices=[("yes", "enabled"), ("no", "disabled")], coerce=lambda value: value == "yes"
    )  # fmt: skip

    def __init__(self, *args: Any, agents: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agent"].choices = [("", "(every agent)"), *((name, name) for name in agents)]  # type: ignore[attr-defined]


class ReplayForm(forms.Form):
    """`rules` is cleaned to rules; `last` is how many calls, the newest first."""

    rules = JsonField(
        max_length=500_000, help_text="A JSON list of rules; it stands in place of today's rules",
        widget=forms.Textarea(attrs={"rows": 18, "class": "mono", "spellcheck": "false"}),
    )  # fmt: skip
    last = forms.IntegerField(min_value=1, max_value=REPLAY_LIMIT, initial=1_000, label="Newest calls")

    def clean_rules(self) -> Any:
        try:
            return replays.drafted(self.cleaned_data["rules"])
        except ValueError as error:
            raise forms.ValidationError(_said(error)) from None


class ForeseeForm(forms.Form):
    """One call that is not made. `run` and `key` are ids of rows that the page offers."""

    run = forms.ChoiceField(help_text="An open run; its agent, principal, profile and manifest count")
    key = forms.ChoiceField(help_text="The API key that would propose it")
    tool = forms.CharField(max_length=128)
    arguments = JsonField(required=False, max_length=64_000, help_text="A JSON object; empty: no arguments")
    context = forms.MultipleChoiceField(
        choices=[(level.value, level.value.replace("_", " ")) for level in TrustLevel], required=False,
        widget=forms.CheckboxSelectMultiple, label="Labels of the context",
        help_text="Believed only where the key has trust.assert; none: the least trusted",
    )  # fmt: skip

    def __init__(self, *args: Any, runs: list[tuple[str, str]], keys: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["run"].choices = runs  # type: ignore[attr-defined]
        self.fields["key"].choices = keys  # type: ignore[attr-defined]

    def clean_arguments(self) -> Any:
        found = self.cleaned_data["arguments"]
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise forms.ValidationError("Arguments are a JSON object.")
        return found


def _said(error: ValueError) -> list[str]:
    """Say what is wrong with a draft without repeating it."""
    details = getattr(error, "errors", None)
    if details is None:
        return [str(error)]
    return [f"/{'/'.join(map(str, each['loc']))}: {plainly(each['msg'])}" for each in details(include_input=False)[:10]]
