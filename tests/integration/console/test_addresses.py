"""Every address of the console, as everybody who may come: `addresses.txt` says what each of them is answered.

The list is reviewed by eye, as a whole. A page that the URLconf has and the list lacks, or the other way round, fails.
"""

import html
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
from django.test import Client
from django.urls import resolve

from tests.factories import Tenancy
from tests.integration.console.furnished import Furnished, furnish, routes
from tests.integration.console.people import LOGIN, Person, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.ports import Runtime

LIST: Final = Path(__file__).with_name("addresses.txt")
OWNERS: Final = (Role.TENANT_ADMIN, Role.EXPERT_APPROVER)
# In the order of the columns; without a role: who signed in and belongs nowhere any more, and who did not sign in.
VISITORS: Final = (
    Role.TENANT_ADMIN, Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER, Role.OPERATOR,
    Role.PLATFORM_AUDITOR, "removed", "unknown",
)  # fmt: skip

# The classes that the console gives to what a page is there to be used for. The browser finds it by them, too.
ACTIONS: Final = ("approve", "primary", "default", "addlink", "choices")
ACTION: Final = re.compile(rb'class="(?:[\w-]+ )*(?:' + "|".join(ACTIONS).encode() + rb')[ "]')

LINK: Final = re.compile(r'href="(/admin/[^"#]*)"')
LOGOUT: Final = "/admin/logout/"
# Where one arrives without a link: after a form, by a deep link, or never.
WITHOUT_LINK: Final = frozenset(
    {"login", "app_list", "choose-tenant", "password_change_done", "jsi18n", "toolsys_apikey_change"}
)


def expected() -> dict[str, list[str]]:
    lines = (line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#"))
    return {name: answers for name, *answers in lines}


def came(acme: Tenancy, visitor: str) -> Person:
    if visitor == "unknown":
        return person(signed_in=False)
    return person() if visitor == "removed" else person((acme, Role(visitor)))


@dataclass(frozen=True, slots=True)
class Opened:
    """`answer`: the status at the end of all redirects, with `!` where there is something to do; `login` and `start`
    where they ended on those pages. `links`: the console's own addresses on the page."""

    answer: str
    links: frozenset[str]


def opened(browser: Client, path: str) -> Opened:
    found = browser.get(path, follow=True)
    links = frozenset(html.unescape(link) for link in LINK.findall(found.content.decode()) if link != LOGOUT)
    last = str(found.request["PATH_INFO"])
    if last == LOGIN and not path.startswith(LOGIN):
        return Opened("login", links)
    if last == "/admin/" != path:
        return Opened("start", links)
    return Opened(f"{found.status_code}{'!' if ACTION.search(found.content) else ''}", links)


@pytest.fixture
def furnished(acme: Tenancy, worker: Runtime) -> Furnished:
    return furnish(acme, worker, person(*((acme, role) for role in OWNERS)).user)


@gate("console.addresses")
def test_the_list_has_every_address_of_the_console() -> None:
    assert sorted(expected()) == [name for name, _ in routes()]


@gate("console.addresses")
@pytest.mark.slow
@pytest.mark.parametrize("visitor", VISITORS)
def test_every_address_answers_as_the_list_says_and_every_link_leads_somewhere(
    acme: Tenancy, furnished: Furnished, visitor: str
) -> None:
    guest, column = came(acme, visitor).browser, VISITORS.index(visitor)
    said = {name: answers[column] for name, answers in expected().items()}
    pages = {name: opened(guest, furnished.address(route)) for name, route in routes() if name != "logout"}
    differing = {name: page.answer for name, page in pages.items() if page.answer != said.get(name)}
    assert differing == {}, "\n".join(f"{name}: {answer}" for name, answer in differing.items())
    links = {link for page in pages.values() if page.answer.startswith("200") for link in page.links}
    dead = [link for link in sorted(links) if guest.get(link, follow=True).status_code >= HTTPStatus.BAD_REQUEST]
    assert dead == [], "links that lead nowhere"
    linked = {resolve(link.partition("?")[0]).view_name.removeprefix("admin:") for link in links}
    lonely = {name for name, answer in said.items() if answer.startswith("200")} - linked - WITHOUT_LINK
    assert {name for name in lonely if not name.endswith("<path:object_id>/")} == set()
