"""Debian's Chromium, driven by Playwright. Any complaint in its console, and any request that leaves this machine, fails the test."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from harness.patience import TIMEOUT
from harness.servers.users import table
from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, ConsoleMessage, Page, Request

CHROMIUM: Final = shutil.which("chromium") or "/usr/bin/chromium"

LOOK, CHANGE = "looks-and-never-touches", "changes-whatever-it-wants"
"""Tokens of a service whose page is looked at."""

USERS: Final = "".join(
    table(name, token=token, roles=[role])
    for name, role, token in (("looker", "viewer", LOOK), ("changer", "operator", CHANGE))
)
"""The users with these tokens, for a file of the configuration."""

PHONE: Final = {"width": 360, "height": 740}
DESKTOP: Final = {"width": 1100, "height": 800}


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run the browser within the context, without prompts."""
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visit(
    browser: Browser, *, viewport: dict[str, int] | None = None, dark: bool = False
) -> AsyncIterator[Page]:
    """Open a page as a first-time visitor; afterwards there must be no complaints."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        refused = (
            "the server responded with a status of" in message.text
        )  # reported in words on the page
        if message.type in {"error", "warning"} and not refused:
            complaints.append(f"{message.type}: {message.text}")

    def asked(request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host != "127.0.0.1":
            complaints.append(f"asked {request.url}")

    context = await browser.new_context(
        viewport=viewport or DESKTOP,  # type: ignore[arg-type]  # a width and a height
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(TIMEOUT * 1000)
    page = await context.new_page()
    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    context.on("request", asked)
    try:
        yield page
    finally:
        await context.close()
    assert not complaints, complaints


async def log_in(page: Page, place: str, token: str) -> None:
    """Log in on the page of the service at that place, and open its queues."""
    await page.goto(f"{place}/")
    await page.fill("#password", token)
    await page.keyboard.press("Enter")
    await shows(page, "h1:text-is('Queues')")


async def shows(page: Page, what: str) -> None:
    """Return when the page that has this is there as a whole: a browser shows the beginning before it has the end."""
    await page.wait_for_selector(what)
    await page.wait_for_load_state()
