"""Forms of the console's configuration pages: text in, lists of strings out, uniqueness within the person's tenant.

They parse and check; writing is the services' business. Used by `toolsys.admin` only.
"""

from typing import TYPE_CHECKING, Any

from django import forms

from toolsys import allowances, inert
from toolsys.domain.names import normalize_glob
from toolsys.domain.reasons import reason
from toolsys.models import Agent, ApiKey, EgressAllowance, Principal, Resolution, WorkerProof
from toolsys.problems import Problem
from toolsys.tenancy import current_tenant

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm


class LinesField(forms.CharField):
    """A list of strings, one a line; stored as a JSON array."""

    widget = forms.Textarea(attrs={"rows": 5})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = (line.strip() for line in (super().to_python(value) or "").splitlines())
        return list(dict.fromkeys(line for line in lines if line))


class TenantForm(_ModelForm):
    """Names the tenant before validation, so that constraints over it are checked as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.tenant_id is None:
            self.instance.tenant_id = current_tenant.get()

    def _get_validation_exclusions(self) -> set[str]:
        return set(super()._get_validation_exclusions()) - {"tenant"}  # type: ignore[misc]


class AgentForm(TenantForm):
    name = forms.CharField(max_length=96)
    enabled_tools = LinesField(help_text="One glob a line over tool names, such as system.* or mcp.time.*")
    profile = forms.CharField(max_length=96, initial="default")

    class Meta:
        model = Agent
        fields = ("name", "enabled_tools", "profile", "is_enabled")

    def clean_enabled_tools(self) -> list[str]:
        """A glob that no tool's name can match would enable nothing, and say nothing."""
        found, faults = [], []
        for written in self.cleaned_data["enabled_tools"]:
            try:
                found.append(normalize_glob(written))
            except ValueError as error:
                faults.append(f"{inert.visible(written)}: {error}.")
        if faults:
            raise forms.ValidationError(faults)
        return found


class PrincipalForm(TenantForm):
    external_id = forms.CharField(max_length=200, help_text="As the tenant's runtime names this person or service")
    display_name = forms.CharField(max_length=200, required=False)
    scopes = LinesField(required=False, help_text="One scope a line; a call needs it from key and principal alike")

    class Meta:
        model = Principal
        fields = ("external_id", "display_name", "scopes")


class ApiKeyForm(TenantForm):
    name = forms.CharField(max_length=96)
    scopes = LinesField(required=False, help_text="One scope a line; a call needs it from key and principal alike")

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "expires_at")


class AllowanceForm(TenantForm):
    origin = forms.CharField(
        label="Host", max_length=300, help_text="A host, host:port or URL, such as mcp.example.com; without wildcard."
    )
    note = forms.CharField(max_length=500, required=False, help_text="What is there")

    class Meta:
        model = EgressAllowance
        fields = ("origin", "note")

    def clean_origin(self) -> str:
        try:
            return str(allowances.parsed(self.cleaned_data["origin"]))
        except Problem as problem:
            raise forms.ValidationError(f"This is not {problem.errors[0].message}.") from None


class FindingForm(forms.Form):
    """What was found out about an uncertain call. Which finding needs which proof, `toolsys.resolutions` knows."""

    resolution = forms.ChoiceField(label="What was found", choices=Resolution.choices, widget=forms.RadioSelect)
    evidence = forms.CharField(
        max_length=4_000, widget=forms.Textarea(attrs={"rows": 5}),
        help_text="What was looked at, and what it showed. Kept for good: no secrets.",
    )  # fmt: skip
    worker_proof = forms.ChoiceField(
        label="The worker of its last claim", choices=[("", "not looked at"), *WorkerProof.choices], required=False,
        widget=forms.RadioSelect, help_text="To be known where it did not happen: a frozen process can thaw and send.",
    )  # fmt: skip

    def finding(self) -> dict[str, Any]:
        """Return the words as `toolsys.resolutions.resolve` takes them."""
        said = self.cleaned_data
        proof = said["worker_proof"]
        return {
            "resolution": Resolution(said["resolution"]), "evidence": said["evidence"],
            "worker_proof": WorkerProof(proof) if proof else None,
        }  # fmt: skip

    def add_problem(self, problem: Problem) -> None:
        """Put each of the service's complaints beside its field."""
        for error in problem.errors:
            name = error.pointer.removeprefix("/")
            self.add_error(name if name in self.fields else None, inert.visible(error.message))
        if not problem.errors:
            self.add_error(None, reason(problem.reason_code).message)
