"""The layout of a run on a Slurm cluster. Values are checked, because ``#SBATCH`` lines cannot be quoted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.sockets import OVERRIDE, ConfigError, RunOptions, ScoringOptions, holds_secret, option, option_of

# Options that the scripts set themselves; a user's option of the same name would break them.
_OURS = frozenset(
    ("array", "a", "dependency", "d", "nodes", "N", "ntasks", "n", "ntasks-per-node", "signal", "open-mode", "requeue",
     "no-requeue", "output", "o", "chdir", "D")
)  # fmt: skip

_PARTITION = re.compile(r"[\w.,+@-]+", re.ASCII)
_TIME = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d+(:\d{1,2}){0,2}|UNLIMITED|INFINITE", re.ASCII)
_GPUS = re.compile(r"(?:[A-Za-z][\w.-]*:)?\d+", re.ASCII)
_OPTION = re.compile(r"-(?:-(?P<long>[A-Za-z][\w-]*)|(?P<short>[A-Za-z])).*")

_MOST_SHARDS = 1_000_000


def _lines(name: str, text: str) -> Any:
    return option((), list[str], f"{name} OPTION", text, read=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs(ScoringOptions):
    """How a run is laid out on a cluster, and what its jobs do.

    Raises:
        ConfigError: An option is not valid in an ``#SBATCH`` line, or is set by the scripts.
    """

    overrides: Sequence[str] = option((), list[str], "--set KEY=VALUE", OVERRIDE)
    """``KEY=VALUE`` settings for the jobs."""

    canary: bool = option_of(RunOptions, "canary")
    """Compare the first answers with the recorded ones."""

    shards: int = option(1, int, "--shards N", "Number of jobs that share the requests. Each loads the model.")
    """Jobs of the array, each of which answers its part."""

    nodes: int = option(
        1, int, "--nodes N", "Nodes per job. Several nodes serve a model together; this needs backend server."
    )
    """Nodes of each job; with several, vLLM serves the model over all of them."""

    gpus: str | None = option(
        None, str | None, "--gpus-per-task N",
        "GPUs per node: 8, h100:8 or 0. Default: as many as the model needs.",
    )  # fmt: skip
    """GPUs of a node, ``8`` or ``h100:8``; None to follow the configuration, ``0`` for none."""

    partition: str | None = option(None, str | None, "--partition NAME", "Slurm partition of the jobs.")
    """The partition of both jobs; None for the cluster's default."""

    time: str | None = option(
        None, str | None, "--time LIMIT", "Time limit per job. A job that reaches it is queued again and resumes."
    )
    """Time limit of each job, in Slurm's format; a shard that runs out of time is queued again."""

    lines: tuple[str, ...] = _lines(
        "--sbatch", "An option for sbatch, such as --sbatch=--account=my_group. Repeatable."
    )
    """Further ``#SBATCH`` options of both jobs."""

    answer_lines: tuple[str, ...] = _lines("--sbatch-answer", "An option for the answering jobs only. Repeatable.")
    """Options of the jobs that answer."""

    grade_lines: tuple[str, ...] = _lines("--sbatch-grade", "An option for the grading job only. Repeatable.")
    """Options of the job that grades."""

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= _MOST_SHARDS:
            raise ConfigError(f"{self.shards} is not a number of shards", where="--shards", hint="Write 1 or more")
        if self.nodes < 1:
            raise ConfigError(f"{self.nodes} is not a number of nodes", where="--nodes", hint="Write 1 or more")
        for value, rule, where, hint in (
            (self.partition, _PARTITION, "--partition", "A name, or several with commas: sinfo lists them"),
            (self.time, _TIME, "--time", "Such as 12:00:00, or 2-00:00:00 for two days"),
            (self.gpus, _GPUS, "--gpus-per-task", "Such as 8, or h100:8 for those of one kind"),
        ):
            if value is not None and not rule.fullmatch(value):
                raise ConfigError(f"{value!r} is not allowed in an #SBATCH line", where=where, hint=hint)
        for line in (*self.lines, *self.answer_lines, *self.grade_lines):
            _check_line(line)

    def arguments(self) -> list[str]:
        """Arguments of ``meta-eval run`` besides its configuration."""
        flags = {"--allow-code": self.allow_code, "--edited": self.edited, "--no-canary": not self.canary}
        return [
            *(word for override in self.overrides for word in ("--set", override)),
            *(f"--tasks={name}" for name in self.tasks),
            *(flag for flag, is_set in flags.items() if is_set),
        ]


def _check_line(line: str) -> None:
    """Raises: ConfigError: It is not an option of sbatch, has several lines, or is set by the scripts."""
    option = _OPTION.fullmatch(line)
    if option is None or not line.isprintable():
        raise ConfigError(
            f"{line!r} is not allowed in an #SBATCH line", where="--sbatch",
            hint="Give one sbatch option each time, such as --sbatch=--account=my_group",
        )  # fmt: skip
    name = option["long"] or option["short"]
    if name in _OURS:
        raise ConfigError(f"{line!r} is already set by the scripts", where="--sbatch")
    if holds_secret(line):
        raise ConfigError("this is a credential, and others can read the scripts", where="--sbatch")
