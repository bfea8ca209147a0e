"""The options of the verb ``equality``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.verb_options import option_of
from meta_eval.pack.pack_options import TaskOptions
from meta_eval.sockets import ConfigError, option


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityOptions(TaskOptions):
    """Options of `equality`."""

    a: str = option(MISSING, str, "A", "The trusted endpoint: an address, or recorded answers.")
    """The trusted endpoint: an address, or a file or folder of recorded answers."""

    b: str = option(MISSING, str, "B", "The endpoint that is judged: likewise.")
    """The endpoint that is judged: likewise."""

    pack: Path | str | None = option(
        None, Path | None, "--pack FOLDER", "The pack whose prompts are asked. Default: the configuration's work_dir."
    )
    """The pack whose prompts are asked. None means the configuration's."""

    overrides: Sequence[str] = option(
        (), list[str], "--set KEY=VALUE", "Override a key of the configuration, for both sides. Repeatable."
    )
    """``KEY=VALUE`` each: keys of the configuration or settings of the pack, for both sides."""

    overrides_b: Sequence[str] = option(
        (), list[str], "--set-b KEY=VALUE", "The same for B alone, such as model_name and api_key_env. Repeatable."
    )
    """The same for B alone."""

    prompts: int = option(
        25, int, "--prompts N", "Prompts, spread over tasks and subtasks.", settings={"min": 1, "max": 1000}
    )
    """Number of prompts, spread over tasks and subtasks."""

    samples: int = option(
        10, int, "--samples N", "Answers of each side to each prompt.", settings={"min": 2, "max": 200}
    )
    """Number of answers of each side to each prompt."""

    max_tokens: int = option(32, int, "--max-tokens N", "Tokens of an answer at most.", settings={"min": 1})
    """Tokens of an answer at most."""

    ask: bool = option(
        True, bool, "--no-ask", "Send no requests. Judge the answers that are there.", read=operator.not_,
        shown=operator.not_,
    )  # fmt: skip
    """Whether to send requests. Otherwise only judge the answers that are there."""

    output: Path | str | None = option(
        None, Path | None, "--output -o FOLDER", "Where to make the folder equality/. Default: the pack's output_path."
    )
    """Folder in which ``equality/`` is made. None means the pack's output_path."""

    same_deployment: bool = option_of(RunOptions, "same_deployment")
    """Say that the addresses of earlier answers and of this run are one deployment."""


def is_address(place: str) -> bool:
    """Whether a side is asked, and not read from files."""
    return place.casefold().startswith(("http://", "https://"))


def check_options(options: EqualityOptions) -> None:
    """Refuse sides and numbers that cannot be used.

    Raises:
        ConfigError: One side is an address and the other is not, a side is empty, or a number is out of its range.
    """
    for name, place in (("A", options.a), ("B", options.b)):
        if not place.strip() or "\0" in place:
            raise ConfigError("names nothing", where=name, hint="Name an address, or recorded answers")
    kinds = is_address(options.a), is_address(options.b)
    if kinds[0] != kinds[1]:
        other = options.a if kinds[1] else options.b
        raise ConfigError(
            "is no address, and the other side is one; both are asked in the same minutes, with the same settings",
            where=other, hint="Name two addresses (http://… or https://…), or recorded answers of both",
        )  # fmt: skip
    for where, number, least, most in (
        ("--prompts", options.prompts, 1, 1000), ("--samples", options.samples, 2, 200),
        ("--max-tokens", options.max_tokens, 1, 1_000_000),
    ):  # fmt: skip
        if not least <= number <= most:
            raise ConfigError(f"{number} is not between {least} and {most:,}", where=where)
