"""``meta-eval slurm``: write the job scripts of a run on a cluster."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import show_progress
from meta_eval.plugins.engines.slurm.slurm_jobs import Jobs
from meta_eval.sockets import err, print_result


@options.spread_options()
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
    from meta_eval.pack.config import open_config
    from meta_eval.plugins.engines.slurm.slurm_jobs import SCRIPTS, write_jobs

    if jobs.nodes > 1:  # the pack and the jobs both need it
        jobs = jobs.updated(overrides=[*jobs.overrides, "backend=server", "serve=false"])
    settings, place = open_config(config, jobs.overrides)
    with show_progress("starting"):
        submit = write_jobs(settings, output, jobs, file=config, config_place=place)
    err.print(f"wrote {', '.join(SCRIPTS)} in {submit.parent}; paste this to submit them:", soft_wrap=True)
    command = shlex.join(["bash", str(submit)])
    print_result(
        {"command": command, "scripts": [str(submit.parent / name) for name in SCRIPTS]} if as_json else command
    )
    page = Path(settings.output_path).expanduser() / "report.html"
    err.print(f"then: squeue shows the jobs, and the last of them writes {page}", soft_wrap=True)
