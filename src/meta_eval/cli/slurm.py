"""``meta-eval slurm``: a run as jobs of a cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, print_result, show_progress
from meta_eval.running.slurm_layout import Jobs


def _lines(name: str, text: str) -> options.Flag:
    return options.Flag(list[str], typer.Option(name, metavar="OPTION", help=text), read=tuple, shown=list)


@options.spread_options(
    shards=options.Flag(
        int, typer.Option("--shards", metavar="N", help="Jobs that share the requests, each with a copy.")
    ),
    nodes=options.Flag(
        int,
        typer.Option(
            "--nodes", metavar="N", help="Nodes of each; more than one serve a model together, with backend server."
        ),
    ),
    gpus=options.Flag(
        str | None,
        typer.Option(
            "--gpus-per-task", metavar="N", help="GPUs of each node: 8, h100:8, 0; default: what the model takes."
        ),
    ),
    partition=options.Flag(str | None, typer.Option("--partition", metavar="NAME", help="Where the jobs run.")),
    time=options.Flag(
        str | None, typer.Option("--time", metavar="LIMIT", help="Of each job; a shard then goes on anew.")
    ),
    lines=_lines("--sbatch", "An option of sbatch, such as --sbatch=--account=my_group; may be repeated."),
    answer_lines=_lines("--sbatch-answer", "Of the answering jobs only."),
    grade_lines=_lines("--sbatch-grade", "Of the grading job only."),
)
def slurm(
    config: Path = options.CONFIG,
    *,
    jobs: Jobs,
    output: Path = typer.Option(Path("slurm"), "--output", "-o", metavar="FOLDER", help="Where the scripts go."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Write the jobs of a run for Slurm: an array of shards that answer, and behind it one that grades and reports.
    Prepares the pack if it is needed; prints the command that submits them. docs/guides/scale.md shows the rest."""
    from meta_eval.config import load_config
    from meta_eval.running.slurm_jobs import SCRIPTS, write_jobs

    if jobs.nodes > 1:  # in the pack, and in what the jobs are given
        jobs = jobs.updated(overrides=[*jobs.overrides, "backend=server", "serve=false"])
    settings = load_config(config, jobs.overrides)
    with show_progress("starting"):
        submit = write_jobs(settings, output, jobs, config_place=str(config))
    err.print(f"wrote {', '.join(SCRIPTS)} in {submit.parent}; paste this to submit them:", soft_wrap=True)
    command = shlex.join(["bash", str(submit)])
    print_result(
        json.dumps({"command": command, "scripts": [str(submit.parent / name) for name in SCRIPTS]})
        if as_json
        else command
    )
