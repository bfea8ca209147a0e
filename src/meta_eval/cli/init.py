"""``meta-eval init``: the files that a user edits, for those who installed with pip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import typer

from meta_eval import assets
from meta_eval.cli.console import err
from meta_eval.messages.errors import ConfigError

_HERE = Path()
_FILES = ("eval_config.yaml", "meta_template")


def init(
    directory: Path = typer.Argument(_HERE, metavar="[DIR]", help="Where to; made if need be."),
) -> None:
    """Write eval_config.yaml and meta_template/ into DIR (default: here). Nothing is overwritten."""
    for name in _FILES:
        if os.path.lexists(directory / name):
            raise ConfigError(
                "is there already", where=str(directory / name), hint="Move it away, or name another folder"
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            source, target = assets.asset_path(name), directory / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))
            else:
                shutil.copyfile(source, target)
    except OSError as error:
        raise ConfigError(f"cannot be written ({error})", where=str(directory)) from None
    err.print(f"wrote {' and '.join(str(directory / name) for name in _FILES)}")
    page = assets.asset_path("docs/reference/configuration.md")
    err.print(f"what each key means: {page}", soft_wrap=True)
    err.print("next: edit eval_config.yaml, then run `meta-eval prepare`")
