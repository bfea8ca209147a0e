"""Settings for every test, and an evals dataset in a folder."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from hypothesis import HealthCheck, settings
from made_once import templates_once
from places import HELPERS, THOROUGH
from plugged import imports_what_is_gone, is_there
from rows import make_row, write_rows

# For numpy, which nothing above imports, and every process that a test starts: on small matrices the threads of OpenBLAS
# do nothing but wait for each other, which costs four times the work.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# A busy machine is slow at random, and the first example of a test pays for imports: no test is about such times.
# In CI the examples are the same every time, so that a red run is of the change; elsewhere they are new ones.
settings.register_profile(
    "any machine", deadline=None, derandomize="CI" in os.environ, max_examples=40 if THOROUGH else 7,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("any machine")

# No test may reach the hub, and huggingface_hub looks at this but once, when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

# What calls the API works in this process: a worker for each would import everything once more.
os.environ["META_EVAL_WORKER"] = "0"

# What tests make is large, and little of it garbage: a search for it takes longer than what it frees is worth.
gc.set_threshold(1_000_000, 50, 50)

# A test folder need not outlive the machine, and to wait for the disk takes longer than most tests.
os.fsync = lambda _: None

# A shell without job control starts what it puts into the background with Ctrl-C ignored, and so would be all that the
# tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Most configurations of the tests name no backend. Without the engines, whose default is vllm, a package makes it server.
_SERVER = None if is_there("engines") else str(HELPERS / "default_server")
if _SERVER is not None:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), _SERVER)))

# Folders none of whose files takes more than 4 s of CPU time.
_QUICK = frozenset(("catalog", "joins", "source", "templates", "tools"))


# Where the Python of an environment is named that has another tool, by the marker of the tests that need it.
_OF_OTHERS = {"lighteval": "META_EVAL_LIGHTEVAL"}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A test of the core that imports a plug-in goes with it."""
    return True if collection_path.suffix == ".py" and imports_what_is_gone(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is quick comes last, so that the workers, which take file by file, end together.

    Who runs a folder without ``-m`` has no environment with another tool in it: its tests are skipped, with the reason.
    """
    items.sort(key=lambda item: item.path.parent.name in _QUICK)
    for item in items:
        for marker in item.iter_markers("plugin"):
            if not is_there(marker.args[0]):
                item.add_marker(pytest.mark.skip(reason=f"the plug-in {marker.args[0]} is not there"))
        for marker, variable in _OF_OTHERS.items():
            if item.get_closest_marker(marker) and variable not in os.environ:
                item.add_marker(pytest.mark.skip(reason=f"{variable} names no Python with {marker}"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Workers are forked off one Python, so that what they need is imported once."""
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = forked.worker_python(config.args)


def pytest_configure(config: pytest.Config) -> None:
    """A worker says how each test went, and not also that it began, was set up and is over.

    These are most messages of xdist, and each takes a tenth of a millisecond of both processes. ``--durations`` shows
    set-ups too.
    """
    if _SERVER is not None and _SERVER not in sys.path:  # a forked worker imports no conftest, and has another path
        sys.path.append(_SERVER)
    if not hasattr(config, "workerinput") or config.option.durations is not None:
        return
    (worker,) = (plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
    send = worker.sendevent

    def send_seldom(name: str, **values: Any) -> None:
        report = values.get("data", {})
        is_of_a_part = report.get("when") in ("setup", "teardown") and report["outcome"] == "passed"
        if name not in ("logstart", "logfinish") and not is_of_a_part:
            send(name, **values)

    worker.sendevent = send_seldom


_MODULES = pytest.StashKey[int]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected and imported stays: the garbage collector looks through it no more, a fourth of all CPU time.

    A search for garbage before it takes longer than what it frees is worth.
    """
    gc.freeze()
    session.stash[_MODULES] = len(sys.modules)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """So does what a file of tests has imported."""
    many = item.session.stash[_MODULES] + 200
    if nextitem is not None and nextitem.path != item.path and len(sys.modules) > many:
        pytest_collection_finish(item.session)


@pytest.fixture(scope="session", autouse=True)
def _templates_once() -> Iterator[None]:
    with templates_once():
        yield


_NUMBERS = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder. pytest's own looks through the folders of all tests before for a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def evals_folder(tmp_path: Path) -> Path:
    """A local evals dataset of two subsets that need no join."""
    folder = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(folder / "mmlu_pro.jsonl", [make_row(f"What is {n} + {n}?", subtask=f"s{n % 2}") for n in range(4)])
    write_rows(folder / "gpqa.jsonl", [make_row(f"Which is {n}?", subtask=None) for n in range(3)])
    return folder
