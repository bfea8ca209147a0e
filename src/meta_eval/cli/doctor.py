"""``meta-eval doctor``: check a pack, this machine and the engine."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from meta_eval.base.display import CAUTION, quoted
from meta_eval.base.errors import ConfigError, UserError, describe_wrong_value
from meta_eval.base.logs import report_progress
from meta_eval.cli import options
from meta_eval.cli.console import err, make_result_console, show_progress
from meta_eval.cli.streams import print_result
from meta_eval.doctor.engine_options import EngineOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from meta_eval.doctor.check import Finding
    from meta_eval.doctor.engine_checks import EngineChecks

SHOW_COMMAND = typer.Option(False, "--show-command", help="Print the command that serves the shipped model, and exit.")

_STYLES = {"passed": "green", "failed": "bold red", "not checked": CAUTION}
# What to do about a server that does not serve the shipped model, or does not answer.
_SERVE = (
    "Start a server with the command that `meta-eval doctor --show-command` prints, and name its address with "
    "--base-url and, where it has another name for the model, that with --model"
)
# The status of an engine check in JSON.
_PASSED = {"passed": True, "failed": False, "not checked": None}


@options.spread_options()
def doctor(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    engine: bool = typer.Option(
        False, "--engine", help="Check the engine with a tiny shipped model. Checks PACK too if you name it."
    ),
    *,
    chosen: EngineOptions,
    show_command: bool = SHOW_COMMAND,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check a pack and this machine before you use a GPU. It takes seconds.

    With --engine, --backend or --base-url, check the engine. A tiny shipped model with known answers shows whether BOS,
    stop strings, the end token, token limits, special tokens, long prompts, greedy decoding and log-likelihoods work.
    This needs neither a GPU nor the hub. Name PACK to check both.

    Exit codes: 0 no check failed, 1 the engine gave wrong answers, 2 an error that you can fix.

    Example: meta-eval doctor work_dir
    """
    if show_command:
        show_serve_command()
        return
    if not engine and not any(astuple(chosen)):
        print_checks(diagnose_pack(options.pack_folder(pack, config), as_json), as_json, failed=2)
    pack_checks: dict[str, Any] = {}
    if pack is not None:
        from meta_eval.pack.manifest import read_manifest

        pack_checks = diagnose_pack(pack, as_json)
        if not pack_checks["passed"]:
            err.print("the engine was not checked: fix the failed checks first")
            print_checks(pack_checks, as_json, failed=2)
        if not chosen.backend and not chosen.base_url:
            chosen = chosen.updated(backend=read_manifest(pack).run_settings.backend)
    engine_checks = diagnose_engine(chosen, as_json)
    all_checks = (
        {**pack_checks, "passed": engine_checks["passed"], "installation": engine_checks}
        if pack_checks
        else engine_checks
    )
    print_checks(all_checks, as_json, failed=1)


def print_checks(diagnosis: dict[str, Any], as_json: bool, *, failed: int) -> NoReturn:
    """Print the diagnosis as JSON if requested. Exit with 0 if it passed, else with ``failed``."""
    if as_json:
        print_result(diagnosis)
    raise typer.Exit(0 if diagnosis["passed"] else failed)


def diagnose_pack(folder: Path, as_json: bool) -> dict[str, Any]:
    """Check a pack and this machine. Print a line per check, and return the JSON object."""
    from meta_eval.doctor.pack_checks import check_pack

    with err.status("checking"):
        checks = list(check_pack(folder))
    out = make_result_console(as_json=as_json)
    _show_checks(checks, out)
    bad = sum(check.status == "failed" for check in checks)
    out.print(
        f"{bad} of {len(checks)} {'check' if len(checks) == 1 else 'checks'} failed" if bad else "no check failed",
        style="bold",
    )
    return {"pack": str(folder), "passed": not bad, "checks": [asdict(check) for check in checks]}


def _show_checks(checks: Iterable[Finding], out: Console) -> None:
    for check in checks:
        out.print(f"{check.status:<11}", style=_STYLES[check.status], end=" ")
        out.print(str(check), soft_wrap=True)


def show_serve_command() -> None:
    """Print the command that serves the shipped model."""
    from meta_eval.doctor.known_answers import serve_command

    print_result(shlex.join(serve_command()))
    err.print("then: meta-eval doctor --base-url URL, with the address that the server prints")


def diagnose_engine(chosen: EngineOptions, as_json: bool) -> dict[str, Any]:
    """Check an engine with the shipped model. Print a line per check, and return the JSON object.

    Raises:
        ConfigError: The backend is unknown, or does not accept a setting.
    """
    result = _ask_engine(chosen)
    out = make_result_console(as_json=as_json)
    _show_checks(result.checks, out)
    passed = sum(check.status == "passed" for check in result.checks)
    out.print(
        f"{passed} of {len(result.checks)} checks passed; {result.engine}, {result.seconds:.0f} s after its start",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    checks = [
        {"name": check.name, "passed": _PASSED[check.status], "found": check.what, "hint": check.hint or ""}
        for check in result.checks
    ]
    return {
        "engine": result.engine,
        "seconds": result.seconds,
        "passed": result.passed,
        "checks": checks,
    }


def _ask_engine(chosen: EngineOptions) -> EngineChecks:
    from pydantic import ValidationError

    from meta_eval.ask.client import describe_start, find_client
    from meta_eval.doctor.engine_checks import check_engine
    from meta_eval.doctor.known_answers import END, make_settings
    from meta_eval.pack.backends.base import UnknownBackendError
    from meta_eval.pack.config.config_errors import describe_allowed

    try:
        settings = make_settings(chosen)
    except UnknownBackendError as error:
        raise ConfigError(str(error), where="--backend", hint=describe_allowed("backend")) from None
    except ValidationError as error:
        first = error.errors()[0]
        key, what = str(first["loc"][0]), describe_wrong_value(first["msg"], first["input"])
        what = what if what.startswith("'") else f"{quoted(first['input'])} is not allowed"
        raise ConfigError(what, where=f"--{key.replace('_', '-')}", hint=describe_allowed(key)) from None
    keys = {name for name in type(settings).model_fields if "_" in name}
    logs = Path(tempfile.mkdtemp(prefix="meta-eval-doctor-"))  # kept if a check failed, because messages name it
    try:
        with (
            show_progress(describe_start(settings, logs)),
            find_client(settings)(settings, model=chosen.model or settings.model_name, logs=logs, end=(END,)) as client,
        ):
            report_progress(f"asking {client.engine}")
            result = check_engine(client)
    except UserError as error:
        # There is no configuration, and no --set.
        error.hint = error.hint and error.hint.partition(". Without it:")[0]
        if error.where == "base_url":
            error.where, error.hint = "--base-url", _SERVE
        elif chosen.base_url and keys & set(re.findall(r"\w+", error.hint or "")):
            error.hint = _SERVE
        raise
    if result.passed:
        shutil.rmtree(logs, ignore_errors=True)
    else:
        err.print(f"log: {logs}", soft_wrap=True)
    return result
