"""``meta-eval grade``: grade answers that were made outside of lm-eval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from meta_eval.ask.ask_options import GradingOptions
from meta_eval.cli import options
from meta_eval.cli.console import err
from meta_eval.cli.steps import Steps
from meta_eval.cli.streams import print_result


@options.spread_options()
def grade(
    answers: list[Path] = typer.Argument(..., metavar="ANSWERS…", help="Files of answers, joined in this order."),
    pack: Path | None = typer.Option(
        None,
        "--pack",
        metavar="PACK",
        help="The pack that the answers belong to. Default: the configuration's work_dir.",
    ),
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: GradingOptions,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Grade answers that another tool made, with lm-eval and the filters and metrics of the pack.

    It writes a results folder as lm_eval does. Missing, repeated, foreign and failed answers are named, and get no
    score.

    Example: meta-eval grade answers.jsonl --pack work_dir
    """
    from meta_eval.ask.grading import grade_answers as run

    folder = options.pack_folder(pack, config, hint="Name it with --pack PACK")
    with Steps("grading"):
        done = run(answers, folder, chosen)
    err.print(
        f"wrote {done.results}; judge it with: meta-eval report {done.results.parent} --pack {folder}",
        soft_wrap=True,
    )
    if as_json:
        payload = {
            "results": str(done.results),
            "model": done.model,
            "missing": done.missing,
            "failed": done.failed,
            "speed": asdict(done.speed),
            "tasks": done.scores,
        }
        print_result(payload)
