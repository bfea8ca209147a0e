"""What the system refuses reaches a program as what the docstrings of the API name, whichever file it is of."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest
from accelerator import answer
from command import cli, full_disk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import few, thorough
from packs import prepare as prepare_pack
from places import THOROUGH
from rows import make_row, write_rows
from runs import write_run

from meta_eval import Config, compare, export, grade, prepare, report, verify
from meta_eval.base.errors import UserError

pytestmark = pytest.mark.plugin("meta")  # its packs are of the embedded sample


TASK = "meta_gpqa_cot"
JOBS: dict[str, Callable[[Path], object]] = {
    "prepare": lambda place: prepare(place / "c.yaml"),
    "verify": lambda place: verify(place / "work_dir", min_agreement=0),
    "verify a run": lambda place: verify(place / "work_dir", regrade=place / "out"),
    "export": lambda place: export(place / "work_dir", place / "requests.jsonl"),
    "grade": lambda place: grade(place / "answers.jsonl", pack=place / "work_dir", output=place / "out"),
    "report": lambda place: report(place / "out", pack=place / "work_dir", gate=place / "gate.yaml"),
    "compare": lambda place: compare(place / "out", place / "out", pack=place / "work_dir"),
}


def fill(path: Path) -> None:
    path.write_bytes(b"\0")


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * 'a'}\nsize 123\n"
OBSTACLES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a file": fill,
    "a folder": Path.mkdir,
    "a pointer of Git LFS": lambda path: path.write_text(POINTER),
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a full disk": lambda path: path.symlink_to("/dev/full"),
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a file that nobody may read": lambda path: (fill(path), path.chmod(0)),
    "a folder that nobody may read": lambda path: (path.mkdir(), path.chmod(0)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the API reads and writes: a configuration, rows, a pack, its proof, requests, answers, a run, a gate."""
    place = tmp_path_factory.mktemp("made")
    evals = place / "Llama-3.1-8B-Instruct-evals"
    write_rows(evals / "gpqa.jsonl", [make_row(f"Which is {n}?", subtask=None) for n in range(3)])
    (evals / "README.md").write_text("---\nconfigs: []\n---\n")
    pack = prepare_pack(place / "work_dir", TASK, evals_dataset=str(evals))
    verify(pack, min_agreement=0)
    export(pack, place / "requests.jsonl")
    answer(pack, place / "requests.jsonl", place / "answers.jsonl")
    grade(place / "answers.jsonl", pack=pack, output=place / "out")
    (place / "gate.yaml").write_text("margin: 2\n")
    (place / "c.yaml").write_text(
        f"model_name: m\nevals_dataset: ./{evals.name}\ntasks: {TASK}\nmax_model_len: 99999\noutput_path: out\n"
    )
    return place


@contextmanager
def standing(place: Path) -> Iterator[Path]:
    """The place is the working directory; who waits for ever there is woken up."""

    def wake(*_: object) -> NoReturn:
        raise AssertionError("it waits for ever")

    before = Path.cwd()
    signal.signal(signal.SIGALRM, wake)
    os.chdir(place)
    signal.alarm(120)
    try:
        yield place
    finally:
        signal.alarm(0)
        os.chdir(before)


@contextmanager
def copied(made: Path) -> Iterator[Path]:
    """All of it in another place, which is the working directory."""
    with TemporaryDirectory() as folder, standing(Path(shutil.copytree(made, Path(folder) / "place"))) as place:
        yield place


def refuses_at_most(job: str, place: Path) -> None:
    try:
        JOBS[job](place)
    except UserError as error:
        assert "\n" not in str(error)


some = settings(
    max_examples=int(os.environ.get("META_EVAL_FUZZ", "25" if THOROUGH else "8")),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


@some
@given(st.sampled_from(sorted(JOBS)), st.sampled_from(sorted(OBSTACLES)), st.data())
def test_anything_may_stand_in_the_place_of_any_file(made: Path, job: str, obstacle: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(path.relative_to(made).as_posix() for path in made.rglob("*"))))
    with copied(made) as place:
        path = place / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        OBSTACLES[obstacle](path)
        refuses_at_most(job, place)


@pytest.mark.parametrize(
    ("job", "file"),
    [
        ("prepare", "c.yaml"),
        ("prepare", "Llama-3.1-8B-Instruct-evals/gpqa.jsonl"),
        ("prepare", "Llama-3.1-8B-Instruct-evals/README.md"),
        ("prepare a record", "out/*/samples_*"),
        ("prepare a record", "out/*/results_*"),
        ("prepare with a tokenizer", "model/tokenizer.json"),
        ("verify", "work_dir/manifest.json"),
        ("verify", "work_dir/meta_gpqa_cot.parquet"),
        ("export", "work_dir/meta_gpqa_cot.parquet"),
        ("grade", "answers.jsonl"),
        ("report", "out/*/results_*"),
        ("report", "out/*/samples_*"),
        ("report", "gate.yaml"),
        ("report of results.json", "results.json"),
        ("compare", "out/*/samples_*"),
        pytest.param("fidelity", "table.parquet", marks=pytest.mark.plugin("tokens")),
    ],
)
def test_a_pointer_of_git_lfs_is_named(made: Path, job: str, file: str) -> None:
    jobs: dict[str, Callable[[Path], object]] = {
        "prepare a record": lambda place: prepare(Config(model_name="m", evals_dataset="out", tasks=("recorded",))),
        "prepare with a tokenizer": lambda place: prepare(
            Config(model_name="model", evals_dataset="sample", tasks=(TASK,), max_model_len=2000)
        ),
        "report of results.json": lambda place: report([place / "results.json"]),
        "fidelity": lambda place: import_module("meta_eval.plugins.tokens.api").fidelity_report(
            place / "table.parquet"
        ),
    }
    with copied(made) as place:
        path = next(place.glob(file), place / file)
        path.parent.mkdir(exist_ok=True)
        path.write_text(POINTER)
        with pytest.raises(UserError, match=r"Git LFS pointer.*run `git lfs pull`"):
            {**JOBS, **jobs}[job](place)


@thorough
@some
@given(st.sampled_from(sorted(JOBS)), st.integers(0, 4000))
def test_the_disk_may_be_full_at_any_byte(made: Path, job: str, size: int) -> None:
    with copied(made) as place, full_disk(size):
        refuses_at_most(job, place)


INPUTS: dict[str, Callable[[Path, str], object]] = {
    "prepare": lambda place, path: prepare(path),
    "verify": lambda place, path: verify(path),
    "verify a run": lambda place, path: verify(place / "work_dir", regrade=path),
    "export": lambda place, path: export(path, "r.jsonl"),
    "grade": lambda place, path: grade([path], pack=place / "work_dir"),
    "grade, pack": lambda place, path: grade(place / "answers.jsonl", pack=path),
    "report": lambda place, path: report([path]),
    "report, pack": lambda place, path: report(place / "out", pack=path),
    "report, gate": lambda place, path: report(place / "out", gate=path),
    "compare": lambda place, path: compare(place / "out", path),
}
OUTPUTS: dict[str, Callable[[Path, str], object]] = {
    "export": lambda place, path: export(place / "work_dir", path),
    "grade": lambda place, path: grade(place / "answers.jsonl", pack=place / "work_dir", output=path),
}
HOSTILE = ["full", "loop", "pipe", "a\0b", "x" * 300, "loop/x", "full/x", "c.yaml/x"]


@pytest.fixture(scope="module")
def hostile(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it beside paths that nobody can read or write. What refuses them changes nothing, so one copy is enough."""
    place = Path(shutil.copytree(made, tmp_path_factory.mktemp("hostile") / "place"))
    (place / "full").symlink_to("/dev/full")
    (place / "loop").symlink_to("loop")
    os.mkfifo(place / "pipe")
    return place


def entries(place: Path) -> dict[Path, tuple[int, int | None]]:
    """The kind and mode of all that is there, and the size of files."""
    status = {path: path.lstat() for path in place.rglob("*")}
    return {path: (of.st_mode, of.st_size if stat.S_ISREG(of.st_mode) else None) for path, of in status.items()}


@pytest.mark.parametrize("path", few([*HOSTILE, "/dev/zero", "/proc/self/mem", "nothing"], 2))
@pytest.mark.parametrize("job", INPUTS)
def test_any_path_may_be_read(job: str, path: str, hostile: Path) -> None:
    with standing(hostile) as place, pytest.raises(UserError) as error:
        INPUTS[job](place, path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "path", few([*HOSTILE, "c.yaml", "work_dir/manifest.json", "work_dir/meta_gpqa_cot.parquet"], 2)
)
@pytest.mark.parametrize("job", OUTPUTS)
def test_any_path_may_be_written(job: str, path: str, hostile: Path) -> None:
    if (job, path) == ("export", "c.yaml"):
        return
    with standing(hostile) as place:
        before = entries(place)
        with pytest.raises(UserError) as error:
            OUTPUTS[job](place, path)
        assert entries(place) == before
    assert "\n" not in str(error.value)


COMMANDS = [
    "prepare -c PATH", "prepare -c c.yaml --set work_dir=PATH", "prepare -c c.yaml --set template_dir=PATH",
    "prepare -c c.yaml --set evals_dataset=PATH", "verify PATH", "verify work_dir --regrade PATH", "doctor PATH",
    "export PATH", "export work_dir -o PATH", "grade PATH --pack work_dir", "grade answers.jsonl --pack PATH",
    "grade answers.jsonl --pack work_dir -o PATH", "report PATH", "report out --pack PATH", "report out --gate PATH",
    "report out --html PATH", "report out --markdown PATH", "report out --eval-results PATH", "compare out PATH",
    "compare PATH out", "compare out out --pack PATH", "init PATH", "tasks --template-dir PATH",
    "tasks --evals-dataset PATH", "tasks new x --subset s --template-dir PATH",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_any_path_may_be_typed(command: str, hostile: Path) -> None:
    with standing(hostile) as place:
        before = entries(place)
        for path in ("full", "loop", "loop/x", "pipe", "x" * 300):
            done = cli(*command.replace("PATH", path).split())
            assert done.returncode == 2, (path, done.stderr)
            assert not done.stdout or command.startswith("doctor"), "its checks are its result"
        assert entries(place) == before


@thorough
def test_the_working_directory_may_be_gone(tmp_path: Path) -> None:
    jobs = ("prepare('c.yaml')", "verify('p')", "export('p')", "grade('a', pack='p')", "report('o')")
    code = (
        "import os, sys\nos.chdir(sys.argv[1])\nos.rmdir(sys.argv[1])\n"
        "from meta_eval import *\nfrom meta_eval.base.errors import UserError\n"
        + "".join(f"try:\n    {job}\nexcept UserError as error:\n    print(error)\n" for job in jobs)
    )
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "gone")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(done.stdout.splitlines())) == (0, len(jobs)), done.stderr


@pytest.mark.parametrize("pack", ["/", ".", ".."])
def test_a_folder_without_a_name_of_its_own_is_no_pack(
    pack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = write_run(tmp_path / "out", [1, 0], recorded=[True, False])
    monkeypatch.chdir(tmp_path)
    done = cli("report", results, "--pack", pack)
    assert done.returncode == 2
    assert "is not a pack: it has no manifest.json" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("verify", "file"), "file: is a file, and a pack is a folder such as work_dir. Run `meta-eval prepare`"),
        (("verify", "pipe"), "pipe: is a file, and a pack is a folder such as work_dir. Run `meta-eval prepare`"),
        (("verify", "link"), "link: there is no such folder; it is a link to nothing. Run `meta-eval prepare`"),
        (("grade", "file", "--pack", "work_dir"), "file: no line is an answer. Each line of a file of answers is JSON"),
        (("grade", "other", "--pack", "work_dir"), "other: of 3 requests: 3 have no answer"),
        (
            ("prepare", "--config", "c.yaml", "--set", "model_name="),
            "model_name: has no value. Allowed: a model id of the hub",
        ),
        (
            ("prepare", "--config", "c.yaml", "--set", "seed="),
            "seed: has no value. Give one: it must be a whole number",
        ),
        (("prepare", "--config", "c.yaml", "--set", "template_dir=own"), "set evals_dataset to the folder of the run"),
    ],
)
def test_a_message_says_where_what_and_what_to_do(made: Path, words: tuple[str, ...], message: str) -> None:
    with copied(made) as place:
        (place / "file").write_text("words\n", encoding="utf-8")
        os.mkfifo(place / "pipe")
        (place / "link").symlink_to("nothing")
        (place / "other").write_text('{"id": "another/0", "prompt_sha256": "0", "text": "words"}\n', encoding="utf-8")
        (place / "own").mkdir()
        (place / "own" / "choices.yaml").write_text("task: choices\noutput_type: generate_until\n", encoding="utf-8")
        done = cli(*words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
