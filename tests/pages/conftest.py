"""A headless Chromium, which may reach nothing but this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium of the system: apt-get install chromium."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    assert found, "these tests need Debian's chromium"
    with sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()


class Watched:
    """A page, and everything that it complained of or asked the network for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: m.type == "error" and self.complaints.append(m.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, file: Path, query: str = "") -> None:
        """Open a file of this machine and wait until it is ready."""
        self.page.goto(f"{file.resolve().as_uri()}{query}")

    @property
    def strangers(self) -> list[str]:
        """Requests that would have left the machine."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    @property
    def too_wide(self) -> int:
        """Pixels that the page is wider than its window."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wide

    def serious_findings(self) -> list[str]:
        """Serious and critical findings of axe-core."""
        from axe_playwright_python.sync_playwright import Axe

        # Preloading would ask for the style sheet again, which a page from a file may not.
        found = Axe().run(self.page, options={"preload": False}).response["violations"]
        return [f"{x['id']}: {x['help']}" for x in found if x["impact"] in ("serious", "critical")]


@pytest.fixture
def watched(browser: Any) -> Iterator[Callable[..., Watched]]:
    """`watched(width=390, scheme="dark", scripts=False)` opens a new page."""
    contexts = []

    def opened(*, width: int = 1280, scheme: str = "light", scripts: bool = True) -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        return Watched(context.new_page())

    yield opened
    for context in contexts:
        context.close()
