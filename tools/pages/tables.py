"""Tables in hand-written pages of docs/, generated from lists in the code; and parts of pages that plug-ins have.

A page holds ``<!-- table NAME … -->`` and, after the table, ``<!-- end of table -->``. What a plug-in says on a page of
the core stands in ``NAME.part`` in its own folder of docs: rows of a table, and behind an empty line sections. A page
with ``<!-- parts NAME … -->`` and ``<!-- end of parts -->`` has the sections of all such files between them. Links in a
part are as on that page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from meta_eval.judge.gate import CONDITIONS

_TABLE = re.compile(
    r"(?P<head>^ *<!-- table (?P<name>[\w ]+)[:.].*?-->\n).*?(?=^ *<!-- end of table -->)", re.DOTALL | re.MULTILINE
)
_PARTS = re.compile(
    r"(?P<head>^<!-- parts (?P<name>\w+)[:.].*?-->\n).*?(?=^<!-- end of parts -->)", re.DOTALL | re.MULTILINE
)
_PLUGINS = Path(__file__).resolve().parents[2] / "docs/plugins"
_COMES_TO = {"gate failed": "DON'T SHIP", "gate not met": "no SHIP"}


def replace_tables(page: str) -> str:
    """Replace the tables and parts of a page."""
    page = _PARTS.sub(lambda match: "\n".join([match["head"], *_read_sections(match["name"])]), page)
    return _TABLE.sub(lambda match: match["head"] + TABLES[match["name"]](), page)


def _read_parts(name: str) -> Iterator[tuple[list[str], str]]:
    """Rows and sections of each plug-in that has such a part, sorted by the first row, else by folder."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(_PLUGINS.glob(f"*/{name}.part"))]
    for text in sorted(texts, key=lambda text: text.lstrip("| [").lower()):
        rows = text.partition("\n\n")[0].splitlines() if text.startswith("|") else []
        yield rows, text.removeprefix("\n".join(rows)).lstrip("\n")


def _read_sections(name: str) -> Iterator[str]:
    return (sections for _, sections in _read_parts(name) if sections)


def _read_rows(name: str) -> str:
    return "".join(f"{row}\n" for rows, _ in _read_parts(name) for row in rows)


def _write_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- ", "|---").replace("|--- |", "|---|")


def _write_conditions() -> str:
    return _write_table(
        ("key of `limits`", "the percent of a task's answers that may be", "more than that"),
        [(f"`{condition.key}`", condition.counted, _COMES_TO[condition.severity]) for condition in CONDITIONS],
    )


def _write_causes() -> str:
    from meta_eval.plugins.tokens.causes import GROUPS

    return _write_table(
        ("group", "causes in it", "its trace"),
        [
            (group.name, "that" if group.causes == (group.name,) else "; ".join(group.causes), group.trace)
            for group in GROUPS
        ],
    )


def _write_harnesses() -> str:
    headings = ("harness", "what you name", "a doc is paired by", "several answers to a doc", "a pack needs")
    return _write_table(headings, []) + _read_rows("harness")


def _write_own_tasks() -> str:
    return _write_table(("you have", "which way", "you write"), []) + _read_rows("own_tasks")


def _write_losses() -> str:
    """Losses as a report's "could see"; the shares of flips are `prepare --plan`'s: assumed, and of its example."""
    from meta_eval.judge.plan import PLANNED_FLIPS, expect_copy, margin_within

    headings = "docs", "loss that shows, greedy", "at a temperature", "smallest margin for SHIP, greedy"
    rows = []
    for docs in (50, 100, 300, 1000, 3000, 12_000):
        greedy, sampled = (expect_copy(docs, flips) for flips in (PLANNED_FLIPS, 0.12))
        points = greedy.find_detectable(), sampled.find_detectable(), margin_within(greedy)
        rows.append((f"{docs:,}", *(f"{100 * point:.1f}" for point in points)))
    return _write_table(headings, rows)


def _write_sources() -> str:
    rows = (
        ("a results folder of `lm_eval --log_samples`, 0.4.0 or later", "a run of your own"),
        (
            "a run of inspect_ai, promptfoo, EvalScope, simple-evals or HELM, graded by exact match",
            "a [log of another harness](harnesses.md)",
        ),
        (
            "a format of your own",
            "a [record format](../architecture.md#sockets) of a package; `examples/csv_record.py` reads CSV files",
        ),
    )
    return _write_table(("`evals_dataset`", "is"), rows) + _read_rows("baseline")


def _write_settings() -> str:
    from meta_eval.pack.records.format_registry import list_formats

    return _write_table(
        ("format", "settings", "settings of the grader"),
        [
            (
                of.name,
                *(", ".join(f"`{name}`" for name in names) or "none" for names in (of.settings, of.grader_settings)),
            )
            for of in list_formats()
            if of.holds_runs
        ],
    )


# Each is written for a page that has it, so that a plug-in may be missing together with its pages.
TABLES = {
    "compared settings": _write_settings, "gate conditions": _write_conditions,
    "groups of causes": _write_causes, "harnesses": _write_harnesses, "losses that show": _write_losses,
    "own tasks": _write_own_tasks, "sources": _write_sources,
}  # fmt: skip
