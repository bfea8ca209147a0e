"""Runs calls of the API in workers: other Pythons, in which code of templates and packs may do what it likes.

A call takes an idle worker or starts one, and leaves it idle, so that the next call imports nothing again. Two calls at
once have two workers. Arguments, results and errors are pickled. Progress and notes come to the program while the
worker works.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Any, Literal, ParamSpec, TypeVar

from meta_eval.base import worker
from meta_eval.base.errors import UserError
from meta_eval.base.logs import display_logs, log, report_progress
from meta_eval.base.one_thread import import_with_one_thread

_P = ParamSpec("_P")
_T = TypeVar("_T")
# What a worker tells: a step, a log record, whose code runs, and how a call ended.
_Kind = Literal["progress", "log", "place", "done", "error"]

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[3]); from meta_eval.base.apart import serve; serve()"

# Workers without a call.
_idle: list[_Worker] = []
_lock = threading.Lock()


def apart(job: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function of a module work in a worker. Its ``progress`` is called in the program."""

    @wraps(job)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        if worker.is_worker():
            return job(*arguments, **keywords)
        progress: Any = keywords.pop("progress", None)
        with display_logs(progress):
            result: _T = _call(f"{job.__module__}:{job.__qualname__}", arguments, keywords)
        return result

    return call


def _call(path: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    with _lock:
        mine = _idle.pop() if _idle else None
    if mine is None or not mine.is_alive():
        mine = _Worker()
    try:
        kind, value = mine.call(path, arguments, keywords)
    except BaseException:
        mine.end()
        raise
    with _lock:
        _idle.append(mine)
    if kind == "error":
        raise value
    return value


@atexit.register
def end_workers() -> None:
    """End all idle workers."""
    while _idle:
        _idle.pop().end()


os.register_at_fork(after_in_child=_idle.clear)


class _Worker:
    """Another Python that makes calls."""

    def __init__(self) -> None:
        from multiprocessing.connection import Pipe  # slow to import, and a command needs none

        self._pipe, theirs = Pipe()
        watcher, self._held = os.pipe()
        path = json.dumps([os.path.abspath(folder) for folder in sys.path])  # noqa: PTH100 (it follows no link)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs.fileno()), str(watcher), path],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), watcher],
            process_group=0,  # Ctrl-C is passed on: see `end`
        )
        theirs.close()
        os.close(watcher)

    def is_alive(self) -> bool:
        """Whether it can make a call."""
        return self._process.poll() is None

    def call(self, path: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[_Kind, Any]:
        """Make a call.

        Args:
            path: ``module:function``.
            arguments, keywords: What it is called with.

        Returns:
            ``done`` and the result, or ``error`` and the exception.

        Raises:
            TemplateError: Code of others ended the worker.
        """
        place: list[str] = []
        try:
            self._pipe.send((path, arguments, keywords, dict(os.environ), str(os.getcwd()), log.getEffectiveLevel()))  # noqa: PTH109
            while True:
                kind, value = self._pipe.recv()
                if kind == "progress":
                    report_progress(*value)
                elif kind == "log":
                    logging.getLogger(value.name).handle(value)
                elif kind == "place":
                    place = [value]
                else:
                    return kind, value
        except (EOFError, ConnectionError):
            raise worker.describe_lost_end(place, self._process.wait()) from None

    def end(self) -> None:
        """End it as Ctrl-C does; after some seconds whatever it does."""
        self._pipe.close()
        os.close(self._held)
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(worker.GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# In a worker


def serve() -> None:
    """Make calls until the program ends."""
    from multiprocessing.connection import Connection

    import_with_one_thread()
    worker.keep_stdout()
    worker.end_with(int(sys.argv[2]))
    pipe = Connection(int(sys.argv[1]))
    lock = threading.Lock()

    def tell(kind: _Kind, value: Any) -> None:
        with lock:
            pipe.send((kind, value))

    log.addHandler(_Forward(tell))
    log.propagate = False
    worker.tell_with(lambda place: tell("place", place))
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            path, arguments, keywords, environment, folder, level = pipe.recv()
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            log.setLevel(level)
            with display_logs(lambda *step: tell("progress", step)):
                tell(*_make_call(path, arguments, keywords))


def _make_call(path: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[_Kind, Any]:
    module, _, name = path.partition(":")
    try:
        result = getattr(import_module(module), name)(*arguments, **keywords)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if worker.ran_out_of_memory(error):
            error = UserError(worker.NO_MEMORY)
        if not isinstance(error, UserError):
            error.add_note(f"In a worker of meta-eval:\n{traceback.format_exc()}")
        return "error", _picklable(error)
    return "done", result


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    except Exception:
        return UserError(str(error)) if isinstance(error, UserError) else RuntimeError(traceback.format_exc())
    return error


class _Forward(logging.Handler):
    """Hands notes to the program."""

    def __init__(self, tell: Callable[[_Kind, Any], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        with suppress(OSError):
            self._tell("log", record)
