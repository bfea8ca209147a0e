"""``meta-eval fidelity``: compare two models by the log-probabilities of the recorded answers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from meta_eval.base.sigterm import interrupt_on_sigterm
from meta_eval.cli import options
from meta_eval.cli.console import make_result_console, warn
from meta_eval.cli.steps import Log
from meta_eval.pack.manifest import read_manifest
from meta_eval.plugins.tokens.options import FidelityOptions
from meta_eval.sockets import ConfigError, err, plural, print_result, write_document

if TYPE_CHECKING:
    from meta_eval.judge.gate import Gate
    from meta_eval.plugins.tokens.token_scoring import FidelityResult
    from meta_eval.sockets import View


@options.spread_options()
def fidelity(
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: FidelityOptions,
    noise: Path | None = typer.Option(
        None,
        "--noise",
        metavar="TABLE",
        help="Another table of the baseline's weights. Default: that of --again beside the baseline.",
    ),
    margin: float | None = typer.Option(
        None,
        "--margin",
        metavar="NATS",
        help="Largest distance per token that counts as the same model. Default: the noise decides.",
    ),
    gate: Path | None = typer.Option(
        None, "--gate", metavar="FILE", help="Set the exit code by the rules under `fidelity:` in a gate.yaml."
    ),
    html: Path | None = typer.Option(
        None, "--html", metavar="FILE", help="Write an HTML page that shows answers token by token."
    ),
    markdown: Path | None = typer.Option(None, "--markdown", metavar="FILE", help="Write Markdown for a model card."),
    view: list[str] = options.VIEWS,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check whether two models are the same, by the log-probability of each token of the recorded answers.

    Each doc is a prefill; nothing is generated. Compare the result with another model's: --baseline BASELINE. If the
    command stops, it keeps every answer. Rerun it to resume.

    Exit codes: 0 done, 1 requests failed permanently, 2 an error that you can fix, 130 interrupted. With --gate: 0
    same, 1 different, 3 undecided.

    Outputs of llama-perplexity are compared too: name the copy's in place of the pack, and the baseline's with
    --baseline. A table of --kl-divergence has both.

    Example: meta-eval fidelity work_dir --baseline other/fidelity
    """
    from meta_eval.ask.pipeline import Interrupted
    from meta_eval.plugins.tokens import api
    from meta_eval.plugins.tokens.yardstick import find_first_table
    from meta_eval.reports.views import TextView, check_views, choose_views

    part, named = chosen.shard, None if chosen.baseline is None else Path(chosen.baseline)
    if not chosen.ask and part[1] > 1:
        raise ConfigError("writes one table for all shards", where="--no-ask", hint="Leave --shard out")
    shows: dict[str, object] = {"--baseline": named, "--html": html, "--markdown": markdown, "--view": view or None}
    shows |= {"--margin": margin, "--gate": gate, "--noise": noise}
    output_option = next((name for name, value in shows.items() if value is not None), None)
    if output_option and part[1] > 1:
        raise ConfigError(
            "needs the answers of all shards",
            where=output_option,
            hint="Run all shards, then this command without --shard",
        )
    if chosen.pack is not None and (log := Path(chosen.pack)).exists() and not log.is_dir():
        if any(value is not None for value in (margin, gate, noise)) or _asks_anything(chosen):
            raise ConfigError(
                "is a file, so nothing is asked or decided: of the options only --baseline, --json and those of views "
                "are for an output of llama-perplexity", where=str(chosen.pack), hint="Leave the others out",
            )  # fmt: skip
        _report_logs(chosen, choose_views("fidelity", view, {"html": html, "markdown": markdown}), as_json=as_json)
        return
    fidelity_gate = _read_fidelity_gate(margin, gate, noise, named)
    views = choose_views("fidelity", view, {"html": html, "markdown": markdown})
    check_views(views, (None if chosen.pack is None else Path(chosen.pack), named, noise, gate))
    if chosen.pack is not None:
        read_manifest(Path(chosen.pack))  # before what it is compared with
    baseline, second = (None if place is None else _find_baseline(place) for place in (named, noise))
    try:
        with Log("asking"), interrupt_on_sigterm():
            measured = api.fidelity(config, options=chosen.updated(baseline=baseline))
    except Interrupted as end:
        err.print(f"{end.kept:,} of {end.total:,} answers are saved. Rerun the same command to resume", soft_wrap=True)
        raise
    _tell(measured)
    if measured.tables is None:
        if as_json:
            print_result(_object(measured))
        raise typer.Exit(1 if measured.failed else 0)
    table = measured.tables.texts or _texts_of(measured.tables.choices)
    if baseline is not None and baseline.resolve() == table.resolve():
        raise ConfigError(
            "is this run's own table, so there is nothing to compare", where=f"--baseline {named}",
            hint="Write this run elsewhere with --output, or name the other table",
        )  # fmt: skip
    if chosen.again and baseline is None:
        baseline = find_first_table(table)
    report = api.fidelity_report(table, baseline=baseline, noise=second, margin=margin, gate=fidelity_gate)
    document = report.document()
    write_document(document, views)
    TextView().show(document, make_result_console(as_json=as_json))
    if as_json:
        print_result({**_object(measured), "report": document.to_json()})
    has_failed = measured.failed or any("failed" in whys for whys in measured.tables.left_out.values())
    raise typer.Exit(1 if has_failed else report.exit_code)


def _asks_anything(chosen: FidelityOptions) -> bool:
    """Whether any option is set that is about what is asked of a model."""
    usual = FidelityOptions(pack=chosen.pack, baseline=chosen.baseline)
    pairs = [(getattr(chosen, field.name), getattr(usual, field.name)) for field in fields(chosen)]
    return any(value != default and (value or default) for value, default in pairs)


def _report_logs(chosen: FidelityOptions, views: list[tuple[Path, View]], *, as_json: bool) -> None:
    """Compare outputs of llama-perplexity.

    Raises:
        UserError: A log cannot be read, or they are not of the same chunks.
    """
    from meta_eval.plugins.tokens import api
    from meta_eval.reports.views import TextView, check_views

    log, baseline = Path(chosen.pack or ""), None if chosen.baseline is None else Path(chosen.baseline)
    check_views(views, (log, baseline))
    document = api.perplexity_report(log, baseline=baseline).document()
    write_document(document, views)
    TextView().show(document, make_result_console(as_json=as_json))
    if as_json:
        print_result({"report": document.to_json()})


def _read_fidelity_gate(
    margin: float | None, gate: Path | None, noise: Path | None, baseline: Path | None
) -> Gate | None:
    """Read the rules of the gate before any request is sent.

    Raises:
        ConfigError: An option has no effect here, or has an impossible value.
    """
    from meta_eval.judge.gate import read_gate

    where = next((name for name, value in {"--margin": margin, "--gate": gate, "--noise": noise}.items() if value), "")
    if baseline is None and where:
        raise ConfigError("needs a baseline to compare with", where=where, hint="Name its table: --baseline FILE")
    if margin is not None and noise is not None:
        raise ConfigError(
            "--margin and --noise cannot be combined",
            hint="--margin takes the place of the noise: leave one of them out",
        )
    if margin is not None and gate is not None:
        raise ConfigError(
            "--margin and --gate cannot be combined", hint="Leave --margin out and set fidelity.margin in the gate file"
        )
    if margin is not None and not 0 < margin < 100:
        raise ConfigError(
            f"{margin:g} is not a number of nats above 0 and below 100", where="--margin", hint="Such as 0.02"
        )
    return None if gate is None else read_gate(gate)


def _find_baseline(place: Path) -> Path:
    """Find the baseline's table, and open it once. An unreadable table stops the command before any request is sent."""
    from meta_eval.judge.token_table import find_choices_path, find_table, read_choices, read_tokens

    path = find_table(place)
    if path.exists() or not find_choices_path(path).exists():
        return read_tokens(path).path
    read_choices(find_choices_path(path))
    return path


def _texts_of(choices: Path | None) -> Path:
    """The path that the table of texts would have beside this table of choices."""
    from meta_eval.judge.token_table import find_texts_path

    assert choices is not None  # noqa: S101 (tables without any answer are refused)
    return find_texts_path(choices)


def _tell(measured: FidelityResult) -> None:
    tables = measured.tables
    if tables is None:
        err.print(
            f"{plural(measured.asked, 'request')} asked. When all shards are done, run the same command without "
            "--shard to write the table",
            soft_wrap=True,
        )
        return
    for name, whys in tables.left_out.items():
        for why, count in whys.items():
            warn(f"{name}: {plural(count, 'doc')} skipped: {why}")
    what = plural(tables.answers, "answer")
    if tables.texts is not None:
        what += f", {tables.tokens:,} tokens of text"
    where = " and ".join(str(path) for path in (tables.texts, tables.choices) if path is not None)
    err.print(f"wrote {where}: {what}", soft_wrap=True)


def _object(measured: FidelityResult) -> dict[str, Any]:
    tables = measured.tables
    values = {
        "table": None if tables is None else tables.texts,
        "choices": None if tables is None else tables.choices,
        "probes": None if tables is None else tables.probes,
        "journal": measured.answers,
        "engine": measured.engine,
        "before": measured.before,
        "asked": measured.asked,
        "failed": measured.failed,
        "probed": measured.probed,
        "answers": None if tables is None else tables.answers,
        "tokens": None if tables is None else tables.tokens,
        "left_out": None if tables is None else tables.left_out,
    }
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value
