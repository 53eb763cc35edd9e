"""A served console and a real browser. `visit(user, look, target)` signs a person in and gives their window.

The browser lives for one module: Playwright's loop runs in the thread of the tests, which other modules do not expect.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.e2e.chromium import DESKTOP, Look, launched
from tests.e2e.server import serving
from tests.e2e.visitor import Arrive, Visitor


@pytest.fixture(scope="session")
def console_url(_database: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("console")) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch:
        # Playwright's loop makes Django believe that it is called from asynchronous code; it is not.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        with launched() as found:
            yield found


@pytest.fixture
def visit(browser: Browser, console_url: str, database: None) -> Iterator[Arrive]:
    """Let a person open a window; at the end no page may have complained."""
    opened: list[Visitor] = []

    def arrive(user: Any, look: Look = DESKTOP, target: str | None = "/admin/") -> Visitor:
        visitor = Visitor(user, look.open(browser).new_page(), console_url, look)
        opened.append(visitor)
        if target is not None:
            visitor.sign_in(target)
        return visitor

    yield arrive
    for each in opened:
        each.page.context.close()
    assert [error for each in opened for error in each.errors] == []
