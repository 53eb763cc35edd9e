"""Importing a file into a tenant: what arrives, what is refused, what is there already, and where secrets are not."""

import asyncio
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from config import wiring
from mcpcatalog.imports import Importer, Planned
from mcpcatalog.models import McpServer
from mcpcatalog.remote import StdioCommand
from mcpcatalog.rules import Rules
from tests.factories import Tenancy
from tests.integration.console.people import person
from tests.spec.requirements import gate
from toolsys import allowances
from toolsys.credentials import Credentials
from toolsys.domain.states import Role
from toolsys.models import Credential, ToolEvent
from toolsys.tenancy import tenant_transaction

SECRET = "sk-live-4f9a2b7c8d3e"
FILE = {
    "mcpServers": {
        "crm": {"url": "https://mcp.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        "open": {"url": "https://mcp.example/open", "autoApprove": ["*"]},
        "later": {"url": "https://mcp.example/later", "headers": {"X-Key": "${input:key}"}},
        "keyed": {"url": f"https://mcp.example/mcp?api_key={SECRET}"},
        "pathed": {"url": f"https://mcp.example/s/{SECRET}/mcp"},
        "named": {"url": f"https://me:{SECRET}@mcp.example/mcp"},
        "spaced": {"url": "https://mcp.example/spaced", "headers": {"X-Key": "\u00e9"}},
        "inside": {"url": "https://10.0.0.1/mcp"},
        "elsewhere": {"url": "https://other.example/mcp"},
        "local": {"command": "npx", "args": ["-y", "thing"], "env": {"TOKEN": SECRET}},
    }
}


def importer(tenancy: Tenancy, **changes: Any) -> Importer:
    given: dict[str, Any] = {"user": None, "rules": wiring.mcp_rules(), "sealer": tenancy.runtime.sealer}
    return Importer(tenancy.id, **{**given, **changes})


def states(found: list[Planned]) -> dict[str, str]:
    return {planned.entry.server_id: planned.state for planned in found}


def rows(tenancy: Tenancy) -> dict[str, McpServer]:
    with tenant_transaction(tenancy.id):
        return {row.server_id: row for row in McpServer.objects.all()}


DATA = json.dumps(FILE).encode()
WRITTEN = ("crm", "open", "later", "keyed")


@gate("mcp.import")
def test_a_plan_writes_nothing_and_says_what_an_import_then_does(acme: Tenancy) -> None:
    allowances.allow(acme.id, "mcp.example", user=None)
    planned = importer(acme).plan(DATA)
    assert rows(acme) == {}
    assert states(planned) == dict.fromkeys(WRITTEN, "new") | dict.fromkeys(
        ("pathed", "named", "spaced", "inside", "elsewhere", "local"), "refused"
    )
    written = importer(acme).write(DATA)
    assert states(written) == {name: state.replace("new", "written") for name, state in states(planned).items()}
    assert [planned.says for planned in planned if planned.state == "refused"] == [
        planned.says for planned in written if planned.state == "refused"
    ]
    found = rows(acme)
    assert sorted(found) == sorted(WRITTEN)
    for row in found.values():
        assert (row.enabled, row.side_effect, row.risk, row.idempotency) == (
            False, "external_write", "high", "non_idempotent"
        )  # fmt: skip


@gate("mcp.import")
def test_a_second_import_writes_nothing_and_says_what_is_there(acme: Tenancy) -> None:
    allowances.allow(acme.id, "mcp.example", user=None)
    importer(acme).write(DATA)
    changed = json.loads(DATA)
    changed["mcpServers"]["open"]["url"] = "https://mcp.example/moved"
    again = {planned.entry.server_id: planned for planned in importer(acme).write(json.dumps(changed).encode())}
    assert {name: again[name].state for name in WRITTEN} == dict.fromkeys(WRITTEN, "exists") | {"open": "differs"}
    assert again["open"].differing == ("endpoint",)
    assert rows(acme)["open"].endpoint == "https://mcp.example/open"
    with tenant_transaction(acme.id):
        assert set(Credential.objects.values_list("name", "current_version")) == {("mcp-crm", 1), ("mcp-keyed", 1)}


@gate("mcp.import")
def test_hosts_are_reachable_only_where_whoever_imports_says_so(acme: Tenancy) -> None:
    assert states(importer(acme).plan(DATA))["elsewhere"] == "refused"
    found = states(importer(acme, allows_hosts=True).write(DATA))
    assert (found["elsewhere"], found["inside"]) == ("written", "refused")
    assert allowances.origins(acme.id) == {"https://mcp.example:443", "https://other.example:443"}


@gate("mcp.import")
def test_a_secret_of_the_file_is_sealed_and_in_no_row_event_or_line(acme: Tenancy) -> None:
    written = importer(acme, allows_hosts=True).write(DATA)
    assert SECRET not in f"{written} {[(planned.says, planned.where) for planned in written]}"
    with tenant_transaction(acme.id):
        kept = [repr(vars(row)) for row in (*McpServer.objects.all(), *ToolEvent.objects.all())]
        assert rows(acme)["crm"].credential_ref == "store:mcp-crm"
        keyed = rows(acme)["keyed"]
    assert (keyed.endpoint, keyed.auth_scheme) == ("https://mcp.example/mcp", "bearer")
    assert [planned.keeps_secret for planned in written if planned.entry.secret] == [True, True, False, False]
    assert SECRET not in "".join(kept)
    assert len(kept) > 5


@gate("mcp.import")
def test_a_program_is_taken_by_operators_where_the_deployment_defines_its_command_line(acme: Tenancy) -> None:
    commands = {"thing": StdioCommand(("npx", "-y", "thing"))}
    rules = Rules(frozenset(commands), 1_048_576, wiring.egress_policy)
    assert states(importer(acme, rules=rules, commands=commands).plan(DATA))["local"] == "refused"
    found = importer(acme, rules=rules, commands=commands, is_operator=True).write(DATA)
    assert states(found)["local"] == "written"
    assert (rows(acme)["local"].transport, rows(acme)["local"].endpoint) == ("stdio", "thing")


@gate("mcp.import")
def test_the_secret_variable_of_an_operator_s_program_is_sealed_and_given_to_it(acme: Tenancy) -> None:
    commands = {"thing": StdioCommand(("npx", "-y", "thing"))}
    rules = Rules(frozenset(commands), 1_048_576, wiring.egress_policy)
    entry = {"type": "local", "command": ["npx", "-y", "thing"], "environment": {"CRM_TOKEN": SECRET}}
    path = {**entry, "environment": {"LD_PRELOAD_TOKEN": SECRET}}
    data = json.dumps({"mcp": {"local": entry, "path": path}}).encode()
    (refused, other) = importer(acme, rules=rules, commands=commands).write(data)
    assert (refused.state, refused.keeps_secret, other.state) == ("refused", False, "refused")
    (written, other) = importer(acme, rules=rules, commands=commands, is_operator=True).write(data)
    assert (written.state, written.keeps_secret, other.state) == ("written", True, "refused")
    row = rows(acme)["local"]
    assert (row.enabled, row.auth_scheme, row.auth_name, row.credential_ref) == (
        False, "env", "CRM_TOKEN", "store:mcp-local"
    )  # fmt: skip
    sealed = Credentials(acme.runtime.sealer).of(acme.id)
    assert asyncio.run(sealed.resolve("store:mcp-local")).reveal() == SECRET


@gate("mcp.import")
def test_a_plan_of_many_entries_asks_the_database_no_more_than_one_of_few(
    acme: Tenancy, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    servers = {f"s{number}": {"url": f"https://mcp.example/{number}"} for number in range(100)}
    with django_assert_max_num_queries(10):
        found = importer(acme, allows_hosts=True).plan(json.dumps({"mcpServers": servers}).encode())
    assert len(states(found)) == 100
    assert set(states(found).values()) == {"new"}


@gate("mcp.import")
def test_the_command_previews_writes_and_says_what_it_refused(acme: Tenancy, tmp_path: Path) -> None:
    user = person((acme, Role.TENANT_ADMIN)).user
    file = tmp_path / "mcp.json"
    file.write_bytes(DATA)

    def run(**options: Any) -> str:
        out = StringIO()
        with pytest.raises(CommandError, match=r"\d of 10 entries refused"):
            call_command("mcp_import", file, tenant=acme.id, by=user.username, stdout=out, **options)
        return out.getvalue()

    assert "new      crm" in run(preview=True, allow_hosts=True)
    assert rows(acme) == {}
    assert "refused  crm" in run()
    said = run(allow_hosts=True)
    assert (f"mcp_check NAME --tenant {acme.id}" in said, said.count("kept sealed")) == (True, 2)
    assert ("written  crm" in said, "TOOLSYS_STDIO_SERVERS" in said, SECRET in said) == (True, True, False)
    assert "autoApprove is not taken over" in said
    wrong: list[Callable[[], Any]] = [
        lambda: call_command("mcp_import", tmp_path / "none", tenant=acme.id, by=user.username),
        lambda: call_command("mcp_import", file, tenant="nobody", by=user.username),
        lambda: call_command("mcp_import", file, tenant=acme.id, by="nobody"),
    ]
    for attempt in wrong:
        with pytest.raises(CommandError):
            attempt()
