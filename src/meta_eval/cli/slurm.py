"""``meta-eval slurm``: a run as jobs of a cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, print_result, show_progress

_LINES = "An option of sbatch, such as --sbatch=--account=my_group; may be repeated"


def slurm(
    config: Path = options.CONFIG,
    overrides: list[str] = options.OVERRIDES,
    tasks: list[str] = options.TASKS,
    allow_code: bool = options.ALLOW_CODE,
    edited: bool = options.EDITED,
    canary: bool = options.CANARY,
    shards: int = typer.Option(1, "--shards", metavar="N", help="Jobs that share the requests, each with a copy."),
    nodes: int = typer.Option(
        1, "--nodes", metavar="N", help="Nodes of each; more than one serve a model together, with backend server."
    ),
    gpus: str | None = typer.Option(
        None, "--gpus-per-task", metavar="N", help="GPUs of each node: 8, h100:8, 0; default: what the model takes."
    ),
    partition: str | None = typer.Option(None, "--partition", metavar="NAME", help="Where the jobs run."),
    time: str | None = typer.Option(None, "--time", metavar="LIMIT", help="Of each job; a shard then goes on anew."),
    lines: list[str] = typer.Option([], "--sbatch", metavar="OPTION", help=f"{_LINES}."),
    answer_lines: list[str] = typer.Option([], "--sbatch-answer", metavar="OPTION", help="Of the answering jobs only."),
    grade_lines: list[str] = typer.Option([], "--sbatch-grade", metavar="OPTION", help="Of the grading job only."),
    output: Path = typer.Option(Path("slurm"), "--output", "-o", metavar="FOLDER", help="Where the scripts go."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Write the jobs of a run for Slurm: an array of shards that answer, and behind it one that grades and reports.
    Prepares the pack if it is needed; prints the command that submits them. docs/guides/scale.md shows the rest."""
    from meta_eval.config import load_config
    from meta_eval.running.slurm_jobs import SCRIPTS, Jobs, write_jobs

    jobs = Jobs(shards, nodes, gpus, partition, time, tuple(lines), tuple(answer_lines), tuple(grade_lines))
    if nodes > 1:  # in the pack, and in what the jobs are given
        overrides = [*overrides, "backend=server", "serve=false"]
    settings = load_config(config, overrides)
    with show_progress("starting") as progress:
        submit = write_jobs(
            settings,
            output,
            jobs,
            config_place=str(config),
            overrides=overrides,
            tasks=options.split_names(tasks),
            options=[] if canary else ["--no-canary"],
            allow_code=allow_code,
            edited=edited,
            progress=progress,
        )
    err.print(f"wrote {', '.join(SCRIPTS)} in {submit.parent}; paste this to submit them:", soft_wrap=True)
    command = shlex.join(["bash", str(submit)])
    print_result(
        json.dumps({"command": command, "scripts": [str(submit.parent / name) for name in SCRIPTS]})
        if as_json
        else command
    )
