"""Write the pages of docs/ that are made from something else, or check that they are what it says (``--check``)."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import configuration, fidelity, tasks

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "configuration.md": configuration.page,
    "fidelity.md": fidelity.page,
    "tasks.md": tasks.page,
}


def main() -> int:
    """Exit code 1 where a page is stale and only a check was asked for."""
    stale = 0
    for name, make in PAGES.items():
        page, text = ROOT / "docs" / name, make()
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"docs/{name} is stale; run: python tools/write_pages.py", file=sys.stderr)
            stale = 1
        else:
            page.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
