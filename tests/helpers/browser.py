"""A real Chromium for tests of pages. Without one, they are skipped and say why."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--disable-component-update", "--disable-sync"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright, with a profile of its own."""
    api = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright, which is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("pages are tested in Chromium, which is not here (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, expected: str = "nothing", **options: Any) -> Iterator[Any]:
    """A page whose errors fail the test, unless they contain what is expected."""
    context = browser.new_context(**options)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda told: problems.append(told.text) if told.type == "error" else None)
    page.on("dialog", lambda dialog: (problems.append("a dialog opened"), dialog.dismiss()))
    page.set_default_timeout(20_000)
    try:
        yield page
    finally:
        context.close()
    assert not [problem for problem in problems if expected not in problem], problems


def until(page: Any, condition: str, seconds: float = 20) -> None:
    """Wait until an expression is true. (Playwright's own function needs `eval`, which our pages forbid.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def inaccessible(page: Any) -> list[str]:
    """What axe-core says is wrong on the page for people who see little, or use a keyboard or a screen reader."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [f"{problem['help']}: {node['html']}" for problem in found for node in problem["nodes"]]
