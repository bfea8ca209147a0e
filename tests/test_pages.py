"""Pages are true: their commands run and print what they show, their links lead somewhere, their options are known."""

from __future__ import annotations

import functools
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from console_blocks import is_slow, is_without_engine, matches, pages, renewed, run
from places import REPOSITORY, THOROUGH

from meta_eval.cli import app
from meta_eval.judge.alarms import KINDS
from meta_eval.pack.config import Config

DOCS = REPOSITORY / "docs"
ALL = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
MORE = [REPOSITORY / name for name in ("CHANGELOG.md", "SECURITY.md", "benchmarks/README.md")]
HANDMADE = [page for page in ALL if "Written by `python" not in page.read_text(encoding="utf-8")]


def name(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", pages(), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if is_slow(text) and not THOROUGH:
        pytest.skip("run in CI's thorough mode")
    if is_without_engine(text):
        pytest.skip("needs llama.cpp, in the folder that META_EVAL_LLAMACPP names")
    for command, printed in run(text):
        figures = "<!-- tests: llamacpp" not in text
        assert matches(command.shown, printed, figures=figures), "\n".join([
            f"{name(page)}: {command.text} prints", *printed,
            f"run: python tests/helpers/console_blocks.py {name(page)}",
        ])  # fmt: skip


ONE = ["task      docs recovery", "meta_some   20  100.0 %", "meta_more   30   99.0 %"]
TWO = ["               recov-", "task      docs    ery", "meta_some   20 99.0 %", "meta_more   30 98.0 %"]
BEFORE, AFTER = ["wrote report.html", ""], ["Percent.", "", "Scores", "task docs B", "meta_some 20 75.0"]


@pytest.mark.parametrize(("old", "new"), [(ONE, TWO), (TWO, ONE), (ONE, ONE[:1] + TWO[2:])])
@pytest.mark.parametrize("before", [[], ["…"], ["wrote report.html", "…"]])
@pytest.mark.parametrize("after", [[], ["…"], ["…", "meta_some 20 75.0"]])
def test_a_block_keeps_its_lines_when_a_heading_gains_or_loses_some(
    old: list[str], new: list[str], before: list[str], after: list[str]
) -> None:
    if not before and not after:
        return
    printed = [*(BEFORE if before else []), *new, *(AFTER if after else [])]
    lines = renewed((*before, *old, *after), printed)
    assert lines == [*before, *new, *after]
    assert matches(lines, printed)


def invocations() -> Iterator[tuple[str, str]]:
    """Every ``meta-eval`` command in the code of a page, with the page."""
    for page in HANDMADE:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for block in blocks:
            for line in block.replace("\\\n", " ").splitlines():
                yield from ((name(page), command) for command in re.findall(r"(?<![\w/.\-])meta-eval [^|#&\n`]*", line))
        for code in re.findall(r"`(meta-eval [^`]+)`", text):
            yield name(page), code


def test_every_command_on_a_page_is_one_of_the_command_line() -> None:
    root: Any = typer.main.get_command(app)
    for page, text in invocations():
        command, words = root, shlex.split(re.sub(r"[\"\'()$]", "", text))[1:]
        while words and hasattr(command, "get_command") and (child := command.get_command(None, words[0])) is not None:
            command, words = child, words[1:]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options |= {"-h", "--help"}
        assert command is not root or not words or words[0].startswith("-") or words[0].isupper(), f"{page}: {text}"
        unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options]
        assert not unknown, f"{page}: {text}: {unknown}"
        keys = [value.partition("=")[0] for value in re.findall(r"--set '?([\w.]+=)", text)]
        assert {key.partition(".")[0] for key in keys} <= {*Config.model_fields, "KEY"}, f"{page}: {text}"


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page, as the site and code hosts make them of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    slugs = {
        re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", re.sub(r"<[^>]*>", "", heading)).strip().lower())
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def is_gone(page: Path) -> bool:
    """Whether it is a page of a plug-in that is not there."""
    plugins = DOCS / "plugins"
    if not page.is_relative_to(plugins):
        return False
    return not (REPOSITORY / "src/meta_eval/plugins" / page.relative_to(plugins).parts[0]).is_dir()


@pytest.mark.parametrize("page", [*ALL, *MORE], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if is_gone(there):
            continue
        assert there.exists(), f"{name(page)}: {target}"
        if page.is_relative_to(DOCS):
            assert there.is_relative_to(DOCS), f"{name(page)}: {target} is not part of the site"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name(page)}: {target}"


def list_navigation(entries: list[Any]) -> Iterator[str]:
    """The pages of a part of the navigation."""
    for entry in entries:
        for part in entry.values() if isinstance(entry, dict) else [entry]:
            yield from list_navigation(part) if isinstance(part, list) else [part]


def test_every_page_is_in_the_navigation_once() -> None:
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    left_out = tuple(site["not_in_nav"].split())
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(list_navigation(site["nav"])) == sorted(page for page in pages if not page.startswith(left_out))


NOT_BY_HAND = ("reference/", "plugins/meta/tasks.md", "plugins/meta/grader_validation.md", "method/peers.md")


def count_words(page: str) -> int:
    """The words of a page that are written by hand: without its generated tables."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return len(re.sub(r"<!-- table .*?<!-- end of table -->", "", text, flags=re.DOTALL).split())


def test_pages_are_few_and_short() -> None:
    """Pages, words written by hand, and links of the start page. These limits may only fall, but by what the page or part
    of a new plug-in adds: 300 words at most."""
    site = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [*list_navigation(site["nav"])]
    assert len(pages) <= 34
    words = {page: count_words(page) for page in pages if not page.startswith(NOT_BY_HAND)}
    assert sum(words.values()) <= 30_609, words
    targets = re.findall(r"\]\(([^)\s#]+)", (DOCS / "index.md").read_text(encoding="utf-8"))
    linked = {target for target in targets if target.endswith(".md") and "://" not in target}
    assert len(linked) <= 12, linked


@pytest.mark.plugin("chat")  # whose page a few of its lines name
def test_the_table_of_alarms_names_them_all() -> None:
    page = (DOCS / "guides/report.md").read_text(encoding="utf-8")
    rows = page.partition("## Alarms")[2].partition("\n## ")[0].splitlines()
    cells = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row.split("|")[1]) for row in rows if row.startswith("| ")]
    assert {kind.name for kind in KINDS.values()} <= {name.strip() for cell in cells for name in cell.split(",")}


@pytest.mark.plugin("engines")  # the default backend is one of them
def test_generated_pages_are_what_their_sources_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.syspath_prepend(REPOSITORY / "tools")
    monkeypatch.setattr(sys, "argv", ["tools/write_pages.py", "--check"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path("tools/write_pages.py", run_name="__main__")
    assert end.value.code == 0


def test_files_that_pages_name_are_there() -> None:
    for page in HANDMADE:
        for file in re.findall(
            r"`((?:examples|benchmarks|tools|src|docs|meta_template|tests)/[\w./-]+\w)`",
            page.read_text(encoding="utf-8"),
        ):
            assert (REPOSITORY / file).exists(), f"{name(page)}: {file}"


def test_names_that_python_on_a_page_imports_are_there() -> None:
    import meta_eval

    for page in HANDMADE:
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            compile(block, name(page), "exec")
            for names in re.findall(r"^from meta_eval import (.+)$", block, re.MULTILINE):
                assert set(re.split(r",\s*", names)) <= set(meta_eval.__all__), name(page)


def test_the_glossary_has_at_most_forty_terms_each_once() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(terms)) == len(terms) <= 40


def test_the_readme_is_short() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 600
