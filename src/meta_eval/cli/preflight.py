"""``meta-eval preflight``: everything that can go wrong before generation, one line a check."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.assets import DEFAULT_CONFIG
from meta_eval.cli.console import err, say
from meta_eval.cli.verify import pack_folder

if TYPE_CHECKING:
    from meta_eval.preflight import Check

_DEFAULT = Path(DEFAULT_CONFIG)
_STYLES = {"passed": "green", "failed": "bold red", "not checked": "yellow"}


def preflight(
    pack: Path | None = typer.Argument(None, metavar="[PACK]", help="The pack; default: the configuration's work_dir."),
    config: Path = typer.Option(
        _DEFAULT,
        "--config",
        "--config_path",
        "-c",
        metavar="FILE",
        envvar="META_EVAL_CONFIG",
        help="The configuration; read only where no PACK is named.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Check all that can go wrong before generation, in seconds and without a GPU.

    Exit codes: 0 nothing failed, 2 something did, with what fixes it.
    """
    folder = pack_folder(pack, config)
    from meta_eval.preflight import preflight as run

    checks: list[Check] = []
    with err.status("checking"):
        for check in run(folder):
            checks.append(check)
            err.print(f"{check.status:<11}", style=_STYLES[check.status], end=" ")
            err.print(str(check), soft_wrap=True)
    bad = sum(check.status == "failed" for check in checks)
    err.print(f"{bad} of {len(checks)} checks failed" if bad else "nothing failed", style="bold")
    if as_json:
        told = {"pack": str(folder), "passed": not bad, "checks": [asdict(check) for check in checks]}
        say(json.dumps(told))
    raise typer.Exit(2 if bad else 0)
