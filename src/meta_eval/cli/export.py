"""``meta-eval export``: write the requests of a pack, or the pack in another form."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, print_result
from meta_eval.cli.verify import Steps
from meta_eval.messages.counts import plural
from meta_eval.messages.errors import ConfigError
from meta_eval.verb_options import ExportOptions


class Form(StrEnum):
    requests = "requests"
    batch = "batch"
    recipe = "recipe"


# The output of each form, and the options that it accepts besides --output and --json.
_OUTPUTS = {
    Form.requests: "requests.jsonl",
    Form.batch: "batch.jsonl",
    Form.recipe: "published",
}
_TAKEN = {
    Form.requests: {"--tasks", "--answered", "--force", "--edited"},
    Form.batch: {"--tasks", "--answered", "--edited"},
    Form.recipe: {"--dry-run"},
}


DRY_RUN = typer.Option(
    False, "--dry-run", help="With --to recipe: write the files of the repository, but upload nothing."
)


@options.spread_options(
    to=options.Flag(
        Form,
        "--to",
        "requests: JSON Lines. batch: a batch file of chat endpoints. recipe: what others need to make the same pack, "
        "without its rows.",
    ),
    answered=options.Flag(list[Path], "--answered FILE", "Leave out requests that this file answers. Repeatable."),
    force=options.Flag(bool, "--force", "Write the requests of `fidelity`: log-probabilities of the recorded answers."),
)
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
        help="Where to write. Default: requests.jsonl, batch.jsonl, or the folder published.",
        show_default=False,
    ),
    dry_run: bool = DRY_RUN,
    as_json: bool = options.AS_JSON,
) -> None:
    """Write the requests of a pack for an engine that lm-eval does not support.

    Send them with your own program, and score the answers with `meta-eval grade`. docs/reference/files.md describes the
    format. With --to batch, the file is one for batch jobs of chat endpoints and for `vllm run-batch` (docs/guides/
    chat.md). With --to recipe, write a recipe of the pack. Others make the same pack from the recipe with `meta-eval
    prepare --from FOLDER` (docs/guides/share.md). They need access to the same rows.

    Example: meta-eval export work_dir -o requests.jsonl
    """
    folder = options.pack_folder(pack, config)
    to = Form(chosen.to)
    pack_options = {
        "--tasks": chosen.tasks,
        "--answered": chosen.answered,
        "--force": chosen.force,
        "--edited": chosen.edited,
    }
    _refuse(to, {**pack_options, "--dry-run": dry_run})
    output = output or Path(_OUTPUTS[to])
    if to is Form.recipe:
        export_recipe(folder, output, dry_run=dry_run, as_json=as_json)
    else:
        _requests(folder, output, chosen, as_json)


def _refuse(to: Form, options_of_other: Mapping[str, object]) -> None:
    """Refuse options that do not belong to the form."""
    for option, value in options_of_other.items():
        if value and option not in _TAKEN[to]:
            forms = " or ".join(f"--to {form.value}" for form, taken in _TAKEN.items() if option in taken)
            raise ConfigError(f"--to {to.value} does not take it", where=option, hint=f"Leave it out, or use {forms}")


def _requests(folder: Path, output: Path, chosen: ExportOptions, as_json: bool) -> None:
    from meta_eval.answers.request_export import export_requests as run

    with Steps("exporting"):
        done = run(folder, output, chosen)
    count = sum(done.tasks.values())
    err.print(f"wrote {output}: {plural(count, 'request')}", soft_wrap=True)
    pack = str(folder)
    after = ["fidelity", pack, "--answers", "ANSWERS"] if chosen.force else ["grade", "ANSWERS", "--pack", pack]
    err.print(f"then: {shlex.join(['meta-eval', *after])}", soft_wrap=True)
    if as_json:
        print_result(json.dumps({"requests": str(output), "token_ids": done.token_ids, "tasks": done.tasks}))


def export_recipe(pack: Path, output: Path, *, dry_run: bool, as_json: bool) -> None:
    """Write a dataset repository with the recipe of a pack (datasets, settings, templates, hashes)."""
    from meta_eval.pack.publishing import publish_pack

    if not dry_run:
        raise ConfigError(
            "meta-eval uploads nothing itself",
            where="--to recipe",
            hint="Add --dry-run, read what it wrote, and upload the folder with `hf upload`",
        )
    done = publish_pack(pack, output)
    publication = done.publication.model_dump(mode="json", exclude={"contents", "files"})
    err.print(f"wrote {output}; it publishes only these files and settings:", soft_wrap=True)
    for name in done.files:
        err.print(f"  {name}", soft_wrap=True, highlight=False, markup=False)
    for key, value in publication.items():
        err.print(f"  {key}: {json.dumps(value)}", soft_wrap=True, highlight=False, markup=False)
    if done.user_files:
        err.print(f"kept unchanged: {', '.join(done.user_files)}", soft_wrap=True, highlight=False, markup=False)
    err.print(f"not published: {len(done.withheld)} files of the pack, the model, its engine, addresses, folders")
    if as_json:
        files = {"folder": str(output), "files": list(done.files), "withheld": list(done.withheld)}
        print_result(json.dumps({**files, "publication": publication}))
