"""``meta-eval export``: write the requests of a pack for other tools."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from meta_eval.ask.ask_options import ExportOptions
from meta_eval.base.display import plural
from meta_eval.base.outputs import check_outputs
from meta_eval.cli import options
from meta_eval.cli.console import err
from meta_eval.cli.steps import Steps
from meta_eval.cli.streams import print_result
from meta_eval.cli.verb import find_next_command


@options.spread_options()
def export(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: ExportOptions,
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="PATH",
        help="Where to write. Default: the name of the form with .jsonl.",
        show_default=False,
    ),
    as_json: bool = options.AS_JSON,
) -> None:
    """Write the requests of a pack for an engine that lm-eval does not support.

    Send them with your own program, and score the answers with `meta-eval grade`. docs/reference/files.md describes the
    format. A package may add other forms.

    Example: meta-eval export work_dir -o requests.jsonl
    """
    from meta_eval.ask.request_export import export_requests as run

    folder = options.pack_folder(pack, config)
    output = output or Path(f"{chosen.to}.jsonl")
    check_outputs((output,), (config,))
    with Steps("exporting"):
        done = run(folder, output, chosen)
    err.print(f"wrote {output}: {plural(sum(done.tasks.values()), 'request')}", soft_wrap=True)
    after: str | None = shlex.join(["meta-eval", "grade", "ANSWERS", "--pack", str(folder)])
    if chosen.force:
        after = find_next_command("forced", str(folder))
    if after:
        err.print(f"then: {after}", soft_wrap=True)
    if as_json:
        print_result({"requests": str(output), "token_ids": done.token_ids, "tasks": done.tasks})
