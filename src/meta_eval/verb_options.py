"""The options of each verb: one object that the command line fills, the API takes, and the function works with.

Each stands here with its defaults, once. `report` and `compare` have theirs in `meta_eval.judging.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

# Where `init` writes the templates.
TEMPLATES = Path("./meta_template")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What all options have in common."""

    def updated(self, **keywords: Any) -> Self:
        """These options with some of them changed.

        Raises:
            TypeError: There is no such option.
        """
        return replace(self, **keywords)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(Options):
    """Which configuration, with which templates, becomes a pack.

    Attributes:
        overrides: ``KEY=VALUE`` each, the value in YAML: keys of the configuration.
        publication: Make the pack anew whose recipe `export` wrote into this folder, and check that it is the same.
            The configuration says the model, its engine and folders only.
        template_dir: The task templates; None for those of the configuration, and of a publication for the shipped.
    """

    overrides: Sequence[str] = ()
    publication: Path | None = None
    template_dir: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(Options):
    """What is written to begin with.

    Attributes:
        example: The name of an example; None for a configuration and the templates.
    """

    example: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions(Options):
    """Which templates are meant.

    Attributes:
        template_dir: Their folder; the shipped ones where the default is missing.
    """

    template_dir: Path = TEMPLATES


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(TemplateOptions):
    """Which tasks are listed. It has the attributes of `TemplateOptions` as well.

    Attributes:
        evals_dataset: Only what this evals dataset offers: a hub id, a folder, or ``sample``; None for all.
    """

    evals_dataset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTaskOptions(TemplateOptions):
    """What a new task begins as. It has the attributes of `TemplateOptions` as well.

    Attributes:
        subset: The details subset that it reads.
        like: The task, or folder of tasks, that it is a copy of.
    """

    subset: str
    like: str = "mmlu_pro"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(Options):
    """Which engine is checked, and how it is reached.

    Attributes:
        backend: As the key backend of the configuration; None for ``server`` where there is a base_url, else ``vllm``.
        base_url: Of servers that serve the shipped model.
        model: The name by which they know the model; None for its folder.
        model_args: Further arguments of the engine, ``a=b,c=d``.
    """

    backend: str | None = None
    base_url: Sequence[str] = ()
    model: str | None = None
    model_args: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(Options):
    """Which tasks of a pack are meant, and whether it may have been edited.

    Attributes:
        tasks: Tasks and groups of the pack; empty for all.
        edited: Take a pack that was edited as it is; all that follows says so.
    """

    tasks: Sequence[str] = ()
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(TaskOptions):
    """Which tasks of a pack are scored. It has the attributes of `TaskOptions` as well.

    Attributes:
        allow_code: Also score the tasks whose scoring runs model-written code.
    """

    allow_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(ScoringOptions):
    """Which tasks are proved, and by what. It has the attributes of `ScoringOptions` as well.

    Attributes:
        min_agreement: For all tasks, 0 to 1; None for each task's own.
        regrade: A folder with the samples files of a finished run: its answers are graded again instead, and the
            verdicts are compared with those it was given then.
    """

    min_agreement: float | None = None
    regrade: Path | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingOptions(ScoringOptions):
    """Which answers are graded, and how. It has the attributes of `ScoringOptions` as well.

    Attributes:
        output: The folder to write into, as ``--output_path`` of lm_eval; None for that of the pack.
        partial: Grade what is answered where answers are missing or failed; report calls such a run unfinished.
        prefer: ``last`` takes the last of answers to one request that are not alike, instead of refusing them.
    """

    output: Path | str | None = None
    partial: bool = False
    prefer: Literal["last"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(TaskOptions):
    """Which requests are written. It has the attributes of `TaskOptions` as well.

    Attributes:
        force: Write what `fidelity` asks instead: how likely each token of the recorded answers is.
    """

    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ScoringOptions):
    """What is asked of a pack, and how it is graded. It has the attributes of `ScoringOptions` as well.

    Attributes:
        shard: ``(I, N)`` asks each N-th request from the I-th on and grades nothing: several machines share a run.
        grade_only: Ask nothing, and start nothing: grade what is answered.
        stop_when_decided: Ask docs in a random order, and stop once SHIP or DON'T SHIP is shown at the margin. The
            results say so, and are no whole run's.
        canary: Compare the first answers with the recorded ones, and stop where the set-up is broken.
        rerun: Ask so many docs again when all are answered, drawn and ordered at random: the report says how many
            verdicts flip by the engine's noise, and whether late answers are worse. None for 64 early docs of a run
            that stops when it is decided, and else for none.
        order_seed: The seed of the random order; None to draw one that nobody knows before the end.
    """

    shard: tuple[int, int] = (0, 1)
    grade_only: bool = False
    stop_when_decided: bool = False
    canary: bool = True
    rerun: int | None = None
    order_seed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityOptions(TaskOptions):
    """Which recorded answers of which pack are asked for. It has the attributes of `TaskOptions` as well.

    Attributes:
        pack: The pack, asked as its manifest says; None for that of the configuration.
        overrides: ``KEY=VALUE`` each, of a file or of the pack's settings: another model, another engine.
        docs: How many, spread over tasks and subtasks and drawn by the pack's seed, the same on every machine. A larger
            sample contains the smaller one, so its answers are reused. None for all.
        top_k: How many of the likeliest tokens are kept for each place, besides the first.
        shard: ``(I, N)`` asks each N-th request from the I-th on and writes no table: several machines share it.
        probe: Ask a few docs again, behind prompts that tell causes apart; of shards the first does.
        ask: Ask; else only write the table of what is there.
        answers: Files of answers to what `export` writes with ``force``, made anywhere; then nothing is asked.
        output: The folder in which ``fidelity/`` lies; None for the pack's output_path.
        against: The table that this one will be compared with: where it is of another tokenizer, nothing is asked.
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
    against: Path | str | None = None


class PrepareKeywords(TypedDict, total=False):
    """The fields of `PrepareOptions` as the keyword arguments of `meta_eval.prepare`."""

    overrides: Sequence[str]
    publication: Path | None
    template_dir: Path | None


class TaskKeywords(TypedDict, total=False):
    """The fields of `TaskOptions` as keyword arguments."""

    tasks: Sequence[str]
    edited: bool


class ScoringKeywords(TaskKeywords, total=False):
    """The fields of `ScoringOptions` as keyword arguments."""

    allow_code: bool


class VerifyKeywords(ScoringKeywords, total=False):
    """The fields of `VerifyOptions` as the keyword arguments of `meta_eval.verify`."""

    min_agreement: float | None
    regrade: Path | str | None


class GradingKeywords(ScoringKeywords, total=False):
    """The fields of `GradingOptions` as the keyword arguments of `meta_eval.grade`."""

    output: Path | str | None
    partial: bool
    prefer: Literal["last"] | None


class ExportKeywords(TaskKeywords, total=False):
    """The fields of `ExportOptions` as the keyword arguments of `meta_eval.export`."""

    force: bool


class RunKeywords(ScoringKeywords, total=False):
    """The fields of `RunOptions` as the keyword arguments of `meta_eval.run`."""

    shard: tuple[int, int]
    grade_only: bool
    stop_when_decided: bool
    canary: bool
    rerun: int | None
    order_seed: str | None


class FidelityKeywords(TaskKeywords, total=False):
    """The fields of `FidelityOptions` as the keyword arguments of `meta_eval.fidelity`."""

    pack: Path | str | None
    overrides: Sequence[str]
    docs: int | None
    top_k: int
    shard: tuple[int, int]
    probe: bool
    ask: bool
    answers: Sequence[Path | str]
    output: Path | str | None
    against: Path | str | None
