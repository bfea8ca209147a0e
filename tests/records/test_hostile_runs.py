"""Runs of strangers: the time to read one grows with its size, and where memory runs out there is one message."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from foreign_logs import refuse
from forked import started
from growth import check_growth
from hostile_logs import UNITS, WRITERS
from marks import few, thorough

HARNESSES = [
    pytest.param(name, marks=[] if name == "lm_eval" else pytest.mark.plugin(name.split()[0])) for name in WRITERS
]


@pytest.mark.parametrize("name", HARNESSES)
def test_four_times_as_long_texts_take_no_eight_times_as_long(name: str, tmp_path: Path) -> None:
    runs = [WRITERS[name](tmp_path / str(size), [(unit * size)[:size] for unit in UNITS]) for size in (5_000, 20_000)]
    check_growth(*(partial(refuse, run) for run in runs), at_most=8)


@thorough
@pytest.mark.parametrize("name", HARNESSES)
def test_four_times_as_many_docs_take_no_seven_times_as_long(name: str, tmp_path: Path) -> None:
    runs = [WRITERS[name](tmp_path / str(count), [f"{n}" for n in range(count)]) for count in (3_000, 12_000)]
    check_growth(*(partial(refuse, run) for run in runs), at_most=7)


@pytest.mark.parametrize("name", few(HARNESSES, 3))
def test_a_run_that_memory_does_not_hold_is_one_message(name: str, tmp_path: Path) -> None:
    """With 12 MiB more than the process has at its start."""
    runs = [WRITERS[name](tmp_path / which, [text]) for which, text in (("a", "x" * 2**24), ("b", "x"))]
    running = started("compare", *runs, memory=12 * 2**20)
    out, err = running.communicate()
    assert (running.returncode, out) == (2, "")
    assert err == "error: memory ran out. Free some or allow more (ulimit -v), and run the same command again\n"


@pytest.mark.parametrize("name", [case for case in HARNESSES if case.values[0] != "boards"])
def test_a_mark_of_utf_8_and_line_ends_of_windows_are_read(name: str, tmp_path: Path) -> None:
    run = WRITERS[name](tmp_path / "run", ["a", "b"])
    before = refuse(run)  # a batch has no verdicts
    for path in [run] if run.is_file() else [path for path in run.rglob("*") if path.is_file()]:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert refuse(run) == before and (before is None or name == "chat")
