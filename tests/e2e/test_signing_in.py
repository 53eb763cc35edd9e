"""The console in a real browser: signing in leads where one wanted to go, by keyboard and without scripts."""

import pytest

from tests.e2e.chromium import DARK, LOOKS, NO_SCRIPTS, PHONE, Look
from tests.e2e.visitor import PASSWORD, Arrive, member
from tests.factories import Tenancy
from toolsys.domain.states import Role

pytestmark = pytest.mark.slow

APPEND = "document.querySelector('#content').insertAdjacentHTML('beforeend'"
INBOX = "/admin/toolsys/approvalrequest/"


def test_a_deep_link_opens_after_signing_in_by_keyboard(acme: Tenancy, visit: Arrive) -> None:
    visitor = visit(member((acme, Role.EXPERT_APPROVER)), target=None)
    visitor.open(f"{INBOX}?tab=decided")
    visitor.page.locator("#id_username").focus()
    visitor.page.keyboard.type(visitor.user.username)
    visitor.tab_to(visitor.page.locator("#id_password"))
    visitor.page.keyboard.type(PASSWORD)
    with visitor.page.expect_navigation():
        visitor.page.keyboard.press("Enter")
    assert visitor.path == f"{INBOX}?tab=decided"
    assert "Nothing has been decided yet." in visitor.text()


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_the_start_page_fits_every_window(acme: Tenancy, visit: Arrive, look: Look) -> None:
    visitor = visit(member((acme, Role.TENANT_ADMIN)), look)
    assert acme.name in visitor.text()
    assert visitor.overflow() == []
    assert visitor.shot("start").stat().st_size > 0


def test_the_harness_sees_what_it_is_to_see(acme: Tenancy, visit: Arrive) -> None:
    """A page that is too wide, a script that fails and a page without scripts are told from others."""
    visitor = visit(member((acme, Role.DEVELOPER)), PHONE)
    assert visitor.axe() == []
    visitor.page.evaluate(f"{APPEND}, '<pre>' + 'x'.repeat(400))")
    assert visitor.overflow() != []
    visitor.page.evaluate(f"{APPEND}, '<img src=\"data:,\">')")
    assert visitor.axe() != []
    visitor.page.evaluate("console.error('seen')")
    visitor.page.wait_for_timeout(50)
    assert visitor.errors == ["seen"]
    visitor.errors.clear()
    silent = visit(member((acme, Role.DEVELOPER)), NO_SCRIPTS)
    assert silent.page.locator("noscript, #content").count() > 0
    dark = visit(member((acme, Role.DEVELOPER)), DARK)
    background = "getComputedStyle(document.body).backgroundColor"
    assert dark.page.evaluate(background) != visitor.page.evaluate(background)
