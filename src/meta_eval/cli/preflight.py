"""``meta-eval preflight``: everything that can go wrong before generation, one line a check."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say

if TYPE_CHECKING:
    from meta_eval.preflight import Check

_STYLES = {"passed": "green", "failed": "bold red", "not checked": "yellow"}


def preflight(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check all that can go wrong before generation, in seconds and without a GPU.

    Exit codes: 0 nothing failed, 2 something did, with what fixes it.
    """
    folder = options.pack_folder(pack, config)
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
        payload = {"pack": str(folder), "passed": not bad, "checks": [asdict(check) for check in checks]}
        say(json.dumps(payload))
    raise typer.Exit(2 if bad else 0)
