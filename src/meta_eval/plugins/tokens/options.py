"""The options of `fidelity` and `audit`, with defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.sockets import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityOptions(TaskOptions):
    """Options of `fidelity`, in addition to those of `TaskOptions`.

    Attributes:
        pack: The pack. Its manifest names the model. None means the configuration's pack.
        overrides: ``KEY=VALUE`` each: keys of the configuration or settings of the pack, such as another model or
            engine.
        docs: Number of docs, spread over tasks and subtasks. The pack's seed draws them, the same on every machine. A
            larger sample contains the smaller one, so its answers are reused. None means all.
        top_k: Number of likeliest tokens to record at each position, in addition to the first.
        shard: ``(I, N)`` sends every N-th request from I on, and writes no table. Several machines can share the work.
        probe: Ask a few docs again with changed prompts, to find the cause of a difference. Only the first shard does
            it.
        ask: Whether to send requests. Otherwise only write the table of the answers that are there.
        answers: Files of answers to the requests that `export` writes with ``force``. Then no request is sent.
        output: Folder in which ``fidelity/`` is made. None means the pack's output_path.
        baseline: The table of the other model. If its tokenizer differs, no request is sent.
        again: Measure the same model once more, in another way (`Backend.vary_rounding`), into the folder ``again``
            beside its table.
        same_deployment: Say that the addresses of earlier answers and of this run are one deployment. Otherwise answers
            of another address are refused.
    """

    pack: Path | str | None = None
    overrides: Sequence[str] = ()
    docs: int | None = None
    top_k: int = 0
    shard: tuple[int, int] = (0, 1)
    probe: bool = True
    ask: bool = True
    answers: Sequence[Path | str] = ()
    output: Path | str | None = None
    baseline: Path | str | None = None
    again: bool = False
    same_deployment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(TaskOptions):
    """Options of `audit`, in addition to those of `TaskOptions`.

    Attributes:
        pack: The pack whose requests were answered. Its manifest names the trusted copy. None means the configuration's
            pack.
        overrides: ``KEY=VALUE`` each: keys of the configuration or settings of the pack, such as the trusted copy and
            its engine.
        docs: Number of docs, spread over tasks and subtasks. None means all.
        top_k: Number of likeliest tokens to record at each position. Sampled answers and temperatures need them.
        ask: Whether to send requests. Otherwise only judge the answers that were scored.
        output: Folder in which ``audit/`` is made. None means the pack's output_path.
        noise: The table of an audit of another endpoint with the same weights, or its folder.
        same_deployment: Say that the addresses of earlier scores and of this trusted copy are one deployment.
    """

    pack: Path | str | None = None
    overrides: Sequence[str] = ()
    docs: int | None = None
    top_k: int = 20
    ask: bool = True
    output: Path | str | None = None
    noise: Path | str | None = None
    same_deployment: bool = False
