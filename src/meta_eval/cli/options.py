"""The arguments that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.assets import DEFAULT_CONFIG


def _config(note: str = "") -> Path:
    option: Path = typer.Option(
        Path(DEFAULT_CONFIG),
        "--config",
        "--config_path",
        "-c",
        metavar="FILE",
        envvar="META_EVAL_CONFIG",
        help=f"The configuration{note}.",
    )
    return option


CONFIG = _config()
CONFIG_OF_PACK = _config("; read only where no PACK is named")
PACK = typer.Argument(None, metavar="[PACK]", help="The pack; default: the configuration's work_dir.")
EDITED = typer.Option(
    False, "--edited", help="Run a pack that was edited since prepare wrote it; everything that follows says so."
)
ALLOW_CODE = typer.Option(False, "--allow-code", help="Also grade tasks whose scoring runs code that a model wrote.")
CANARY = typer.Option(
    True, "--canary/--no-canary", help="Compare the first 32 answers with the recorded, stop if they are far off."
)
AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout.")
SHARES_AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout; scores are from 0 to 1.")


def pack_folder(pack: Path | None, config: Path) -> Path:
    """The pack that was named, else the work_dir of the configuration."""
    if pack is not None:
        return pack
    from meta_eval.config import load_config

    return Path(load_config(config).work_dir)
