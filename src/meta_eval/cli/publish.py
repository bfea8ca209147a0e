"""``meta-eval publish``: what others need to make a pack anew, without its rows."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say
from meta_eval.errors import ConfigError


def publish(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    dry_run: bool = typer.Option(False, "--dry-run", help="Write the repository's files and upload nothing."),
    output: Path = typer.Option(Path("published"), "--output", "-o", metavar="FOLDER", help="Where to write them."),
    as_json: bool = options.AS_JSON,
) -> None:
    """Write a dataset repository of what makes a pack (datasets, settings, templates, hashes) and of none of its rows,
    and show it. Whoever has access to the rows makes the same pack with `meta-eval prepare --from FOLDER`."""
    from meta_eval.pack.publish import publish as run

    if not dry_run:
        raise ConfigError(
            "meta-eval uploads nothing itself",
            where="publish",
            hint="Add --dry-run, read what it wrote, and upload the folder with `hf upload`",
        )
    done = run(options.pack_folder(pack, config), output)
    said = done.publication.model_dump(mode="json", exclude={"contents", "files"})
    err.print(f"wrote {output}; published is what stands there, and nothing else:", soft_wrap=True)
    for name in done.files:
        err.print(f"  {name}", soft_wrap=True, highlight=False, markup=False)
    for key, value in said.items():
        err.print(f"  {key}: {json.dumps(value)}", soft_wrap=True, highlight=False, markup=False)
    if done.kept:
        err.print(f"stays as it is: {', '.join(done.kept)}", soft_wrap=True, highlight=False, markup=False)
    err.print(f"not published: {len(done.withheld)} files of the pack, the model, its engine, addresses, folders")
    if as_json:
        files = {"folder": str(output), "files": list(done.files), "withheld": list(done.withheld)}
        say(json.dumps({**files, "publication": said}))
