"""Outputs are files or new, and never what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import cli
from runs import write_run

from meta_eval.base.outputs import OutputError, check_outputs, replace_file


@pytest.mark.parametrize("option", ["--html", "--markdown", "--eval-results"])
@pytest.mark.parametrize("kind", ["samples", "results", "link", "pipe", "gate", "folder"])
def test_a_report_replaces_no_input_and_nothing_but_files(tmp_path: Path, option: str, kind: str) -> None:
    run = write_run(tmp_path / "run", [1, 0, 1])
    gate = tmp_path / "gate.yaml"
    gate.write_text("margin: 5\n")
    path = {
        "samples": next(run.glob("samples_*")), "results": next(run.glob("results_*")), "link": tmp_path / "link",
        "pipe": tmp_path / "pipe", "gate": gate, "folder": tmp_path / "folder",
    }[kind]  # fmt: skip
    (tmp_path / "link").symlink_to(gate)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = {file: file.lstat() for file in tmp_path.rglob("*")}
    done = cli("report", run, "--gate", gate, option, path)
    assert done.returncode == 2
    assert str(path) in done.stderr.replace("\n", "")
    assert {file: file.lstat().st_ino for file in tmp_path.rglob("*")} == {
        file: status.st_ino for file, status in before.items()
    }


def test_a_device_stays_a_device() -> None:
    with pytest.raises(OutputError, match="device"), replace_file(Path("/dev/null")) as file:
        file.write("x")
    assert Path("/dev/null").is_char_device()


def test_two_outputs_have_two_names(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [1, 0, 1])
    done = cli("report", run, "--html", tmp_path / "r", "--markdown", tmp_path / "x" / ".." / "r")
    assert done.returncode == 2 or not (tmp_path / "r").exists()
    with pytest.raises(OutputError, match="twice"):
        check_outputs([tmp_path / "r", tmp_path / "run" / ".." / "r"], [])


def test_a_page_may_lie_beside_the_samples_and_be_made_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [1, 0, 1])
    for _ in range(2):
        assert cli("report", run, "--html", run / "page.html").returncode == 0
    assert (run / "page.html").read_text().startswith("<!")


def test_a_file_without_a_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"page\.html: its folder does not exist\. Make its folder first: mkdir -p "):
        check_outputs((tmp_path / "a" / "page.html",), ())
    with pytest.raises(OutputError, match="is a folder"):
        check_outputs((tmp_path,), ())


@pytest.mark.parametrize(
    "options", [("--html", "-"), ("--html", "./-"), ("--view", "markdown=-"), ("--view", "flips=-")]
)
def test_what_elsewhere_names_stdout_is_no_file(tmp_path: Path, options: tuple[str, str]) -> None:
    run = write_run(tmp_path / "run", [1, 0, 1])
    done = cli("compare", run, write_run(tmp_path / "other", [1, 0, 0]), *options, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.endswith("error: -: is no file. Name a file, or read stdout without this option\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]
