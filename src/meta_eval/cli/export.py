"""``meta-eval export``: write what a pack asks as a file."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say
from meta_eval.cli.verify import Steps


def export(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    tasks: list[str] = typer.Option([], "--tasks", metavar="NAMES", help="Tasks and groups of the pack, with commas."),
    output: Path = typer.Option(Path("requests.jsonl"), "--output", "-o", metavar="FILE", help="Where to write."),
    force: bool = typer.Option(
        False, "--force", help="Write what `fidelity` asks instead: the recorded answers, token by token."
    ),
    edited: bool = options.EDITED,
    as_json: bool = options.AS_JSON,
) -> None:
    """Write what a pack asks, request by request, for an engine that lm-eval does not know. docs/answers.md says how
    to answer it; `meta-eval grade` scores the answers."""
    from meta_eval.answers.export import export as run

    folder = options.pack_folder(pack, config)
    names = [name.strip() for item in tasks for name in item.split(",") if name.strip()]
    with Steps("exporting") as steps:
        done = run(folder, output, tasks=names, force=force, edited=edited, progress=steps.progress)
    count = sum(done.tasks.values())
    err.print(f"wrote {output}: {count:,} requests", soft_wrap=True)
    if as_json:
        say(json.dumps({"requests": str(output), "token_ids": done.token_ids, "tasks": done.tasks}))
