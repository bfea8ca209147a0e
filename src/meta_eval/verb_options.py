"""The options of each verb, with defaults. The command line fills these objects, and the API accepts them.

`report` and `compare` have theirs in `meta_eval.judge.judging_options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

# The configuration that is read if none is named.
DEFAULT_CONFIG = "eval_config.yaml"

# Where `init` writes the templates.
TEMPLATES = Path("./meta_template")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The base class of all options."""

    def updated(self, **keywords: Any) -> Self:
        """Return these options with some of them changed.

        Raises:
            TypeError: An option is unknown.
        """
        return replace(self, **keywords)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(Options):
    """Options of `prepare`.

    Attributes:
        overrides: ``KEY=VALUE`` each, the value in YAML: keys of the configuration.
        template_dir: The task templates. None means the configuration's.
    """

    overrides: Sequence[str] = ()
    template_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(Options):
    """Options of `init`.

    Attributes:
        example: The name of an example. None means a configuration and the templates.
    """

    example: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions(Options):
    """The templates that `tasks` uses.

    Attributes:
        template_dir: Their folder. If the default folder is missing, the shipped templates are used.
    """

    template_dir: Path = TEMPLATES


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(TemplateOptions):
    """Options of `tasks list`, in addition to those of `TemplateOptions`.

    Attributes:
        evals_dataset: Only tasks that this evals dataset has: a hub id, a folder, or ``sample``. None means all.
    """

    evals_dataset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTaskOptions(TemplateOptions):
    """Options of `tasks new`, in addition to those of `TemplateOptions`.

    Attributes:
        evals_dataset: The evals dataset that must have the subset. None means that a name of no published subset is
            only a warning.
        subset: The details subset that the task reads.
        like: The task, or folder of tasks, to copy.
    """

    subset: str
    like: str = "mmlu_pro"
    evals_dataset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(Options):
    """The engine that `doctor` checks.

    Attributes:
        backend: As the key backend of the configuration. None means ``server`` with a base_url, else the default.
        base_url: Addresses of servers that serve the shipped model.
        model: The servers' name for the model. None means its folder.
        model_args: More arguments for the engine, ``a=b,c=d``.
    """

    backend: str | None = None
    base_url: Sequence[str] = ()
    model: str | None = None
    model_args: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(Options):
    """The tasks of a pack to use.

    Attributes:
        tasks: Tasks and groups of the pack. Empty means all.
        edited: Accept a pack that was edited. Results and reports say so.
    """

    tasks: Sequence[str] = ()
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(TaskOptions):
    """The tasks of a pack to score, in addition to the options of `TaskOptions`.

    Attributes:
        allow_code: Also score tasks whose scoring runs code that the model wrote.
    """

    allow_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(ScoringOptions):
    """Options of `verify`, in addition to those of `ScoringOptions`.

    Attributes:
        min_agreement: Required share of equal verdicts for all tasks, 0 to 1. None means each task's own value.
        regrade: Results folder of a finished run. Its answers are graded again instead of the recorded answers, and the
            verdicts are compared with the run's own.
    """

    min_agreement: float | None = None
    regrade: Path | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingOptions(ScoringOptions):
    """Options of `grade`, in addition to those of `ScoringOptions`.

    Attributes:
        output: Output folder, as ``--output_path`` of lm_eval. None means the pack's.
        partial: Grade although answers are missing or failed. report calls the run unfinished.
        prefer: ``last`` takes the last of several different answers to a request. Otherwise they are refused.
    """

    output: Path | str | None = None
    partial: bool = False
    prefer: Literal["last"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(TaskOptions):
    """Options of `export`, in addition to those of `TaskOptions`.

    Attributes:
        to: The form of the file: ``requests`` for that of meta-eval, or the name of a form that a package adds.
        answered: Files of answers. Requests that they answer are left out.
        force: Write requests for the log-probabilities of the recorded answers.
    """

    to: str = "requests"
    answered: Sequence[Path | str] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ScoringOptions):
    """Options of `run`, in addition to those of `ScoringOptions`.

    Attributes:
        shard: ``(I, N)`` sends every N-th request from I on, and grades nothing. Several machines can share a run.
        grade_only: Send no requests, and start no engine. Grade the answers that are there.
        stop_when_decided: Ask docs in random order, and stop as soon as SHIP or DON'T SHIP is certain. The results
            cover only some docs, and say so.
        canary: Compare the first answers with the recorded answers, and stop if the set-up is broken.
        rerun: Number of docs to ask again at the end. None means 64 with ``stop_when_decided``, otherwise none.
        order_seed: The seed of the random order. None draws a secret seed.
        gate: A gate.yaml whose rules ``stop_when_decided`` decides by. None means the margin and the weights of the
            configuration.
        same_deployment: Say that the addresses of earlier answers and of this run are one deployment. Otherwise answers
            of another address are refused.
    """

    shard: tuple[int, int] = (0, 1)
    grade_only: bool = False
    stop_when_decided: bool = False
    canary: bool = True
    rerun: int | None = None
    order_seed: str | None = None
    gate: Path | str | None = None
    same_deployment: bool = False
