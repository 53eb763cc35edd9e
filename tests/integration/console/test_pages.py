"""What the pages show: fourteen steps, inert text, nothing of other tenants, nothing inline under a strict policy."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import (
    AGENTS,
    CHOOSE,
    INBOX,
    INDEX,
    INVOCATIONS,
    KEYS,
    LOGIN,
    PASSWORD,
    PRINCIPALS,
    RUNS,
    Person,
    page_of,
    person,
)
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.ports import Runtime

pytestmark = pytest.mark.slow

ROLES = (Role.TENANT_ADMIN, Role.EXPERT_APPROVER)
POLICY = {
    "default-src": "'self'", "object-src": "'none'", "base-uri": "'none'", "frame-ancestors": "'none'",
    "form-action": "'self'",
}  # fmt: skip


class Inline(HTMLParser):
    """Collects what a strict policy would refuse: inline scripts, styles, handlers and foreign addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        is_data = given.get("type") == "application/json"
        if tag == "style" or (tag == "script" and "src" not in given and not is_data):
            self.found.append(f"<{tag}>")
        self.found += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        addresses = (given.get(name) or "" for name in ("src", "href", "action"))
        self.found += [address for address in addresses if re.match(r"(?i)https?:|//|javascript:", address)]


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person(*((acme, role) for role in ROLES))


@pytest.fixture
def paths(acme: Tenancy, held: HeldCall, worker: Runtime) -> list[str]:
    """Every kind of page, over calls that were held, executed and refused."""
    done, unknown = acme.propose(("demo.echo", {"text": "x"}))[0], acme.propose(("no.such\u202etool", {}))[0]
    acme.work(worker, done)
    return list(_paths(acme, held, [done.invocation_id, unknown.invocation_id, held.disposition.invocation_id]))


def _paths(acme: Tenancy, held: HeldCall, calls: list[object]) -> Iterator[str]:
    yield from (INDEX, CHOOSE, INVOCATIONS, RUNS, INBOX, AGENTS, PRINCIPALS, KEYS, held.page)
    yield from (page_of(INVOCATIONS, call) for call in calls)
    yield from (f"{INBOX}?tab={tab}" for tab in ("others", "decided", "expired", "nonsense"))
    yield from (f"{kind}add/" for kind in (AGENTS, PRINCIPALS, KEYS))
    yield from (page_of(AGENTS, acme.agent.pk), page_of(PRINCIPALS, acme.principal.pk), page_of(KEYS, acme.key.pk))
    yield from (page_of(RUNS, acme.run.pk), "/admin/password_change/", f"{INVOCATIONS}?q=demo.echo&status=succeeded")


def test_every_page_has_a_strict_policy_and_nothing_inline(paths: list[str], admin: Person) -> None:
    assert Inline("<p style='x' onclick='y'><script>z</script><style></style><a href='//evil'>").found != []
    for path in (LOGIN, *paths):
        browser = person(signed_in=False) if path == LOGIN else admin
        answer = browser.get(path)
        assert answer.status_code == 200, path
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert {name: policy.get(name) for name in POLICY} == POLICY
        assert not re.search(r"unsafe|\*|http:", answer.headers["Content-Security-Policy"])
        assert Inline(answer.content.decode()).found == [], path


def test_no_page_names_another_tenant(
    paths: list[str], admin: Person, globex: Tenancy, initech: Tenancy, worker: Runtime
) -> None:
    hold(globex, "of globex only")
    for path in paths:
        page = admin.text(path)
        for foreign in (globex, initech):
            assert foreign.name not in page, path
            assert foreign.id not in page, path
        assert "of globex only" not in page, path


def test_invisible_characters_are_shown_wherever_a_name_came_from_outside(paths: list[str], admin: Person) -> None:
    pages = {path: admin.text(path) for path in paths}
    assert [path for path, page in pages.items() if "\u202e" in page] == []
    assert "no.such[U+202E]tool" in pages[INVOCATIONS]


def _steps(page: str) -> list[str]:
    return re.findall(r'<th scope="row">(\d+)</th>', page)


@gate("trace.steps")
def test_an_invocation_shows_its_fourteen_steps_with_times_and_commits(
    acme: Tenancy, admin: Person, worker: Runtime
) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    path = page_of(INVOCATIONS, call.invocation_id)
    before = admin.text(path)
    assert _steps(before) == [str(number) for number in range(1, 15)]
    assert "intent committed" in before
    assert "result committed" not in before
    acme.work(worker, call)
    page = admin.text(path)
    assert _steps(page) == [str(number) for number in range(1, 15)]
    for shown in ("web, pass 1", "worker, pass 2", "first claim committed", "result committed", "waiting for a worker",
                  "tool.call.completed", "rendered from the row at every read"):  # fmt: skip
        assert shown in page, shown


def test_a_held_call_shows_how_long_people_took(held: HeldCall, admin: Person, worker: Runtime) -> None:
    path = page_of(INVOCATIONS, held.request.invocation_id)
    assert "held for approval" in admin.text(path)
    admin.post(held.page, decision="approve", digest=held.request.digest, note="", password=PASSWORD)
    held.tenancy.work(worker, held.disposition)
    page = admin.text(path)
    assert "waiting for a person" in page
    assert "effect watermark committed" in page


def test_the_bare_address_leads_to_the_console(admin: Person) -> None:
    answer = admin.get("/")
    assert (answer.status_code, answer["Location"]) == (302, INDEX)


@pytest.mark.parametrize("role", [Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER])
def test_readers_see_calls_and_no_configuration(acme: Tenancy, held: HeldCall, role: Role) -> None:
    reader = person((acme, role))
    for path in (INDEX, INVOCATIONS, RUNS, INBOX, held.page, page_of(INVOCATIONS, held.request.invocation_id)):
        assert reader.get(path).status_code == 200, path
    for path in (AGENTS, PRINCIPALS, KEYS, f"{KEYS}add/", page_of(AGENTS, acme.agent.pk)):
        assert reader.get(path).status_code == 403, path
    assert "Agents" not in reader.text(INDEX)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.PLATFORM_AUDITOR])
def test_platform_roles_see_no_calls_here(acme: Tenancy, held: HeldCall, role: Role) -> None:
    other = person((acme, role))
    assert other.get(INVOCATIONS).status_code == 403
    assert other.get(page_of(INVOCATIONS, held.request.invocation_id)).status_code == 404
    assert other.get(held.page).status_code == 404


def test_calls_are_found_by_what_identifies_them_and_never_changed(acme: Tenancy, admin: Person) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.propose(("system.time", {}))
    path = page_of(INVOCATIONS, call.invocation_id)
    for term in (call.invocation_id, acme.call(call).idempotency_key, "demo.echo", f" {call.invocation_id} "):
        page = admin.text(f"{INVOCATIONS}?q={term}")
        assert path in page
        assert "1 invocation" in page
    assert "2 invocations" in admin.text(f"{INVOCATIONS}?q={acme.run.pk}")
    assert "2 invocations" in admin.text(f"{INVOCATIONS}?run__id__exact={acme.run.pk}")
    assert "0 invocations" in admin.text(f"{INVOCATIONS}?q=demo")
    assert admin.get(f"{INVOCATIONS}add/").status_code == 403
    assert admin.get(f"{INVOCATIONS}{call.invocation_id}/delete/").status_code == 403


def test_a_list_counts_no_more_than_it_would_page_through(acme: Tenancy, admin: Person) -> None:
    acme.propose(("demo.echo", {"text": "x"}))
    with CaptureQueriesContext(connections["default"]) as queries:
        admin.text(INVOCATIONS)
    counting = [query["sql"] for query in queries if "COUNT(*)" in query["sql"]]
    assert counting != []
    assert all("LIMIT 1000" in statement for statement in counting)
    assert len(queries) <= 20
