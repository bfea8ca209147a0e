"""``meta-eval run``: from a configuration to a decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.display import plural
from meta_eval.base.errors import ConfigError, UserError
from meta_eval.base.sigterm import interrupt_on_sigterm
from meta_eval.cli import options
from meta_eval.cli.console import err, make_result_console, show_progress, warn, write_document
from meta_eval.cli.steps import Log
from meta_eval.cli.streams import print_result

if TYPE_CHECKING:
    from meta_eval.ask.pipeline import RunResult
    from meta_eval.harness.settings import RunSettings
    from meta_eval.pack.config import Config
    from meta_eval.reports.report import Report
    from meta_eval.stats.sequential import State


@options.spread_options()
def run(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    overrides: list[str] = options.OVERRIDES,
    *,
    chosen: RunOptions,
    report: bool = typer.Option(True, "--report/--no-report", help="Judge the run after grading."),
    html: Path | None = typer.Option(
        None, "--html", metavar="FILE", help="Write the report as an HTML page. Several models stand side by side."
    ),
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Run the configured model, grade its answers, and judge the run.

    Without PACK, it prepares the pack first if that is needed. A named pack is run as it is.
    If it stops, it keeps every answer. Rerun the same command to resume.

    Exit codes: 0 done, 1 requests failed permanently or answers are missing or cannot be graded, 2 an error that you
    can fix, 130 interrupted. Else, with --gate: 0 SHIP, 1 DON'T SHIP, 3 UNDECIDED. Of several models the worst counts:
    2 before 1, 3 and 0.

    Example: meta-eval run --set model_name=org/model --set tasks=mmlu
    """
    from meta_eval.ask.pipeline import read_run_settings
    from meta_eval.judge.decide import find_worst_code
    from meta_eval.judge.gate import read_gate
    from meta_eval.pack.config import CONFIG_OBJECT, open_config
    from meta_eval.pack.source_files import list_sources

    settings: Config | RunSettings
    if pack is None:
        settings, place = open_config(config, overrides)
        work_dir, models = Path(settings.work_dir), [settings.model_name, *settings.other_models]
    else:
        settings, place = read_run_settings(pack, overrides), CONFIG_OBJECT
        work_dir, models = pack, [settings.model_name]
    makes_report = report and chosen.shard[1] == 1
    gate = None if chosen.gate is None else Path(chosen.gate)
    _check_report(makes_report, html, gate)
    if gate is not None:
        read_gate(gate)  # fail now, not after hours
    if html is not None:
        from meta_eval.reports.views import HtmlView, check_views

        check_views([(html, HtmlView())], [config, work_dir, gate, *list_sources(work_dir)])
    if chosen.grade_only and chosen.shard[1] > 1:
        raise ConfigError("cannot grade a single shard", where="--grade-only", hint="Leave --shard out")
    from meta_eval.api.stop_rules import read_stop_rules
    from meta_eval.ask.pipeline import Interrupted
    from meta_eval.ask.pipeline import run_pack as ask

    done: dict[str, tuple[RunResult, Report | None]] = {}
    failed: dict[str, UserError] = {}
    for model in models:
        if len(models) > 1:
            err.print(model, style="bold", soft_wrap=True)
        try:
            with Log("asking") as steps, interrupt_on_sigterm():
                ran = ask(
                    settings,
                    chosen,
                    model=model,
                    config_place=place,
                    baseline=makes_report,
                    scored=lambda task, scores, docs: steps.line(_score(work_dir, task, scores, docs)),
                    stop_rules=partial(read_stop_rules, chosen.gate),
                )
        except Interrupted as end:
            err.print(
                f"{end.kept:,} of {end.total:,} answers are saved. Rerun the same command to resume", soft_wrap=True
            )
            raise
        except UserError as error:
            if len(models) == 1:
                raise
            warn(f"{model}: skipped: {error}")
            failed[model] = error
            continue
        judged = _judge(ran, work_dir, html if len(models) == 1 else None, gate) if makes_report else None
        done[model] = ran, judged
        _finish(ran, work_dir, judged, as_json=as_json)
    _end(done, failed, html=html if len(models) > 1 else None, as_json=as_json)
    if failed:
        raise next(iter(failed.values()))
    raise typer.Exit(find_worst_code(_code(ran, judged) for ran, judged in done.values()))


def _code(ran: RunResult, judged: Report | None) -> int:
    broken = ran.graded is not None and (ran.graded.broken or ran.graded.failed)
    return 1 if ran.failed or ran.unanswered or ran.left_out or broken else judged.exit_code if judged else 0


def _end(
    done: Mapping[str, tuple[RunResult, Report | None]], failed: Mapping[str, UserError], *, html: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the comparison of several models, and the JSON result. A single model keeps its own JSON form."""
    reports = {model: judged for model, (_, judged) in done.items() if judged is not None}
    places: list[Any] = []
    if len(reports) > 1 or (reports and html is not None):
        from meta_eval.reports.candidates import Candidate, CandidatesReport, rank_runs, shorten_models
        from meta_eval.reports.views import HtmlView, TextView

        models = [*reports, *failed]
        found = tuple(
            Candidate(name, reports.get(model), failed.get(model))
            for model, name in zip(models, shorten_models(models), strict=True)
        )
        compared = CandidatesReport("the baseline", found)
        places = [asdict(place) for place in rank_runs(compared).places]
        document = compared.document()
        console = make_result_console(as_json=as_json)
        console.print()
        TextView().show(document, console)
        if html is not None:
            write_document(document, [(html, HtmlView())])
    if as_json and done:
        objects = {model: _object(*of_model) for model, of_model in done.items()}
        several = {"models": objects, "places": places}
        print_result(next(iter(objects.values())) if len(objects) == 1 else several)


def _check_report(makes_report: bool, html: Path | None, gate: Path | None) -> None:
    for name, path in (("--html", html), ("--gate", gate)):
        if path is not None and not makes_report:
            raise ConfigError(
                "needs the report, which --no-report and --shard turn off", where=name, hint="Leave these out"
            )


def _judge(ran: RunResult, pack: Path, html: Path | None, gate: Path | None) -> Report | None:
    """Make the report of a graded run."""
    from meta_eval import api
    from meta_eval.cli.report import write_views
    from meta_eval.reports.views import choose_views

    if ran.graded is None:
        return None
    with show_progress("judging"):
        judged = api.report([ran.graded.results], pack=pack, gate=gate)
        write_views(judged, choose_views("report", (), {"html": html}), pack)
    return judged


def _decided(state: State) -> str:
    drop = f"the mean drop is {100 * state.mean.drop:.1f} points, at least {100 * state.mean.lower:.1f} at every look"
    if state.outcome is None:
        return f"not stopped: {drop}. All docs were asked, and report judges the whole run"
    return f"{state.outcome}, proven after {state.docs:,} docs: {drop}"


def _score(pack: Path, task: str, scores: dict[str, float], docs: Collection[int]) -> str:
    """Format a task's score beside the published score, or its first scores if none is published.

    Where only some docs have an answer, the other score is that of the same docs, if the record has it.
    """
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.pack.pack_match import score_recorded_docs

    entry = read_manifest(pack).tasks[task]
    whose, shown = "Meta published" if entry.record is None else "recorded", []
    for number in entry.reference_scores:
        if number.metric in scores and entry.invented:
            shown.append(f"{scores[number.metric] * 100:.1f} ({number.metric})")
        elif number.metric in scores:
            other, of = number.value, "" if number.same_settings else ", with other settings"
            if len(docs) < entry.docs:
                of_same = score_recorded_docs(pack, entry, number, docs)
                other, of = (other, f"{of}, of all docs") if of_same is None else (of_same, f"{of} on the same docs")
            shown.append(f"{scores[number.metric] * 100:.1f} ({number.metric}; {whose} {round(other, 2):g}{of})")
    others = [f"{value * 100:.1f} ({name})" for name, value in scores.items() if not name.startswith("un")]
    return f"{task}: {', '.join(shown or others[:2])}"


def _finish(ran: RunResult, pack: Path, judged: Report | None, *, as_json: bool) -> None:
    if judged is not None:
        from meta_eval.reports.views import TextView

        TextView().show(judged.document(), make_result_console(as_json=as_json))
    words = f"{plural(ran.asked, 'request')} asked, {ran.before:,} were answered before"
    words += f", {ran.asked_again:,} asked again" if ran.asked_again else ""
    err.print(words + (f", {ran.failed:,} failed" if ran.failed else ""), soft_wrap=True)
    if ran.retries:
        from meta_eval.harness.provenance import describe_retries

        err.print(f"requests: {describe_retries(ran.retries)}", soft_wrap=True)
    if ran.stopped is not None:
        err.print(_decided(ran.stopped), soft_wrap=True)
    if ran.canary is not None and err.is_terminal:  # a log file already has it further up
        err.print(f"canary: {ran.canary}", soft_wrap=True)
    if ran.left_out:
        warn(f"tasks left out (see above): {', '.join(ran.left_out)}")
    if ran.unanswered:
        listed = ", ".join(f"{task} {left:,}" for task, left in ran.unanswered.items())
        warn(f"unanswered: {listed}. Rerun without --grade-only, or rerun the shards, to ask them")
    if ran.graded is None:
        files = " ".join(map(str, ran.answers))
        err.print(
            f"wrote {files}. When all shards are done, grade them with the same command without --shard", soft_wrap=True
        )
    else:
        where = ran.graded.results
        judge = "" if judged else f"; judge it with: meta-eval report {where.parent} --pack {pack}"
        err.print(f"wrote {where}{judge}", soft_wrap=True)


def _object(ran: RunResult, judged: Report | None) -> dict[str, Any]:
    graded = ran.graded
    return {
        "answers": [str(path) for path in ran.answers],
        "engine": ran.engine,
        "before": ran.before,
        "asked": ran.asked,
        "asked_again": ran.asked_again,
        "failed": ran.failed,
        "retries": ran.retries,
        "stopped": None if ran.stopped is None else asdict(ran.stopped),
        "canary": None if ran.canary is None else asdict(ran.canary),
        "left_out": ran.left_out,
        "unanswered": ran.unanswered,
        "broken": {} if graded is None else graded.broken,
        "results": None if graded is None else str(graded.results),
        "speed": None if graded is None else asdict(graded.speed),
        "tasks": None if graded is None else graded.scores,
        "report": None if judged is None else judged.to_json(),
    }
