"""Write the pages of docs/ that are made from something else, or check that they are what it says (``--check``).

A page is a template, pages/NAME.md.j2, and a module beside it that says what it is filled with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pages import configuration, fidelity, tasks

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"configuration": configuration, "fidelity": fidelity, "tasks": tasks}


def environment() -> Environment:
    """Jinja with what the templates call."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("pages")), undefined=StrictUndefined, trim_blocks=True
    )
    made.filters |= {
        "allowed": configuration.allowed,
        "cell": lambda text: " ".join(text.split()).replace("|", "\\|"),
        "default_of": configuration.default_of,
        "escaped": lambda text: text.replace("|", "\\|"),
        "numbers": tasks.numbers,
        "short": fidelity.short,
    }
    return made


def main() -> int:
    """Exit code 1 where a page is stale and only a check was asked for."""
    stale = 0
    for name, module in PAGES.items():
        page, text = ROOT / "docs" / f"{name}.md", environment().get_template(f"{name}.md.j2").render(module.values())
        text = text.rstrip("\n") + "\n"
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"docs/{name}.md is stale; run: python tools/write_pages.py", file=sys.stderr)
            stale = 1
        else:
            page.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
