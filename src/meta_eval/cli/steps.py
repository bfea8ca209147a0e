"""Progress of a command that works through tasks, on a terminal and in a log file."""

from __future__ import annotations

import time
from typing import Any, Self

from meta_eval.base.logs import display_logs
from meta_eval.cli.console import bound_err, err, notes

# Seconds between two lines of progress in a log file.
_EVERY = 30.0


class Steps:
    """Show progress: a bar for the current task on a terminal, a line per task in a file."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        # Bound to the current stderr, because the evaluator's output is kept off sys.stderr meanwhile.
        self._console = bound_err()
        self._bar: Any = None
        self._task: Any = None
        self._name = ""
        self._shown = display_logs(self.progress)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(
                *columns, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._bar.add_task("starting", total=None)
            self._bar.start()
        notes.console = self._console
        self._shown.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.__exit__(None, None, None)
        notes.console = err
        if self._bar is not None:
            self._bar.stop()

    def progress(self, name: str, done: int = 0, total: int = 0, /) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=name, completed=done, total=total or None)
        elif name != self._name:
            self._console.print(f"{self._doing} {name}", soft_wrap=True)
        self._name = name


class Log(Steps):
    """Show a progress bar on a terminal. In a log file, write a line every half minute."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing)
        self._reported_at = 0.0

    def progress(self, name: str, done: int = 0, total: int = 0, /) -> None:
        if self._bar is not None:
            super().progress(name, done, total)
        elif not total:
            self._reported_at = time.monotonic()
            self.line(name)
        elif time.monotonic() - self._reported_at >= _EVERY:
            self._reported_at = time.monotonic()
            self.line(f"{done:,} of {total:,}, {name}")

    def line(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, soft_wrap=True)
