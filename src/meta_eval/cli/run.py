"""``meta-eval run``: from a configuration to a verdict."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meta_eval.cli import options
from meta_eval.cli.console import err, say, warn
from meta_eval.cli.verify import Steps
from meta_eval.errors import ConfigError

if TYPE_CHECKING:
    from meta_eval.running.run import Ran

# Seconds between two lines in a log that is no terminal.
_EVERY = 30.0


def run(
    config: Path = options.CONFIG,
    overrides: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Override a key, as of prepare."),
    tasks: list[str] = typer.Option([], "--tasks", metavar="NAMES", help="Tasks and groups of the pack, with commas."),
    shard: str = typer.Option(
        "0/1", "--shard", metavar="I/N", help="Ask each N-th request from the I-th on (0 to N-1)."
    ),
    grade_only: bool = typer.Option(False, "--grade-only", help="Ask nothing: grade what is answered."),
    allow_code: bool = typer.Option(
        False, "--allow-code", help="Also grade tasks whose scoring runs code that a model wrote."
    ),
    edited: bool = options.EDITED,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Ask the model of the configuration what its pack asks, grade the answers, and judge the run. Prepares the pack if
    it is needed. Whatever ends it, every answer is kept, and the same command goes on.

    Exit codes: 0 done, 1 requests failed for good or are not answered, 2 something that you can fix, 130 interrupted.
    """
    from meta_eval.config import load_config

    settings = load_config(config, overrides)
    part = _shard(shard)
    from meta_eval.running.run import run as ask

    names = [name.strip() for item in tasks for name in item.split(",") if name.strip()]
    if grade_only and part[1] > 1:
        raise ConfigError("no shard is graded by itself", where="--grade-only", hint="Leave --shard out")
    with _Log("asking") as steps, _ended_in_order():
        ran = ask(
            settings,
            config_place=str(config),
            tasks=names,
            shard=part,
            grade_only=grade_only,
            allow_code=allow_code,
            edited=edited,
            progress=steps.progress,
            scored=lambda task, scores: steps.line(f"{task}: {_score(scores)}"),
        )
    _finish(ran, settings.work_dir, as_json=as_json)
    raise typer.Exit(1 if ran.failed or ran.unanswered else 0)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM, with which a cluster ends a job, is an interruption like Ctrl-C: engines are stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: a second one would break off the end
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Log(Steps):
    """On a terminal a bar; in a file a line every half minute, so that a log of hours can be read."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing)
        self._said = 0.0

    def progress(self, name: str, done: int = 0, total: int = 0, /) -> None:
        if self._bar is not None:
            super().progress(name, done, total)
        elif not total:
            self.line(name)
        elif time.monotonic() - self._said >= _EVERY or done == total:
            self._said = time.monotonic()
            self.line(f"{done:,} of {total:,}, {name}")

    def line(self, text: str) -> None:
        """One line, above the bar."""
        self._console.print(text, soft_wrap=True)


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of) <= 1_000_000):
        raise ConfigError(
            f"{text!r} is no part of a run", where="--shard", hint="I/N, such as 0/8 to 7/8 on eight machines"
        )
    return int(number), int(of)


def _score(scores: dict[str, float]) -> str:
    shown = [f"{name} {value * 100:.1f}" for name, value in scores.items() if not name.startswith("un")]
    return ", ".join(shown[:4])


def _finish(ran: Ran, work_dir: str, *, as_json: bool) -> None:
    words = f"{ran.asked:,} requests asked, {ran.before:,} were answered before"
    err.print(words + (f", {ran.failed:,} failed" if ran.failed else ""), soft_wrap=True)
    if ran.unanswered:
        listed = ", ".join(f"{task} {left:,}" for task, left in ran.unanswered.items())
        warn(f"not answered: {listed}. The same command without --grade-only asks them, and so does each shard again")
    if ran.graded is None:
        files = " ".join(map(str, ran.answers))
        err.print(
            f"wrote {files}; when all shards are done: meta-eval run grades them, with no --shard", soft_wrap=True
        )
    else:
        where = ran.graded.results
        err.print(f"wrote {where}; judge it with: meta-eval report {where.parent} --pack {work_dir}", soft_wrap=True)
    if as_json:
        graded = ran.graded
        say(
            json.dumps(
                {
                    "answers": [str(path) for path in ran.answers],
                    "engine": ran.engine,
                    "before": ran.before,
                    "asked": ran.asked,
                    "failed": ran.failed,
                    "unanswered": ran.unanswered,
                    "results": None if graded is None else str(graded.results),
                    "speed": None if graded is None else asdict(graded.speed),
                    "tasks": None if graded is None else graded.scores,
                }
            )
        )
