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
    """Write a dataset repository of a pack's templates, manifest and hashes, and of none of its rows. Whoever has
    access to the rows makes the same pack with `meta-eval prepare --from FOLDER`."""
    from meta_eval.pack.publish import publish as run

    if not dry_run:
        raise ConfigError(
            "meta-eval uploads nothing itself",
            where="publish",
            hint="Add --dry-run, read what it wrote, and upload the folder with `hf upload`",
        )
    done = run(options.pack_folder(pack, config), output)
    err.print(
        f"wrote {output}: {len(done.templates)} templates, the manifest and its hash; {len(done.withheld)} files of "
        "the pack stay here",
        soft_wrap=True,
    )
    if as_json:
        said = {"folder": str(output), "templates": list(done.templates), "withheld": list(done.withheld)}
        say(json.dumps(said))
