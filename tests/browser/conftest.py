"""A real Chromium, driven by playwright. Every page is watched: an error, a request or a script that is not ours fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from reports import write_html

from meta_eval.reports.document import ShownSample
from meta_eval.reports.report import Report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of META_EVAL_CHROMIUM, or one on the PATH."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("META_EVAL_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    assert path, "no Chromium: install one (apt-get install chromium), or name it in META_EVAL_CHROMIUM"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(_QUIET))
        yield browser
        browser.close()


@pytest.fixture
def expected() -> list[str]:
    """Parts of complaints that a test brings about."""
    return []


@pytest.fixture
def show(chromium: Browser, tmp_path: Path, expected: list[str]) -> Iterator[Callable[..., Page]]:
    """Open a report as a page; afterwards nothing may have gone wrong in any of them."""
    faults: list[str] = []
    contexts = []

    def opened(report: Report, samples: Iterable[ShownSample] = (), **options: Any) -> Page:
        path = tmp_path / f"page{len(contexts)}.html"
        write_html(path, report, samples)
        context = chromium.new_context(
            **{"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce", **options}
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: None if request.url.split("#")[0] == path.as_uri() else faults.append(request.url),
        )
        page.goto(path.as_uri())
        return page

    yield opened
    hurt = [context.pages[0].evaluate("window.hurt") for context in contexts]
    for context in contexts:
        context.close()
    faults = [fault for fault in faults if not any(part in fault for part in expected)]
    assert (faults, [fault for fault in hurt if fault is not None]) == ([], [])
