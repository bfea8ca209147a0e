"""``meta-eval export``: write what a pack asks as a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say, working
from meta_eval.cli.verify import Steps
from meta_eval.errors import ConfigError


class Form(StrEnum):
    requests = "requests"
    lighteval = "lighteval"
    every_eval_ever = "every-eval-ever"


def export(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    tasks: list[str] = options.TASKS,
    to: Form = typer.Option(
        Form.requests,
        "--to",
        help="Requests as JSON Lines, the pack as custom tasks of lighteval, or results of a run.",
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="PATH",
        help="Where to write; default: requests.jsonl, or the folder lighteval_tasks or every_eval_ever.",
        show_default=False,
    ),
    results: Path | None = typer.Option(
        None, "--results", metavar="PATH", help="With --to every-eval-ever: what lm_eval wrote of a run of the pack."
    ),
    force: bool = typer.Option(
        False, "--force", help="Write what `fidelity` asks instead: the recorded answers, token by token."
    ),
    edited: bool = options.EDITED,
    as_json: bool = options.AS_JSON,
) -> None:
    """Write what a pack asks, request by request, for an engine that lm-eval does not know. docs/answers.md says how
    to answer it; `meta-eval grade` scores the answers. Or write the pack for another harness (docs/others.md)."""
    folder = options.pack_folder(pack, config)
    names = options.listed(tasks)
    if (results is not None) != (to is Form.every_eval_ever):
        raise ConfigError(
            "results of a run are what --to every-eval-ever writes, and nothing else",
            where="--results",
            hint="Give both, or neither",
        )
    if results is not None:
        _results(folder, results, output or Path("every_eval_ever"), as_json)
        return
    if to is Form.lighteval:
        if force:
            raise ConfigError("lighteval forces no recorded answers", where="--force", hint="Leave out --force or --to")
        _to_lighteval(folder, output or Path("lighteval_tasks"), names, edited, as_json)
        return
    _requests(folder, output or Path("requests.jsonl"), names, force, edited, as_json)


def _requests(folder: Path, output: Path, names: Sequence[str], force: bool, edited: bool, as_json: bool) -> None:
    from meta_eval.answers.export import export as run

    with Steps("exporting") as steps:
        done = run(folder, output, tasks=names, force=force, edited=edited, progress=steps.progress)
    count = sum(done.tasks.values())
    err.print(f"wrote {output}: {count:,} requests", soft_wrap=True)
    if as_json:
        say(json.dumps({"requests": str(output), "token_ids": done.token_ids, "tasks": done.tasks}))


def _to_lighteval(folder: Path, output: Path, names: Sequence[str], edited: bool, as_json: bool) -> None:
    from meta_eval.answers.lighteval import MODULE, NAMES, export_to_lighteval

    with Steps("exporting") as steps:
        done = export_to_lighteval(folder, output, tasks=names, edited=edited, progress=steps.progress)
    err.print(f"wrote {output}: {len(done.tasks)} tasks, {sum(done.tasks.values()):,} docs", soft_wrap=True)
    command = (
        'lighteval vllm "model_name=MODEL,override_chat_template=False" '
        f"{shlex.quote(str(output / NAMES))} --custom-tasks {shlex.quote(str(output / MODULE))}"
    )
    err.print(command, soft_wrap=True, markup=False)
    if as_json:
        say(json.dumps({"folder": str(output), "tasks": done.tasks, "left_out": done.left_out}))


def _results(folder: Path, results: Path, output: Path, as_json: bool) -> None:
    from meta_eval.answers.every_eval_ever import export_results

    with working("reading results") as progress:
        done = export_results(folder, results, output, progress=progress)
    err.print(f"wrote {done.aggregate}: {done.results:,} averages, {done.rows:,} instances", soft_wrap=True)
    if as_json:
        said = {"aggregate": str(done.aggregate), "instances": str(done.instances)}
        say(json.dumps({**said, "results": done.results, "rows": done.rows}))
