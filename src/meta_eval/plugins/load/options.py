"""The options of the verb ``load``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.verb_options import option_of
from meta_eval.pack.pack_options import OVERRIDE, TaskOptions
from meta_eval.sockets import ConfigError, option

# More requests in flight than any client holds open.
_MOST = 100_000


def _read_levels(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and len(word) < 7 for word in words):
        raise ConfigError(f"{text!r:.60} is not a list of numbers", where="--concurrency", hint="Write 16,64")
    return tuple(map(int, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions(TaskOptions):
    """Options of `load`."""

    pack: Path | str | None = option(None, Path | None, "[PACK]", "The pack. Default: the configuration's work_dir.")
    """The pack. None means the configuration's; an existing one with the same settings is reused."""

    overrides: Sequence[str] = option((), list[str], "--set KEY=VALUE", OVERRIDE)
    """``KEY=VALUE`` each: keys of the configuration or settings of the pack, such as ``base_url``."""

    concurrency: Sequence[int] = option(
        (8, 32), str, "--concurrency LEVELS", "Requests in flight at each level, comma-separated.",
        read=_read_levels, shown=lambda levels: ",".join(map(str, levels)),
    )  # fmt: skip
    """Requests in flight at each level; at each of several servers."""

    alone: int = option(
        1, int, "--alone N", "Requests in flight of the reference, 1 to 4.", settings={"min": 1, "max": 4}
    )
    """Requests in flight of the reference."""

    docs: int = option(300, int, "--docs N", "Docs, spread over tasks and subtasks.", settings={"min": 1})
    """Number of docs, spread over tasks and subtasks."""

    max_tokens: int | None = option(
        None, int | None, "--max-tokens N", "Cut answers at so many tokens, to save time. Default: as the tasks set.",
        settings={"min": 1},
    )  # fmt: skip
    """Largest number of tokens of an answer. None means as the tasks set."""

    traffic: float = option(
        0.5, float, "--traffic SHARE", "The share of requests in flight that are made up, to fill the server.",
        settings={"min": 0.0, "max": 0.95},
    )  # fmt: skip
    """The share of requests in flight that are made up, 0 to 0.95."""

    abort: float = option(
        0.25, float, "--abort SHARE", "The share of made-up requests that are given up before their answer.",
        settings={"min": 0.0, "max": 1.0},
    )  # fmt: skip
    """The share of made-up requests that are given up before their answer, as clients do."""

    search: bool = option(False, bool, "--search", "Ask further levels, to find the lowest that is worse.")
    """Ask further levels, between the highest that is not worse and the lowest that is."""

    ask: bool = option(
        True, bool, "--no-ask", "Send no requests. Judge the answers that are there.", read=operator.not_,
        shown=operator.not_,
    )  # fmt: skip
    """Whether to send requests. Otherwise only judge the answers that are there."""

    output: Path | str | None = option(
        None, Path | None, "--output -o FOLDER", "Where to make the folder load/. Default: the pack's output_path."
    )
    """Folder in which ``load/`` is made. None means the pack's output_path."""

    allow_code: bool = option_of(RunOptions, "allow_code")
    """Also grade tasks whose scoring runs code that the model wrote."""

    same_deployment: bool = option_of(RunOptions, "same_deployment")
    """Say that the addresses of earlier answers and of this run are one deployment."""


def check_options(options: LoadOptions) -> None:
    """Refuse options that cannot be used.

    Raises:
        ConfigError: A level is not above the reference, or named twice.
    """
    levels = list(options.concurrency)
    for level in levels:
        if not options.alone < level <= _MOST:
            raise ConfigError(
                f"{level} is not above the {options.alone} of the reference, and at most {_MOST:,}",
                where="--concurrency", hint="Write 16,64",
            )  # fmt: skip
    if not levels or len(set(levels)) < len(levels):
        raise ConfigError("names a level twice" if levels else "names no level", where="--concurrency",
                          hint="Write 16,64")  # fmt: skip
