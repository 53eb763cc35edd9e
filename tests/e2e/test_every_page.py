"""Every page of the console as each role, in a real browser: wide, at 360 px, dark, and without scripts. `make pages`.

Which pages there are, and for whom, is `tests/integration/console/addresses.txt`, which is held against the URLconf.
Leaves pictures under `.data/screenshots` for people to look at.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.chromium import DESKTOP, PHONE, PHONE_NO_SCRIPTS
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from tests.integration.console.furnished import Furnished, furnish, routes
from tests.integration.console.people import person
from tests.integration.console.test_addresses import ACTIONS, OWNERS, VISITORS, expected
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.ports import Runtime

pytestmark = pytest.mark.long

ACTION: Final = ", ".join(f"#content .{name}" for name in ACTIONS)
# What is no page for people.
SCRIPTS: Final = frozenset({"jsi18n"})


@pytest.fixture(scope="module")
def looked_at() -> set[tuple[str, str]]:
    """The pages whose structure was examined in full: another role's page that is the same need not be again."""
    return set()


@gate("console.windows")
@pytest.mark.parametrize("role", [each for each in VISITORS if isinstance(each, Role)])
def test_every_page_of_a_role_fits_is_accessible_and_leads_to_its_action_by_keyboard(
    acme: Tenancy, worker: Runtime, visit: Arrive, looked_at: set[tuple[str, str]], role: Role
) -> None:
    visitor = visit(member((acme, role)))
    faults: list[str] = []
    for name, path, has_action in _pages(acme, worker, role):
        status = visitor.open(path)
        faults += [f"{name}: {each}" for each in ([] if status == 200 else [f"status {status}"])]
        faults += [f"{name}: {each}" for each in _faults(visitor, name, role, looked_at)]
        faults += [f"{name}: {each}" for each in _unreachable(visitor, has_action)]
    assert faults == [], "\n".join(faults)


@gate("console.windows")
@pytest.mark.parametrize("role", [each for each in VISITORS if isinstance(each, Role)])
def test_every_page_of_a_role_works_on_a_phone_without_scripts(
    acme: Tenancy, worker: Runtime, visit: Arrive, role: Role
) -> None:
    visitor = visit(member((acme, role)), PHONE_NO_SCRIPTS)
    faults: list[str] = []
    for name, path, has_action in _pages(acme, worker, role):
        status = visitor.open(path)
        faults += [f"{name}: {each}" for each in ([] if status == 200 else [f"status {status}"])]
        faults += [f"{name}: {each}" for each in visitor.overflow()]
        action = visitor.page.locator(ACTION).first
        if has_action and not (action.is_visible() and action.is_enabled()):
            faults.append(f"{name}: what it is for needs scripts")
    assert faults == [], "\n".join(faults)


@gate("console.windows")
@pytest.mark.parametrize("path", ["/admin/login/", "/admin/no/such/page", "/admin/toolsys/agent/"])
def test_pages_that_refuse_fit_and_are_accessible(acme: Tenancy, visit: Arrive, path: str) -> None:
    visitor = visit(member((acme, Role.DEVELOPER)), target=None if path == "/admin/login/" else "/admin/")
    visitor.open(path)
    assert list(_faults(visitor, "refused", path, set())) == []


def _pages(acme: Tenancy, worker: Runtime, role: Role) -> Iterator[tuple[str, str, bool]]:
    """Yield (name, path, has something to do) of each page that the list lets the role open."""
    furnished: Furnished = furnish(acme, worker, person(*((acme, each) for each in OWNERS)).user)
    column, said = VISITORS.index(role), expected()
    for name, route in routes():
        answer = said[name][column]
        if answer.startswith("200") and name not in SCRIPTS and not name.endswith("<path:object_id>/"):
            yield name, furnished.address(route), answer.endswith("!")


def _faults(visitor: Visitor, name: str, role: str, looked_at: set[tuple[str, str]]) -> Iterator[str]:
    """Look at the open page in every window; leave it as it was found."""
    yield from visitor.overflow()
    seen = (name, visitor.structure())
    is_new = seen not in looked_at
    looked_at.add(seen)
    if is_new:
        visitor.shot(f"{name} {role}")
    visitor.resize(PHONE)
    yield from visitor.overflow()
    if is_new:
        yield from visitor.axe()
        visitor.page.emulate_media(color_scheme="dark")
        yield from (f"dark: {each}" for each in visitor.axe("color-contrast"))
        visitor.shot(f"{name} {role}")
        visitor.page.emulate_media(color_scheme="light")
    visitor.resize(DESKTOP)


def _unreachable(visitor: Visitor, has_action: bool) -> list[str]:
    action: Any = visitor.page.locator(ACTION)
    if not has_action:
        return [f"unexpected: {each}" for each in action.all_inner_texts()]
    if action.count() == 0:
        return ["has nothing to do"]
    focusable = action.first.locator(
        "xpath=descendant-or-self::*[self::a or self::button or self::input[not(@type='hidden')]]"
    ).first
    try:
        visitor.tab_to(focusable)
    except AssertionError as error:
        return [str(error)]
    return []
