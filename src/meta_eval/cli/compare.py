"""``meta-eval compare``: two runs over the same docs, such as a model and its quantised twin."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import working
from meta_eval.cli.report import finish, rules_of, write


def compare(
    a: Path = typer.Argument(..., metavar="A", help="The baseline: what lm_eval wrote of it."),
    b: Path = typer.Argument(..., metavar="B", help="The run that is compared with it."),
    pack: Path | None = typer.Option(None, "--pack", metavar="WORK_DIR", help="The pack of both."),
    html: Path | None = options.HTML,
    markdown: Path | None = options.MARKDOWN,
    as_json: bool = options.SHARES_AS_JSON,
    margin: float | None = options.MARGIN,
    gate: Path | None = options.GATE,
    max_drop: float | None = options.MAX_DROP,
    repeats: bool = options.REPEATS,
    skip_damaged: bool = options.SKIP_DAMAGED,
) -> None:
    """Compare two runs doc by doc: what B loses of A with intervals, flips with both answers, recovery in percent.

    Exit codes: 0; with --gate or --max-drop 0 SHIP, 1 DON'T, 3 NOT SHOWN; 2 something that you can fix.
    """
    from meta_eval.api import compare as run

    rules = rules_of(margin, gate, max_drop)
    with working("reading") as progress:
        found = run(
            a, b, pack=pack, margin=margin, gate=rules, repeats=repeats, skip_damaged=skip_damaged, progress=progress
        )
        progress("writing")
        write(found, pack=pack, html=html, markdown=markdown)
    finish(found, as_json=as_json)
