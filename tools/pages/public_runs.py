"""docs/reference/public_runs.md: recorded runs of public repositories, and what came out of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

# Points by which drawing letters may move a score: twice the standard deviation of 2,000 draws of a letter out of ten.
NEAR = 0.2
RUNS = Path(__file__).resolve().parents[1] / "public_runs" / "runs.yaml"


def values() -> dict[str, Any]:
    """Values for public_runs.md.j2."""
    listed = yaml.safe_load(RUNS.read_text(encoding="utf-8"))
    runs, answers = listed["runs"] + listed["tool_calls"], listed["answers"]
    return {
        **listed,
        "usable": [run for run in runs if "message" not in run["outcome"]],
        "refused": [run for run in runs if "message" in run["outcome"]],
        "compared": [entry for entry in (*runs, *answers) if "compare" in entry["outcome"]],
    }


def explain(entry: Mapping[str, Any]) -> str:
    """Where the difference to the published scores comes from."""
    outcome, why = entry["outcome"], []
    for score in entry["published"]:
        if abs(score - outcome["with_guesses"]) <= NEAR:
            why.append("grader")
        elif score > outcome["any_letter"] + NEAR:
            why.append("above *any letter*: prompts or model")
        else:
            why.append("not *with guesses*: another run")
    return "; ".join(dict.fromkeys(why))


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
