"""What a program calls: the jobs of the command line as functions, with the same meaning and the same errors.

What a user must know besides is logged as a warning by the logger ``meta_eval``; nothing is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from meta_eval.errors import UserError, refused
from meta_eval.notes import Progress, silent

if TYPE_CHECKING:
    from meta_eval.answers.export import Exported
    from meta_eval.answers.grade import Graded
    from meta_eval.config import Config
    from meta_eval.judging.gate import Gate
    from meta_eval.pack.manifest import Manifest
    from meta_eval.pack.prepare import Prepared
    from meta_eval.report.model import Report
    from meta_eval.results.baseline import Baseline
    from meta_eval.results.run import Run
    from meta_eval.verify import Proof

__all__ = ["compare", "export", "grade", "prepare", "report", "verify"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _documented(job: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that raises what its docstring says: what the system refuses is the user's to mend as well."""

    @wraps(job)
    def done(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        for value in (*arguments, *keywords.values()):
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, (str, Path)) and "\0" in str(one):
                    raise UserError("holds a NUL, which no name of a file does", where=str(one))
        try:
            return job(*arguments, **keywords)
        except OSError as error:
            raise refused(error) from error

    return done


@_documented
def prepare(config: Config | Path | str, *, progress: Progress = silent) -> Prepared:
    """Make a pack: docs, task YAML and manifest in the configuration's ``work_dir``.

    ::

        from meta_eval import Config, prepare

        config = Config(model_name="my/model", evals_dataset="sample", tasks=("meta_instruct",))
        pack = prepare(config)
        print(pack.manifest.command)

    Args:
        config: What to evaluate, or the YAML file that says it.
        progress: Called with what is being done.

    Raises:
        UserError: Anything that the user can fix; work_dir is then as it was.
    """
    from meta_eval.config import Config, load_config
    from meta_eval.pack.prepare import prepare as run

    if isinstance(config, Config):
        return run(config, progress=progress)
    return run(load_config(Path(config)), config_place=str(config), progress=progress)


@_documented
def verify(
    pack: Path | str,
    *,
    tasks: Sequence[str] = (),
    min_agreement: float | None = None,
    regrade: Path | str | None = None,
    allow_code: bool = False,
    edited: bool = False,
    progress: Progress = silent,
) -> Proof:
    """Replay Meta's recorded answers through a pack and compare every verdict with Meta's.

    ::

        from meta_eval import verify

        proof = verify("work_dir")
        for name, task in proof.tasks.items():
            print(name, task.status, task.reason)

    Args:
        pack: The folder that prepare wrote.
        tasks: Tasks and groups of it; empty for all.
        min_agreement: Share of docs, 0 to 1, on which the verdicts must agree; None for each task's own.
        regrade: The folder of a finished run, whose answers are graded again instead of the recorded ones.
        allow_code: Also check the tasks whose scoring runs programs that a model wrote.
        edited: Take a pack that was edited as it is; the proof and the baseline that is kept say so.
        progress: Called with the task, the answers scored, and how many there are.

    Raises:
        UserError: The folder is no pack or was edited, a name is none of its tasks, or a share is none.
    """
    from meta_eval.verify import verify as run

    return run(
        Path(pack),
        tasks=tasks,
        min_agreement=min_agreement,
        regrade=None if regrade is None else Path(regrade),
        allow_code=allow_code,
        edited=edited,
        progress=progress,
    )


@_documented
def export(
    pack: Path | str,
    file: Path | str = "requests.jsonl",
    *,
    tasks: Sequence[str] = (),
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
        edited: Take a pack that was edited as it is; the file says so.
        progress: Called with the task, the requests written, and how many docs it has.

    Raises:
        UserError: The folder is no pack or was edited, a name is none of its tasks, or the file cannot be written.
    """
    from meta_eval.answers.export import export as run

    return run(Path(pack), Path(file), tasks=tasks, edited=edited, progress=progress)


@_documented
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


@_documented
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

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    given = [results] if isinstance(results, Path | str) else results
    run = _read(given, folder, manifest, repeats=repeats, skip_damaged=skip_damaged, progress=progress)
    progress("judging")
    judged = judge(run, manifest, _baseline(folder, manifest), rules)
    return build_report(run, judged, pack=folder, manifest=manifest, gated=gate is not None)


@_documented
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

    rules = _rules(margin, gate)
    folder, manifest = _pack(pack)
    before, after = [
        _read([one], folder, manifest, repeats=repeats, skip_damaged=skip_damaged, progress=progress) for one in (a, b)
    ]
    progress("comparing")
    judged = run_compare(before, after, manifest, _baseline(folder, manifest), rules)
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


def _baseline(folder: Path | None, manifest: Manifest | None) -> Baseline | None:
    from meta_eval.results.baseline import read_baseline

    return read_baseline(folder, manifest) if folder is not None and manifest is not None else None
