"""What results, a pack and a gate say: report, compare, and the figures of forced tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.errors import ConfigError, documented
from meta_eval.logs import Progress, silent

if TYPE_CHECKING:
    from meta_eval.judging.gate import Gate
    from meta_eval.pack.manifest import Manifest
    from meta_eval.report.fidelity import FidelityReport
    from meta_eval.report.model import Report
    from meta_eval.results.choice import Choice
    from meta_eval.results.run import Run


@documented
def report(
    results: Path | str | Sequence[Path | str],
    *,
    pack: Path | str | None = None,
    margin: float | None = None,
    gate: Gate | Path | str | None = None,
    cluster: Mapping[str, str] | None = None,
    tasks: Sequence[str] = (),
    repeats: bool = False,
    skip_damaged: bool = False,
    progress: Progress = silent,
) -> Report:
    """Does it hold? The drop of each task from the recorded answers, and one decision over all.

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
        cluster: By task (or by a pattern such as ``mmlu_*``) the field of its docs that says which share a passage, a
            question or a source, and so are not independent; beside what the gate names.
        tasks: Only these tasks and groups, or patterns such as ``mmlu_*``; empty for all. A minus leaves one out:
            ``-mmlu_law``.
        repeats: Average all runs of a task instead of taking the newest.
        skip_damaged: Leave damaged files, lines and docs out instead of refusing them.
        progress: Called with the file that is being read.

    Raises:
        UserError: Results, pack or gate cannot be read.
    """
    from meta_eval.judging.judge import judge
    from meta_eval.report.build import build_report
    from meta_eval.results.baseline import read_baseline
    from meta_eval.results.choice import Choice

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    given = [results] if isinstance(results, Path | str) else results
    choice = Choice.of_names(tasks)
    run = _read(
        given, folder, manifest, clusters={**rules.cluster, **(cluster or {})}, choice=choice, repeats=repeats,
        skip_damaged=skip_damaged, progress=progress,
    )  # fmt: skip
    _check_choice(choice, [run], manifest)
    progress("judging")
    baseline = read_baseline(folder, manifest) if folder and manifest else None
    judged = judge(run, manifest, baseline, rules, choice)
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
    cluster: Mapping[str, str] | None = None,
    tasks: Sequence[str] = (),
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
        cluster: As of `report`.
        tasks: Only these tasks and groups, or patterns such as ``mmlu_*``; empty for all. A minus leaves one out:
            ``-mmlu_law``.
        repeats: Average all runs of a task instead of taking the newest.
        skip_damaged: Leave damaged files, lines and docs out instead of refusing them.
        progress: Called with the file that is being read.

    Raises:
        UserError: A run, the pack or the gate cannot be read, or the runs have nothing in common.
    """
    from meta_eval.judging.compare import compare as run_compare
    from meta_eval.report.build import build_report_of_two
    from meta_eval.results.baseline import read_baseline
    from meta_eval.results.choice import Choice

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    clusters, choice = {**rules.cluster, **(cluster or {})}, Choice.of_names(tasks)
    before, after = [
        _read(
            [one], folder, manifest, clusters=clusters, choice=choice, repeats=repeats, skip_damaged=skip_damaged,
            progress=progress,
        )
        for one in (a, b)
    ]  # fmt: skip
    _check_choice(choice, [before, after], manifest)
    progress("comparing")
    baseline = read_baseline(folder, manifest) if folder and manifest else None
    judged = run_compare(before, after, manifest, baseline, rules, choice)
    return build_report_of_two(judged, before, after, gated=gate is not None)


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
    from meta_eval.pack.prompt_lengths import find_tokenizer
    from meta_eval.report.fidelity_build import build, find_table
    from meta_eval.token_fidelity.token_table import choices_path, read_choices, read_tokens

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
    clusters: Mapping[str, str],
    choice: Choice,
    repeats: bool,
    skip_damaged: bool,
    progress: Progress,
) -> Run:
    """A run, and of the pack if one was named."""
    from meta_eval.pack.prompt_lengths import token_counter
    from meta_eval.results.run import check_pack, read_run

    count_tokens = token_counter(manifest.run.tokenizer_of()) if manifest else None
    paths = [Path(one) for one in results]
    run = read_run(
        paths, skip_damaged=skip_damaged, repeats=repeats, count_tokens=count_tokens, clusters=clusters, choice=choice,
        groups=manifest.groups if manifest else {}, step=progress,
    )  # fmt: skip
    return run if manifest is None else check_pack(run, manifest, pack=str(folder))


def _check_choice(choice: Choice, runs: Sequence[Run], manifest: Manifest | None) -> None:
    """Refuse names that neither runs nor pack have, and a choice that leaves nothing."""
    known = [name for run in runs for name in (*run.tasks, *run.left_out)]
    groups = dict(manifest.groups) if manifest else {}
    for run in runs:
        groups |= run.known_groups
    choice.check([*known, *(manifest.tasks if manifest else ())], groups)
