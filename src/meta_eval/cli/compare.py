"""``meta-eval compare``: two runs over the same docs, such as a model and its quantised twin."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.cli import report as shared
from meta_eval.cli.console import err
from meta_eval.outputs import check_outputs


def compare(
    a: Path = typer.Argument(..., metavar="A", help="The baseline: what lm_eval wrote of it."),
    b: Path = typer.Argument(..., metavar="B", help="The run that is held against it."),
    pack: Path | None = typer.Option(None, "--pack", metavar="WORK_DIR", help="The pack of both."),
    html: Path | None = shared.HTML,
    markdown: Path | None = shared.MARKDOWN,
    as_json: bool = shared.AS_JSON,
    gate: Path | None = shared.GATE,
    max_drop: float | None = shared.MAX_DROP,
    skip_damaged: bool = shared.SKIP,
) -> None:
    """Compare two runs doc by doc: differences with intervals, flips with both answers, recovery in percent.

    Exit codes: 0 GO or no gate, 1 NO-GO, 3 INCONCLUSIVE, 2 something that you can fix.
    """
    from meta_eval.judging.compare import compare as run_compare
    from meta_eval.judging.gate import decide
    from meta_eval.judging.judge import judge
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.report.build import build_comparison
    from meta_eval.report.samples import compared_samples
    from meta_eval.results.run import check_pack, read_run

    check_outputs((html, markdown), shared.read_from((a, b), pack, gate))
    rules = shared.rules_of(gate, max_drop, against="baseline")
    manifest = read_manifest(pack) if pack is not None else None
    with err.status("reading") as status:
        count_tokens = shared.counter(manifest)

        def step(text: str) -> None:
            status.update(text.replace("[", r"\["))

        runs = [read_run([path], skip_damaged=skip_damaged, count_tokens=count_tokens, step=step) for path in (a, b)]
        if manifest is not None:
            runs = [check_pack(run, manifest, pack=str(pack)) for run in runs]
        status.update("comparing")
        comparison = run_compare(runs[0], runs[1], manifest)
        outcome = decide(rules, judge(runs[1], manifest), comparison) if rules is not None else None
        built = build_comparison(comparison, runs[0], runs[1], gate=outcome)
        status.update("writing")
        shared.write(
            built, html=html, markdown=markdown, samples=lambda: compared_samples(comparison, runs[0], runs[1])
        )
    shared.finish(built, as_json=as_json)
