"""An old address of the site leads to the page where its text is now."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

from places import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_old_addresses_lead_to_pages_that_are_there(tmp_path: Path) -> None:
    for page in DOCS.rglob("*.md"):
        (tmp_path / page.relative_to(DOCS).with_suffix("")).mkdir(parents=True, exist_ok=True)
    before = {path for path in tmp_path.rglob("*") if path.is_dir()}
    subprocess.run([sys.executable, REPOSITORY / "tools/moved_pages.py", tmp_path], check=True)
    moved = list(tmp_path.rglob("index.html"))
    assert len(moved) > 5
    for page in moved:
        assert page.parent not in before, f"{page.parent} is no old address"
        (address,) = re.findall(r"url=([^\"]+)\"", page.read_text(encoding="utf-8"))
        there = urljoin(page.parent.relative_to(tmp_path).as_posix() + "/", address)
        assert (DOCS / there.partition("#")[0].rstrip("/")).with_suffix(".md").is_file(), there
