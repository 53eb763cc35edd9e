"""Catalog reviews over the API: who may read, hold back and accept, what they see, and what is stale or another's."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from mcpcatalog.models import CatalogPolicy, McpServer, ToolReview
from mcpcatalog.remote import RemoteTool
from tests.e2e.server import serving
from tests.factories import Tenancy
from tests.integration.api.test_api import Api
from tests.integration.approvals.test_api import Browser, said
from tests.integration.console.people import PASSWORD, Person, person
from tests.integration.console.test_reviews import NEW, OLD
from tests.integration.console.test_servers import added, listed
from tests.integration.processes import ROOT
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.models import ToolEvent
from toolsys.tenancy import tenant_transaction

REVIEWS, QUARANTINE = "/v1/mcp/reviews", "/v1/mcp/quarantine"


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN), username=f"admin-{uuid4().hex[:8]}")


@pytest.fixture
def server(acme: Tenancy, admin: Person) -> McpServer:
    row = added(acme, admin)
    listed(acme, OLD)
    return row


@pytest.fixture
def browser(admin: Person) -> Browser:
    return Browser(admin.user)


def of(row: McpServer, what: str = "") -> str:
    return f"/v1/mcp/servers/{row.pk}/review{what}"


def accept(browser: Browser, row: McpServer, review: Any, **changes: Any) -> Any:
    body = {"seen": review["seen"], "tools": [each["id"] for each in review["pending"]], **changes}
    return browser.send("POST", of(row, "/accept"), body)


@gate("catalog.api")
def test_a_changed_tool_is_shown_beside_what_was_accepted_and_is_accepted(
    acme: Tenancy, server: McpServer, browser: Browser
) -> None:
    assert said(browser.send("GET", REVIEWS)) == {
        "is_quarantining": False, "count": 1, "data": [{
            "id": str(server.pk), "server_id": "crm", "is_reviewed": False, "pending": 1,
            "catalog_hash": refreshed(acme).catalog_hash,
        }],
    }  # fmt: skip
    first = said(browser.send("GET", of(server)))
    assert (first["count"], first["pending"][0]["is_new"], first["pending"][0]["accepted_before"]) == (1, True, None)
    assert said(accept(browser, server, first)) == {"accepted": ["mcp.crm.find"]}
    assert said(browser.send("POST", QUARANTINE, {"is_quarantining": True})) == {"is_quarantining": True}
    listed(acme, NEW)
    review = said(browser.send("GET", of(server)))
    (waiting,) = review["pending"]
    assert (review["is_quarantining"], review["is_reviewed"], review["count"]) == (True, True, 1)
    assert waiting["accepted_before"]["description"] == OLD.description
    assert (waiting["description"], waiting["trust"]) == (NEW.description, "external_untrusted")
    assert {each["says"] for each in waiting["differences"]} >= {"reworded", "parameter takes less than before"}
    assert said(accept(browser, server, review)) == {"accepted": ["mcp.crm.find"]}
    assert said(browser.send("GET", of(server)))["pending"] == []
    with tenant_transaction(acme.id):
        types = list(ToolEvent.objects.filter(type__startswith="mcp.catalog.rev").values_list("type", flat=True))
    assert types == ["mcp.catalog.reviewed"] * 2


@gate("catalog.api")
def test_what_changed_in_between_or_is_no_part_of_it_accepts_nothing(
    acme: Tenancy, server: McpServer, browser: Browser
) -> None:
    old = said(browser.send("GET", of(server)))
    listed(acme, NEW)
    assert said(accept(browser, server, old), 409)["code"] == "catalog.changed"
    now = said(browser.send("GET", of(server)))
    assert said(accept(browser, server, now, tools=[str(uuid4())]), 404)["code"] == "request.not_found"
    assert said(accept(browser, server, now, tools=[old["pending"][0]["id"]]), 404)["code"] == "request.not_found"
    faults: tuple[dict[str, Any], ...] = (
        {"tools": []},
        {"tools": ["x"]},
        {"seen": ""},
        {"tools": [str(uuid4())] * 51},
        {"else": 1},
    )
    for wrong in faults:
        assert said(accept(browser, server, now, **wrong), 422)["code"] == "request.invalid"
    assert said(browser.send("POST", QUARANTINE, {"is_quarantining": "yes"}), 422)["code"] == "request.invalid"
    with tenant_transaction(acme.id):
        assert (ToolReview.objects.count(), CatalogPolicy.objects.count()) == (0, 0)


@gate("catalog.api")
@pytest.mark.parametrize(
    ("role", "expected"),
    [(Role.TENANT_ADMIN, (200, 200, 200)), (Role.OPERATOR, (200, 200, 403)), (Role.TENANT_AUDITOR, (200, 403, 403)),
     (Role.DEVELOPER, (200, 403, 403)), (Role.EXPERT_APPROVER, (403, 403, 403))],
)  # fmt: skip
def test_readers_see_admins_and_operators_accept_and_admins_ask(
    acme: Tenancy, server: McpServer, browser: Browser, role: Role, expected: tuple[int, ...]
) -> None:
    review = said(browser.send("GET", of(server)))
    someone = Browser(person((acme, role)).user)
    found = (
        someone.send("GET", of(server)).status_code, accept(someone, server, review).status_code,
        someone.send("POST", QUARANTINE, {"is_quarantining": True}).status_code,
    )  # fmt: skip
    assert found == expected
    assert someone.send("GET", REVIEWS).status_code == expected[0]
    with tenant_transaction(acme.id):
        assert (ToolReview.objects.count(), CatalogPolicy.objects.count()) == (expected[1] == 200, expected[2] == 200)


@gate("catalog.api")
def test_a_key_is_told_nothing_and_a_cookie_alone_changes_nothing(
    acme: Tenancy, server: McpServer, browser: Browser
) -> None:
    review, api = said(browser.send("GET", of(server))), Api(acme)
    body = {"seen": review["seen"], "tools": [review["pending"][0]["id"]]}
    asked: list[tuple[str, str, Any]] = [
        ("GET", REVIEWS, None), ("GET", of(server), None), ("POST", of(server, "/accept"), body),
        ("POST", QUARANTINE, {"is_quarantining": True}),
    ]  # fmt: skip
    for method, path, given in asked:
        assert said(api.send(method, path, given), 403)["code"] == "auth.forbidden"
    for method, path, given in asked[2:]:
        assert said(browser.send(method, path, given, **{"x-csrftoken": ""}), 403)["code"] == "auth.csrf"
    with tenant_transaction(acme.id):
        assert (ToolReview.objects.count(), CatalogPolicy.objects.count()) == (0, 0)


@gate("catalog.api")
def test_anothers_server_is_not_found(acme: Tenancy, globex: Tenancy, server: McpServer, browser: Browser) -> None:
    review = said(browser.send("GET", of(server)))
    other = Browser(person((globex, Role.TENANT_ADMIN), (globex, Role.OPERATOR)).user)
    assert said(other.send("GET", of(server)), 404)["code"] == "request.not_found"
    assert said(accept(other, server, review), 404)["code"] == "request.not_found"
    assert said(other.send("GET", REVIEWS))["data"] == []


@gate("catalog.api")
def test_the_first_fifty_are_shown_and_counted(acme: Tenancy, server: McpServer, browser: Browser) -> None:
    listed(acme, *(RemoteTool(f"t{number}", "d", {"type": "object"}) for number in range(60)))
    review = said(browser.send("GET", of(server)))
    assert (review["count"], len(review["pending"])) == (60, 50)
    assert len(said(accept(browser, server, review))["accepted"]) == 50
    assert said(browser.send("GET", of(server)))["count"] == 10


@gate("catalog.api")
@pytest.mark.slow
def test_the_documents_curl_works_when_it_is_pasted(
    acme: Tenancy, server: McpServer, admin: Person, tmp_path: Path
) -> None:
    text = (ROOT / "toolsys" / "docs" / "mcp-servers.md").read_text().partition("## Reviews over the API")[2]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    # What the suite's hasher makes, the served console does not read.
    admin.user.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt", iterations=1)
    admin.user.save(update_fields=["password"])
    with serving(tmp_path) as address:
        given = {"BASE": address, "WHO": admin.user.username, "PASSWORD": PASSWORD, "SERVER": "crm"}
        pasted = re.sub(r"^(BASE|WHO|PASSWORD|SERVER)=.*$", "", block.group(1), flags=re.MULTILINE)
        done = subprocess.run(
            ["bash", "-eu", "-c", pasted],
            cwd=tmp_path,
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"accepted": ["mcp.crm.find"]}


def refreshed(tenancy: Tenancy) -> McpServer:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get()
