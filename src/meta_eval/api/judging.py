"""Judges results: report, compare, compare_candidates and compare_texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import name_path
from meta_eval.base.errors import ConfigError, documented
from meta_eval.base.garbage import collect_seldom
from meta_eval.base.logs import Progress, display_logs, report_progress

if TYPE_CHECKING:
    from meta_eval.harness.lm_eval_run import Run
    from meta_eval.judge.evidence import NamedFindings
    from meta_eval.judge.gate import Gate
    from meta_eval.judge.judging_options import JudgingOptions
    from meta_eval.pack.baseline import Baseline
    from meta_eval.reports.candidates import CandidatesReport
    from meta_eval.reports.report import Report
    from meta_eval.reports.texts_report import TextsReport


@documented
def report(
    results: Path | str | Sequence[Path | str],
    *,
    options: JudgingOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Report:
    """Judge a run: the drop of each task from the recorded answers, and a decision.

    ::

        from meta_eval import report

        found = report("eval_results", pack="work_dir")
        print(found.summary)
        for task in found.tasks:
            print(task.name, task.outcome)

    Args:
        results: Results folders, or files in them.
        options: The attributes of `meta_eval.judge.judging_options.JudgingOptions`.
        progress: Called with the file that is being read.
        keywords: Single options by name, such as ``pack``, ``margin`` and ``gate``.

    Raises:
        UserError: Results, pack or gate cannot be read.
    """
    with display_logs(progress):
        return _Reading(_options(options, keywords)).judge(_paths(results))


@documented
def compare(
    a: Path | str | Sequence[Path | str],
    b: Path | str | Sequence[Path | str],
    *,
    options: JudgingOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Report:
    """Compare two runs doc by doc, such as a model and its quantised copy.

    ::

        from meta_eval import compare

        found = compare("eval_results/bf16", "eval_results/fp8", pack="work_dir")
        print(found.summary)

    Args:
        a: Results folder of the baseline; of several runs of it all their folders, which are averaged.
        b: The same of the run that is judged.
        options: As in `report`. The pack belongs to both runs.
        progress: Called with the file that is being read.
        keywords: As in `report`.

    Raises:
        UserError: A run, the pack or the gate cannot be read, or the runs have nothing in common.
    """
    chosen = _options(options, keywords)
    sides = [_paths(side) for side in (a, b)]
    if any(len(side) > 1 for side in sides):
        chosen = chosen.updated(repeats=True)
    with display_logs(progress):
        return _Reading(chosen).judge(*sides)


@documented
def compare_candidates(
    a: Path | str | Sequence[Path | str],
    candidates: Sequence[Path | str | Sequence[Path | str]],
    *,
    options: JudgingOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> CandidatesReport:
    """Compare several runs with one baseline. Each has the report that `compare` makes of it, without its samples.

    ::

        from meta_eval.api import compare_candidates

        found = compare_candidates("results_bf16", ["results_fp8", "results_int4"])
        for candidate in found.candidates:
            print(candidate.name, candidate.outcome)

    Each candidate is decided by itself: error rates are those of `compare`, whatever the number of candidates.

    Args:
        a: As in `compare`.
        candidates: The results folder of each run that is judged; of several runs of it all their folders.
        options: As in `compare`.
        progress: Called with the file that is being read.
        keywords: As in `compare`.

    Raises:
        UserError: A, the pack or the gate cannot be read, or no candidate can be compared. Of others that cannot be,
            ``error`` says why.
    """
    from meta_eval.base.errors import UserError, join_errors, refused
    from meta_eval.reports.candidates import Candidate, CandidatesReport, list_notes, list_same_answers, name_runs
    from meta_eval.reports.report import UNKNOWN_MODEL

    chosen = _options(options, keywords)
    baseline, sides = _paths(a), [_paths(side) for side in candidates]
    if not sides:
        raise ConfigError("there is no candidate", where="candidates", hint="Name a run to compare")
    readings: dict[bool, _Reading] = {}
    reports: list[Report | None] = []
    errors: list[UserError | None] = []
    answers: list[int | None] = []
    with display_logs(progress):
        for side in sides:
            repeats = chosen.repeats or len(baseline) > 1 or len(side) > 1
            if repeats not in readings:
                readings[repeats] = _Reading(chosen.updated(repeats=repeats), kept=baseline)
            reading = readings[repeats]
            reading.read_baseline_run()
            try:
                report = reading.judge(baseline, side)
            except (UserError, OSError) as error:
                reports.append(None)
                answers.append(None)
                errors.append(error if isinstance(error, UserError) else refused(error))
            else:
                reports.append(replace(report, tasks=tuple(replace(task, source=None) for task in report.tasks)))
                errors.append(None)
                answers.append(reading.answers)
    if not any(reports):
        raise join_errors(list({str(error): error for error in errors if error}.values()))
    models = [next(report.runs[0].model for report in reports if report)]
    models += [report.runs[1].model if report else UNKNOWN_MODEL for report in reports]
    places = [[os.path.abspath(path) for path in side] for side in (baseline, *sides)]  # noqa: PTH100 (it follows no link)
    name, *names = name_runs(["" if model == UNKNOWN_MODEL else model for model in models], places)
    found = tuple(map(Candidate, names, reports, errors))
    return CandidatesReport(name, found, (*list_notes(name, found), *list_same_answers(names, answers)))


@documented
def compare_texts(
    a: Path | str | Sequence[Path | str],
    b: Path | str | Sequence[Path | str],
    *,
    tokens: Path | str | Sequence[Path | str] = (),
    pack: Path | str | None = None,
    gate: Gate | Path | str | None = None,
    tasks: Sequence[str] = (),
    skip_damaged: bool = False,
    progress: Progress | None = None,
) -> TextsReport:
    """Compare the greedy texts of two runs: where they part, and whether it is rounding.

    ::

        from meta_eval.api import compare_texts

        found = compare_texts("runs/plain", "runs/speculative", tokens="runs/scored")
        print(found.summary)
        for parting in found.comparison.partings:
            print(parting.task, parting.doc, parting.kind, parting.gap)

    Args:
        a: Results folders of the baseline.
        b: Those of the run that is judged.
        tokens: Tables of tokens of the trusted model over the texts of A (or of B), or folders with one.
        pack: The pack of both runs, for its tokenizer. None means that of the tables, else of the runs' models.
        gate: Rules, or a file of rules. ``exit_code`` then follows the outcome.
        tasks: Only these tasks, groups or patterns.
        skip_damaged: Leave damaged data out.
        progress: Called with the file that is being read.

    Raises:
        UserError: A run, a table, the pack or the gate cannot be read, a run was sampled, or the runs have no prompt in
            common.
    """
    from meta_eval.api.texts import build_texts_report
    from meta_eval.judge.judging_options import JudgingOptions

    chosen = JudgingOptions(pack=pack, gate=gate)
    rules, manifest = chosen.read_rules(), chosen.read_manifest()
    with display_logs(progress):
        return build_texts_report(
            _paths(a), _paths(b), tables=_paths(tokens), tasks=tasks, skip_damaged=skip_damaged,
            tokenizer=manifest.run_settings.tokenizer_of() if manifest else None, min_docs=rules.texts.min_docs,
            exit_follows_decision=chosen.exit_follows_decision,
        )  # fmt: skip


def _paths(places: Path | str | Sequence[Path | str]) -> list[Path]:
    return [Path(place) for place in ([places] if isinstance(places, Path | str) else places)]


def _options(options: JudgingOptions | None, keywords: Mapping[str, Any]) -> JudgingOptions:
    from meta_eval.judge.judging_options import JudgingOptions

    return (options or JudgingOptions()).updated(**keywords)


class _Reading:
    """Reads the inputs of a decision, in the order in which a user would look for an error."""

    def __init__(self, options: JudgingOptions, kept: Sequence[Path] = ()) -> None:
        """Read the rules and the manifest. The run in ``kept``, a baseline of several candidates, is read once."""
        self._options = options
        self._kept_places = list(kept)
        self._kept: dict[object, Run] = {}
        self._regraded: dict[int, Run] = {}
        self.answers: int | None = None
        needs_regrade = {"include_path": options.include_path, "allow_code": options.allow_code}
        for name, value in needs_regrade.items():
            if value and not options.regrade:
                raise ConfigError("only has an effect with regrade", where=name, hint="Add --regrade, or leave it out")
        self.rules, self.manifest, self.choice = options.read_rules(), options.read_manifest(), options.choice

    def read(self, *places: Sequence[Path | str]) -> list[Run]:
        """Read a run from each list of places, and check it against the pack and the task names."""
        from meta_eval.harness.clusters import check_fields
        from meta_eval.harness.lm_eval_run import check_choice

        runs = [self._read(run_places) for run_places in places]
        groups = {name: tasks for run in runs for name, tasks in run.known_groups.items()}
        chosen_groups = groups.keys() & {*self.choice.tasks, *self.choice.excluded}
        runs = [  # a group in another run names tasks of this run
            run if chosen_groups <= run.known_groups.keys() else self._read(run_places, groups)
            for run_places, run in zip(places, runs, strict=True)
        ]
        known = (self.manifest.tasks, self.manifest.groups) if self.manifest else ((), {})
        check_choice(self.choice, runs, *known)
        tasks = list({*known[0], *(name for run in runs for name in run.known_tasks)})
        check_fields(self.rules.cluster, tasks, self.rules.locate("cluster"))
        check_fields(self._options.cluster or {}, tasks)
        return runs

    def read_baseline_run(self) -> None:
        """Read the kept run, so that its errors are told from those of a candidate."""
        self._read(self._kept_places)

    @collect_seldom()
    def judge(self, *sides: Sequence[Path]) -> Report:
        """Read a run, or the baseline and the candidate, and judge it."""
        from meta_eval.judge.evidence import list_alarms
        from meta_eval.judge.run_alarms import find_same_run, identify_answers
        from meta_eval.judge.runs import judge
        from meta_eval.reports.report import build_report

        read = self.read(*sides)
        self.answers = identify_answers(read[-1]) if read[1:] else None
        *baseline, candidate = graded = self.regrade(read)
        report_progress("comparing" if baseline else "judging")
        runs = dict(zip(("A", "B") if baseline else ("",), graded, strict=True))
        recorded = self.recorded()
        beside = baseline or ([recorded.graded] if recorded and recorded.graded.tasks else [])
        evidence = self.collect_evidence(candidate, next(iter(beside), None), () if baseline else sides[0])
        judged = judge(
            next(iter(baseline), None), candidate, self.manifest, recorded, self.rules, self.choice,
            before=(read[0], read[1]) if baseline and self._options.regrade else None,
            evidence=[*list_alarms(evidence), *(find_same_run(*read) if baseline else ())],
        )  # fmt: skip
        return build_report(
            judged, runs, pack=self._options.folder, manifest=self.manifest,
            exit_follows_decision=self._options.exit_follows_decision, evidence=evidence,
        )  # fmt: skip

    def collect_evidence(
        self, candidate: Run, baseline: Run | None, places: Sequence[Path]
    ) -> tuple[NamedFindings, ...]:
        """What the evidence of plug-ins finds in the tasks that the gate judges."""
        from meta_eval.base.hashing import hash_file
        from meta_eval.judge.evidence import EvidenceCase, collect_findings
        from meta_eval.pack.manifest import MANIFEST

        folder = self._options.folder
        digest = None if folder is None else hash_file(folder / MANIFEST)
        manifest, runs = self.manifest, [run for run in (candidate, baseline) if run]
        groups = {**candidate.known_groups, **(manifest.groups if manifest else {})}
        known = {name for run in runs for name in run.known_tasks}
        of_pack = (manifest.tasks, manifest.left_out) if manifest else ()
        gate, names = self.rules.choose(sorted(known.union(*of_pack)), groups)
        judged = gate.expand_groups(groups).chosen or names
        judged_runs = [
            replace(run, tasks={name: task for name, task in run.tasks.items() if name in judged}) for run in runs
        ]
        case = EvidenceCase(judged_runs[0], next(iter(judged_runs[1:]), None), tuple(places), manifest, digest)
        return collect_findings(case, self.rules.rules_of_evidence)

    def regrade(self, runs: list[Run]) -> list[Run]:
        """Grade the answers of all runs again, if that is asked for: first the recorded ones of the pack, if another
        lm-eval graded them."""
        options, manifest = self._options, self.manifest
        if not options.regrade:
            return runs
        from meta_eval.ask.regrading import regrade_runs
        from meta_eval.pack.pack_options import TEMPLATES

        template_dir = TEMPLATES if options.include_path is None else Path(options.include_path)
        if options.include_path is not None and not template_dir.is_dir():
            where, hint = f"include_path {name_path(template_dir)}", "Name the folder of your own tasks"
            raise ConfigError("there is no such folder", where=where, hint=hint)
        new = [run for run in runs if id(run) not in self._regraded]
        made = regrade_runs(new, options.folder, manifest, template_dir, allow_code=options.allow_code)
        regraded = self._regraded | {id(run): graded for run, graded in zip(new, made, strict=True)}
        kept = {id(run) for run in self._kept.values()}
        self._regraded = {number: run for number, run in regraded.items() if number in kept}
        return [regraded[id(run)] for run in runs]

    def recorded(self) -> Baseline | None:
        """The recorded answers as the pack grades them; None without a pack."""
        from meta_eval.pack.baseline import read_baseline

        folder = self._options.folder
        return read_baseline(folder, self.manifest) if folder and self.manifest else None

    def _read(self, places: Sequence[Path | str], groups: Mapping[str, tuple[str, ...]] | None = None) -> Run:
        if not self._kept_places or list(places) != self._kept_places:
            return self._read_anew(places, groups)
        key = tuple(sorted((groups or {}).items()))
        if key not in self._kept:
            self._kept[key] = self._read_anew(places, groups)
        return self._kept[key]

    def _read_anew(self, places: Sequence[Path | str], groups: Mapping[str, tuple[str, ...]] | None) -> Run:
        from meta_eval.pack.pack_match import match_pack
        from meta_eval.pack.prompt_lengths import make_token_counter
        from meta_eval.pack.records.record_runs import read_any_run

        options, manifest = self._options, self.manifest
        run = read_any_run(
            [Path(place) for place in places],
            skip_damaged=options.skip_damaged,
            repeats=options.repeats,
            count_tokens=make_token_counter(manifest.run_settings.tokenizer_of()) if manifest else None,
            clusters={**self.rules.cluster, **(options.cluster or {})},
            choice=self.choice,
            groups={**(groups or {}), **(manifest.groups if manifest else {})},
        )
        return run if manifest is None else match_pack(run, manifest, pack=str(options.folder))
