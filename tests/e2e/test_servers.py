"""MCP servers in a real browser: from a host to an enabled server, and its classification; in every window."""

from typing import Any

import pytest

from config import wiring
from mcpcatalog import checks, mapping, selectors, services
from mcpcatalog.checks import Seen
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.remote import Catalog, RejectedTool, RemoteTool
from tests.e2e.chromium import DESKTOP, LOOKS, PHONE, Look
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from toolsys import jobs
from toolsys.domain.states import Role
from toolsys.egress import Mark
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SERVERS, HOSTS = "/admin/mcpcatalog/mcpserver/", "/admin/toolsys/egressallowance/"
SCHEMA = {"type": "object", "properties": {"customer": {"type": "string", "maxLength": 40}}}
# The long way through all windows has its place in `make e2e`; one narrow window goes with every run.
WINDOWS = [pytest.param(look, id=look.name, marks=() if look is PHONE else pytest.mark.long) for look in LOOKS]
ANY: dict[str, Any] = {"type": "object"}
CLAIMS = {"annotations": {"readOnlyHint": True, "destructiveHint": False}}


def sound(visitor: Visitor, name: str) -> None:
    assert visitor.overflow() == [], name
    assert visitor.axe() == [], name
    visitor.shot(f"mcp {name}")


def sent(visitor: Visitor, button: str) -> None:
    with visitor.page.expect_navigation():
        visitor.page.get_by_role("button", name=button, exact=True).click()


def listed(tenancy: Tenancy, *tools: RemoteTool) -> None:
    state = selectors.server(tenancy.id, "crm", {})
    assert state is not None
    catalog = Catalog(tools, (RejectedTool("broken tool", "schema.input", "no object"),), "2026-07-28", "crm", "2.1")
    generation = mapping.map_catalog(state.config, catalog, output_ceiling_bytes=1_048_576)
    services.record_discovery(state.config, catalog, generation, at=wiring.SystemClock().now())


def configured(tenancy: Tenancy, admin: Visitor) -> None:
    admin.open(f"{HOSTS}add/")
    admin.page.fill("#id_origin", "127.0.0.1:9")
    sent(admin, "Save")
    admin.open(f"{SERVERS}add/")
    sound(admin, "add")
    admin.page.fill("#id_server_id", "crm")
    admin.page.fill("#id_endpoint", "https://elsewhere.example/mcp")
    admin.page.select_option("#id_auth_scheme", "bearer")
    admin.page.fill("#id_secret", "sk-live-4f9a2b7c8d")
    sent(admin, "Add it")
    assert "not among those" in admin.text()
    sound(admin, "add refused")
    assert admin.page.input_value("#id_secret") == ""
    admin.page.fill("#id_endpoint", "https://127.0.0.1:9/mcp")
    admin.page.fill("#id_secret", "sk-live-4f9a2b7c8d")
    sent(admin, "Add it")
    assert "Added. It is disabled" in admin.text()


@pytest.mark.parametrize("look", WINDOWS)
def test_a_server_is_added_checked_enabled_and_classified(
    acme: Tenancy, visit: Arrive, worker: Runtime, look: Look
) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    sent(admin, "Check it")
    assert "Waiting for a worker" in admin.text()
    checked(acme, worker)
    # The page looks again by itself, without scripts too: a reload of ours would get into its way.
    admin.page.get_by_text("Nothing accepts connections at this address").first.wait_for()
    sound(admin, "check failed")
    with tenant_transaction(acme.id):
        row = McpServer.objects.get(server_id="crm")
    listed(
        acme, RemoteTool("find_customer", "Finds a customer by name.", SCHEMA, CLAIMS), RemoteTool("drop", "d", SCHEMA)
    )
    listed(acme, RemoteTool("find_customer", "Finds a customer by name, or deletes one.", SCHEMA, CLAIMS))
    admin.open(f"{SERVERS}{row.pk}/change/")
    sent(admin, "Enable")
    assert "Enabled: new sessions" in admin.text()
    sound(admin, "server")
    admin.open(SERVERS)
    sound(admin, "servers")
    admin.open(f"{SERVERS}import/")
    admin.page.fill("#id_text", '{"servers": {"wiki": {"url": "https://wiki.example/mcp"}, "fs": {"command": "npx"}}}')
    admin.page.check("#id_allows_hosts")
    sent(admin, "Show what would be imported")
    sound(admin, "import plan")
    sent(admin, "Import 1")
    assert "Added, disabled and unclassified" in admin.text()
    classified(visit(member((acme, Role.OPERATOR)), look), row)


@pytest.mark.parametrize("look", WINDOWS)
def test_what_changed_is_held_back_looked_at_and_accepted_and_tools_are_fixed(
    acme: Tenancy, visit: Arrive, worker: Runtime, look: Look
) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    with tenant_transaction(acme.id):
        row = McpServer.objects.get(server_id="crm")
    listed(acme, RemoteTool("find_customer", "Finds a customer by name.", SCHEMA, CLAIMS), RemoteTool("gone", "g", ANY))
    admin.open(f"{SERVERS}{row.pk}/review/")
    sound(admin, "review first")
    sent(admin, "Accept all 2 shown")
    admin.open(f"{SERVERS}reviews/")
    sent(admin, "Hold changes back")
    tighter = {
        "type": "object",
        "properties": {"customer": {"type": "string", "maxLength": 4}},
        "required": ["customer"],
    }
    reworded = "Finds a customer\u202e by name, or deletes one. " + "See the manual. " * 20 + "x" * 200
    listed(acme, RemoteTool("find_customer", reworded, tighter, {}), RemoteTool("n" * 90, "new", SCHEMA, CLAIMS))
    admin.open(f"{SERVERS}reviews/")
    assert "held back" in admin.text()
    sound(admin, "reviews")
    admin.open(f"{SERVERS}{row.pk}/change/")
    sound(admin, "server held back")
    admin.page.get_by_role("link", name="Look at what changed").click()
    sound(admin, "review")
    admin.page.get_by_role("checkbox", name="mcp.crm.find_customer").check()
    listed(acme, RemoteTool("find_customer", "again", tighter, {}), RemoteTool("n" * 90, "new", SCHEMA, CLAIMS))
    sent(admin, "Accept the chosen")
    assert "changed while you looked" in admin.text()
    sound(admin, "review stale")
    admin.page.get_by_role("checkbox", name="mcp.crm.find_customer").check()
    sent(admin, "Accept the chosen")
    assert "Accepted: mcp.crm.find_customer" in admin.text()
    admin.open(f"{SERVERS}{row.pk}/edit/?declare=1")
    sound(admin, "edit declared")
    admin.page.fill("#id_fixed_tools", '[{"name": "find"}]')
    sent(admin, "Save")
    assert "must have" in admin.text()
    sound(admin, "edit refused")
    admin.open(f"{SERVERS}{row.pk}/change/")
    sent(admin, "Test version 1")
    assert "With version 1 of its credential" in admin.text()
    checked(acme, worker)
    admin.page.get_by_text("Nothing accepts connections at this address").first.wait_for()
    sound(admin, "check of a version")
    operator = visit(member((acme, Role.OPERATOR)), look)
    for tab in ("unclassified", "tools", "all"):
        operator.open(f"{SERVERS}everywhere/?tab={tab}")
        sound(operator, f"everywhere {tab}")
    sent(operator, "Switch to Acme and classify crm")
    sent(operator, "Classify")
    listed(acme, RemoteTool("find_customer", "once more", tighter, CLAIMS))
    operator.open(f"{SERVERS}everywhere/?tab=tools")
    sound(operator, "everywhere new tools")


@pytest.mark.long
@pytest.mark.parametrize("role", [Role.TENANT_AUDITOR, Role.DEVELOPER, Role.OPERATOR, Role.EXPERT_APPROVER])
def test_what_others_see_of_servers(acme: Tenancy, visit: Arrive, role: Role) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), DESKTOP)
    configured(acme, admin)
    with tenant_transaction(acme.id):
        row = McpServer.objects.get(server_id="crm")
    listed(acme, RemoteTool("find_customer", "Finds a customer by name.", SCHEMA, CLAIMS))
    someone = visit(member((acme, role)), PHONE)
    is_reader = role is not Role.EXPERT_APPROVER
    for name, path in {
        "servers": "",
        "server": f"{row.pk}/change/",
        "reviews": "reviews/",
        "review": f"{row.pk}/review/",
    }.items():
        assert (someone.open(SERVERS + path) == 200) is is_reader, path
        if is_reader:
            sound(someone, f"{role} {name}")


def classified(operator: Visitor, row: Any) -> None:
    operator.open(f"{SERVERS}{row.pk}/classify/")
    sound(operator, "classify")
    operator.page.select_option("#id_risk", "medium")
    sent(operator, "Classify")
    assert "medium risk" in operator.text()
    operator.page.get_by_role("link", name="mcp.crm.find_customer").click()
    operator.page.select_option("#id_side_effect", "external_read")
    operator.page.select_option("#id_idempotency", "read_only")
    sound(operator, "tool")
    sent(operator, "Save")
    assert "external read, medium risk, read only" in operator.text()


def checked(tenancy: Tenancy, worker: Runtime) -> None:
    with tenant_transaction(tenancy.id):
        check = ServerCheck.objects.get()
    jobs.inspect_source(worker, "mcp", tenancy.id, str(check.pk))


@pytest.mark.parametrize("look", WINDOWS)
def test_a_check_that_goes_on_shows_how_far_it_is(acme: Tenancy, visit: Arrive, look: Look) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    sent(admin, "Check it")
    state = selectors.server(acme.id, "crm", {})
    assert state is not None
    seen = Seen((Mark("connect", 0.02, is_done=True, fact="127.0.0.1 port 9"),), at="secure")
    with tenant_transaction(acme.id):
        rungs = [rung.as_json() for rung in checks.progress(state.config, seen)]
        ServerCheck.objects.update(started_at=wiring.SystemClock().now(), rungs=rungs)
    # The page looks again by itself: a reload of ours would get into its way.
    admin.page.get_by_text("A worker is at it: TLS.").first.wait_for()
    admin.page.get_by_role("link", name="keep it still").click()
    sound(admin, "mcp check running")
    admin.page.get_by_role("link", name="Look again").click()
    with tenant_transaction(acme.id):
        ServerCheck.objects.update(started_at="2026-01-01T00:00:00Z")
    admin.page.get_by_text("It came as far as TCP.").first.wait_for()
    sound(admin, "check abandoned")
    assert admin.page.get_by_role("button", name="Check again").is_visible()


def test_a_server_is_enabled_with_the_keyboard_alone(acme: Tenancy, visit: Arrive) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), DESKTOP)
    configured(acme, admin)
    admin.press_on(admin.page.get_by_role("button", name="Enable"))
    assert "Enabled: new sessions" in admin.text()
