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
    margin: float | None = shared.MARGIN,
    gate: Path | None = shared.GATE,
    max_drop: float | None = shared.MAX_DROP,
    repeats: bool = shared.REPEATS,
    skip_damaged: bool = shared.SKIP,
) -> None:
    """Compare two runs doc by doc: what B loses of A with intervals, flips with both answers, recovery in percent.

    Exit codes: 0; with --gate or --max-drop 0 SHIP, 1 DON'T, 3 NOT SHOWN; 2 something that you can fix.
    """
    from meta_eval.judging.compare import compare as run_compare
    from meta_eval.pack.manifest import read_manifest
    from meta_eval.report.build import build_comparison
    from meta_eval.results.baseline import read_baseline
    from meta_eval.results.run import Run, check_pack, read_run

    check_outputs((html, markdown), shared.read_from((a, b), pack, gate))
    rules = shared.rules_of(margin, gate, max_drop)
    manifest = read_manifest(pack) if pack is not None else None
    with err.status("reading") as status:
        count_tokens = shared.counter(manifest)

        def read(path: Path) -> Run:
            return read_run(
                [path], skip_damaged=skip_damaged, repeats=repeats, count_tokens=count_tokens, step=status.update
            )

        before, after = read(a), read(b)
        if manifest is not None:
            before, after = (check_pack(run, manifest, pack=str(pack)) for run in (before, after))
        status.update("comparing")
        baseline = read_baseline(pack, manifest) if pack is not None and manifest is not None else None
        judged = run_compare(before, after, manifest, baseline, rules)
        built = build_comparison(judged, before, after, gated=gate is not None or max_drop is not None)
        status.update("writing")
        shared.write(built, html=html, markdown=markdown, count_tokens=count_tokens)
    shared.finish(built, as_json=as_json)
