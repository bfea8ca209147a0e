"""``meta-eval report``: does it hold? A run beside the published numbers, on the terminal and in files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.cli.console import err, people
from meta_eval.errors import ConfigError
from meta_eval.outputs import check_outputs

if TYPE_CHECKING:
    from meta_eval.judging.gate import Gate
    from meta_eval.pack.manifest import Manifest
    from meta_eval.report.model import Report, Sample

HTML = typer.Option(None, "--html", metavar="FILE", help="Write one self-contained page with every sample.")
MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card.")
AS_JSON = typer.Option(False, "--json", help="Print one JSON object on stdout; scores are from 0 to 1.")
SKIP = typer.Option(False, "--skip-damaged", help="Leave damaged files, lines and docs out, and say so.")
GATE = typer.Option(None, "--gate", metavar="FILE", help="Decide GO, NO-GO or INCONCLUSIVE by a gate.yaml.")
MAX_DROP = typer.Option(
    None, "--max-drop", metavar="POINTS", help="The same for every task: the largest drop that is allowed."
)


def report(
    results: list[Path] = typer.Argument(..., metavar="RESULTS…", help="Folders or files that lm_eval wrote."),
    pack: Path | None = typer.Option(
        None, "--pack", metavar="WORK_DIR", help="The pack that was run: published numbers and missing tasks need it."
    ),
    html: Path | None = HTML,
    markdown: Path | None = MARKDOWN,
    eval_results: Path | None = typer.Option(
        None, "--eval-results", metavar="FILE", help="Write the hub's .eval_results/*.yaml."
    ),
    as_json: bool = AS_JSON,
    gate: Path | None = GATE,
    max_drop: float | None = MAX_DROP,
    skip_damaged: bool = SKIP,
) -> None:
    """Judge what lm_eval wrote: scores with intervals beside the published numbers and Meta's recorded verdicts.

    Exit codes: 0 GO or no gate, 1 NO-GO, 3 INCONCLUSIVE, 2 something that you can fix.
    """
    from meta_eval.judging.gate import decide
    from meta_eval.judging.judge import judge
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.report.build import build_report
    from meta_eval.report.samples import run_samples
    from meta_eval.results.run import check_pack, read_run

    check_outputs((html, markdown, eval_results), read_from(results, pack, gate))
    rules = rules_of(gate, max_drop, against="published")
    manifest = read_manifest(pack) if pack is not None else None
    with err.status("reading") as status:
        run = read_run(
            results,
            skip_damaged=skip_damaged,
            count_tokens=counter(manifest),
            step=lambda text: status.update(text.replace("[", r"\[")),
        )
        if manifest is not None:
            run = check_pack(run, manifest, pack=str(pack))
        status.update("judging")
        judgements = judge(run, manifest)
        outcome = decide(rules, judgements) if rules is not None else None
        built = build_report(run, judgements, pack=pack, manifest=manifest, gate=outcome)
        status.update("writing")
        write(built, html=html, markdown=markdown, eval_results=eval_results, samples=lambda: run_samples(judgements))
    finish(built, as_json=as_json)


def read_from(results: Iterable[Path], pack: Path | None, gate: Path | None) -> list[Path | None]:
    """What a report reads, so that none of it is written over."""
    from meta_eval.results.baseline import out_folder

    return [*results, pack, gate, None if pack is None else out_folder(pack)]


def rules_of(gate: Path | None, max_drop: float | None, *, against: str) -> Gate | None:
    """The gate that was asked for, if any.

    Raises:
        ConfigError: Both ways at once, or a gate that says something that cannot be.
    """
    from meta_eval.judging.gate import Gate, read_gate

    if gate is not None and max_drop is not None:
        raise ConfigError("--gate and --max-drop are given both", hint="Set max_drop in the file")
    if gate is not None:
        return read_gate(gate)
    if max_drop is None:
        return None
    if not 0 <= max_drop <= 100:
        raise ConfigError(f"{max_drop:g} is no number of points from 0 to 100", where="--max-drop")
    return Gate.model_validate({"max_drop": max_drop, "against": against})


def counter(manifest: Manifest | None) -> Callable[[str], int] | None:
    """Counts the tokens of an answer, where the model's tokenizer is on this machine."""
    from meta_eval.pack.prompt_lengths import token_counter

    return token_counter(manifest.run.model_name) if manifest else None


def write(
    built: Report,
    *,
    html: Path | None,
    markdown: Path | None,
    samples: Callable[[], Iterable[Sample]],
    eval_results: Path | None = None,
) -> None:
    """Write the files that were asked for, each whole or not at all.

    Raises:
        OutputError: One cannot be written.
    """
    from meta_eval.report import eval_results as hub
    from meta_eval.report import markdown as card
    from meta_eval.outputs import replacing
    from meta_eval.report.html import write_html

    for path, render in ((markdown, card.render), (eval_results, hub.render)):
        if path is not None:
            with replacing(path) as out:
                out.write(render(built))
    if html is not None:
        write_html(html, built, samples())


def finish(built: Report, *, as_json: bool) -> None:
    """Show the report to people, print it for machines, and end with its exit code."""
    from meta_eval.report.terminal import show

    show(built, err if as_json else people())
    if as_json:
        typer.echo(json.dumps(built.to_json(), ensure_ascii=True, allow_nan=False))
    raise typer.Exit(built.exit_code)
