"""What a program calls: the jobs of the command line as functions, with the same meaning and the same errors.

`prepare` and `verify` are those of their rooms; here stands what takes several rooms.

What a user must know besides is logged as a warning by the logger ``meta_eval``; nothing is printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from meta_eval.assets import DEFAULT_CONFIG
from meta_eval.errors import ConfigError, documented
from meta_eval.notes import Progress, silent

if TYPE_CHECKING:
    from meta_eval.answers.export import Exported
    from meta_eval.answers.grade import Graded
    from meta_eval.config import Config
    from meta_eval.engines.settings import RunSettings
    from meta_eval.judging.gate import Gate
    from meta_eval.pack.manifest import Manifest
    from meta_eval.report.fidelity import FidelityReport
    from meta_eval.report.model import Report
    from meta_eval.results.run import Run
    from meta_eval.running.force import Measured
    from meta_eval.running.run import Ran
    from meta_eval.running.stock import Stock

__all__ = ["compare", "export", "fidelity", "fidelity_report", "grade", "report", "run"]


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
) -> Ran:
    """Ask the model of a configuration what its pack asks, and grade the answers; docs/running.md says how.

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
        canary: Compare the first answers with Meta's recorded ones, and stop where the set-up is broken.
        stop_when_decided: Ask docs in a random order, and stop as soon as SHIP or DON'T is shown at the margin.
        progress: Called with what is being done, the answers so far, and how many there will be.

    Raises:
        UserError: Anything that the user can fix. What was answered before is kept, and the same again goes on.
    """
    from meta_eval.config import Config, load_config
    from meta_eval.running.run import run as ask

    place = "the configuration" if isinstance(config, Config) else str(config)
    settings = config if isinstance(config, Config) else load_config(Path(config))
    return ask(
        settings, model=model, config_place=place, tasks=tasks, shard=shard, allow_code=allow_code, edited=edited,
        canary=canary, stop_when_decided=stop_when_decided, progress=progress,
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
    answers: Sequence[Path | str] = (),
    output: Path | str | None = None,
    edited: bool = False,
    progress: Progress = silent,
) -> Measured:
    """Ask a model how likely it finds each token of the answers that Meta recorded; docs/running.md says how.

    ::

        from meta_eval import fidelity
        from meta_eval.fidelity.tokens import read_tokens

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
        answers: Files of answers to what `export` writes with ``force``; then nothing is asked.
        output: The folder in which ``fidelity/`` lies; None for the pack's output_path.
        edited: Take a pack that was edited as it is.
        progress: Called with what is being done, the answers so far, and how many there will be.

    Raises:
        UserError: Anything that the user can fix. What was answered before is kept, and the same again goes on.
    """
    from meta_eval.running.force import force

    folder, settings = _asked_of(config, pack, overrides, edited=edited, progress=progress)
    if output is not None:
        settings = settings.model_copy(update={"output_path": str(output)})
    return force(
        folder,
        settings,
        tasks=tasks,
        docs=docs,
        top_k=top_k,
        shard=shard,
        ask=ask,
        edited=edited,
        progress=progress,
        answers=[Path(one) for one in answers],
    )


@documented
def fidelity_report(
    table: Path | str,
    *,
    against: Path | str | None = None,
    margin: float | None = None,
    gate: Gate | Path | str | None = None,
    tokenizer: Path | str | None = None,
) -> FidelityReport:
    """Is it the same model? The figures of a table that `fidelity` wrote, and a baseline's beside it.

    ::

        from meta_eval.api import fidelity_report

        found = fidelity_report("eval_results/fidelity/fp8.parquet", against="eval_results/fidelity/bf16.parquet")
        print(found.summary)

    Args:
        table: A file, or the folder that holds one.
        against: The baseline's: same, different or not shown at the margin.
        margin: The largest distance that is allowed, in nats a token; None for the gate's, else 0.02.
        gate: Decide by these rules, or by those of a file; ``exit_code`` then follows the verdict.
        tokenizer: A model, by name or folder, whose tokenizer gives the texts of tokens; None for the table's.

    Raises:
        UserError: A table, the gate or the tokenizer cannot be read, or the tables are not of the same tokens.
    """
    from meta_eval.fidelity.tokens import choices_path, read_choices, read_tokens
    from meta_eval.pack.prompt_lengths import find_tokenizer
    from meta_eval.report.fidelity_build import build, find_table

    rules = _rules(None, gate).fidelity
    if margin is not None:
        if not 0 < margin < 100:
            raise ConfigError(f"{margin:g} is no number of nats above 0 and below 100", where="margin")
        rules = rules.model_copy(update={"margin": margin})
    path = find_table(Path(table))
    header = read_tokens(path).header if path.exists() else read_choices(choices_path(path))[0]
    made = find_tokenizer(str(tokenizer or header.model))
    if made is None and tokenizer is not None:
        raise ConfigError("there is no tokenizer.json of this model here", where=f"tokenizer {tokenizer}")
    beside = None if against is None else find_table(Path(against))
    return build(path, against=beside, rule=rules, tokenizer=made, gated=gate is not None)


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
    from meta_eval.running.stock import write_stock as run

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
    from meta_eval.config import Config, load_config, overridden
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.running.run import prepared, settings_of

    if pack is not None:
        return Path(pack), overridden(read_manifest(Path(pack)).run, overrides)
    place = "the configuration" if isinstance(config, Config) else str(config)
    wanted = config if isinstance(config, Config) else load_config(Path(config or DEFAULT_CONFIG), overrides)
    if wanted.other_models:
        raise ConfigError(
            f"names {1 + len(wanted.other_models)} models, and one is asked at a time", where="model_name",
            hint="Name it with --set model_name=…",
        )  # fmt: skip
    folder = prepared(wanted, place, edited=edited, progress=progress)
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
    """Write what a pack asks as a file that anything can answer; docs/answers.md says how.

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
    from meta_eval.answers.export import export as run

    return run(Path(pack), Path(file), tasks=tasks, force=force, edited=edited, progress=progress)


@documented
def grade(
    answers: Path | str | Sequence[Path | str],
    *,
    pack: Path | str,
    tasks: Sequence[str] = (),
    output: Path | str | None = None,
    partial: bool = False,
    prefer: Literal["last"] | None = None,
    allow_code: bool = False,
    edited: bool = False,
    progress: Progress = silent,
) -> Graded:
    """Score answers that were made anywhere, and write results and samples as lm_eval writes them.

    ::

        from meta_eval import grade, report

        graded = grade(["answers.0.jsonl", "answers.1.jsonl"], pack="work_dir", output="eval_results")
        print(report(graded.results, pack="work_dir").summary)

    Args:
        answers: Files of answers, read as one.
        pack: The pack whose requests were answered.
        tasks: Tasks and groups of it; empty for all.
        output: The folder to write into; None for the pack's own output_path.
        partial: Grade what is answered where answers are missing or failed; report calls such a run unfinished.
        prefer: ``last`` takes the last of answers to one request that are not alike, instead of refusing them.
        allow_code: Also grade the tasks whose scoring runs programs that a model wrote.
        edited: Take a pack that was edited as it is; the results file says so.
        progress: Called with the task, the answers scored, and how many there are.

    Raises:
        UserError: Answers are missing, failed, of another pack or of several models, or nothing can be written.
    """
    from meta_eval.answers.grade import grade as run

    return run(
        [Path(one) for one in ([answers] if isinstance(answers, Path | str) else answers)],
        pack=Path(pack),
        tasks=tasks,
        output=None if output is None else Path(output),
        partial=partial,
        prefer=prefer,
        allow_code=allow_code,
        edited=edited,
        progress=progress,
    )


@documented
def report(
    results: Path | str | Sequence[Path | str],
    *,
    pack: Path | str | None = None,
    margin: float | None = None,
    gate: Gate | Path | str | None = None,
    repeats: bool = False,
    skip_damaged: bool = False,
    progress: Progress = silent,
) -> Report:
    """Does it hold? The drop of each task from Meta's answers, and one decision over all.

    ::

        from meta_eval import report

        found = report("eval_results", pack="work_dir")
        print(found.summary)
        for task in found.tasks:
            print(task.name, task.outcome)

    Args:
        results: Folders or files that lm_eval wrote.
        pack: The pack that was run: published numbers and missing tasks need it.
        margin: The largest drop that is allowed, in points; None for the gate's, else the pack's.
        gate: Decide by these rules, or by those of a file; ``exit_code`` then follows the decision.
        repeats: Average all runs of a task instead of taking the newest.
        skip_damaged: Leave damaged files, lines and docs out instead of refusing them.
        progress: Called with the file that is being read.

    Raises:
        UserError: Results, pack or gate cannot be read.
    """
    from meta_eval.judging.judge import judge
    from meta_eval.report.build import build_report
    from meta_eval.results.baseline import read_baseline

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    given = [results] if isinstance(results, Path | str) else results
    run = _read(given, folder, manifest, repeats=repeats, skip_damaged=skip_damaged, progress=progress)
    progress("judging")
    baseline = read_baseline(folder, manifest) if folder and manifest else None
    judged = judge(run, manifest, baseline, rules)
    places = [Path(one) for one in given]
    return build_report(run, judged, pack=folder, manifest=manifest, gated=gate is not None, places=places)


@documented
def compare(
    a: Path | str,
    b: Path | str,
    *,
    pack: Path | str | None = None,
    margin: float | None = None,
    gate: Gate | Path | str | None = None,
    repeats: bool = False,
    skip_damaged: bool = False,
    progress: Progress = silent,
) -> Report:
    """Compare two runs doc by doc, such as a model and its quantised twin.

    ::

        from meta_eval import compare

        found = compare("eval_results/bf16", "eval_results/fp8", pack="work_dir")
        print(found.summary)

    Args:
        a: The baseline: what lm_eval wrote of it.
        b: The run that is compared with it.
        pack: The pack of both.
        margin: The largest drop that is allowed, in points; None for the gate's, else the pack's.
        gate: Decide by these rules, or by those of a file; ``exit_code`` then follows the decision.
        repeats: Average all runs of a task instead of taking the newest.
        skip_damaged: Leave damaged files, lines and docs out instead of refusing them.
        progress: Called with the file that is being read.

    Raises:
        UserError: A run, the pack or the gate cannot be read, or the runs have nothing in common.
    """
    from meta_eval.judging.compare import compare as run_compare
    from meta_eval.report.build import build_report_of_two
    from meta_eval.results.baseline import read_baseline

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    before, after = [
        _read([one], folder, manifest, repeats=repeats, skip_damaged=skip_damaged, progress=progress) for one in (a, b)
    ]
    progress("comparing")
    baseline = read_baseline(folder, manifest) if folder and manifest else None
    judged = run_compare(before, after, manifest, baseline, rules)
    return build_report_of_two(judged, before, after, gated=gate is not None)


def _rules(margin: float | None, gate: Gate | Path | str | None) -> Gate:
    from meta_eval.judging.gate import Gate, read_gate

    rules = read_gate(Path(gate)) if isinstance(gate, Path | str) else gate or Gate()
    return rules if margin is None else rules.with_margin(margin)


def _pack(pack: Path | str | None) -> tuple[Path | None, Manifest | None]:
    from meta_eval.pack.manifest import read_manifest

    return (None, None) if pack is None else (Path(pack), read_manifest(Path(pack)))


def _read(
    results: Sequence[Path | str],
    folder: Path | None,
    manifest: Manifest | None,
    *,
    repeats: bool,
    skip_damaged: bool,
    progress: Progress,
) -> Run:
    """A run, and of the pack if one was named."""
    from meta_eval.pack.prompt_lengths import token_counter
    from meta_eval.results.run import check_pack, read_run

    count_tokens = token_counter(manifest.run.model_name) if manifest else None
    paths = [Path(one) for one in results]
    run = read_run(paths, skip_damaged=skip_damaged, repeats=repeats, count_tokens=count_tokens, step=progress)
    return run if manifest is None else check_pack(run, manifest, pack=str(folder))
