"""Tables in hand-written pages of docs/, generated from lists in the code.

A page holds ``<!-- table NAME … -->`` and, after the table, ``<!-- end of table -->``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from meta_eval.judge.gate import CONDITIONS

_TABLE = re.compile(
    r"(?P<head>^ *<!-- table (?P<name>[\w ]+)[:.].*?-->\n).*?(?=^ *<!-- end of table -->)", re.DOTALL | re.MULTILINE
)
_COMES_TO = {"gate failed": "DON'T SHIP", "gate not met": "no SHIP"}


def replace_tables(page: str) -> str:
    """Replace the tables of a page."""
    return _TABLE.sub(lambda match: match["head"] + TABLES[match["name"]](), page)


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


def _write_formats() -> str:
    from meta_eval.ask.answer_files import VERSION
    from meta_eval.cli.verify import SCHEMA_VERSION as OF_VERIFY
    from meta_eval.judge import token_table
    from meta_eval.pack import manifest
    from meta_eval.reports import candidates, report_data, texts_report

    return _write_table(
        ("file", "its version stands in", "version"),
        [
            ("`manifest.json` of a pack", "`schema_version`", f"{manifest.SCHEMA_VERSION}"),
            ("requests and answers", "`version` of the first line", f"{VERSION}"),
            ("`verify --json`", "`schema_version`", f"{OF_VERIFY}"),
            ("`report --json`, `compare --json`", "`schema_version`", f"{report_data.SCHEMA_VERSION}"),
            ("`compare A B C --json`", "`schema_version`", f"{candidates.SCHEMA_VERSION}"),
            ("`compare --texts --json`", "`schema_version`", f"{texts_report.SCHEMA_VERSION}"),
            ("tables of token log-probabilities", "`schema_version`", f"{token_table.SCHEMA_VERSION}"),
        ],
    )


# Each is written for a page that has it, so that a plug-in may be missing together with its pages.
TABLES = {"file formats": _write_formats, "gate conditions": _write_conditions, "groups of causes": _write_causes}
