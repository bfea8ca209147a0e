"""docs/reference/public_runs.md: recorded runs of public repositories, and what came out of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

RUNS = Path(__file__).resolve().parents[1] / "public_runs" / "runs.yaml"


def values() -> dict[str, Any]:
    """Values for public_runs.md.j2."""
    listed = yaml.safe_load(RUNS.read_text(encoding="utf-8"))
    runs, answers = listed["runs"], listed["answers"]
    return {
        **listed,
        "usable": [run for run in runs if "message" not in run["outcome"]],
        "refused": [run for run in runs if "message" in run["outcome"]],
        "compared": [entry for entry in (*runs, *answers) if "compare" in entry["outcome"]],
    }


def decision(outcome: Mapping[str, Any]) -> str:
    """What a command said of two runs: ``UNDECIDED: 1.4 (0.2 to 2.6)``, or why it refused."""
    if "message" in outcome:
        return f"refused: {shorten(outcome['message'])}"
    drop, lower, upper = (
        f"{value:.1f}".replace("-", "\N{MINUS SIGN}") for value in (outcome["drop"], *outcome["interval"])
    )
    return f"{outcome['decision']}: {drop} ({lower} to {upper})"


def shorten(message: str) -> str:
    """What is wrong, without folders and without the hint."""
    what = message.removeprefix("error: ").partition(". ")[0]
    return re.sub(r"[^\s:,]+/(?=[^\s/])", "", what)
