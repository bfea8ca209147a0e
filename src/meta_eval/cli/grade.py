"""``meta-eval grade``: score answers that were made outside of lm-eval."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal, cast

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, print_result
from meta_eval.cli.verify import Steps
from meta_eval.messages.errors import ConfigError


def grade(
    answers: list[Path] = typer.Argument(..., metavar="ANSWERS…", help="Files of answers, read as one."),
    pack: Path | None = typer.Option(
        None, "--pack", metavar="PACK", help="The pack that was asked; default: the configuration's work_dir."
    ),
    config: Path = options.CONFIG_OF_PACK,
    tasks: list[str] = options.TASKS,
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FOLDER", help="Where to write; default: the pack's output_path."
    ),
    partial: bool = typer.Option(
        False, "--partial", help="Grade what is answered where answers are missing; report calls the run unfinished."
    ),
    prefer: str | None = typer.Option(
        None, "--prefer", metavar="last", help="Of answers to one request that are not alike take the last."
    ),
    allow_code: bool = options.ALLOW_CODE,
    edited: bool = options.EDITED,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Score answers with lm-eval's evaluator and the pack's own filters and metrics, and write the results and samples
    that lm_eval writes. A missing, doubled, foreign or failed answer is named and is never a score."""
    if prefer not in (None, "last"):
        raise ConfigError(f"{prefer!r} is not last", where="--prefer")
    from meta_eval.answers.grading import GradingOptions
    from meta_eval.answers.grading import grade_answers as run

    folder = options.pack_folder(pack, config)
    chosen = GradingOptions(
        tasks=options.split_names(tasks),
        output=output,
        partial=partial,
        prefer=cast(Literal["last"] | None, prefer),
        allow_code=allow_code,
        edited=edited,
    )
    with Steps("grading") as steps:
        done = run(answers, folder, chosen, progress=steps.progress)
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
        print_result(json.dumps(payload))
