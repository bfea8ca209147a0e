"""``meta-eval report``: does it hold? A run beside the published numbers, on the terminal and in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.cli.console import err, people, say
from meta_eval.errors import ConfigError
from meta_eval.outputs import check_outputs

if TYPE_CHECKING:
    from meta_eval.judging.gate import Gate
    from meta_eval.pack.manifest import Manifest
    from meta_eval.report.model import Report

HTML = typer.Option(None, "--html", metavar="FILE", help="Write one self-contained page with every sample.")
MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card.")
AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout; scores are from 0 to 1.")
SKIP = typer.Option(False, "--skip-damaged", help="Leave damaged files, lines and docs out, and say so.")
MARGIN = typer.Option(
    None, "--margin", metavar="POINTS", help="The largest drop that is allowed; else the pack's, which is 1 by default."
)
GATE = typer.Option(None, "--gate", metavar="FILE", help="Exit by the decision, under the rules of a gate.yaml.")
MAX_DROP = typer.Option(None, "--max-drop", metavar="POINTS", help="A margin, and exit by the decision.")
REPEATS = typer.Option(
    False, "--repeats", help="Average all runs of a task that are of one model and pack, not only the newest."
)


def report(
    results: list[Path] = typer.Argument(..., metavar="RESULTS…", help="Folders or files that lm_eval wrote."),
    pack: Path | None = typer.Option(
        None, "--pack", metavar="WORK_DIR", help="The pack that was run: it says what a run is compared with."
    ),
    html: Path | None = HTML,
    markdown: Path | None = MARKDOWN,
    eval_results: Path | None = typer.Option(
        None, "--eval-results", metavar="FILE", help="Write the hub's .eval_results/*.yaml."
    ),
    as_json: bool = AS_JSON,
    margin: float | None = MARGIN,
    gate: Path | None = GATE,
    max_drop: float | None = MAX_DROP,
    repeats: bool = REPEATS,
    skip_damaged: bool = SKIP,
) -> None:
    """Does it hold? SHIP, DON'T or NOT SHOWN: the drop from Meta's answers, with intervals, beside a margin.

    Exit codes: 0; with --gate or --max-drop 0 SHIP, 1 DON'T, 3 NOT SHOWN; 2 something that you can fix.
    """
    from meta_eval.judging.judge import judge
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.report.build import build_report
    from meta_eval.results.baseline import read_baseline
    from meta_eval.results.run import check_pack, read_run

    check_outputs((html, markdown, eval_results), read_from(results, pack, gate))
    rules = rules_of(margin, gate, max_drop)
    manifest = read_manifest(pack) if pack is not None else None
    with err.status("reading") as status:
        count_tokens = counter(manifest)
        run = read_run(
            results,
            skip_damaged=skip_damaged,
            repeats=repeats,
            count_tokens=count_tokens,
            step=status.update,
        )
        if manifest is not None:
            run = check_pack(run, manifest, pack=str(pack))
        status.update("judging")
        baseline = read_baseline(pack, manifest) if pack is not None and manifest is not None else None
        judged = judge(run, manifest, baseline, rules)
        gated = gate is not None or max_drop is not None
        built = build_report(run, judged, pack=pack, manifest=manifest, gated=gated)
        status.update("writing")
        write(built, html=html, markdown=markdown, eval_results=eval_results, count_tokens=count_tokens)
    finish(built, as_json=as_json)


def read_from(results: Iterable[Path], pack: Path | None, gate: Path | None) -> list[Path | None]:
    """What a report reads, so that none of it is written over."""
    from meta_eval.results.baseline import out_folder

    return [*results, pack, gate, None if pack is None else out_folder(pack)]


def rules_of(margin: float | None, gate: Path | None, max_drop: float | None) -> Gate:
    """What was asked for.

    Raises:
        ConfigError: A margin was named twice, or is none; or a gate says something that cannot be.
    """
    from meta_eval.judging.gate import Gate, read_gate

    given = {"--margin": margin, "--gate": gate, "--max-drop": max_drop}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} are given together", hint="Give one; a gate's file has a key margin")
    if gate is not None:
        return read_gate(gate)
    points = margin if margin is not None else max_drop
    if points is None:
        return Gate()
    if not 0 < points < 100:
        raise ConfigError(f"{points:g} is no number of points above 0 and below 100", where=names[0])
    return Gate(margin=points)


def counter(manifest: Manifest | None) -> Callable[[str], int] | None:
    """Counts the tokens of an answer, where the model's tokenizer is on this machine."""
    from meta_eval.pack.prompt_lengths import token_counter

    return token_counter(manifest.run.model_name) if manifest else None


def write(
    built: Report,
    *,
    html: Path | None,
    markdown: Path | None,
    eval_results: Path | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> None:
    """Write the files that were asked for, each whole or not at all.

    Raises:
        OutputError: One cannot be written.
    """
    from meta_eval.outputs import replacing
    from meta_eval.report import eval_results as hub
    from meta_eval.report import markdown as card
    from meta_eval.report.html import write_html
    from meta_eval.report.samples import samples_of

    for path, render in ((markdown, card.render), (eval_results, hub.render)):
        if path is not None:
            with replacing(path) as out:
                out.write(render(built))
    if html is not None:
        write_html(html, built, samples_of(built.tasks, count_tokens=count_tokens))


def finish(built: Report, *, as_json: bool) -> None:
    """Show the report to people, print it for machines, and end with its exit code."""
    from meta_eval.report.terminal import show

    console = err if as_json else people()
    show(built, console)
    if console is not err and not err.is_terminal:  # a log that is kept apart from the table has the decision too
        err.print(built.summary, markup=False, highlight=False, soft_wrap=True)
    if as_json:
        say(json.dumps(built.to_json(), ensure_ascii=True, allow_nan=False))
    raise typer.Exit(built.exit_code)
