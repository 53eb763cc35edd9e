"""The operators' page over all their organisations: what is unclassified, what is new since, and who sees what."""

import logging
import re

import pytest
from django.conf import settings

from mcpcatalog import fleet_selectors
from mcpcatalog.models import McpServer
from mcpcatalog.remote import RemoteTool
from tests.factories import Tenancy
from tests.integration.console.people import Person, person
from tests.integration.console.test_servers import CLAIMS, SERVERS, added, at, listed, the
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

pytestmark = pytest.mark.slow

FLEET, SWITCH = f"{SERVERS}everywhere/", "/admin/organisation/"
SAID = {"side_effect": "network_read", "risk": "low", "idempotency": "read_only", "key_place": "none"}


def configured(*tenancies: Tenancy) -> None:
    for tenancy in tenancies:
        added(tenancy, person((tenancy, Role.TENANT_ADMIN)), mode="discovered")
        listed(tenancy, "find", "drop")


def of(page: str) -> list[str]:
    return re.findall(r'name="tenant" value="([\w-]+)"', page)


@gate("mcp.classified_by_operators")
def test_an_operator_sees_their_organisations_and_classifies_in_each(
    acme: Tenancy, globex: Tenancy, initech: Tenancy, caplog: pytest.LogCaptureFixture
) -> None:
    configured(acme, globex, initech)
    operator = person((acme, Role.OPERATOR), (globex, Role.OPERATOR), (initech, Role.TENANT_ADMIN))
    operator.post(SWITCH, tenant=acme.id)
    with caplog.at_level(logging.INFO, "toolsys.operators"):
        page = operator.text(FLEET)
    assert [record.message for record in caplog.records if record.name == "toolsys.operators"] == [
        "operators.fleet_viewed"
    ]
    assert of(page) == sorted([acme.id, globex.id])
    for said in ("unclassified", "2 read only", "calls itself crm 1"):
        assert said in page, said
    classify = at(the(globex), "classify")
    assert f'value="{classify}"' in page
    answer = operator.post(SWITCH, tenant=globex.id, next=classify)
    assert answer.headers["Location"] == classify
    assert operator.post(classify, **SAID).status_code == 302
    assert of(operator.text(FLEET)) == [acme.id]
    assert of(operator.text(f"{FLEET}?tab=all")) == sorted([acme.id, globex.id])


@gate("mcp.classified_by_operators")
def test_a_tool_that_changed_since_its_server_was_classified_is_listed_until_somebody_says_something(
    acme: Tenancy, globex: Tenancy
) -> None:
    configured(acme, globex)
    operator = person((acme, Role.OPERATOR))
    row = the(acme)
    assert operator.post(at(row, "classify"), **SAID).status_code == 302
    assert "No tool has changed" in operator.text(f"{FLEET}?tab=tools")
    listed(acme, "find", RemoteTool("drop", "drops all", {"type": "object"}, CLAIMS), "extra")
    page = operator.text(f"{FLEET}?tab=tools")
    assert re.findall(r"mcp\.crm\.\w+(?=</td>)", page) == ["mcp.crm.drop", "mcp.crm.extra"]
    assert "readOnlyHint: True" in page
    (tool,) = re.findall(rf'value="({SERVERS}{row.pk}/tools/[0-9a-f-]+/)"><button [^>]*mcp\.crm\.drop', page)
    said = {"side_effect": "external_write", "risk": "high", "idempotency": "non_idempotent"}
    assert operator.post(tool, **said).status_code == 302
    page = operator.text(f"{FLEET}?tab=tools")
    assert re.findall(r"mcp\.crm\.\w+(?=</td>)", page) == ["mcp.crm.extra"]
    assert operator.post(at(row, "classify"), **SAID).status_code == 302, "saying the same again is saying it of these"
    assert "No tool has changed" in operator.text(f"{FLEET}?tab=tools")


@gate("mcp.classified_by_operators")
def test_nobody_else_sees_it_and_nothing_is_posted_to_it(acme: Tenancy) -> None:
    for role in (Role.TENANT_ADMIN, Role.TENANT_AUDITOR, Role.DEVELOPER, Role.EXPERT_APPROVER):
        someone: Person = person((acme, role))
        assert someone.get(FLEET).status_code == 403, role
        assert "All organisations" not in someone.get(SERVERS).content.decode(), role
    assert person((acme, Role.OPERATOR)).post(FLEET).status_code == 403


@gate("mcp.classified_by_operators")
def test_without_the_operators_connection_there_is_no_such_page(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = person((acme, Role.OPERATOR))
    monkeypatch.delitem(settings.DATABASES, OPERATOR_ALIAS)
    assert operator.get(FLEET).status_code == 403


@gate("mcp.classified_by_operators")
def test_what_moves_is_unclassified_again_and_only_operators_say_otherwise(acme: Tenancy) -> None:
    configured(acme)
    operator, admin = person((acme, Role.OPERATOR)), person((acme, Role.TENANT_ADMIN))
    row = the(acme)
    operator.post(at(row, "classify"), **SAID)
    assert the(acme).classified_at is not None
    given = {"server_id": "crm", "endpoint": "https://mcp.example/other", "auth_scheme": "bearer",
             "timeout_seconds": "30", "maximum_output_bytes": "65536", "mode": "discovered"}  # fmt: skip
    assert admin.post(at(row, "edit"), **given).status_code == 302
    assert the(acme).classified_at is None
    assert of(operator.text(FLEET)) == [acme.id]
    with pytest.raises(Exception, match="classified by operators"), tenant_transaction(acme.id):
        McpServer.objects.update(classified_at=row.created_at)


@gate("mcp.classified_by_operators")
def test_each_server_has_the_tools_of_its_own_newest_catalog_and_pages_lead_to_the_rest(
    acme: Tenancy, globex: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one server listed before is what another lists now: the hashes are the same, the tools are not."""
    configured(acme, globex)
    listed(acme, "find", "drop", "extra")
    operator = person((acme, Role.OPERATOR), (globex, Role.OPERATOR))
    operator.post(SWITCH, tenant=acme.id)
    page = operator.text(FLEET)
    assert dict(zip(of(page), re.findall(r'<td data-label="Tools">(\d+)</td>', page), strict=True)) == {
        acme.id: "3", globex.id: "2"
    }  # fmt: skip
    monkeypatch.setattr(fleet_selectors, "PAGE", 1)
    first, second = operator.text(FLEET), operator.text(f"{FLEET}?page=2")
    assert of(first) + of(second) == sorted([acme.id, globex.id])
    assert ("page=2" in first, "page=1" in first, "page=1" in second) == (True, False, True)
    for wrong in ("0", "-1", "x", "99999999"):
        assert of(operator.text(f"{FLEET}?page={wrong}")) in ([acme.id], [globex.id]), wrong
