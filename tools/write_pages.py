"""Write the generated pages of docs/, or check that they are current (``--check``).

A generated page has a template, pages/NAME.j2, and a module in pages that supplies its values. Other pages are written
by hand, and may contain tables from pages/tables.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pages import cli, configuration, files, llms, public_runs, python
from pages.tables import replace_tables

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages of plug-ins, which may be deleted.
META = {}
if (ROOT / "src/meta_eval/plugins/meta").is_dir():
    from pages import grader_validation, tasks

    META = {
        "plugins/meta/grader_validation.json": grader_validation,
        "plugins/meta/grader_validation.md": grader_validation,
        "plugins/meta/tasks.md": tasks,
    }
PAGES = {
    "reference/cli.md": cli,
    "reference/configuration.md": configuration,
    "reference/files.md": files,
    **META,
    "reference/public_runs.md": public_runs,
    "reference/python.md": python,
    "llms.txt": llms,  # last, because it quotes the others
}


def environment() -> Environment:
    """Jinja with the filters of the templates."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("pages")), undefined=StrictUndefined, trim_blocks=True
    )
    made.filters |= {
        "allowed": configuration.allowed,
        "cell": lambda text: " ".join(text.split()).replace("|", "\\|"),
        "code_safe": lambda text: text.replace("<", "&lt;"),
        "decision": public_runs.decision,
        "default_of": configuration.default_of,
        "escaped": lambda text: text.replace("|", "\\|"),
        "explain": public_runs.explain,
        "first_paragraph": lambda text: " ".join(text.split("\n\n")[0].split()),
        "shorten": public_runs.shorten,
    }
    if META:
        made.filters["numbers"] = tasks.numbers
    return made


def made_pages() -> Iterator[tuple[Path, str]]:
    """Each page with its current text."""
    for page in sorted(DOCS.rglob("*.md")):
        if page.relative_to(DOCS).as_posix() not in PAGES:
            yield page, replace_tables(page.read_text(encoding="utf-8"))
    for name, module in PAGES.items():
        text = environment().get_template(f"{Path(name).name}.j2").render(module.values())
        yield DOCS / name, text.rstrip("\n") + "\n"


def main() -> int:
    """Write stale pages. With ``--check`` only name them, and return 1."""
    stale = 0
    for page, text in made_pages():
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{page.relative_to(ROOT)} is stale; run: python tools/write_pages.py", file=sys.stderr)
            stale = 1
        else:
            page.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
