"""Outputs are files or new, and never what is read."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest
from command import cli
from forked import started
from own_record import TEXTS, config_of, record_run
from packs import prepare
from runs import write_run

from meta_eval.base import ownership
from meta_eval.base.errors import UserError
from meta_eval.base.outputs import OutputError, check_outputs, check_own, replace_file
from meta_eval.reports.views import HtmlView


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


FOREIGN = {
    "answers": b'{"format": "meta-eval answers", "version": 1}\n', "table": b"PAR1\0PAR1", "notes": b"My notes\n",
    "page": b"<!doctype html>\n<title>meta-eval</title>\n", "letter": b"## Dear reader\n\nMade by hand.\n",
    "card": b"# A model\n\n## Evaluation: m\n\n<sub>Made by meta-eval 1.0.0.</sub>\n", "json": b'{"a": 1}\n',
    "junit": b"<?xml version='1.0' encoding='utf-8'?>\n<testsuites><testsuite name='x'/></testsuites>", "yaml": b"- a\n",
    "samples": b'{"task": "t", "doc_id": 0}\n',
}  # fmt: skip
VIEWS = [
    "eval-results", "flips", "html", "json", pytest.param("junit", marks=pytest.mark.plugin("nightly")), "markdown",
    "text",
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_replaces_an_empty_file_and_its_own_and_no_other(tmp_path: Path, view: str) -> None:
    runs = [write_run(tmp_path / "a", [1, 0, 1]), write_run(tmp_path / "b", [1, 1, 1])]
    words = ["report", runs[0]] if view == "eval-results" else ["compare", *runs]
    (tmp_path / "out").touch()
    for _ in range(2):
        done = cli(*words, "--view", f"{view}=out", cwd=tmp_path)
        assert (done.returncode, "wrote out" in done.stderr) == (0, True), done.stderr
        assert (tmp_path / "out").stat().st_size
    written = (tmp_path / "out").read_bytes()
    for foreign in (*FOREIGN.values(), written.replace(b"meta-eval", b"another") if view in OF_OTHERS else b"x"):
        (tmp_path / "out").write_bytes(foreign)
        done = cli(*words, "--view", f"{view}=out", cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("error:") == 1
        assert "out: is no output of this kind that meta-eval wrote, so it is not replaced. Name another" in done.stderr
        assert (tmp_path / "out").read_bytes() == foreign


# Views whose files show by the name of meta-eval who wrote them.
OF_OTHERS = ("html", "junit", "markdown", "text")


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        pytest.param(["load"], marks=pytest.mark.plugin("load")),
        pytest.param(["history", "check"], marks=pytest.mark.plugin("nightly")),
        *(
            pytest.param(words, marks=pytest.mark.plugin("tokens"))
            for words in (["fidelity"], ["audit", "answers.jsonl"])
        ),
    ],
    ids=" ".join,
)
def test_no_verb_replaces_a_file_of_somebody_by_a_page(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "eval_config.yaml").write_text("model_name: m\nevals_dataset: d\ntasks: t\n")
    (tmp_path / "engine.json").write_text('{"traffic": {}, "figures": []}')
    done = cli(*words, "--html", "engine.json", cwd=tmp_path)
    assert (done.returncode, "engine.json: is no output of this kind" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "engine.json").read_text() == '{"traffic": {}, "figures": []}'


def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "loop.html").symlink_to("loop.html")
    with pytest.raises(OutputError, match="so it is not replaced"):
        check_own(tmp_path / "loop.html", HtmlView.mark)


def test_requests_replace_earlier_requests_and_no_other_file(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepare(tmp_path / "work_dir", **config_of(record_run(tmp_path_factory), tasks=TEXTS))
    words = ("export", "work_dir", "--output", "out.jsonl")
    assert [cli(*words, cwd=tmp_path).returncode for _ in range(2)] == [0, 0]
    for foreign in (FOREIGN["answers"], FOREIGN["samples"]):
        (tmp_path / "out.jsonl").write_bytes(foreign)
        done = cli(*words, cwd=tmp_path)
        assert (done.returncode, "so it is not replaced" in done.stderr) == (2, True), done.stderr
        assert (tmp_path / "out.jsonl").read_bytes() == foreign


def test_a_page_with_samples_on_a_full_disk_is_one_message(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [1, 0, 1])
    running = started("report", "run", "--html", "o.html", cwd=tmp_path, most_bytes=0)
    _, err = running.communicate()
    assert running.wait() == 2 and err.count("cannot be written") == 1 and "Traceback" not in err
    assert "o.html: cannot be written (File too large). Free space there and in" in err
    assert not (tmp_path / "o.html").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=errno.errorcode.get)
def test_a_pack_on_a_full_disk_is_told_with_what_to_do(
    number: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    config = config_of(record_run(tmp_path_factory), tasks=TEXTS)
    monkeypatch.setattr(ownership, "sync_to_disk", full)
    with pytest.raises(OutputError) as raised:
        prepare(tmp_path / "work_dir", **config)
    what = f"cannot be written ({os.strerror(number)}). Free space there and in the folder of temporary files (TMPDIR)"
    assert str(raised.value).endswith(f"{tmp_path / 'work_dir'}: {what}")
    assert not (tmp_path / "work_dir").exists()


def test_temporary_files_on_a_full_disk_are_named(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = config_of(record_run(tmp_path_factory), tasks=TEXTS, model_name="my/model", work_dir="work_dir")
    (tmp_path / "eval_config.yaml").write_text(json.dumps(config))
    running = started("prepare", cwd=tmp_path, most_bytes=300)
    _, err = running.communicate()
    assert running.wait() == 2, err
    assert re.search(r"error: \S+/meta-eval-record-\S+: File too large\. Free space there and in", err), err


def test_no_folder_for_temporary_files_is_told_with_what_to_do(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(record_run(tmp_path_factory), tasks=TEXTS)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "gone")])
    with pytest.raises(UserError) as raised:
        prepare(tmp_path / "work_dir", **config)
    what = "there is no folder for temporary files that can be written and has space"
    assert str(raised.value) == f"TMPDIR: {what}. Set TMPDIR to one, or free space in /tmp"


def test_init_on_a_full_disk_is_one_message(tmp_path: Path) -> None:
    running = started("init", "new", cwd=tmp_path, most_bytes=300)
    _, err = running.communicate()
    assert running.wait() == 2, err
    assert (
        err
        == "error: new: cannot be written: File too large. Free space there and in the folder of temporary files (TMPDIR)\n"
    )


@pytest.mark.plugin("meta")
def test_a_new_task_on_a_full_disk_names_its_file(tmp_path: Path) -> None:
    words = ("tasks", "new", "mine", "--subset", "S", "--like", "meta_gpqa_cot", "--template-dir", "templates")
    running = started(*words, cwd=tmp_path, most_bytes=0)
    _, err = running.communicate()
    assert running.wait() == 2, err
    assert re.search(r"error: templates/\S+: cannot be written \(File too large\)\. Free space", err), err


def test_requests_do_not_replace_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "eval_config.yaml").write_text("model_name: m\nevals_dataset: d\ntasks: t\n")
    (tmp_path / "work_dir").mkdir()
    done = cli("export", "work_dir", "--output", "eval_config.yaml", cwd=tmp_path)
    assert (done.returncode, "is an input" in done.stderr) == (2, True)


@pytest.mark.parametrize("output", ["eval_config.yaml", "work_dir/.gitignore", "runs/mine.jsonl"])
def test_no_page_replaces_what_a_pack_is_made_of(
    output: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepare(tmp_path / "work_dir", **config_of(record_run(tmp_path_factory), tasks=TEXTS))
    manifest = json.loads((tmp_path / "work_dir" / "manifest.json").read_text())
    manifest["sources"] = {"runs/mine.jsonl": {"sha256": "0" * 64, "bytes": 2}}
    (tmp_path / "work_dir" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "work_dir" / ".meta-eval.pack.sha256").unlink()
    (tmp_path / "runs").mkdir()
    if not (tmp_path / output).exists():
        (tmp_path / output).write_text("{}")
    before = (tmp_path / output).read_text()
    run = write_run(tmp_path / "run", [1, 0, 1])
    for words in (("report", run, "--pack", "work_dir", "--html", output), ("export", "work_dir", "--output", output)):
        done = cli(*words, cwd=tmp_path)
        assert (done.returncode, f"{output}: is an input" in done.stderr) == (2, True), done.stderr
        assert (tmp_path / output).read_text() == before


@pytest.mark.plugin("nightly")
def test_a_file_where_a_folder_is_needed_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "past").touch()
    done = cli("history", "add", write_run(tmp_path / "run", [1, 0, 1]), "--folder", "past", cwd=tmp_path)
    assert "past: File exists. Move away the file that is where a folder is needed" in done.stderr


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
