"""The options of each verb, a line each: default, flag and help, and what it means to Python below.

The command line fills these objects (`meta_eval.cli.options`), and the API accepts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from meta_eval.base.errors import ConfigError
from meta_eval.base.thresholds import CAP, MARGIN

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import Choice
    from meta_eval.judge.gate import Gate
    from meta_eval.pack.manifest import Manifest

# The configuration that is read if none is named.
DEFAULT_CONFIG = "eval_config.yaml"

# Where `init` writes the templates.
TEMPLATES = Path("./meta_template")

# The help of --set.
OVERRIDE = "Override a key of the configuration. Repeatable."


@dataclass(frozen=True, slots=True)
class Flag:
    """How an option appears on the command line."""

    kind: Any
    """The type that Typer parses."""

    usage: str
    """Names and value as help shows them: ``--output -o FOLDER``; an argument has no name: ``[PACK]``."""

    help: str
    """What it does."""

    read: Callable[[Any], Any] = lambda value: value
    """Turns the parsed value into the option's value."""

    shown: Callable[[Any], Any] = lambda value: [] if value == () else value
    """Turns the option's default into Typer's default."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of `typer.Option`."""


def option(default: Any, kind: Any, usage: str, help: str, **more: Any) -> Any:
    """A field of an options class, and its flag.

    Args:
        default: Its default; `dataclasses.MISSING` for none.
        kind: See `Flag`.
        usage: See `Flag`.
        help: See `Flag`.
        more: ``read``, ``shown`` and ``settings`` of `Flag`.
    """
    return field(default=default, metadata={"flag": Flag(kind, usage, help, **more)})


def option_of(owner: Any, name: str) -> Any:
    """The same option as another options class has."""
    (same,) = (own for own in fields(owner) if own.name == name)
    return field(default=same.default, metadata=same.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The base class of all options."""

    def updated(self, **keywords: Any) -> Self:
        """Return these options with some of them changed.

        Raises:
            TypeError: An option is unknown.
        """
        return replace(self, **keywords)


def split_names(tasks: Sequence[str]) -> list[str]:
    """Split comma-separated names. The option may be repeated."""
    return [name.strip() for item in tasks for name in item.split(",") if name.strip()]


def _read_shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of) <= 1_000_000):
        raise ConfigError(f"{text!r} is not a shard", where="--shard", hint="Write I/N: 0/8 to 7/8 for eight machines")
    return int(number), int(of)


def _read_clusters(assignments: list[str]) -> Mapping[str, str]:
    from meta_eval.harness.clusters import read_fields

    return read_fields(assignments)


def _read_prefer(text: str | None) -> str | None:
    if text not in (None, "last"):
        raise ConfigError(f"{text!r} is not allowed", where="--prefer", hint="Write --prefer last")
    return text


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
class TemplateOptions(Options):
    """The templates that `tasks` uses."""

    template_dir: Path = option(
        TEMPLATES, Path, "--template-dir DIR",
        "Folder of templates. Default: the shipped templates if this one is missing.",
    )  # fmt: skip
    """Their folder. If the default folder is missing, the shipped templates are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(TemplateOptions):
    """Options of `tasks list`, in addition to those of `TemplateOptions`."""

    evals_dataset: str | None = option(
        None, str | None, "--evals-dataset X",
        "Only tasks that this evals dataset has: a hub id, a folder, or sample.",
    )  # fmt: skip
    """Only tasks that this evals dataset has: a hub id, a folder, or ``sample``. None means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTaskOptions(TemplateOptions):
    """Options of `tasks new`, in addition to those of `TemplateOptions`."""

    subset: str = option(MISSING, str, "--subset S", "The subset of the evals dataset that the task reads.")
    """The details subset that the task reads."""

    like: str = option("mmlu_pro", str, "--like TASK", "The task, or folder of tasks, to copy.")
    """The task, or folder of tasks, to copy."""

    evals_dataset: str | None = option(
        None, str | None, "--evals-dataset X",
        "Check that this evals dataset has the subset: a hub id, a folder, or sample.",
    )  # fmt: skip
    """The evals dataset that must have the subset. None means that a name of no published subset is only a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(Options):
    """The engine that `doctor` checks."""

    backend: str | None = option(
        None, str | None, "--backend NAME",
        "The engine to check, as in the key `backend`. Default: the pack's; without a pack the default, or server "
        "with --base-url.",
        settings={"show_default": False},
    )  # fmt: skip
    """As the key backend of the configuration. None means ``server`` with a base_url, else the default."""

    base_url: Sequence[str] = option(
        (), list[str], "--base-url URL", "Address of a server that serves the shipped model. See --show-command."
    )
    """Addresses of servers that serve the shipped model."""

    model: str | None = option(
        None, str | None, "--model NAME", "The server's name for the model. Default: the model's folder."
    )
    """The servers' name for the model. None means its folder."""

    model_args: str = option("", str, "--model-args A=B,…", "More arguments for the engine.")
    """More arguments for the engine, ``a=b,c=d``."""


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
        "Ask docs in random order, and stop as soon as SHIP or DON'T SHIP is certain. The results cover only "
        "some docs, and say so.",
    )  # fmt: skip
    """Ask docs in random order, and stop as soon as SHIP or DON'T SHIP is certain. The results cover only some docs,
    and say so.
    """

    canary: bool = option(
        True, bool, "--canary/--no-canary",
        "Compare the first 32 answers with the recorded answers. Stop if they are far off.",
    )  # fmt: skip
    """Compare the first answers with the recorded answers, and stop if the set-up is broken."""

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

    gate: Path | str | None = option(
        None, Path | None, "--gate FILE", "Decide by the rules of a gate.yaml, and set the exit code."
    )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions(Options):
    """What `report` and `compare` read, and by which rules they decide."""

    pack: Path | str | None = option(
        None, Path | None, "--pack WORK_DIR", "The pack that was run. It names the baseline."
    )
    """The pack that was run: published numbers and missing tasks need it."""

    margin: float | None = option(
        None, float | None, "--margin POINTS",
        f"The largest drop that you accept. Default: the pack's margin, {100 * MARGIN:g} unless set.",
    )  # fmt: skip
    """The largest drop that is allowed, in points; None for the gate's, else the pack's."""

    cap: float | None = option(
        None, float | None, "--cap POINTS",
        f"The largest drop that SHIP may leave open in a task or subtask. Default: {100 * CAP:g}.",
    )  # fmt: skip
    """What no task and no subtask may lose at the worse end of its interval, in points; None for the gate's, else 5."""

    gate: Gate | Path | str | None = option_of(RunOptions, "gate")
    """Decide by these rules, or by those of a file; ``exit_code`` then follows the decision."""

    cluster: Mapping[str, str] | None = option(
        None, list[str], "--cluster TASK=FIELD",
        "Treat docs of TASK with the same FIELD as a cluster. TASK may be a pattern such as 'mmlu_*'.",
        read=_read_clusters, shown=lambda _: [],
    )  # fmt: skip
    """By task (or by a pattern such as ``mmlu_*``) the field of its docs that says which share a passage, a question or
    a source, and so are not independent; beside what the gate names.
    """

    tasks: Sequence[str] = option(
        (), list[str], "--tasks NAMES", "Only these tasks, groups or patterns, comma-separated. -NAME excludes NAME.",
        read=split_names,
    )  # fmt: skip
    """Only these tasks and groups, or patterns such as ``mmlu_*``; empty for all. A minus leaves one out:
    ``-mmlu_law``.
    """

    repeats: bool = option(
        False, bool, "--repeats", "Average all runs of the same model and pack. Default: take the newest."
    )
    """Average all runs of a task instead of taking the newest."""

    skip_damaged: bool = option(False, bool, "--skip-damaged", "Leave out damaged files, lines and docs, and say so.")
    """Leave damaged files, lines and docs out instead of refusing them."""

    regrade: bool = option(
        False, bool, "--regrade",
        "Grade all recorded answers again with one grader, the pack's or the installed lm-eval's, and decide on that.",
    )  # fmt: skip
    """Grade all recorded answers again with one grader, and decide on that: with the pack's, else with the task of that
    name in ``include_path`` or the installed lm-eval.
    """

    include_path: Path | str | None = option(
        None, Path | None, "--include-path FOLDER",
        "With --regrade: a folder of lm-eval tasks, which come before lm-eval's.",
    )  # fmt: skip
    """A folder of lm-eval tasks for ``regrade``."""

    allow_code: bool = option(
        False, bool, "--allow-code", "With --regrade: also grade tasks whose scoring runs code that the model wrote."
    )
    """With ``regrade``, also grade tasks whose scoring runs code that the model wrote."""

    @property
    def folder(self) -> Path | None:
        """The folder of the pack."""
        return None if self.pack is None else Path(self.pack)

    @property
    def exit_follows_decision(self) -> bool:
        """Whether the exit code follows the decision."""
        return self.gate is not None

    @property
    def choice(self) -> Choice:
        """The tasks that are meant."""
        from meta_eval.harness.lm_eval_run import Choice

        return Choice.of_names(self.tasks)

    def read_rules(self) -> Gate:
        """The rules of the gate, with the margin and the cap.

        Raises:
            UserError: The file of the gate cannot be read, or the margin or the cap is none.
        """
        from meta_eval.judge.gate import Gate, read_gate

        gate = read_gate(Path(self.gate)) if isinstance(self.gate, Path | str) else self.gate or Gate()
        gate = gate if self.cap is None else gate.with_cap(self.cap)
        return gate if self.margin is None else gate.with_margin(self.margin)

    def read_manifest(self) -> Manifest | None:
        """The manifest of the pack; None without a pack.

        Raises:
            UserError: It cannot be read.
        """
        from meta_eval.pack.manifest import read_manifest

        return None if self.folder is None else read_manifest(self.folder)
