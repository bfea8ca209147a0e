"""From a configuration or a pack to answers: asked here, by other hands, or already there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from meta_eval.config.config_loader import DEFAULT_CONFIG
from meta_eval.messages.errors import ConfigError, documented
from meta_eval.messages.logs import Progress, silent

if TYPE_CHECKING:
    from meta_eval.answers.grading import Graded, GradingKeywords, GradingOptions
    from meta_eval.answers.request_export import Exported
    from meta_eval.backends.settings import RunSettings
    from meta_eval.config import Config
    from meta_eval.running.pipeline import RunResult
    from meta_eval.running.stock_tasks import Stock
    from meta_eval.running.token_scoring import FidelityResult


@documented
def run(
    config: Config | Path | str,
    *,
    model: str | None = None,
    tasks: Sequence[str] = (),
    shard: tuple[int, int] = (0, 1),
    allow_code: bool = False,
    edited: bool = False,
    canary: bool = True,
    stop_when_decided: bool = False,
    progress: Progress = silent,
) -> RunResult:
    """Ask the model of a configuration what its pack asks, and grade the answers; docs/guides/engines.md says how.

    ::

        from meta_eval import report, run

        ran = run("eval_config.yaml")
        print(report(ran.graded.results, pack=ran.pack).summary)

    Args:
        config: What to evaluate and how, or the YAML file that says it. A pack of the same settings is used as it is.
        model: Which of the configuration's models is asked; None for the first.
        tasks: Tasks and groups of the pack; empty for all.
        shard: ``(I, N)`` asks each N-th request from the I-th on and grades nothing: several machines share a run.
        allow_code: Also grade the tasks whose scoring runs code that a model wrote.
        edited: Take a pack that was edited as it is; all that follows says so.
        canary: Compare the first answers with the recorded ones, and stop where the set-up is broken.
        stop_when_decided: Ask docs in a random order, and stop as soon as SHIP or DON'T is shown at the margin.
        progress: Called with what is being done, the answers so far, and how many there will be.

    Raises:
        UserError: Anything that the user can fix. What was answered before is kept, and the same again goes on.
    """
    from meta_eval.config import Config, load_config
    from meta_eval.running.pipeline import run_pack as ask

    place = "the configuration" if isinstance(config, Config) else str(config)
    settings = config if isinstance(config, Config) else load_config(Path(config))
    return ask(
        settings, model=model, config_place=place, tasks=tasks, shard=shard, allow_code=allow_code, edited=edited,
        canary=canary, stop_when_decided=stop_when_decided, baseline=True, progress=progress,
    )  # fmt: skip


@documented
def fidelity(
    config: Config | Path | str | None = None,
    *,
    pack: Path | str | None = None,
    overrides: Sequence[str] = (),
    tasks: Sequence[str] = (),
    docs: int | None = None,
    top_k: int = 0,
    shard: tuple[int, int] = (0, 1),
    ask: bool = True,
    probe: bool = True,
    answers: Sequence[Path | str] = (),
    output: Path | str | None = None,
    against: Path | str | None = None,
    edited: bool = False,
    progress: Progress = silent,
) -> FidelityResult:
    """Ask a model how likely it finds each token of the answers that Meta recorded; docs/guides/same_model.md says how.

    ::

        from meta_eval import fidelity
        from meta_eval.token_fidelity.token_table import read_tokens

        measured = fidelity("eval_config.yaml", docs=200)
        for answer in read_tokens(measured.tables.texts):
            print(answer.task, answer.doc, answer.logprobs.mean(), (answer.ranks == 1).mean())

    Args:
        config: What to evaluate and how, or the YAML file that says it; read only where no pack is named. A pack of
            the same settings is used as it is.
        pack: The pack, asked as its manifest says; None for that of the configuration.
        overrides: ``KEY=VALUE`` each, of a file or of the pack's settings: another model, another engine.
        tasks: Tasks and groups of the pack; empty for all.
        docs: How many, spread over the tasks; None for all.
        top_k: How many of the likeliest tokens are kept for each place.
        shard: ``(I, N)`` asks each N-th request from the I-th on and writes no table: several machines share it.
        ask: Ask; else take what is answered.
        probe: Ask a few docs again, behind prompts that tell apart what may be wrong.
        answers: Files of answers to what `export` writes with ``force``; then nothing is asked.
        output: The folder in which ``fidelity/`` lies; None for the pack's output_path.
        against: The table that this one will be compared with: where it is of another tokenizer, nothing is asked.
        edited: Take a pack that was edited as it is.
        progress: Called with what is being done, the answers so far, and how many there will be.

    Raises:
        UserError: Anything that the user can fix. What was answered before is kept, and the same again goes on.
    """
    from meta_eval.running.token_scoring import score_recorded_answers

    folder, settings = _asked_of(config, pack, overrides, edited=edited, progress=progress)
    if output is not None:
        settings = settings.model_copy(update={"output_path": str(output)})
    return score_recorded_answers(
        folder,
        settings,
        tasks=tasks,
        docs=docs,
        top_k=top_k,
        shard=shard,
        ask=ask,
        probe=probe,
        edited=edited,
        progress=progress,
        answers=[Path(answer) for answer in answers],
        against=None if against is None else Path(against),
    )


@documented
def write_stock(
    folder: Path | str,
    config: Config | Path | str | None = None,
    *,
    pack: Path | str | None = None,
    overrides: Sequence[str] = (),
    tasks: Sequence[str] = (),
    docs: int | None = None,
    edited: bool = False,
    progress: Progress = silent,
) -> Stock:
    """Write the recorded answers as tasks for stock ``lm_eval``, which says the sums of their log-probabilities.

    Args:
        folder: Where; must not be there, or be empty.
        config, pack, overrides, tasks, docs, edited, progress: As of `fidelity`.

    Raises:
        UserError: Anything that the user can fix.
    """
    from meta_eval.running.stock_tasks import write_stock as run

    place, settings = _asked_of(config, pack, overrides, edited=edited, progress=progress)
    return run(place, Path(folder), settings, tasks=tasks, docs=docs, edited=edited)


def _asked_of(
    config: Config | Path | str | None,
    pack: Path | str | None,
    overrides: Sequence[str],
    *,
    edited: bool,
    progress: Progress,
) -> tuple[Path, RunSettings]:
    """A pack, prepared where none is named, and how it is asked."""
    from meta_eval.config import Config, config_place, load_config, override_settings
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.running.pipeline import prepare_pack, settings_of

    if pack is not None:
        return Path(pack), override_settings(read_manifest(Path(pack)).run, overrides)
    file = Path(DEFAULT_CONFIG) if config is None or isinstance(config, Config) else Path(config)
    place = "the configuration" if isinstance(config, Config) else config_place(file)
    wanted = config if isinstance(config, Config) else load_config(file, overrides)
    if wanted.other_models:
        raise ConfigError(
            f"names {1 + len(wanted.other_models)} models, and one is asked at a time", where="model_name",
            hint="Name it with --set model_name=…",
        )  # fmt: skip
    folder = prepare_pack(wanted, place, edited=edited, progress=progress)
    return folder, settings_of(read_manifest(folder), wanted)


@documented
def export(
    pack: Path | str,
    file: Path | str = "requests.jsonl",
    *,
    tasks: Sequence[str] = (),
    force: bool = False,
    edited: bool = False,
    progress: Progress = silent,
) -> Exported:
    """Write what a pack asks as a file that anything can answer; docs/reference/files.md says how.

    ::

        from meta_eval import export

        print(export("work_dir", "requests.jsonl").tasks)

    Args:
        pack: The folder that prepare wrote.
        file: Where to write; a file that is there is replaced.
        tasks: Tasks and groups of the pack; empty for all.
        force: Write what `fidelity` asks instead: how likely each token of the recorded answers is.
        edited: Take a pack that was edited as it is; the file says so.
        progress: Called with the task, the requests written, and how many docs it has.

    Raises:
        UserError: The folder is no pack or was edited, a name is none of its tasks, or the file cannot be written.
    """
    from meta_eval.answers.request_export import export_requests as run

    return run(Path(pack), Path(file), tasks=tasks, force=force, edited=edited, progress=progress)


@documented
def grade(
    answers: Path | str | Sequence[Path | str],
    *,
    pack: Path | str,
    options: GradingOptions | None = None,
    progress: Progress = silent,
    **keywords: Unpack[GradingKeywords],
) -> Graded:
    """Score answers that were made anywhere, and write results and samples as lm_eval writes them.

    ::

        from meta_eval import grade, report

        graded = grade(["answers.0.jsonl", "answers.1.jsonl"], pack="work_dir", output="eval_results")
        print(report(graded.results, pack="work_dir").summary)

    Args:
        answers: Files of answers, read as one.
        pack: The pack whose requests were answered.
        options: Which are graded, and how: the attributes of `meta_eval.answers.grading.GradingOptions`.
        progress: Called with the task, the answers scored, and how many there are.
        keywords: Single options, such as ``tasks``, ``output`` and ``partial``, by their names.

    Raises:
        UserError: Answers are missing, failed, of another pack or of several models, or nothing can be written.
    """
    from meta_eval.answers import grading

    given = [Path(answer) for answer in ([answers] if isinstance(answers, Path | str) else answers)]
    asked = (options or grading.GradingOptions()).updated(**keywords)
    return grading.grade_answers(given, Path(pack), asked, progress=progress)
