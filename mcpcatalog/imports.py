"""Writes servers from somebody else's file: first a plan that says what becomes of each entry, then the same, done.

Everything arrives disabled and unclassified, secrets go into the sealed store, and what exists stays as it is. Called
by the console and `manage.py mcp_import`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from uuid import UUID

from mcpcatalog import administration, drafts, manifests
from mcpcatalog.entries import Entry
from mcpcatalog.models import McpServer
from mcpcatalog.remote import StdioCommand
from mcpcatalog.rules import Rules
from mcpcatalog.selectors import config_of
from mcpcatalog.validators import InvalidConfiguration, Problem
from toolsys import allowances
from toolsys.egress import EgressRefused, Origin
from toolsys.ports import Sealer
from toolsys.problems import Problem as RequestProblem
from toolsys.tenancy import tenant_transaction

type State = Literal["new", "exists", "differs", "refused", "written"]

# What a file says; the rest of a server is set here and not compared.
COMPARED: Final = ("transport", "endpoint", "auth_scheme", "auth_name")


@dataclass(frozen=True, slots=True)
class Planned:
    """What becomes of one entry. `host` is what would have to be reachable for it and is not; `row` is the server that
    is there, or was written.
    """

    entry: Entry
    state: State
    problems: tuple[Problem, ...] = ()
    differing: tuple[str, ...] = ()
    host: str = ""
    row: UUID | None = None

    @property
    def where(self) -> str:
        """The origin that the entry is at; a path or a query may hold what nobody should see."""
        try:
            return str(Origin.of(str(self.entry.columns.get("endpoint", "")))).removesuffix(":443")
        except EgressRefused:
            return ""

    @property
    def keeps_secret(self) -> bool:
        return bool(self.entry.secret) and self.state in {"new", "written"}

    @property
    def says(self) -> str:
        """One line for people, without any value of the entry but its URL's host."""
        if self.state == "refused":
            return self.entry.message or " ".join(problem.message for problem in self.problems)
        return _SAID[self.state].format(fields=" and ".join(_COLUMNS[name] for name in self.differing))


_COLUMNS: Final = {
    "transport": "transport", "endpoint": "URL", "auth_scheme": "way of logging in", "auth_name": "header",
}  # fmt: skip
_SAID: Final = {
    "new": "Will be added, disabled and unclassified.",
    "written": "Added, disabled and unclassified.",
    "exists": "Is there already and stays as it is.",
    "differs": "Is there already, with another {fields}, and stays as it is.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Importer:
    """Who imports, for which tenant, under which rules. `commands` are the deployment's programs, for operators."""

    tenant_id: str
    user: Any
    rules: Rules
    sealer: Sealer
    is_operator: bool = False
    allows_hosts: bool = False
    commands: Mapping[str, StdioCommand] = field(default_factory=dict)

    def plan(self, data: bytes) -> list[Planned]:
        """Say what would become of each entry, and write nothing. Raises: manifests.Unreadable."""
        entries = manifests.read(data)
        using = administration.alias(is_operator=self.is_operator)
        with tenant_transaction(self.tenant_id, using):
            rows = McpServer.objects.using(using).filter(
                tenant_id=self.tenant_id, server_id__in=[entry.server_id for entry in entries]
            )  # fmt: skip
            known = {row.server_id: row for row in rows}
            allowed = allowances.origins(self.tenant_id, using)
        return [self._planned(entry, known.get(entry.server_id), allowed) for entry in entries]

    def write(self, data: bytes) -> list[Planned]:
        """Do what the plan says; an entry that fails meanwhile is refused alone. Raises: manifests.Unreadable."""
        return [self._written(planned) if planned.state == "new" else planned for planned in self.plan(data)]

    def _planned(self, entry: Entry, known: McpServer | None, allowed: frozenset[str]) -> Planned:
        entry = self._for_operators(entry)
        if entry.refusal:
            return Planned(entry, "refused")
        if known is not None:
            now = drafts.columns_of(config_of(known, {}, 0))
            differing = tuple(name for name in COMPARED if name in entry.columns and now[name] != entry.columns[name])
            return Planned(entry, "differs" if differing else "exists", differing=differing, row=known.pk)
        host = _missing(entry, allowed)
        found = self._judged(entry, allowed | {host} if self.allows_hosts and host else allowed)
        return Planned(entry, "refused" if found else "new", found, host=host)

    def _judged(self, entry: Entry, allowed: frozenset[str]) -> tuple[Problem, ...]:
        """Judge an entry and its secret as if these hosts were allowed."""
        config, found = drafts.parsed(self.tenant_id, entry.columns)
        if config is None:
            return found
        found = self.rules.judged_at(config, allowed, is_operator=self.is_operator)
        secret = administration.secret_problems(config.auth_scheme, entry.secret) if entry.secret else ()
        return (*found, *secret)

    def _for_operators(self, entry: Entry) -> Entry:
        """A program that the deployment defines with this very command line is an operator's to take."""
        if entry.refusal != "entry.stdio" or not self.is_operator:
            return entry
        name = next((name for name, command in self.commands.items() if command.argv == entry.argv), None)
        if name is None:
            return entry
        return replace(entry, columns={**entry.columns, "endpoint": name}, refusal="", message="")

    def _written(self, planned: Planned) -> Planned:
        entry, using = planned.entry, administration.alias(is_operator=self.is_operator)
        try:
            if planned.host and self.allows_hosts:
                allowances.allow(self.tenant_id, planned.host, user=self.user, note="imported", using=using)
            row = administration.add_server(
                self.tenant_id, entry.columns, user=self.user, rules=self.rules, sealer=self.sealer,
                secret=entry.secret, is_operator=self.is_operator,
            )  # fmt: skip
        except InvalidConfiguration as refused:
            return replace(planned, state="refused", problems=refused.problems)
        except RequestProblem as refused:
            found = tuple(Problem(error.pointer[1:], "invalid", error.message) for error in refused.errors)
            return replace(planned, state="refused", problems=found)
        return replace(planned, state="written", row=row.pk)


def _missing(entry: Entry, allowed: frozenset[str]) -> str:
    """Return the origin that the tenant's servers may not reach yet, or nothing."""
    try:
        origin = str(Origin.of(entry.columns["endpoint"])) if entry.columns.get("transport") == "http" else ""
    except EgressRefused:
        return ""
    return "" if origin in allowed else origin
