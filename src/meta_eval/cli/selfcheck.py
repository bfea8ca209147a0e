"""``meta-eval selfcheck``: does an engine do what it is asked? A model whose every answer is known says it."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from meta_eval.cli.console import err, people, say, working
from meta_eval.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from meta_eval.running.selfcheck import Diagnosis

_MARKS = {True: ("passed", "green"), False: ("FAILED", "bold red"), None: ("not told", "yellow")}


def selfcheck(
    backend: str = typer.Option("vllm", "--backend", metavar="NAME", help="As the key backend of the configuration."),
    base_url: list[str] = typer.Option(
        [], "--base-url", metavar="URL", help="Of a server that serves the shipped model; see --show-command."
    ),
    model: str | None = typer.Option(
        None, "--model", metavar="NAME", help="The name by which that server knows the model; default: its folder."
    ),
    model_args: str = typer.Option("", "--model-args", metavar="A=B,…", help="Further arguments of the engine."),
    show_command: bool = typer.Option(
        False, "--show-command", help="Print the line that serves the shipped model, and end."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Check an installation with a tiny model whose answers are known: BOS, stop texts, end token, limits, special
    tokens, long prompts, greedy decoding, likelihoods. Needs no hub and no GPU.

    Exit codes: 0 all passed, 1 something did not, 2 something that you can fix.
    """
    from meta_eval.running.selfcheck import serve_command

    if show_command:
        say(shlex.join(serve_command()))
        return
    found = _diagnose(backend, base_url, model, model_args)
    _show(found, as_json=as_json)
    raise typer.Exit(0 if found.passed else 1)


def _diagnose(backend: str, base_url: list[str], model: str | None, model_args: str) -> Diagnosis:
    from pydantic import ValidationError

    from meta_eval.engines import ENGINES
    from meta_eval.running.clients import client_of
    from meta_eval.running.selfcheck import END, selfcheck, settings_of

    if backend not in ENGINES:
        raise ConfigError(f"there is no backend {backend!r}{suggestion(backend, ENGINES)}", where="--backend")
    make_client = client_of(backend)
    try:
        settings = settings_of(backend, base_url=base_url, model_args=model_args)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(str(first["msg"]), where=f"--{str(first['loc'][0]).replace('_', '-')}") from None
    logs = Path(tempfile.mkdtemp(prefix="meta-eval-selfcheck-"))  # stays where something failed: messages name it
    with (
        working(f"starting {backend}; its log: {logs}") as progress,
        make_client(settings, model=model or settings.model_name, logs=logs, end=(END,)) as client,
    ):
        progress(f"asking {client.engine}")
        found = selfcheck(client)
    if found.passed:
        shutil.rmtree(logs, ignore_errors=True)
    else:
        err.print(f"the log: {logs}", soft_wrap=True)
    return found


def _show(found: Diagnosis, *, as_json: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("check", "", "found"):
        table.add_column(name, overflow="fold")
    for check in found.checks:
        mark, style = _MARKS[check.passed]
        table.add_row(check.name, mark, check.found, style=style if check.passed is not True else None)
    console = err if as_json else people()
    console.print(table)
    for check in found.checks:
        if check.passed is False:
            console.print(f"{check.name}: {check.hint}", soft_wrap=True)
    passed = sum(check.passed is True for check in found.checks)
    console.print(
        f"{passed} of {len(found.checks)} passed; {found.engine}, {found.seconds:.0f} s besides its start",
        soft_wrap=True,
    )
    if as_json:
        checks = [asdict(check) for check in found.checks]
        say(json.dumps({"engine": found.engine, "seconds": found.seconds, "passed": found.passed, "checks": checks}))
