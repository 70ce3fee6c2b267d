"""A real browser, where there is one."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclasses.dataclass
class Opened:
    """A page in the browser, with what went wrong and what it asked for."""

    page: Any
    errors: list[str]
    requests: list[str]

    @property
    def broken_images(self) -> list[str]:
        return self.page.evaluate("[...document.images].filter(i => !i.naturalWidth).map(i => i.alt || 'no alt')")

    @property
    def overflows(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, headless: playwright's own, or the system's; without either the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        system = next((found for name in SYSTEM_BROWSERS if (found := shutil.which(name))), None)
        executable = str(own) if own.is_file() else system
        if executable is None:
            pytest.skip("no browser: neither playwright's chromium nor a system chromium or chrome is installed")
        try:
            chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"the browser at {executable} does not start: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file or an address: `open_page(file, width=1280, scheme="light")`."""
    contexts = []

    def open_file(file: Path | str, width: int = 1280, scheme: str = "light", touch: bool = False) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, reduced_motion="reduce"
        )
        contexts.append(context)
        opened = Opened(context.new_page(), [], [])
        opened.page.on("console", lambda m: opened.errors.append(m.text) if m.type in ("error", "warning") else None)
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(file if isinstance(file, str) else file.resolve().as_uri())
        return opened

    yield open_file
    for context in contexts:
        context.close()
