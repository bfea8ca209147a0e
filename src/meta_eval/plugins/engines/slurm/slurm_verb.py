"""``meta-eval slurm``: write the job scripts of a run on a cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from meta_eval.plugins.engines.slurm.slurm_jobs import Jobs
from meta_eval.sockets import err, options, print_result, show_progress


def _lines(name: str, text: str) -> options.Flag:
    return options.Flag(list[str], f"{name} OPTION", text, read=tuple)


@options.spread_options(
    shards=options.Flag(int, "--shards N", "Number of jobs that share the requests. Each loads the model."),
    nodes=options.Flag(
        int, "--nodes N", "Nodes per job. Several nodes serve a model together; this needs backend server."
    ),
    gpus=options.Flag(
        str | None, "--gpus-per-task N", "GPUs per node: 8, h100:8 or 0. Default: as many as the model needs."
    ),
    partition=options.Flag(str | None, "--partition NAME", "Slurm partition of the jobs."),
    time=options.Flag(
        str | None, "--time LIMIT", "Time limit per job. A job that reaches it is queued again and resumes."
    ),
    lines=_lines("--sbatch", "An option for sbatch, such as --sbatch=--account=my_group. Repeatable."),
    answer_lines=_lines("--sbatch-answer", "An option for the answering jobs only. Repeatable."),
    grade_lines=_lines("--sbatch-grade", "An option for the grading job only. Repeatable."),
)
def slurm(
    config: Path = options.CONFIG,
    *,
    jobs: Jobs,
    output: Path = typer.Option(Path("slurm"), "--output", "-o", metavar="FOLDER", help="Where to write the scripts."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Write Slurm scripts for a run: an array of jobs that answer, then a job that grades and reports.

    If needed, it prepares the pack first. It prints the command that submits the jobs. See
    docs/plugins/engines/scale.md.

    Example: meta-eval slurm --shards 4 --time 4:00:00
    """
    from meta_eval.plugins.engines.slurm.slurm_jobs import SCRIPTS, write_jobs
    from meta_eval.sockets import open_config

    if jobs.nodes > 1:  # the pack and the jobs both need it
        jobs = jobs.updated(overrides=[*jobs.overrides, "backend=server", "serve=false"])
    settings, place = open_config(config, jobs.overrides)
    with show_progress("starting"):
        submit = write_jobs(settings, output, jobs, file=config, config_place=place)
    err.print(f"wrote {', '.join(SCRIPTS)} in {submit.parent}; paste this to submit them:", soft_wrap=True)
    command = shlex.join(["bash", str(submit)])
    print_result(
        json.dumps({"command": command, "scripts": [str(submit.parent / name) for name in SCRIPTS]})
        if as_json
        else command
    )
    page = Path(settings.output_path).expanduser() / "report.html"
    err.print(f"then: squeue shows the jobs, and the last of them writes {page}", soft_wrap=True)
