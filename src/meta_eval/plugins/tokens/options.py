"""The options of `fidelity` and `audit`, with defaults."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.verb_options import option_of
from meta_eval.pack.pack_options import OVERRIDE, TaskOptions
from meta_eval.sockets import option

_DOCS = "Number of docs, spread over the tasks. Default: all."


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityOptions(TaskOptions):
    """Options of `fidelity`, in addition to those of `TaskOptions`."""

    pack: Path | str | None = option(
        None, Path | None, "[PACK]", "The pack. Its manifest names the model. Default: the configuration's work_dir."
    )
    """The pack. Its manifest names the model. None means the configuration's pack."""

    overrides: Sequence[str] = option((), list[str], "--set KEY=VALUE", OVERRIDE)
    """``KEY=VALUE`` each: keys of the configuration or settings of the pack, such as another model or engine."""

    docs: int | None = option(None, int | None, "--docs N", _DOCS, settings={"min": 1})
    """Number of docs, spread over tasks and subtasks. The pack's seed draws them, the same on every machine. A larger
    sample contains the smaller one, so its answers are reused. None means all.
    """

    top_k: int = option(
        0, int, "--top-k K", "Record the K likeliest tokens at each position.", settings={"min": 0, "max": 1000}
    )
    """Number of likeliest tokens to record at each position, in addition to the first."""

    shard: tuple[int, int] = option_of(RunOptions, "shard")
    """``(I, N)`` sends every N-th request from I on, and writes no table. Several machines can share the work."""

    probe: bool = option(
        True, bool, "--probe/--no-probe",
        "Ask a few docs again to find the cause of a difference. At most 112 prefills.",
    )  # fmt: skip
    """Ask a few docs again with changed prompts, to find the cause of a difference. Only the first shard does it."""

    ask: bool = option(
        True, bool, "--no-ask", "Send no requests. Use the answers that are there.",
        read=operator.not_, shown=operator.not_,
    )  # fmt: skip
    """Whether to send requests. Otherwise only write the table of the answers that are there."""

    answers: Sequence[Path | str] = option(
        (), list[Path], "--answers FILE", "Read answers to the requests of `export --force`, and send none."
    )
    """Files of answers to the requests that `export` writes with ``force``. Then no request is sent."""

    output: Path | str | None = option(
        None, Path | None, "--output -o FOLDER",
        "Where to make the folder fidelity/. Default: the pack's output_path.",
    )  # fmt: skip
    """Folder in which ``fidelity/`` is made. None means the pack's output_path."""

    baseline: Path | str | None = option(
        None, Path | None, "--baseline BASELINE", "The fidelity table of the other model, or its folder."
    )
    """The table of the other model. If its tokenizer differs, no request is sent."""

    again: bool = option(
        False, bool, "--again",
        "Measure the same model once more, in another way. The difference is the noise of its engine.",
    )  # fmt: skip
    """Measure the same model once more, in another way (`Backend.vary_rounding`), into the folder ``again`` beside its
    table.
    """

    same_deployment: bool = option_of(RunOptions, "same_deployment")
    """Say that the addresses of earlier answers and of this run are one deployment. Otherwise answers of another
    address are refused.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(TaskOptions):
    """Options of `audit`, in addition to those of `TaskOptions`."""

    pack: Path | str | None = option(
        None, Path | None, "--pack PACK",
        "The pack whose requests were answered. Default: the configuration's work_dir.",
    )  # fmt: skip
    """The pack whose requests were answered. Its manifest names the trusted copy. None means the configuration's
    pack.
    """

    overrides: Sequence[str] = option((), list[str], "--set KEY=VALUE", OVERRIDE)
    """``KEY=VALUE`` each: keys of the configuration or settings of the pack, such as the trusted copy and its
    engine.
    """

    docs: int | None = option(None, int | None, "--docs N", _DOCS, settings={"min": 1})
    """Number of docs, spread over tasks and subtasks. None means all."""

    top_k: int = option(
        20, int, "--top-k K", "Record the K likeliest tokens at each position; sampled answers need them.",
        settings={"min": 0, "max": 1000},
    )  # fmt: skip
    """Number of likeliest tokens to record at each position. Sampled answers and temperatures need them."""

    ask: bool = option(
        True, bool, "--no-ask", "Send no requests. Judge what was scored.", read=operator.not_, shown=operator.not_
    )
    """Whether to send requests. Otherwise only judge the answers that were scored."""

    output: Path | str | None = option(
        None, Path | None, "--output -o FOLDER", "Where to make the folder audit/. Default: the pack's output_path."
    )
    """Folder in which ``audit/`` is made. None means the pack's output_path."""

    noise: Path | str | None = option(
        None, Path | None, "--noise TABLE",
        "The table of an audit of your own endpoint with the same weights, or its folder.",
    )  # fmt: skip
    """The table of an audit of another endpoint with the same weights, or its folder."""

    same_deployment: bool = option_of(RunOptions, "same_deployment")
    """Say that the addresses of earlier scores and of this trusted copy are one deployment."""
