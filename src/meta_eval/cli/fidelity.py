"""``meta-eval fidelity``: how likely does a copy of the model find the answers that Meta recorded?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say, warn
from meta_eval.cli.run import Log, ended_in_order, shard_of
from meta_eval.errors import ConfigError

if TYPE_CHECKING:
    from meta_eval.running.force import Measured


def fidelity(
    pack: Path | None = typer.Argument(
        None, metavar="[PACK]", help="The pack, asked as its manifest says; default: that of the configuration."
    ),
    config: Path = options.CONFIG_OF_PACK,
    overrides: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Override a key, as of prepare."),
    tasks: list[str] = typer.Option([], "--tasks", metavar="NAMES", help="Tasks and groups of the pack, with commas."),
    docs: int | None = typer.Option(
        None, "--docs", min=1, metavar="N", help="So many docs, spread over the tasks; default: all."
    ),
    top_k: int = typer.Option(
        0, "--top-k", min=0, max=1000, metavar="K", help="Keep the K likeliest tokens of each place."
    ),
    shard: str = typer.Option(
        "0/1", "--shard", metavar="I/N", help="Ask each N-th request from the I-th on (0 to N-1)."
    ),
    no_ask: bool = typer.Option(False, "--no-ask", help="Ask nothing: take what is answered."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FOLDER", help="Where `fidelity/` goes; default: the pack's output_path."
    ),
    edited: bool = options.EDITED,
    as_json: bool = options.AS_JSON,
) -> None:
    """Ask the model how likely it finds each token of the answers that Meta recorded, prompt and answer in one prefill.
    Whatever ends it, every answer is kept, and the same command goes on.

    Exit codes: 0 done, 1 requests failed for good, 2 something that you can fix, 130 interrupted.
    """
    from meta_eval import api
    from meta_eval.running.run import Interrupted

    part = shard_of(shard)
    if no_ask and part[1] > 1:
        raise ConfigError(
            "asks nothing, and writes the table of all shards", where="--no-ask", hint="Leave --shard out"
        )
    names = [name.strip() for item in tasks for name in item.split(",") if name.strip()]
    try:
        with Log("asking") as steps, ended_in_order():
            measured = api.fidelity(
                config, pack=pack, overrides=overrides, tasks=names, docs=docs, top_k=top_k, shard=part,
                ask=not no_ask, output=output, edited=edited, progress=steps.progress,
            )  # fmt: skip
    except Interrupted as end:
        err.print(f"{end.kept:,} of {end.total:,} answers are kept; the same command goes on", soft_wrap=True)
        raise
    _tell(measured)
    if as_json:
        say(json.dumps(_object(measured)))
    raise typer.Exit(1 if measured.failed else 0)


def _tell(measured: Measured) -> None:
    tables = measured.tables
    if tables is None:
        err.print(f"{measured.asked:,} asked; all shards done, the same command without --shard writes the table")
        return
    for name, whys in tables.left_out.items():
        for why, count in whys.items():
            warn(f"{name}: {count:,} docs are left out: {why}")
    what = f"{tables.answers:,} answers"
    if tables.texts is not None:
        what += f", {tables.tokens:,} tokens of text"
    where = " and ".join(str(path) for path in (tables.texts, tables.choices) if path is not None)
    err.print(f"wrote {where}: {what}", soft_wrap=True)


def _object(measured: Measured) -> dict[str, Any]:
    tables = measured.tables
    found = {
        "table": None if tables is None else tables.texts,
        "choices": None if tables is None else tables.choices,
        "journal": measured.answers,
        "engine": measured.engine,
        "before": measured.before,
        "asked": measured.asked,
        "failed": measured.failed,
        "answers": None if tables is None else tables.answers,
        "tokens": None if tables is None else tables.tokens,
        "left_out": None if tables is None else tables.left_out,
    }
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [str(one) for one in value]
    return str(value) if isinstance(value, Path) else value
