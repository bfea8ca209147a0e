"""Options of the verbs that make and check a pack, and of all that read one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base.verb_options import Options, option, split_names

# The configuration that is read if none is named.
DEFAULT_CONFIG = "eval_config.yaml"

# Where `init` writes the templates.
TEMPLATES = Path("./meta_template")

# The agreement that the embedded sample reaches, in which some recorded verdicts are wrong on purpose.
_OF_SAMPLE = "0.8"


def make_verify_command(pack: str, *, of_sample: bool, allow_code: bool = False) -> str:
    """The command to paste that verifies a pack.

    Args:
        pack: The pack.
        of_sample: Whether its docs are those of the embedded sample.
        allow_code: Whether it may run code that a model wrote.
    """
    agreement = ["--min-agreement", _OF_SAMPLE] if of_sample else []
    return shlex.join(["meta-eval", "verify", pack, *agreement, *(["--allow-code"] if allow_code else [])])


# The help of --set.
OVERRIDE = "Override a key of the configuration. Repeatable."

# The help of --gate.
GATE = "Decide by the rules of a gate.yaml, and set the exit code."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(Options):
    """Options of `prepare`."""

    overrides: Sequence[str] = option(
        (), list[str], "--set KEY=VALUE",
        "Override a key of the configuration, such as --set tasks=meta_ifeval. VALUE is YAML. Repeatable.",
    )  # fmt: skip
    """``KEY=VALUE`` each, the value in YAML: keys of the configuration."""

    template_dir: Path | None = option(
        None, Path | None, "--template-dir DIR", "The task templates. Default: the configuration's."
    )
    """The task templates. None means the configuration's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(Options):
    """Options of `init`."""

    example: str | None = option(
        None, str | None, "--example NAME",
        "Write an example instead. smollm2: a recorded run of a small model that needs no GPU.",
    )  # fmt: skip
    """The name of an example. None means a configuration and the templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(Options):
    """The tasks of a pack to use."""

    tasks: Sequence[str] = option(
        (), list[str], "--tasks NAMES", "Tasks and groups of the pack, comma-separated. -NAME excludes NAME.",
        read=split_names,
    )  # fmt: skip
    """Tasks and groups of the pack. Empty means all."""

    edited: bool = option(
        False, bool, "--edited", "Accept a pack that was edited after prepare. Results and reports say so."
    )
    """Accept a pack that was edited. Results and reports say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(TaskOptions):
    """The tasks of a pack to score, in addition to the options of `TaskOptions`."""

    allow_code: bool = option(
        False, bool, "--allow-code", "Also grade tasks whose scoring runs code that the model wrote."
    )
    """Also score tasks whose scoring runs code that the model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(ScoringOptions):
    """Options of `verify`, in addition to those of `ScoringOptions`."""

    min_agreement: float | None = option(
        None, float | None, "--min-agreement SHARE",
        "Share of verdicts that must be the same, 0 to 1. Default: each task's own value.",
    )  # fmt: skip
    """Required share of equal verdicts for all tasks, 0 to 1. None means each task's own value."""

    regrade: Path | str | None = option(
        None, Path | None, "--regrade FOLDER",
        "Grade the answers of a finished lm_eval run again, instead of the recorded answers.",
    )  # fmt: skip
    """Results folder of a finished run. Its answers are graded again instead of the recorded answers, and the verdicts
    are compared with the run's own.
    """
