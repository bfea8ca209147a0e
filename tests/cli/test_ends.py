"""How the command line ends where the system, and not an input, is at fault: one line, and an exit code that means it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import process as cli
from forked import Forked, forked
from marks import few, thorough
from runs import write_run

MODULE = [sys.executable, "-m", "meta_eval"]


def run_code(code: str, **environment: str) -> tuple[int, str, str]:
    """Run it in a separate process, which is forked. Return exit status, stdout and stderr."""
    running = Forked(["-c", code], ".", subprocess.PIPE, {**os.environ, **environment}, parent="all")
    out, err = running.communicate()
    return running.wait(), out, err


@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        pytest.param(["tasks", "--json"], forked, marks=pytest.mark.plugin("meta")),
        (["--help"], forked),
        (["--version"], cli),
    ],
)
def test_stdout_on_a_full_disk(arguments: list[str], run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["::error::x", "##[error]x", "##vso[task.x]y"])
def test_no_name_of_a_run_is_a_command_of_ci(name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [1, 0], model_args={"pretrained": name}, extra={"model_name": name})
    done = forked("report", run)
    assert name[:2] in done.stdout.replace(": :", "::").replace("# #", "##")
    assert not re.search(r"^\s*(::|##\[|##vso)", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_reader_that_goes_away_has_read_enough(tmp_path: Path, json_too: list[str]) -> None:
    """As ``| head`` does. The decision still is the exit code, and the page is whole."""
    for name, right in (("base", 90), ("worse", 50)):
        write_run(tmp_path / name, [1.0] * right + [0.0] * (100 - right), task="arc_challenge")
    (tmp_path / "gate.yaml").write_text("margin: 1\n", encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)
    words = ["compare", "base", "worse", "--gate", "gate.yaml", "--html", "page.html", *json_too]
    with os.fdopen(writing, "w") as nobody:
        done = forked(*words, cwd=tmp_path, stdout=nobody)
    assert done.returncode == 1
    assert "rror" not in done.stderr and "Broken pipe" not in done.stderr
    assert (tmp_path / "page.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.plugin("meta")
def test_stderr_that_nobody_reads_takes_nothing_from_stdout() -> None:
    full = "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 2)\n"
    code, out, _ = run_code(
        f"{full}import sys\nfrom meta_eval import cli\nsys.argv = ['m', 'tasks', '--json']\ncli.main()"
    )
    assert code == 0
    assert json.loads(out)


@thorough
@pytest.mark.plugin("meta")
@pytest.mark.parametrize("columns", ["0", "1", "99999999999", "-3"])
def test_any_width_of_terminal(columns: str, tmp_path: Path) -> None:
    done = cli("tasks", cwd=tmp_path, COLUMNS=columns)
    assert done.returncode == 0
    assert "meta_" in done.stdout.replace("\n", "")
    assert max(map(len, done.stdout.splitlines())) <= 500


@thorough
def test_letters_that_the_terminal_does_not_have(tmp_path: Path) -> None:
    done = cli("verify", "café", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "caf\\xe9" in done.stderr


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = subprocess.run(
        ["sh", "-c", f'mkdir "{gone}" && cd "{gone}" && rmdir "{gone}" && exec "$@"', "sh", *MODULE, "tasks"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: the working directory no longer exists")


@pytest.mark.plugin("meta")
@pytest.mark.parametrize("after", [0.06, 0.12, 0.2])
def test_an_interrupt_while_modules_are_imported(after: float) -> None:
    """Before Python has read a line of ours there is nobody to take it; from then on it ends in one line."""
    ready = "import meta_eval.__main__ as m, os; os.write(1, b'.'); m.main()"
    running = subprocess.Popen(
        [sys.executable, "-c", ready, "tasks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.read(1) == "."
    time.sleep(after)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate()
    assert running.returncode in (0, 130)
    assert "Traceback" not in err
    if running.returncode:
        assert err.splitlines()[-1].startswith("interrupted: ")


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    "then", ["raise RuntimeError('half made')", "raise UserError('half made')", "raise SystemExit(3)"]
)
def test_what_fails_because_a_library_swallowed_an_interrupt_is_the_interrupt(then: str) -> None:
    swallowing = (
        "import os, signal, sys, time\nfrom meta_eval.sockets import UserError\n"
        "import meta_eval.plugins.meta.listing as listing\n"
        "class Library:\n    def __del__(self):\n        os.kill(os.getpid(), signal.SIGINT)\n        time.sleep(9)\n"
        f"def fail(*_, **__):\n    Library()\n    {then}\n"
        "listing.list_tasks = fail\nsys.argv = ['meta-eval', 'tasks', '--evals-dataset', 'sample']\n"
        "import meta_eval.__main__ as script\nscript.main()\n"
    )
    code, _, err = run_code(swallowing)
    assert (code, err) == (130, "interrupted: no file is half-written\n")


@pytest.mark.plugin("meta")
def test_a_bug_leaves_a_report_without_data(tmp_path: Path) -> None:
    secret = "hf_secretsecretsecret"
    broken = (
        "import sys, tempfile\nfrom meta_eval import cli\ntempfile.tempdir = None\n"  # of the Python it is forked off
        f"def fail(*_, **__):\n    row = {secret!r}\n    raise KeyError(row)\n"
        "import meta_eval.plugins.meta.listing as listing\nlisting.list_tasks = fail\n"
        f"sys.argv = ['meta-eval', 'tasks', '--evals-dataset', 'sample']\ncli.main()\n"
    )
    code, _, said = run_code(broken, TMPDIR=str(tmp_path))
    assert code == 70
    (report,) = tmp_path.glob("meta-eval-bug-*.txt")
    assert str(report) in said
    text = report.read_text(encoding="utf-8")
    assert "KeyError" in text
    assert "in fail" in text
    assert secret not in text + said


@pytest.mark.plugin("meta")
def test_an_exit_in_a_template_is_no_success(tmp_path: Path) -> None:
    code = "import sys, meta_eval.cli as c\nimport meta_eval.plugins.meta.listing as l\nl.list_tasks = lambda *_: sys.exit(0)\nsys.argv = ['m', 'tasks']\nc.main()"
    returned, _, said = run_code(code)
    assert returned == 2
    assert "ended the program" in said


@pytest.mark.parametrize("value", few(["", "yesterday", "9" * 20], 3))
def test_a_time_of_a_build_that_is_none_ends_nothing(tmp_path: Path, value: str) -> None:
    """numpy, which scipy imports, reads the variable as a number."""
    for name in "ab":
        write_run(tmp_path / name, [1.0, 0.0] * 50)
    done = cli("compare", "a", "b", cwd=tmp_path, SOURCE_DATE_EPOCH=value)
    assert done.returncode in (0, 2, 3) and "bug" not in done.stderr
