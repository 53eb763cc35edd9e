"""MCP servers in a real browser: from a host to an enabled server, and its classification; in every window."""

from typing import Any

import pytest

from config import wiring
from mcpcatalog import mapping, selectors, services
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.remote import Catalog, RejectedTool, RemoteTool
from tests.e2e.chromium import DESKTOP, LOOKS, PHONE, Look
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from toolsys import jobs
from toolsys.domain.states import Role
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SERVERS, HOSTS = "/admin/mcpcatalog/mcpserver/", "/admin/toolsys/egressallowance/"
SCHEMA = {"type": "object", "properties": {"customer": {"type": "string", "maxLength": 40}}}
# The long way through all windows has its place in `make e2e`; one narrow window goes with every run.
WINDOWS = [pytest.param(look, id=look.name, marks=() if look is PHONE else pytest.mark.long) for look in LOOKS]
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
    admin.page.get_by_text("Nothing accepts connections at this address").wait_for()
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


def test_a_server_is_enabled_with_the_keyboard_alone(acme: Tenancy, visit: Arrive) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), DESKTOP)
    configured(acme, admin)
    admin.press_on(admin.page.get_by_role("button", name="Enable"))
    assert "Enabled: new sessions" in admin.text()
