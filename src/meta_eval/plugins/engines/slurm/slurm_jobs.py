"""Writes job scripts for Slurm: an array of shards that answer, then a job that grades and reports.

The scripts are made from ``templates/``. External values are quoted for the shell. Values in ``#SBATCH`` lines, which
cannot be quoted, are checked first.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.ask.ask_options import RunOptions
from meta_eval.ask.grading import Grading
from meta_eval.ask.pipeline import prepare_pack, settings_of
from meta_eval.base.ownership import check_folder, replace_folder
from meta_eval.base.secrets import holds_secret
from meta_eval.base.verb_options import option_of
from meta_eval.base.version import __version__
from meta_eval.pack.backends.registry import backend_of, find_backend
from meta_eval.pack.backends.server import find_program
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.pack_options import OVERRIDE, ScoringOptions
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.sockets import ConfigError, RunSettings, Settings, log, option, read_manifest

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
        hint = "Leave it out: jobs inherit the environment"
        raise ConfigError("this is a credential, and others can read the scripts", where="--sbatch", hint=hint)


SCRIPTS = ("answer.sbatch", "grade.sbatch", "submit.sh")

_KIND = "slurm"


def write_jobs(config: Config, folder: Path, jobs: Jobs, *, file: Path, config_place: ValuePlace) -> Path:
    """Prepare the pack if needed, and write the job scripts. Return the path of the script that submits them.

    Args:
        config: What to evaluate and how; ``backend: server`` for a model over several nodes.
        folder: The folder for scripts and logs. Edited scripts are refused, not replaced.
        jobs: The layout, and what the jobs do.
        file: The configuration's file, as the jobs read it.
        config_place: Where its values were written, for messages.

    Raises:
        UserError: The layout does not fit the model, a credential would be written, a job would refuse its tasks, or
            nothing can be prepared or written.
    """
    for text in (*jobs.overrides, *jobs.tasks):
        if holds_secret(text):
            raise ConfigError(
                "this is a credential, and others can read the scripts", where=text.partition("=")[0],
                hint="Jobs inherit the environment: export HF_TOKEN, or log in with `hf auth login`",
            )  # fmt: skip
    check_folder(folder, _KIND, names=SCRIPTS, shared=True)
    count_gpus(config, jobs)
    pack = prepare_pack(config, config_place, edited=jobs.edited)
    Grading(pack, jobs)  # fail now instead of after waiting in the queue
    settings = settings_of(read_manifest(pack), config)
    reads_file = backend_of(settings).reads_text and settings.tokenizer is None and Path(settings.model_name).exists()
    if not reads_file and find_tokenizer(settings.tokenizer_of()) is None:
        log.warning(
            f"{settings.tokenizer_of()} is not on this machine, and the jobs use no network: fetch it before "
            f"they start, with: hf download {shlex.quote(settings.tokenizer_of())}"
        )
    common = ["--config", str(file), *jobs.arguments()]
    folder = folder.absolute()
    with replace_folder(folder, _KIND, shared=True) as new:
        for name, text in render_scripts(settings, jobs, folder, common, pack=pack).items():
            new.write(name, text.encode())
    return folder / "submit.sh"


def render_scripts(
    settings: RunSettings, jobs: Jobs, folder: Path, common: Sequence[str], *, pack: Path
) -> dict[str, str]:
    """The text of each script by its name.

    Args:
        settings: The settings of the run.
        jobs: The layout.
        folder: The absolute folder of the scripts.
        common: Arguments of ``meta-eval run`` in both jobs.
        pack: The pack.

    Raises:
        ConfigError: The layout does not fit the model.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701 (no HTML; what comes from outside goes through a filter below)
        loader=PackageLoader("meta_eval.plugins.engines.slurm"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"quoted": shlex.quote, "words": shlex.join}
    gpus = count_gpus(settings, jobs)
    output = Path(settings.output_path).expanduser()
    meta_eval = [sys.executable, "-P", "-m", "meta_eval"]  # -P: no module is taken from the working directory
    values: dict[str, Any] = {
        "version": __version__,
        "name": re.sub(r"[^\w.-]+", "_", Path(settings.model_name).name).lstrip("-") or "model",
        "here": str(Path.cwd()),
        "folder": str(folder),
        "bin": str(Path(sys.executable).parent),
        "answers": str(output / "answers"),
        "run": [*meta_eval, "run", *common],
        "report": [*meta_eval, "report", "--pack", str(pack), "--html", str(output / "report.html")],
        "serve": _serve(settings) if jobs.nodes > 1 else [],
        "partition": jobs.partition,
        "time": jobs.time,
        "shards": jobs.shards,
    }
    of_each: dict[str, dict[str, Any]] = {
        "answer.sbatch": {"nodes": jobs.nodes, "gpus": gpus, "lines": (*jobs.lines, *jobs.answer_lines)},
        "grade.sbatch": {"nodes": 1, "lines": (*jobs.lines, *jobs.grade_lines)},
        "submit.sh": {},
    }
    return {name: environment.get_template(f"{name}.j2").render(values | of_each[name]) for name in SCRIPTS}


def count_gpus(settings: Settings, jobs: Jobs) -> str | None:
    """The GPUs of a node, ``8`` or ``h100:8``; None for no GPU.

    Raises:
        ConfigError: The model's GPUs cannot be spread evenly over the nodes, or do not match a node.
    """
    pipeline = str(settings.model_args.get("pipeline_parallel_size", 1))
    if not pipeline.isdecimal() or int(pipeline) < 1:
        raise ConfigError(f"{pipeline!r} is not a number of GPUs", where="model_args.pipeline_parallel_size")
    # Over several nodes the job starts the server, and backend server only sends requests.
    copies = settings.tensor_parallel_size * settings.data_parallel_size
    needed = (copies if jobs.nodes > 1 else find_backend(settings.backend).gpus(settings)) * int(pipeline)
    if jobs.nodes > 1 and settings.data_parallel_size > 1:
        raise ConfigError(
            f"{settings.data_parallel_size} copies over {jobs.nodes} nodes are not supported",
            where="data_parallel_size",
            hint="Set it to 1, and start copies with --shards, one per job",
        )  # fmt: skip
    if needed % jobs.nodes:
        raise ConfigError(f"{needed} GPUs cannot be split evenly over {jobs.nodes} nodes", where="--nodes")
    if jobs.gpus is None:
        return str(needed // jobs.nodes) if needed else None
    count = int(jobs.gpus.rpartition(":")[2])
    if count == 0:
        return None
    if count * jobs.nodes < needed:
        raise ConfigError(
            f"{jobs.nodes} nodes of {count} GPUs are fewer than the {needed} that the model needs",
            where="--gpus-per-task",
            hint="One copy needs tensor_parallel_size times pipeline_parallel_size (in model_args)",
        )
    return jobs.gpus


def _serve(settings: RunSettings) -> list[str]:
    """The command of the server; the script adds port, nodes and ranks.

    Raises:
        ConfigError: model_args has arguments that a server does not support, or no engine here spans nodes.
    """
    program = find_program()
    if program is None or not program.spans_nodes:
        raise ConfigError("no engine is here whose server spans several nodes", where="--nodes", hint="Leave it out")
    if "lora_local_path" in settings.model_args:
        raise ConfigError(
            "an adapter cannot be served over several nodes", where="model_args.lora_local_path",
            hint="Merge it into the weights",
        )  # fmt: skip
    try:
        words = [*program.command(settings, settings.model_name, 0, host="127.0.0.1")]
    except ValueError as error:
        raise ConfigError(
            f"is an lm-eval option, not a flag of `{program.name}`", where=f"model_args.{error}"
        ) from None
    at = words.index("--port")
    return words[:at] + words[at + 2 :]
