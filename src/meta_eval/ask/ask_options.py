"""Options of the verbs that ask a model, or grade what it answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from meta_eval.base.errors import ConfigError
from meta_eval.base.verb_options import option
from meta_eval.pack.pack_options import GATE, ScoringOptions, TaskOptions

_MOST_DIGITS = 9  # of a number on the command line; Python reads no more than 4,300


def _read_shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    is_written = slash and number.isdecimal() and of.isdecimal() and max(len(number), len(of)) <= _MOST_DIGITS
    if not (is_written and int(number) < int(of) <= 1_000_000):
        raise ConfigError(f"{text!r} is not a shard", where="--shard", hint="Write I/N: 0/8 to 7/8 for eight machines")
    return int(number), int(of)


def _read_prefer(text: str | None) -> str | None:
    if text not in (None, "last"):
        raise ConfigError(f"{text!r} is not allowed", where="--prefer", hint="Write --prefer last")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingOptions(ScoringOptions):
    """Options of `grade`, in addition to those of `ScoringOptions`."""

    output: Path | str | None = option(
        None, Path | None, "--output -o FOLDER", "Where to write. Default: the pack's output_path."
    )
    """Output folder, as ``--output_path`` of lm_eval. None means the pack's."""

    partial: bool = option(
        False, bool, "--partial", "Grade although answers are missing. `report` calls the run unfinished."
    )
    """Grade although answers are missing or failed. report calls the run unfinished."""

    prefer: Literal["last"] | None = option(
        None, str | None, "--prefer last", "Take the last of several different answers to a request.",
        read=_read_prefer,
    )  # fmt: skip
    """``last`` takes the last of several different answers to a request. Otherwise they are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(TaskOptions):
    """Options of `export`, in addition to those of `TaskOptions`."""

    to: str = option(
        "requests", str, "--to NAME", "The form of the file: requests for JSON Lines, or a form that a package adds."
    )
    """The form of the file: ``requests`` for that of meta-eval, or the name of a form that a package adds."""

    answered: Sequence[Path | str] = option(
        (), list[Path], "--answered FILE", "Leave out requests that this file answers. Repeatable."
    )
    """Files of answers. Requests that they answer are left out."""

    force: bool = option(False, bool, "--force", "Write requests for the log-probabilities of the recorded answers.")
    """Write requests for the log-probabilities of the recorded answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ScoringOptions):
    """Options of `run`, in addition to those of `ScoringOptions`."""

    shard: tuple[int, int] = option(
        (0, 1), str, "--shard I/N", "Send only every N-th request, starting at I (0 to N-1).",
        read=_read_shard, shown=lambda shard: f"{shard[0]}/{shard[1]}",
    )  # fmt: skip
    """``(I, N)`` sends every N-th request from I on, and grades nothing. Several machines can share a run."""

    grade_only: bool = option(False, bool, "--grade-only", "Send no requests. Grade the answers that are there.")
    """Send no requests, and start no engine. Grade the answers that are there."""

    stop_when_decided: bool = option(
        False, bool, "--stop-when-decided",
        "Ask docs in random order, and stop as soon as DON'T SHIP is proven. The results then cover only "
        "some docs, and say so.",
    )  # fmt: skip
    """Ask docs in random order, and stop as soon as DON'T SHIP is proven. The results then cover only some
    docs, and say so.
    """

    canary: bool = option(
        True, bool, "--canary/--no-canary",
        "Compare the first 32 answers with the recorded answers. Stop if they are far off.",
    )  # fmt: skip
    """Compare the first answers with the recorded answers, and stop if the set-up is broken."""

    endpoint_check: bool = option(
        True, bool, "--endpoint-check/--no-endpoint-check",
        "Send a dozen short requests first, which show what a chat endpoint does with prompts and settings.",
    )  # fmt: skip
    """Check a chat endpoint before the first doc. Its faults are notes, and stop nothing."""

    rerun: int | None = option(
        None, int | None, "--rerun DOCS",
        "Ask so many docs again at the end, at random: the report shows the engine's noise and drift. "
        "--stop-when-decided asks 64.",
    )  # fmt: skip
    """Number of docs to ask again at the end. None means 64 with ``stop_when_decided``, otherwise none."""

    order_seed: str | None = option(
        None, str | None, "--order-seed TEXT", "The seed of the random order, instead of a secret seed."
    )
    """The seed of the random order. None draws a secret seed."""

    gate: Path | str | None = option(None, Path | None, "--gate FILE", GATE)
    """A gate.yaml whose rules ``stop_when_decided`` decides by. None means the margin and the weights of the
    configuration.
    """

    same_deployment: bool = option(
        False, bool, "--same-deployment",
        "Go on with answers of another address: the deployment moved, and is the same.",
    )  # fmt: skip
    """Say that the addresses of earlier answers and of this run are one deployment. Otherwise answers of another
    address are refused.
    """
