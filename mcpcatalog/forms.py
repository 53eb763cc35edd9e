"""Forms of the server pages: they read what a person wrote into columns; the rules and the services judge it.

Problems of the rules are put beside the field that they name. A secret is asked for and never shown again. Used by
`mcpcatalog.admin` and its pages only.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, Transport
from mcpcatalog.validators import Problem
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass

SCHEMES: Final = {
    AuthScheme.NONE: "none: nobody logs in",
    AuthScheme.BEARER: "bearer: Authorization: Bearer …",
    AuthScheme.HEADER: "header: a header of its own",
    AuthScheme.OAUTH2_CLIENT: "oauth2_client: client credentials, exchanged for a token",
}  # fmt: skip


MODES: Final = {
    CatalogMode.DISCOVERED: "discovered: what it lists",
    CatalogMode.FIXED: "fixed: those declared below, and nothing else",
}  # fmt: skip
MAXIMUM_CONTRACT_CHARACTERS: Final = 500_000


def _spoken(kind: Any) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in kind]


def lines(text: str) -> list[str]:
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


class SecretInput(forms.PasswordInput):
    """Never renders a value, and asks browsers to keep none."""

    def __init__(self) -> None:
        super().__init__(render_value=False, attrs={"autocomplete": "new-password", "spellcheck": "false"})


class UnshownText(forms.Textarea):
    """A text that may hold secrets: it is taken, and never sent back."""

    def format_value(self, value: Any) -> str | None:
        return None


class RulesForm(forms.Form):
    """A form whose fields are columns, and that shows what the rules found."""

    def columns(self) -> dict[str, Any]:
        return dict(self.cleaned_data)

    def refuse(self, found: Iterable[Problem]) -> None:
        """Put each problem beside its field; one of another column is about the whole."""
        for problem in map(self.spoken, found):
            field = problem.field if problem.field in self.fields else None
            self.add_error(field, ValidationError(problem.message, code=problem.code))

    def spoken(self, problem: Problem) -> Problem:
        return problem


class ContractsForm(RulesForm):
    """Which tools of a server exist: whatever it lists, or exactly those that are declared here."""

    mode = forms.ChoiceField(label="Its tools", choices=list(MODES.items()), initial=CatalogMode.DISCOVERED.value)
    fixed_tools = forms.CharField(
        label="Declared tools", required=False, strip=True, max_length=MAXIMUM_CONTRACT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "mono"}),
        help_text='A JSON list of {"name", "description", "input_schema"}; each input_schema is an object with '
        '"additionalProperties": false and a type for every argument.',
    )  # fmt: skip

    def clean_fixed_tools(self) -> Any:
        """Raises: ValidationError, saying where the text stops being JSON."""
        text = self.cleaned_data["fixed_tools"]
        try:
            return json.loads(text) if text else []
        except json.JSONDecodeError as error:
            raise ValidationError(f"Not JSON at line {error.lineno}, column {error.colno}.", code="json") from None
        except (ValueError, RecursionError):
            raise ValidationError("This is nested too deeply, or holds a number that is none.", code="json") from None


def contracts_text(declared: Sequence[Any]) -> str:
    return json.dumps(declared, indent=2, ensure_ascii=False) if declared else ""


class ServerForm(ContractsForm):
    """A remote server, as a tenant admin describes it."""

    field_order = ("server_id", "endpoint", "auth_scheme", "auth_name", "secret", "token_endpoint", "token_scopes",
                   "timeout_seconds", "maximum_output_bytes", "mode", "fixed_tools")  # fmt: skip

    server_id = forms.CharField(
        label="Name", max_length=48, help_text="Lower-case letters, digits and _; its tools are called mcp.NAME.tool."
    )
    endpoint = forms.CharField(
        label="URL", max_length=2_048, widget=forms.URLInput, help_text="Of its MCP endpoint, mostly …/mcp. https only."
    )
    auth_scheme = forms.ChoiceField(label="How we log in", choices=list(SCHEMES.items()))
    auth_name = forms.CharField(
        label="Header", max_length=64, required=False, help_text="For the scheme header: its name, such as X-Api-Key."
    )
    token_endpoint = forms.CharField(
        label="Token endpoint", max_length=2_048, required=False, widget=forms.URLInput, help_text="For oauth2_client."
    )
    token_scopes = forms.CharField(
        label="Token scopes", required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For oauth2_client: one a line.",
    )  # fmt: skip
    timeout_seconds = forms.IntegerField(label="Seconds for one call", initial=30, min_value=1, max_value=3_600)
    maximum_output_bytes = forms.IntegerField(label="Bytes of one result", initial=65_536, min_value=1)

    def columns(self) -> dict[str, Any]:
        found = self.cleaned_data
        return {
            "transport": Transport.HTTP.value, "server_id": found["server_id"], "endpoint": found["endpoint"].strip(),
            "auth_scheme": found["auth_scheme"], "auth_name": found["auth_name"] or None,
            "token_endpoint": found["token_endpoint"].strip() or None,
            "token_scopes": lines(found["token_scopes"]) or None, "timeout_seconds": found["timeout_seconds"],
            "maximum_output_bytes": found["maximum_output_bytes"], "mode": found["mode"],
            "fixed_tools": found["fixed_tools"],
        }  # fmt: skip


class NewServerForm(ServerForm):
    """With the first credential: the rules speak of its reference, people of its value."""

    secret = forms.CharField(
        label="Credential", max_length=8_192, required=False, widget=SecretInput, strip=True,
        help_text="The token; for oauth2_client a JSON object with client_id and client_secret. Kept sealed.",
    )  # fmt: skip

    def spoken(self, problem: Problem) -> Problem:
        if (problem.field, problem.code) == ("credential_ref", "required"):
            return replace(problem, field="secret")
        return problem


class ProgramForm(ContractsForm):
    """A stdio server: a program that the deployment defines, chosen by an operator."""

    field_order = ("server_id", "endpoint", "auth_scheme", "auth_name", "credential_ref")
    server_id = ServerForm.base_fields["server_id"]
    endpoint = forms.ChoiceField(label="Program", help_text="An entry of the deployment's TOOLSYS_STDIO_SERVERS.")
    auth_scheme = forms.ChoiceField(
        label="Credential", choices=[("none", "none"), ("env", "env: one variable of its environment")]
    )
    auth_name = forms.CharField(label="Variable", max_length=64, required=False)
    credential_ref = forms.CharField(
        label="Reference",
        max_length=160,
        required=False,
        help_text="env:TOOLSYS_CREDENTIAL_…, file:NAME or store:NAME.",
    )

    def __init__(self, *args: Any, programs: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["endpoint"].choices = [(name, name) for name in sorted(programs)]  # type: ignore[attr-defined]

    def columns(self) -> dict[str, Any]:
        found = self.cleaned_data
        optional = {name: found[name] or None for name in ("auth_name", "credential_ref")}
        return {**found, **optional, "transport": Transport.STDIO.value}


class CredentialForm(RulesForm):
    secret = forms.CharField(
        label="New value", max_length=8_192, widget=SecretInput, help_text="Kept sealed; nobody is ever shown it again."
    )

    def value(self) -> str:
        return str(self.cleaned_data["secret"])


class ClientForm(RulesForm):
    """The secret of an OAuth client has two parts."""

    client_id = forms.CharField(label="Client id", max_length=1_024)
    secret = forms.CharField(
        label="Client secret", max_length=8_192, widget=SecretInput, help_text="Kept sealed; never shown again."
    )

    def value(self) -> str:
        found = self.cleaned_data
        return json.dumps({"client_id": found["client_id"], "client_secret": found["secret"]})


class ClassificationForm(RulesForm):
    """What a server does, as an operator says it."""

    side_effect = forms.ChoiceField(label="Side effect", choices=_spoken(SideEffectClass))
    risk = forms.ChoiceField(label="Risk", choices=_spoken(RiskLevel))
    idempotency = forms.ChoiceField(label="Repeated calls", choices=_spoken(IdempotencyClass))
    key_place = forms.ChoiceField(
        label="Idempotency key", choices=_spoken(KeyPlace), help_text="Where this server takes our key; never guessed."
    )
    key_name = forms.CharField(label="Name of the key", max_length=128, required=False)
    is_stateless = forms.BooleanField(
        label="Stateless", required=False, help_text="It keeps nothing between calls: sessions share one connection."
    )
    required_scopes = forms.CharField(
        label="Required scopes", required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text="One a line; each begins with mcp.NAME.",
    )  # fmt: skip

    def columns(self) -> dict[str, Any]:
        return {**self.cleaned_data, "required_scopes": lines(self.cleaned_data["required_scopes"])}


class ToolForm(RulesForm):
    """What one tool does, where it is not what its server does."""

    side_effect = forms.ChoiceField(label="Side effect", required=False)
    risk = forms.ChoiceField(label="Risk", required=False)
    idempotency = forms.ChoiceField(label="Repeated calls", required=False)
    note = forms.CharField(label="Why", max_length=500, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = {"side_effect": SideEffectClass, "risk": RiskLevel, "idempotency": IdempotencyClass}
        for name, kind in kinds.items():
            self.fields[name].choices = [("", "as its server"), *_spoken(kind)]  # type: ignore[attr-defined]


class ImportForm(forms.Form):
    file = forms.FileField(label="File", required=False, help_text="mcp.json or server.json, at most 256 KiB.")
    text = forms.CharField(
        label="Or its text", required=False, strip=False,
        widget=UnshownText(attrs={"rows": 8, "spellcheck": "false", "class": "mono", "autocomplete": "off"}),
    )  # fmt: skip
    allows_hosts = forms.BooleanField(
        label="Let our servers reach the hosts in it", required=False,
        help_text="Otherwise an entry at a host that is not reachable is refused.",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if bool(found.get("file")) is bool(found.get("text")):
            raise ValidationError("Give a file or its text, and one of them.", code="one")
        return found

    def data_given(self) -> bytes:
        file = self.cleaned_data.get("file")
        return bytes(file.read()) if file else str(self.cleaned_data["text"]).encode()
