"""A person in front of a real browser: signs in with a password, reads, tabs, presses keys, takes screenshots."""

import hashlib
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from playwright.sync_api import Locator, Page

from tests.e2e.chromium import Look
from tests.factories import Tenancy
from tests.integration.console.people import give
from tests.integration.processes import ROOT
from toolsys.domain.states import Role

PASSWORD = "correct horse battery staple"
TAB_LIMIT = 150
SHOTS = Path(os.environ.get("TOOLSYS_SCREENSHOTS", ROOT / ".data" / "screenshots"))
# What the suite's hasher makes, the served console does not read; one round suffices for a password of a test.
_HASH = PBKDF2PasswordHasher().encode(PASSWORD, "salt", iterations=1)


@dataclass
class Visitor:
    """One person and their browser window. `errors` are what the page's console and its policy complained about."""

    user: Any
    page: Page
    base_url: str
    look: Look
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, kind: str, text: str) -> None:
        """A status of 4xx is the page's answer, no fault of it."""
        if kind == "error" and "Failed to load resource" not in text:
            self.errors.append(text)

    def open(self, path: str) -> int:
        """Go to a page; return its status."""
        response = self.page.goto(self.base_url + path)
        assert response is not None
        return response.status

    @property
    def path(self) -> str:
        parts = urlsplit(self.page.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def sign_in(self, target: str = "/admin/") -> None:
        """Open a page, be asked for the password, and arrive at that page."""
        self.open(target)
        self.page.fill("#id_username", self.user.username)
        self.page.fill("#id_password", PASSWORD)
        # The address changes before there is anything to read there.
        with self.page.expect_navigation():
            self.page.click("input[type=submit]")
        assert self.path == target, f"signed in for {target}, arrived at {self.path}"

    def text(self) -> str:
        return self.page.inner_text("body")

    def tab_to(self, target: Locator) -> None:
        """Press Tab until something has the focus, as somebody without a mouse does."""
        for _ in range(TAB_LIMIT):
            self.page.keyboard.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"not reached with {TAB_LIMIT} tabs: {target}")

    def press_on(self, target: Locator, key: str = "Enter") -> None:
        """Tab to something and press a key there; wait for the page that follows."""
        self.tab_to(target)
        with self.page.expect_navigation():
            self.page.keyboard.press(key)

    def overflow(self) -> list[str]:
        """Return what is wider than the window, so that a person would have to scroll sideways."""
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found

    def resize(self, look: Look) -> None:
        """Give the window another size and call it by another name, without opening the page again."""
        self.look = look
        self.page.set_viewport_size({"width": look.width, "height": look.height})

    def structure(self) -> str:
        """Return a digest of the page's elements and their classes: what two roles see alike has the same."""
        elements: str = self.page.evaluate(_STRUCTURE)
        return hashlib.sha256(elements.encode()).hexdigest()

    def axe(self, rule: str = "") -> list[str]:
        """Return what axe finds wrong with the page (WCAG 2 A and AA), or what one rule of it finds.

        Without scripts its timers never fire, and it would never end: the same page is examined with them.
        """
        if not self.look.has_scripts:
            return []
        # A colour that is still on its way from light to dark would be measured as neither.
        self.page.evaluate("() => Promise.all(document.getAnimations().map(each => each.finished))")
        asked = {"type": "rule", "values": [rule]} if rule else {"type": "tag", "values": list(_TAGS)}
        found = Axe().run(self.page, options={"runOnly": asked})
        return [
            f"{each['id']}: {node['html'][:160]}" for each in found.response["violations"] for node in each["nodes"]
        ]

    def shot(self, name: str) -> Path:
        """Save the whole page as a picture under `.data/screenshots`."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        file = SHOTS / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.{self.look.name}.png"
        self.page.screenshot(path=file, full_page=True)
        return file


# The admin's frame scrolls by itself, so the window's own width says nothing. Boxes that are made to scroll may.
_OVERFLOW = """() => [...document.querySelectorAll('body *')].filter(each => {
  const box = each.getBoundingClientRect();
  const isSeen = box.width > 1 && box.height > 1 && getComputedStyle(each).visibility !== 'hidden';
  const right = box.left + (each.matches('input, textarea') ? box.width : Math.max(box.width, each.scrollWidth));
  return isSeen && !each.closest('.results, .bounded, svg') && right > document.documentElement.clientWidth + 1;
}).slice(0, 5).map(each => `${each.tagName}.${each.className}: ${each.textContent.trim().slice(0, 60)}`)"""

_STRUCTURE = "() => [...document.querySelectorAll('body *')].map(each => each.tagName + each.className).join()"
_TAGS = ("wcag2a", "wcag2aa", "wcag22aa")

Arrive = Callable[..., Visitor]


def member(*memberships: tuple[Tenancy, Role]) -> Any:
    """Make a person with a password that the served console accepts."""
    user = get_user_model().objects.create_user(username=f"user-{uuid.uuid4().hex[:10]}")
    user.password = _HASH
    user.save(update_fields=["password"])
    for tenancy, role in memberships:
        give(tenancy, user, role)
    return user
