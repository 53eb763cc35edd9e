"""The pages of MCP servers that are only reached by sending a form: plans, results, refusals, stale pages and errors.

`test_every_page` opens what has an address of its own; here each form is sent as a person would, in every window.
"""

import json
from typing import Any, Final

import pytest

from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.remote import RemoteTool
from tests.e2e.chromium import DESKTOP, Look
from tests.e2e.test_servers import CLAIMS, SCHEMA, SERVERS, WINDOWS, configured, listed, sent
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys import jobs
from toolsys.domain.states import Role
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SECRET: Final = "sk-live-4f9a2b7c8d3e"
LONG: Final = "a_name_of_considerable_length_" * 5
# Every fate that an entry can have, with names, hosts and notes that are long.
FILE: Final[dict[str, Any]] = {
    "wiki": {"url": f"https://wiki.example/mcp?api_key={SECRET}"},
    "crm": {"url": "https://elsewhere.example/mcp"},
    "later": {"url": "https://later.example/mcp", "headers": {"Authorization": "Bearer ${input:token}"}, "tools": [1]},
    "several": {"url": "https://several.example/", "headers": {"X-A": SECRET, "X-B": SECRET}},
    "old": {"type": "sse", "url": "https://old.example/sse"},
    "inside": {"url": "https://10.0.0.1/mcp"},
    "bridge": {"command": "npx", "args": ["mcp-remote", f"https://{'x' * 60}.{'y' * 60}.example/mcp"]},
    f"A name\u202e {LONG}": {"command": "npx", "args": ["--token", SECRET], "env": {f"{LONG.upper()}{n}": "x"
                                                                                  for n in range(30)}},
}  # fmt: skip


def sound(visitor: Visitor, name: str) -> None:
    assert visitor.overflow() == [], name
    assert visitor.axe() == [], name
    assert SECRET not in visitor.page.content(), name
    visitor.shot(f"posted {name}")


def the(tenancy: Tenancy) -> McpServer:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get(server_id="crm")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_an_import_from_a_refused_file_to_what_was_written(acme: Tenancy, visit: Arrive, look: Look) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    plan = "Show what would be imported"
    for text, says in (("", "Give a file or its text"), ("{", "not JSON"), ('{"name": "x"}', "Neither mcpServers")):
        admin.open(f"{SERVERS}import/")
        admin.page.fill("#id_text", text)
        sent(admin, plan)
        assert says in admin.text()
        assert not admin.page.input_value("#id_text"), "it may hold secrets, and is not sent back"
        sound(admin, f"import refused {says}")
    admin.page.fill("#id_text", json.dumps({"mcpServers": FILE}))
    admin.page.check("#id_allows_hosts")
    sent(admin, plan)
    assert "3 of 8 would be added" in admin.text()
    sound(admin, "import plan")
    sealed = admin.page.locator("input[name=sealed]")
    kept = sealed.input_value()
    sealed.evaluate("each => { each.value = 'AAAA' }")
    sent(admin, "Import 3")
    assert "Nothing was imported" in admin.text()
    sound(admin, "import void")
    admin.page.fill("#id_text", json.dumps({"mcpServers": FILE}))
    admin.page.check("#id_allows_hosts")
    sent(admin, plan)
    assert admin.page.locator("input[name=sealed]").input_value() != kept
    sent(admin, "Import 3")
    assert "3 servers were added" in admin.text()
    sound(admin, "import done")
    admin.page.get_by_role("link", name="wiki", exact=True).click()
    assert "still live" not in admin.text()
    sound(admin, "imported server")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_what_is_refused_says_what_to_write_beside_its_field(acme: Tenancy, visit: Arrive, look: Look) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    row = the(acme)
    admin.open(f"{SERVERS}add/")
    faults = {
        "server_id": "Not A Name", "endpoint": f"http://{'x' * 60}.example/mcp?token={'x' * 300}",
        "auth_name": "Authorization", "secret": "two words\u00e9", "maximum_output_bytes": "0",
    }  # fmt: skip
    for name, value in faults.items():
        admin.page.fill(f"#id_{name}", value)
    admin.page.select_option("#id_auth_scheme", "header")
    sent(admin, "Add it")
    admin.page.fill("#id_maximum_output_bytes", "1000")
    sent(admin, "Add it")
    for says in (
        "Lower-case letters",
        "not among those",
        "is the bearer scheme",
        "can be read by everybody",
        "needs a credential",
    ):
        assert says in admin.text(), says
    sound(admin, "add with every fault")
    admin.open(f"{SERVERS}{row.pk}/change/")
    admin.page.fill("#id_secret", "two\u00e9")
    sent(admin, "Rotate")
    assert "Printable ASCII" in admin.text()
    sound(admin, "credential refused")
    sent(admin, "Erase version 1")
    assert "cannot be had back" in admin.text()
    sound(admin, "credential to erase")
    sent(admin, "Yes, erase version 1")
    assert "set its credential below" in admin.text()
    sound(admin, "server without a credential")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_what_operators_are_refused_says_what_to_write(acme: Tenancy, visit: Arrive, look: Look) -> None:
    configured(acme, visit(member((acme, Role.TENANT_ADMIN)), look))
    row = the(acme)
    listed(acme, RemoteTool("find_customer", "Finds.", SCHEMA, CLAIMS), RemoteTool(LONG, "long", SCHEMA, CLAIMS))
    operator = visit(member((acme, Role.OPERATOR)), look)
    operator.open(f"{SERVERS}{row.pk}/classify/")
    operator.page.select_option("#id_idempotency", "read_only")
    operator.page.select_option("#id_key_place", "header")
    operator.page.fill("#id_required_scopes", "session.write")
    sent(operator, "Classify")
    for says in ("What writes is not read only", "Only scopes that begin with mcp.crm.", "Say which"):
        assert says in operator.text(), says
    sound(operator, "classify refused")
    operator.open(f"{SERVERS}{row.pk}/change/")
    operator.page.get_by_role("link", name="mcp.crm.find_customer").click()
    operator.page.select_option("#id_idempotency", "read_only")
    sent(operator, "Save")
    assert "What writes is not read only" in operator.text()
    sound(operator, "tool refused")
    operator.open(f"{SERVERS}add-program/")
    operator.page.fill("#id_server_id", "X Y")
    assert "TOOLSYS_STDIO_SERVERS" in operator.text()
    sent(operator, "Add it")
    sound(operator, "program refused")
    auditor = visit(member((acme, Role.TENANT_AUDITOR)), look, f"{SERVERS}{row.pk}/change/")
    auditor.page.locator("body").evaluate(
        f"body => body.insertAdjacentHTML('beforeend', '<form method=post action={SERVERS}{row.pk}/check/ id=forged>"
        "</form>') || document.querySelector('#forged').submit()"
    )
    auditor.page.wait_for_url("**/check/")
    sound(auditor, "refused")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_checks_and_reviews_in_every_state(acme: Tenancy, visit: Arrive, worker: Runtime, look: Look) -> None:
    admin = visit(member((acme, Role.TENANT_ADMIN)), look)
    configured(acme, admin)
    row = the(acme)
    admin.open(f"{SERVERS}{row.pk}/change/")
    sound(admin, "server that was never seen")
    sent(admin, "Check it")
    path = admin.path
    # A page that moves by itself can be made to stay: what is read slowly is read there.
    admin.page.get_by_role("link", name="keep it still").click()
    sound(admin, "check that waits")
    admin.page.get_by_role("link", name="Look again").click()
    assert admin.path.removesuffix("?") == path
    with tenant_transaction(acme.id):
        check = ServerCheck.objects.get()
    jobs.inspect_source(worker, "mcp", acme.id, str(check.pk))
    admin.page.get_by_text("Nothing accepts connections at this address").first.wait_for()
    with tenant_transaction(acme.id):
        rungs = [{**rung, "status": "passed", "milliseconds": 12, "fix": "", "reason": "", "fact": "y" * 200}
                 for rung in ServerCheck.objects.get().rungs]  # fmt: skip
        ServerCheck.objects.update(rungs=rungs, is_passed=True)
    admin.open(path)
    assert "It can be used." in admin.text()
    sound(admin, "check passed")
    with tenant_transaction(acme.id):
        ServerCheck.objects.update(rungs=[], finished_at=None, started_at=row.created_at, is_passed=False,
                                   created_at=row.created_at)  # fmt: skip
    listed(acme, RemoteTool("find_customer", "Finds.", SCHEMA, CLAIMS), RemoteTool(LONG, "long", SCHEMA, CLAIMS))
    admin.open(f"{SERVERS}{row.pk}/review/")
    sent(admin, "Accept the chosen")
    assert "Nothing was chosen" in admin.text()
    sound(admin, "review with nothing chosen")
    listed(acme, RemoteTool("find_customer", "Finds more.", SCHEMA, CLAIMS))
    sent(admin, "Accept all 2 shown")
    assert "changed while you looked" in admin.text()
    sound(admin, "review stale")
    sent(admin, "Accept the one shown")
    assert "Nothing waits" in admin.text()
    sound(admin, "review done")
    admin.open(f"{SERVERS}reviews/")
    sent(admin, "Hold changes back")
    sound(admin, "reviews asked for")


def test_a_secret_is_seen_by_the_eyes_that_look_here(acme: Tenancy, visit: Arrive) -> None:
    """The harness of this file tells a page that shows a secret from one that does not: a URL is shown to be mended."""
    admin = visit(member((acme, Role.TENANT_ADMIN)), DESKTOP, f"{SERVERS}add/")
    admin.page.fill("#id_endpoint", f"https://mcp.example/mcp?token={SECRET}")
    sent(admin, "Add it")
    with pytest.raises(AssertionError):
        sound(admin, "a URL with a key in it")
