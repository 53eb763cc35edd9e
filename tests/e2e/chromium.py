"""Debian's Chromium, driven by Playwright: which binary, which flags, and the ways in which people look at a page.

Playwright's own browsers are never downloaded. `CHROMIUM` names another binary.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without them it looks for the hosts of its vendor at every start.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
# On a machine that does much else a page takes a minute; a wait that is too short says nothing of the page.
TIMEOUT_MILLISECONDS = 120_000.0


@dataclass(frozen=True, slots=True)
class Look:
    """One way to look at a page. `name` goes into the screenshot's file name."""

    name: str
    width: int = 1280
    height: int = 900
    is_dark: bool = False
    has_scripts: bool = True

    def open(self, browser: Browser) -> BrowserContext:
        context = browser.new_context(
            viewport={"width": self.width, "height": self.height},
            color_scheme="dark" if self.is_dark else "light",
            java_script_enabled=self.has_scripts,
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-GB",
        )
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        return context


DESKTOP = Look("desktop")
DARK = Look("dark", is_dark=True)
PHONE = Look("phone", width=360, height=740)
PHONE_DARK = Look("phone-dark", width=360, height=740, is_dark=True)
NO_SCRIPTS = Look("no-scripts", has_scripts=False)
PHONE_NO_SCRIPTS = Look("phone-no-scripts", width=360, height=740, has_scripts=False)
LOOKS = (DESKTOP, DARK, PHONE, PHONE_DARK, NO_SCRIPTS)


def binary() -> str:
    """Raises: AssertionError, saying what to install."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium: install it (Debian: apt-get install chromium), or name one in CHROMIUM"
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """Launch one headless browser. Playwright's loop lives in the calling thread until the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
