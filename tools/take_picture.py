"""Take the README's picture docs/examples/report.png from docs/examples/report.html. Needs playwright and Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1160, "height": 1000}, color_scheme="light")
        page.goto((EXAMPLES / "report.html").as_uri())
        page.wait_for_timeout(1000)
        end = page.get_by_role("heading", name="Beside the published numbers").bounding_box()
        assert end is not None
        page.screenshot(path=EXAMPLES / "report.png", clip={"x": 0, "y": 0, "width": 1160, "height": end["y"] - 20})
        browser.close()


if __name__ == "__main__":
    main()
