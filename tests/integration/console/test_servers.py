"""The pages of MCP servers, as each role: what it may see and do, from adding a server to enabling it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from config import wiring
from mcpcatalog import mapping, selectors, services
from mcpcatalog.models import McpServer, ServerCheck, ToolOverride
from mcpcatalog.remote import Catalog, RemoteTool, ServerConfig, Transport
from mcpcatalog.rules import Rules
from tests.factories import Tenancy
from tests.integration.console.people import CHOOSE, Person, page_of, person
from tests.spec.requirements import gate
from toolsys import allowances
from toolsys.domain.states import Role
from toolsys.models import Credential, CredentialVersion, EgressAllowance, ToolEvent
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SERVERS, HOSTS = "/admin/mcpcatalog/mcpserver/", "/admin/toolsys/egressallowance/"
SECRET = "sk-live-4f9a2b7c8d"
CLAIMS = {"annotations": {"readOnlyHint": True, "title": "harmless\u202e"}}
GIVEN = {
    "server_id": "crm", "endpoint": "https://mcp.example/mcp", "auth_scheme": "bearer", "auth_name": "",
    "token_endpoint": "", "token_scopes": "", "timeout_seconds": "30", "maximum_output_bytes": "65536",
    "secret": SECRET, "mode": "discovered", "fixed_tools": "",
}  # fmt: skip
READERS = [Role.TENANT_ADMIN, Role.TENANT_AUDITOR, Role.DEVELOPER, Role.OPERATOR]
STRANGERS = [Role.EXPERT_APPROVER, Role.CLIENT_APPROVER]


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


@pytest.fixture
def operator(acme: Tenancy) -> Person:
    return person((acme, Role.OPERATOR))


def added(tenancy: Tenancy, admin: Person, **changes: Any) -> McpServer:
    allowances.allow(tenancy.id, "mcp.example", user=None)
    answer = admin.post(f"{SERVERS}add/", **{**GIVEN, **changes})
    assert answer.status_code == 302, answer.content.decode()
    return the(tenancy)


def the(tenancy: Tenancy, name: str = "crm") -> McpServer:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get(server_id=name)


def listed(tenancy: Tenancy, *named: str | RemoteTool, server: str = "crm") -> None:
    state = selectors.server(tenancy.id, server, {})
    assert state is not None
    tools = [
        each if isinstance(each, RemoteTool) else RemoteTool(each, f"does {each}", {"type": "object"}, CLAIMS)
        for each in named
    ]
    catalog = Catalog(tuple(tools), (), "2026-07-28", "crm", "1")
    generation = mapping.map_catalog(state.config, catalog, output_ceiling_bytes=1_048_576)
    services.record_discovery(state.config, catalog, generation, at=wiring.SystemClock().now())


def at(row: McpServer, action: str = "") -> str:
    return f"{SERVERS}{row.pk}/{action}/" if action else page_of(SERVERS, row.pk)


def events(tenancy: Tenancy) -> list[str]:
    with tenant_transaction(tenancy.id):
        found = ToolEvent.objects.exclude(type__startswith="tool.").order_by("id")
        return list(found.values_list("type", flat=True))


def tool_page(person: Person, row: McpServer, name: str) -> str:
    found = re.search(rf'href="({SERVERS}{row.pk}/tools/[0-9a-f-]+/)">mcp\.crm\.{name}<', person.text(at(row)))
    assert found is not None
    return found.group(1)


@gate("mcp.pages")
def test_an_admin_adds_a_server_that_is_disabled_unclassified_and_keeps_its_secret(
    acme: Tenancy, admin: Person
) -> None:
    answer = admin.post(f"{SERVERS}add/", **GIVEN)
    assert "not among those that the organisation" in answer.content.decode()
    assert SECRET not in answer.content.decode()
    assert admin.post(f"{HOSTS}add/", origin="MCP.example", note="the CRM").status_code == 302
    row = added(acme, admin)
    assert (row.enabled, row.side_effect, row.credential_ref) == (False, "external_write", "store:mcp-crm")
    with tenant_transaction(acme.id):
        assert Credential.objects.get().current_version == 1
        assert SECRET not in str([vars(each) for each in (*McpServer.objects.all(), *ToolEvent.objects.all())])
    page = admin.text(at(row))
    assert (SECRET in page, "counts now" in page, "nobody has classified it" in page) == (False, True, True)
    assert events(acme) == ["egress.allowed", "mcp.server.added"]


@gate("mcp.pages")
def test_a_credential_is_rotated_with_two_versions_live_and_taken_back(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    for value in ("two", "three"):
        answer = admin.post(at(row, "credential"), secret=f"{SECRET}-{value}")
        assert answer.status_code == 302
    assert admin.post(at(row, "credential"), secret=" spaced\u00e9 ").status_code == 200
    with tenant_transaction(acme.id):
        live = CredentialVersion.objects.filter(retired_at=None).defer("sealed")
        assert sorted(live.values_list("version", flat=True)) == [2, 3]
    question = admin.post(at(row, "credential"), take_back="3").content.decode()
    assert ("cannot be had back" in question, "Version 2 counts from then on" in question) == (True, True)
    with tenant_transaction(acme.id):
        assert Credential.objects.get().current_version == 3, "a question erases nothing"
    assert admin.post(at(row, "credential"), take_back="3", sure="1").status_code == 302
    with tenant_transaction(acme.id):
        assert Credential.objects.get().current_version == 2
    for wrong in ("3", "x", "99"):
        for sure in ({}, {"sure": "1"}):
            assert admin.post(at(row, "credential"), take_back=wrong, **sure).status_code == 404
    assert events(acme)[-3:] == ["credential.set", "credential.set", "credential.retired"]


@gate("mcp.pages")
def test_a_server_that_moves_is_unclassified_again(acme: Tenancy, admin: Person, operator: Person) -> None:
    row = added(acme, admin)
    said = {"side_effect": "network_read", "risk": "low", "idempotency": "read_only", "key_place": "none"}
    assert operator.post(at(row, "classify"), **said).status_code == 302
    assert (the(acme).side_effect, the(acme).risk) == ("network_read", "low")
    edited = {**GIVEN, "endpoint": "https://mcp.example/other"}
    assert admin.post(at(row, "edit"), **{**edited, "server_id": "renamed"}).status_code == 302
    moved = the(acme)
    assert (moved.endpoint, moved.side_effect, moved.risk, moved.idempotency) == (
        "https://mcp.example/other", "external_write", "high", "non_idempotent"
    )  # fmt: skip
    assert events(acme)[-2:] == ["mcp.server.classified", "mcp.server.changed"]


@gate("mcp.pages")
def test_enabling_asks_the_rules_again(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    assert admin.post(at(row, "enabled"), enabled="1").status_code == 302
    assert the(acme).enabled
    assert admin.post(at(row, "enabled"), enabled="0").status_code == 302
    with tenant_transaction(acme.id):
        (host,) = EgressAllowance.objects.all()
    admin.post(HOSTS, action="withdraw", _selected_action=str(host.pk))
    assert admin.post(at(row, "enabled"), enabled="1").status_code == 302
    assert not the(acme).enabled
    assert "not among those that the organisation" in admin.text(at(row))
    assert "it is not dialled" in admin.text(at(row))


@gate("mcp.pages")
def test_a_check_is_begun_by_a_post_and_its_page_looks_again_until_it_is_done(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    assert admin.get(at(row, "check")).status_code == 403
    answer: Any = admin.post(at(row, "check"))
    page, after = looked_at(admin, answer.url)
    assert ("Waiting for a worker" in page, "keep it still" in page, after) == (True, True, "2")
    page, after = looked_at(admin, f"{answer.url}?still")
    assert ("Look again" in page, after) == (True, None), "who reads slowly is not interrupted"
    at_it = [("dns", "passed", ""), ("address", "running", "at it")]
    reached = [{"name": name, "status": status, "milliseconds": None, "fact": fact} for name, status, fact in at_it]
    for began, says in (
        ("2999-01-01T00:00:00Z", "at it: Address permitted"),
        ("2026-01-01T00:00:00Z", "as far as DNS"),
    ):
        with tenant_transaction(acme.id):
            ServerCheck.objects.update(started_at=began, rungs=reached)
        page, after = looked_at(admin, answer.url)
        assert (says in page, after) == (True, "2" if began > "2027" else None)
        assert ("not finished" in page, "Check again" in page) == (began < "2027", began < "2027")
    rungs = [{"name": "dns", "status": "failed", "milliseconds": 12, "fact": "", "reason": "r", "fix": "Spell it."}]
    with tenant_transaction(acme.id):
        ServerCheck.objects.update(started_at=row.created_at, finished_at=row.created_at, rungs=rungs)
    page, after = looked_at(admin, answer.url)
    assert ("Spell it." in page, "12" in page, after) == (True, True, None)


def looked_at(who: Person, path: str) -> tuple[str, str | None]:
    """Return a page and after how many seconds it looks again by itself."""
    answer = who.get(path)
    return answer.content.decode(), answer.headers.get("Refresh")


@gate("mcp.pages")
def test_tools_changes_and_claims_are_shown_and_an_operator_classifies_one_tool(
    acme: Tenancy, admin: Person, operator: Person
) -> None:
    row = added(acme, admin)
    listed(acme, "find", "drop")
    listed(acme, "find", "extra")
    page = admin.text(at(row))
    assert ("new tool" in page, "tool is gone" in page) == (True, True)
    assert ("readOnlyHint: True" in page, "harmless[U+202E]" in page, "\u202e" in page) == (True, True, False)
    find = tool_page(operator, row, "find")
    assert operator.post(find, side_effect="external_read", risk="low", idempotency="read_only").status_code == 302
    assert "external read, low risk, read only" in operator.text(find)
    assert admin.post(find, side_effect="", risk="high", idempotency="").status_code == 302
    assert "external read, high risk, read only" in admin.text(find)
    assert operator.post(find, side_effect="external_write", risk="", idempotency="read_only").status_code == 200
    with tenant_transaction(acme.id):
        assert ToolOverride.objects.count() == 2
    assert admin.post(find, side_effect="none", risk="", idempotency="read_only").status_code == 302
    assert "external read, low risk, read only" in admin.text(find), "a tenant's word never loosens"
    assert events(acme).count("mcp.tool.classified") == 3


@gate("mcp.pages")
@pytest.mark.parametrize("role", READERS)
def test_readers_see_and_only_the_right_ones_act(acme: Tenancy, admin: Person, role: Role) -> None:
    row = added(acme, admin)
    listed(acme, "find")
    someone = person((acme, role))
    page = someone.text(at(row))
    assert "mcp.crm.find" in page
    assert "crm" in someone.text(SERVERS)
    posts: dict[str, Callable[[], Any]] = {
        "edit": lambda: someone.post(at(row, "edit"), **GIVEN),
        "credential": lambda: someone.post(at(row, "credential"), secret="another"),
        "enabled": lambda: someone.post(at(row, "enabled"), enabled="1"),
        "check": lambda: someone.post(at(row, "check")),
        "import": lambda: someone.post(f"{SERVERS}import/", text="{}"),
        "classify": lambda: someone.post(at(row, "classify"), side_effect="none", risk="low", idempotency="read_only",
                                         key_place="none"),
        "add-program": lambda: someone.post(f"{SERVERS}add-program/", server_id="x", endpoint="time"),
        "tool": lambda: someone.post(tool_page(someone, row, "find"), risk="high"),
        "host": lambda: someone.post(f"{HOSTS}add/", origin="other.example", note=""),
    }  # fmt: skip
    may = {name for name, post in posts.items() if post().status_code != 403}
    expected = {
        Role.TENANT_ADMIN: {"edit", "credential", "enabled", "check", "import", "tool", "host"},
        Role.OPERATOR: {"classify", "add-program", "tool"},
    }
    assert may == expected.get(role, set())


@gate("mcp.pages")
@pytest.mark.parametrize("role", STRANGERS)
def test_others_of_the_tenant_see_no_servers(acme: Tenancy, admin: Person, role: Role) -> None:
    row = added(acme, admin)
    someone = person((acme, role))
    assert someone.get(SERVERS).status_code == 403
    assert someone.get(at(row)).status_code == 404
    assert someone.get(at(row, "edit")).status_code == 404
    assert someone.get(f"{SERVERS}add/").status_code == 403


@gate("mcp.pages")
def test_another_tenant_s_server_does_not_exist(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    both = person((globex, Role.TENANT_ADMIN), (globex, Role.OPERATOR))
    for action in ("", "edit", "classify"):
        assert both.get(at(row, action)).status_code == 404
    for action in ("credential", "enabled", "check", "classify"):
        assert both.post(at(row, action), secret="x", enabled="1").status_code == 404
    assert "crm" not in both.text(SERVERS).replace("mcpcatalog", "")


@gate("mcp.pages")
def test_programs_and_deployment_secrets_are_operators(
    acme: Tenancy, admin: Person, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(frozenset({"time"}), 1_048_576, wiring.egress_policy)
    monkeypatch.setattr("mcpcatalog.admin.rules", lambda: rules)
    given = {"server_id": "clock", "endpoint": "time", "auth_scheme": "none", "auth_name": "", "credential_ref": "",
             "mode": "discovered", "fixed_tools": ""}  # fmt: skip
    assert admin.get(f"{SERVERS}add-program/").status_code == 403
    assert "PATH" not in operator.text(f"{SERVERS}add-program/")
    named = {**given, "auth_scheme": "env", "auth_name": "LD_PRELOAD", "credential_ref": "env:TOOLSYS_CREDENTIAL_X"}
    assert "set by the platform" in operator.post(f"{SERVERS}add-program/", **named).content.decode()
    assert operator.post(f"{SERVERS}add-program/", **{**given, "endpoint": "sh"}).status_code == 200
    assert operator.post(f"{SERVERS}add-program/", **given).status_code == 302
    row = the(acme, "clock")
    assert (row.transport, row.enabled) == ("stdio", False)
    assert "operators configure" in admin.text(at(row))
    for action in ("edit", "credential", "enabled", "check"):
        assert admin.post(at(row, action), secret="x", enabled="1").status_code == 403
    assert operator.post(at(row, "enabled"), enabled="1").status_code == 302
    assert the(acme, "clock").enabled


@gate("mcp.pages")
def test_the_secret_of_a_program_is_set_and_taken_back_by_operators(
    acme: Tenancy, admin: Person, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(frozenset({"time"}), 1_048_576, wiring.egress_policy)
    monkeypatch.setattr("mcpcatalog.admin.rules", lambda: rules)
    given = {"server_id": "clock", "endpoint": "time", "auth_scheme": "env", "auth_name": "CLOCK_TOKEN",
             "credential_ref": "store:clock", "mode": "discovered", "fixed_tools": ""}  # fmt: skip
    assert operator.post(f"{SERVERS}add-program/", **given).status_code == 302
    row = the(acme, "clock")
    assert "None is set" in operator.text(at(row))
    for number in (1, 2):
        assert operator.post(at(row, "credential"), secret=f"{SECRET}-{number}").status_code == 302
    page = operator.text(at(row))
    assert ("Erase version 2" in page, "Test version 1" in page, SECRET in page) == (True, True, False)
    assert "Erase version" not in admin.text(at(row))
    for post in ({"secret": "mine"}, {"take_back": "2"}):
        assert admin.post(at(row, "credential"), **post).status_code == 403
    assert operator.post(at(row, "credential"), take_back="2", sure="1").status_code == 302
    with tenant_transaction(acme.id):
        assert Credential.objects.get(name="clock").current_version == 1
    assert events(acme)[-3:] == ["credential.set", "credential.set", "credential.retired"]


@gate("mcp.pages")
def test_a_form_of_the_tenant_before_is_refused_as_stale(acme: Tenancy, globex: Tenancy) -> None:
    from django.test import Client

    both = person((acme, Role.TENANT_ADMIN), (globex, Role.TENANT_ADMIN), signed_in=False)
    both.browser = Client(enforce_csrf_checks=True)
    both.browser.force_login(both.user)
    both.get(CHOOSE)

    def choose(tenancy: Tenancy) -> None:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', both.text(CHOOSE))
        assert token is not None
        both.post(CHOOSE, tenant=tenancy.id, csrfmiddlewaretoken=token.group(1))

    choose(acme)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', both.text(f"{SERVERS}add/"))
    assert token is not None
    choose(globex)
    allowances.allow(globex.id, "mcp.example", user=None)
    answer = both.post(f"{SERVERS}add/", **GIVEN, csrfmiddlewaretoken=token.group(1))
    assert answer.status_code == 403
    assert "Nothing was changed" in answer.content.decode()
    with tenant_transaction(globex.id):
        assert not McpServer.objects.exists()


@gate("mcp.pages")
def test_an_import_is_shown_first_and_confirmed_byte_for_byte(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    text = f'{{"mcpServers": {{"crm": {{"url": "https://mcp.example/mcp", "headers": {{"X-Key": "{SECRET}"}}}}}}}}'
    plan = admin.post(f"{SERVERS}import/", text=text, allows_hosts="on").content.decode()
    assert ("1 of 1 would be added" in plan, SECRET in plan) == (True, False)
    sealed = re.search(r'name="sealed" value="([\w=-]+)"', plan)
    assert sealed is not None
    with tenant_transaction(acme.id):
        assert not McpServer.objects.exists()
    for other in (person((globex, Role.TENANT_ADMIN)), person((acme, Role.TENANT_ADMIN))):
        answer = other.post(f"{SERVERS}import/", sealed=sealed.group(1), allows_hosts="1")
        assert "Nothing was imported" in answer.content.decode()
    done = admin.post(f"{SERVERS}import/", sealed=sealed.group(1), allows_hosts="1").content.decode()
    assert "Added, disabled and unclassified" in done
    assert (the(acme).auth_name, the(acme).enabled) == ("X-Key", False)
    again = admin.post(f"{SERVERS}import/", text=text).content.decode()
    assert ("Is there already" in again, "0 of 1" in again) == (True, True)
    for bad in ({"text": "{"}, {"text": ""}, {"sealed": "AAAA"}, {"sealed": "\u00e9"}):
        assert admin.post(f"{SERVERS}import/", **bad).status_code == 200


REFUSED = {
    "no json": f'{{"mcpServers": {{"crm": {{"headers": {{"X-Key": "{SECRET}"}}}}',
    "no servers": f'{{"env": {{"TOKEN": "{SECRET}"}}}}',
    "a name twice": f'{{"mcpServers": {{"crm": {{"url": "x"}}, "crm": {{"env": {{"TOKEN": "{SECRET}"}}}}}}}}',
}


@gate("mcp.pages", "mcp.import")
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in REFUSED.items()])
@pytest.mark.parametrize("has_file", [False, True], ids=["text", "text and a file"])
def test_a_refused_import_sends_nothing_of_the_text_back(
    acme: Tenancy, admin: Person, text: str, *, has_file: bool
) -> None:
    """It may hold keys, and a page may be kept by a proxy, a cache or a browser."""
    file = {"file": SimpleUploadedFile("mcp.json", text.encode())} if has_file else {}
    page = admin.post(f"{SERVERS}import/", text=text, **file).content.decode()
    assert 'role="alert"' in page
    assert SECRET not in page
    assert "paste it again" in page


def test_a_config_of_a_page_is_what_calls_use(acme: Tenancy, admin: Person) -> None:
    added(acme, admin)
    state = selectors.server(acme.id, "crm", {})
    assert state is not None
    assert state.config == ServerConfig(
        acme.id, "crm", Transport.HTTP, "https://mcp.example/mcp", auth_scheme=state.config.auth_scheme,
        credential_ref="store:mcp-crm", credential_version=1,
    )  # fmt: skip
    assert state.config.is_permitted
