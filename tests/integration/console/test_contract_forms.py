"""A fixed server's tools on its form: declared, refused with what to write instead, or taken from what it lists."""

import html
import json
import re
from typing import Any

import pytest

from config import wiring
from mcpcatalog.models import McpServer
from mcpcatalog.rules import Rules
from tests.factories import Tenancy
from tests.integration.console.people import Person, person
from tests.integration.console.test_servers import GIVEN, SERVERS, added, at, listed, the
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
FIND = {"name": "find", "description": "Finds one.", "input_schema": SCHEMA}


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


def edited(admin: Person, row: McpServer, tools: Any, mode: str = "fixed") -> Any:
    text = tools if isinstance(tools, str) else json.dumps(tools)
    return admin.post(at(row, "edit"), **{**GIVEN, "mode": mode, "fixed_tools": text})


def declared(page: str) -> str:
    found = re.search(r'<textarea name="fixed_tools"[^>]*>\s*(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found.group(1))


@gate("mcp.pages")
def test_tools_are_declared_on_the_form_and_taken_back(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin, mode="discovered")
    assert edited(admin, row, [FIND]).status_code == 302
    assert (the(acme).mode, the(acme).fixed_tools) == ("fixed", [FIND])
    assert json.loads(declared(admin.text(at(row, "edit")))) == [FIND], "an edit starts from it"
    assert "fixed: those declared here" in admin.text(at(row))
    assert edited(admin, row, "", mode="discovered").status_code == 302
    assert (the(acme).mode, the(acme).fixed_tools) == ("discovered", [])


@gate("mcp.pages")
@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("", "A fixed server declares 1 to 64 tools."),
        ("[{]", "Not JSON at line 1, column 3."),
        ("[" * 100_000, "nested too deeply"),
        ({}, "A fixed server declares 1 to 64 tools."),
        ({"find": FIND}, "This is a list of tools"),
        (["find"], "Tool 1: write an object with name, description and input_schema."),
        ([{"name": "find", "inputSchema": SCHEMA}], "Tool 1: there is no inputSchema here"),
        ([FIND, {"description": "d"}], "Tool 2: name is missing."),
        ([FIND] * 65, "At most 64 tools."),
        ([FIND, FIND], "would have one name"),
        ([{**FIND, "input_schema": {"type": "object"}}], "&quot;additionalProperties&quot;: false"),
        ([{**FIND, "input_schema": {**SCHEMA, "properties": {"x": {}}}}], "/properties/x has no type: give it one"),
        ([{**FIND, "input_schema": {**SCHEMA, "maximum": float("nan")}}], "find:"),
        ([{**FIND, "name": "\ud800"}], "name: Input should be a valid string"),
    ],
    ids=["none", "no-json", "deep", "empty-object", "object", "text", "of-the-protocol", "no-name", "many", "twice",
         "open", "untyped", "not-a-number", "surrogate"],
)  # fmt: skip
def test_what_is_no_contract_is_refused_with_what_to_write(acme: Tenancy, admin: Person, tools: Any, said: str) -> None:
    row = added(acme, admin, mode="discovered")
    answer = edited(admin, row, tools)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert (the(acme).mode, the(acme).fixed_tools) == ("discovered", [])


@gate("mcp.pages")
def test_declared_tools_need_a_fixed_server(acme: Tenancy, admin: Person) -> None:
    answer = edited(admin, added(acme, admin, mode="discovered"), [FIND], mode="discovered")
    assert "choose so, or empty this" in answer.content.decode()


@gate("mcp.pages")
def test_a_form_can_start_from_what_the_server_lists_and_saves_nothing_by_itself(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin, mode="discovered")
    listed(acme, "find", "drop")
    assert "start from what it lists now" in admin.text(at(row, "edit"))
    page = admin.text(f"{at(row, 'edit')}?declare=1")
    assert the(acme).mode == "discovered"
    assert edited(admin, row, declared(page)).status_code == 302
    assert [each["name"] for each in the(acme).fixed_tools] == ["drop", "find"]


@gate("mcp.pages")
def test_operators_edit_programs_and_nobody_else_s_servers(
    acme: Tenancy, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(frozenset({"time", "clock"}), 1_048_576, wiring.egress_policy)
    monkeypatch.setattr("mcpcatalog.admin.rules", lambda: rules)
    operator = person((acme, Role.OPERATOR))
    given = {"server_id": "clock", "endpoint": "time", "auth_scheme": "none", "auth_name": "", "credential_ref": "",
             "mode": "discovered", "fixed_tools": ""}  # fmt: skip
    assert operator.post(f"{SERVERS}add-program/", **given).status_code == 302
    row = the(acme, "clock")
    changed = {**given, "endpoint": "clock", "mode": "fixed", "fixed_tools": json.dumps([FIND])}
    assert admin.post(at(row, "edit"), **changed).status_code == 403
    assert operator.post(at(row, "edit"), **changed).status_code == 302
    row = the(acme, "clock")
    assert (row.endpoint, row.mode, row.transport, row.fixed_tools) == ("clock", "fixed", "stdio", [FIND])
    assert operator.get(at(added(acme, admin, mode="discovered"), "edit")).status_code == 403
    with tenant_transaction(acme.id):
        assert McpServer.objects.count() == 2
