"""The pages of catalog reviews: who sees and accepts what, what a changed tool looks like, and a page that is stale."""

import re
from dataclasses import replace
from typing import Any

import pytest

from mcpcatalog import review_selectors, reviews
from mcpcatalog.models import CatalogPolicy, CatalogTool, McpServer, ToolReview
from mcpcatalog.remote import RemoteTool
from tests.factories import Tenancy
from tests.integration.console.people import Person, person
from tests.integration.console.test_servers import GIVEN, SERVERS, added, at, listed, the
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

REVIEWS = f"{SERVERS}reviews/"
ANY: dict[str, Any] = {"type": "object"}
OLD = RemoteTool("find", "Finds a customer.", {"type": "object", "properties": {"name": {"type": "string"}}})
NEW = RemoteTool(
    "find", "Finds a customer,\u202e or deletes one.",
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}, {"annotations": {"x": "<b>"}},
)  # fmt: skip


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


def form(page: str) -> dict[str, Any]:
    (seen,) = re.findall(r'name="seen" value="(\w+)"', page)
    return {"seen": seen, "shown": re.findall(r'name="shown" value="([0-9a-f-]+)"', page)}


@gate("catalog.quarantine")
def test_a_changed_tool_is_shown_beside_what_was_accepted_and_is_accepted(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    listed(acme, OLD)
    page = admin.text(at(row, "review"))
    assert ("nobody has accepted" in page, "<del>" in page) == (True, False)
    assert admin.post(at(row, "review"), accept="shown", **form(page)).status_code == 302
    assert "Nothing waits" in admin.text(at(row, "review"))
    assert admin.post(REVIEWS, quarantine="1").status_code == 302
    listed(acme, NEW, RemoteTool("drop", "d", {"type": "object"}))
    assert "2 tools wait for a review" in admin.text(at(row))
    assert "2 held back" in admin.text(REVIEWS)
    page = admin.text(at(row, "review"))
    for said in ("reworded", "parameter takes less than before", "claims something else", "[U+202E]", "&lt;b&gt;"):
        assert said in page, said
    assert re.search(r"<ins>.*deletes.*</ins>", page)
    assert "\u202e" not in page
    chosen = re.search(r'name="tool" value="([0-9a-f-]+)" id="c2"', page)
    assert chosen is not None
    answer = admin.post(at(row, "review"), accept="chosen", seen=form(page)["seen"], tool=chosen.group(1))
    assert answer.status_code == 302
    assert "1 held back" in admin.text(REVIEWS)


@gate("catalog.quarantine")
def test_the_diff_is_against_what_was_accepted_last_and_what_is_gone_is_named(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    newest = replace(NEW, description="Finds a customer, or two.")
    for tools in ((OLD, RemoteTool("drop\u202e", "d", ANY)), (NEW,)):
        listed(acme, *tools)
        admin.post(at(row, "review"), accept="shown", **form(admin.text(at(row, "review"))))
    listed(acme, newest)
    page = admin.text(at(row, "review"))
    gone = "".join(re.findall(r"<del>.*?</del>", page))
    assert ("deletes" in gone, "takes less than before" in page) == (True, False)
    assert re.search(r"No longer listed: <code>drop\[U\+202E\]</code>", page)


@gate("catalog.quarantine")
def test_servers_with_something_held_back_come_first_and_old_catalogs_count_nothing(
    acme: Tenancy, admin: Person
) -> None:
    """Two servers may list the same: a catalog that one of them listed before is another's now."""
    row = added(acme, admin)
    admin.post(f"{SERVERS}add/", **{**GIVEN, "server_id": "many"})
    listed(acme, OLD)
    listed(acme, OLD, RemoteTool("new", "n", ANY))
    listed(acme, OLD, server="many")
    lines = review_lines_of(acme)
    assert lines == [("crm", 2, False), ("many", 1, False)]
    many = the(acme, "many")
    listed(acme, *(RemoteTool(f"t{number}", "d", ANY) for number in range(3)), OLD, server="many")
    assert review_lines_of(acme) == [("many", 4, False), ("crm", 2, False)], "the most to look at comes first"
    with tenant_transaction(acme.id):
        find = CatalogTool.objects.get(catalog_hash=the(acme).catalog_hash, remote_name="find").pk
    seen = form(admin.text(at(row, "review")))["seen"]
    assert admin.post(at(row, "review"), accept="chosen", seen=seen, tool=str(find)).status_code == 302
    assert review_lines_of(acme) == [("crm", 1, True), ("many", 4, False)], "what is held back comes before"
    assert admin.text(REVIEWS).index(at(row, "review")) < admin.text(REVIEWS).index(at(many, "review"))


def review_lines_of(tenancy: Tenancy) -> list[tuple[str, int, bool]]:
    with tenant_transaction(tenancy.id):
        found = review_selectors.review_lines(tenancy.id)
    return [(line.row.server_id, line.count, line.is_reviewed) for line in found]


@gate("catalog.quarantine")
def test_a_page_that_is_stale_accepts_nothing_and_shows_what_is_there_now(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    listed(acme, OLD)
    old = form(admin.text(at(row, "review")))
    listed(acme, NEW)
    answer = admin.post(at(row, "review"), accept="shown", **old)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert ("changed while you looked" in page, "deletes" in page) == (True, True)
    for bad in ({"seen": form(page)["seen"], "shown": "x"}, {"shown": form(page)["shown"]}):
        assert admin.post(at(row, "review"), accept="shown", **bad).status_code == 409
    nothing = admin.post(at(row, "review"), accept="chosen", seen=form(page)["seen"])
    assert nothing.status_code == 302
    assert "Nothing was chosen" in admin.text(at(row, "review"))
    with tenant_transaction(acme.id):
        assert not ToolReview.objects.exists()


@gate("catalog.quarantine")
@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (Role.TENANT_ADMIN, (200, 302, 302)),
        (Role.OPERATOR, (200, 302, 403)),
        (Role.TENANT_AUDITOR, (200, 403, 403)),
        (Role.DEVELOPER, (200, 403, 403)),
        (Role.EXPERT_APPROVER, (404, 404, 403)),
    ],
)
def test_readers_see_admins_and_operators_accept_and_admins_ask(
    acme: Tenancy, admin: Person, role: Role, expected: tuple[int, ...]
) -> None:
    row = added(acme, admin)
    listed(acme, OLD)
    given = form(admin.text(at(row, "review")))
    someone = person((acme, role))
    found = (
        someone.get(at(row, "review")).status_code,
        someone.post(at(row, "review"), accept="shown", **given).status_code,
        someone.post(REVIEWS, quarantine="1").status_code,
    )
    assert found == expected
    with tenant_transaction(acme.id):
        assert (ToolReview.objects.count(), CatalogPolicy.objects.count()) == (expected[1] == 302, expected[2] == 302)


@gate("catalog.quarantine")
def test_another_tenant_reviews_nothing_of_ours(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    listed(acme, OLD)
    given = form(admin.text(at(row, "review")))
    other = person((globex, Role.TENANT_ADMIN), (globex, Role.OPERATOR))
    assert other.get(at(row, "review")).status_code == 404
    assert other.post(at(row, "review"), accept="shown", **given).status_code == 404
    assert "No server has listed" in other.text(REVIEWS)
    with tenant_transaction(acme.id):
        assert reviews.stamp(McpServer.objects.get()) == given["seen"]
        assert not ToolReview.objects.exists()


@gate("catalog.quarantine")
def test_the_first_fifty_are_shown_and_only_those_are_accepted(acme: Tenancy, admin: Person) -> None:
    row = added(acme, admin)
    listed(acme, *(RemoteTool(f"t{number}", "d", {"type": "object"}) for number in range(60)))
    page = admin.text(at(row, "review"))
    assert "These are the first 50" in page
    admin.post(at(row, "review"), accept="shown", **form(page))
    assert "10 tools that nobody has accepted" in admin.text(at(row, "review"))
