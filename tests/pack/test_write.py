"""Writing a pack: whole or not at all, never over another's files, and never two at once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forked import Forked
from generations import manifest_of, started, write_generation
from marks import thorough
from noted import noted
from places import KILLS, REPOSITORY

from meta_eval.base import ownership
from meta_eval.base.errors import PackError, UserError
from meta_eval.base.outputs import OutputError
from meta_eval.base.ownership import STAGING, list_name
from meta_eval.pack.integrity import find_changes
from meta_eval.pack.manifest import MANIFEST, read_manifest
from meta_eval.pack.pack_builder import check_target, write_pack

LIST = list_name("pack")


def write(work_dir: Path, generation: int, names: int = 8) -> list[str]:
    with noted() as notes:
        write_generation(work_dir, generation, names)
    return notes


def generation_of(work_dir: Path) -> str:
    """The one generation that every file and the manifest agree on; fails when the pack is a mixture."""
    manifest = read_manifest(work_dir)
    generations = {(work_dir / name).read_bytes().decode().splitlines()[0] for name in manifest.files}
    assert len(generations) == 1
    for name, listed in manifest.files.items():
        assert hashlib.sha256((work_dir / name).read_bytes()).hexdigest() == listed.sha256
    return generations.pop()


def kill(child: Forked) -> None:
    child.kill()
    assert child.wait() == -signal.SIGKILL  # until then it wrote


def test_a_new_pack_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    work_dir = tmp_path / "deep" / "work_dir"
    write(work_dir, 1, names=40)
    write(work_dir, 2, names=3)
    assert generation_of(work_dir) == "2"
    assert not (work_dir / "folder0" / "file4").exists()
    assert [path.name for path in work_dir.parent.iterdir()] == ["work_dir"]


@thorough
def test_kills_leave_one_whole_pack(tmp_path: Path) -> None:
    """Two writers race and are killed at random moments, one after the other, again and again."""
    work_dir = tmp_path / "work_dir"
    write(work_dir, 0)
    chance = random.Random(7)
    for number in range(KILLS):
        steady, other = started(work_dir, 1), started(work_dir, 1_000 * (number + 1))
        try:
            time.sleep(chance.uniform(0, 0.04))
            kill(other)
            time.sleep(chance.uniform(0, 0.04))
        finally:
            kill(steady)
        generation_of(work_dir)  # while nobody writes, or a replacement between two reads would look like a mixture
    generation_of(work_dir)
    write(work_dir, 5)
    assert generation_of(work_dir) == "5"
    assert [path.name for path in tmp_path.iterdir()] == ["work_dir"]


def test_an_error_on_the_way_leaves_the_old_pack(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    files = {"folder0/file0": b"new", "folder0/file0/below": b"impossible"}
    with pytest.raises(OutputError, match="cannot be written"):
        write_pack(work_dir, files, manifest_of(files))
    assert generation_of(work_dir) == "1"


def test_a_users_own_files_stay(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "folder1" / "notes.md").write_text("mine")
    (work_dir / "link").symlink_to("nowhere")
    write(work_dir, 2)
    assert (work_dir / "folder1" / "notes.md").read_text() == "mine"
    assert (work_dir / "link").readlink() == Path("nowhere")


def test_an_edited_file_stops_prepare_before_anything_is_changed(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    for name in ("folder0/file0", "folder1/file1", MANIFEST):
        before = (work_dir / name).read_bytes()
        (work_dir / name).write_bytes(before + b"edited")
        everything = contents(work_dir)
        with pytest.raises(OutputError, match=f"{name} would be replaced.*edited.*Move it away") as error:
            write(work_dir, 2)
        assert str(work_dir) in str(error.value)
        assert contents(work_dir) == everything
        (work_dir / name).write_bytes(before)
    write(work_dir, 2)
    assert generation_of(work_dir) == "2"


def test_an_edited_manifest_stops_prepare_before_it_works(tmp_path: Path) -> None:
    write(tmp_path / "work_dir", 1)
    (tmp_path / "work_dir" / MANIFEST).open("a").write("\n")
    with pytest.raises(OutputError, match=f"{MANIFEST} would be replaced"):
        check_target(tmp_path / "work_dir")


def test_an_edited_file_that_is_needed_no_more_stays_and_is_named(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "folder3" / "file7").write_text("edited")
    notes = write(work_dir, 2, names=3)
    assert len(notes) == 1 and "edited after meta-eval wrote them: folder3/file7" in notes[0]
    assert sorted(contents(work_dir)) == sorted(
        [
            LIST,
            MANIFEST,
            "folder0",
            "folder0/file0",
            "folder1",
            "folder1/file1",
            "folder2",
            "folder2/file2",
            "folder3",
            "folder3/file7",
        ]
    )
    assert write(work_dir, 3, names=3) == []
    assert (work_dir / "folder3" / "file7").read_text() == "edited"


def test_an_edit_that_is_what_would_be_written_is_no_edit(tmp_path: Path) -> None:
    write(tmp_path / "work_dir", 1)
    (tmp_path / "work_dir" / "folder0" / "file0").write_bytes(b"2\n" * 200)
    write(tmp_path / "work_dir", 2)
    assert generation_of(tmp_path / "work_dir") == "2"


def test_a_users_file_is_never_overwritten_by_a_new_one(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1, names=1)
    (work_dir / "folder1").mkdir()
    (work_dir / "folder1" / "file1").write_text("mine")
    with pytest.raises(OutputError, match=r"folder1/file1 would be replaced, but was edited or added by hand"):
        write(work_dir, 2, names=2)
    assert (work_dir / "folder1" / "file1").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "foreign", "old"])
def test_a_folder_that_prepare_did_not_make_is_refused(tmp_path: Path, kind: str) -> None:
    work_dir = tmp_path / "work_dir"
    if kind == "file":
        work_dir.write_text("x")
    elif kind == "foreign":
        work_dir.mkdir()
        (work_dir / "thesis.tex").write_text("x")
    else:  # of a meta-eval that kept no list
        write(work_dir, 1)
        (work_dir / LIST).unlink()
    before = sorted(tmp_path.rglob("*"))
    for attempt in (lambda: check_target(work_dir), lambda: write(work_dir, 1)):
        with pytest.raises(OutputError, match="work_dir"):
            attempt()
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_and_a_link_to_a_pack_are_taken(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "work_dir").symlink_to("real")
    write(tmp_path / "work_dir", 1)
    write(tmp_path / "work_dir", 2)
    assert (tmp_path / "work_dir").is_symlink()
    assert generation_of(tmp_path / "real") == "2"


def test_a_broken_list_is_no_licence_to_delete(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / LIST).write_text("{}")
    with pytest.raises(OutputError, match="does not list the files.*or name another"):
        write(work_dir, 2)
    assert (work_dir / "folder0" / "file0").exists()


def test_the_working_directory_may_lie_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "work_dir", 1)
    monkeypatch.chdir(tmp_path / "work_dir" / "folder0")
    write(tmp_path / "work_dir", 2)
    assert generation_of(Path("..")) == "2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a pack"),
        ("{", "is not JSON"),
        ('{"schema_version": 9}', "version 9"),
        ('{"schema_version": 1}', "version 1, and this meta-eval reads 5"),
        ('{"schema_version": 5}', "meta_eval: it is missing"),
    ],
)
def test_what_is_no_manifest_says_so(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(PackError, match=words):
        read_manifest(tmp_path)


def test_the_supported_range_is_the_one_that_is_installed() -> None:
    from meta_eval.pack.manifest import LM_EVAL_BELOW, LM_EVAL_MINIMUM

    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"lm-eval[math,ifeval]>={LM_EVAL_MINIMUM},<{LM_EVAL_BELOW}"' in text


def test_no_disk_space_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    write(tmp_path / "work_dir", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left on device"):
            write(tmp_path / "work_dir", 2)
    assert generation_of(tmp_path / "work_dir") == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["work_dir"]


# What is the user's


def contents(folder: Path) -> dict[str, str]:
    """All that lies below a folder: texts of files, targets of links, "/" of folders."""
    return {
        path.relative_to(folder).as_posix(): (
            f"-> {path.readlink()}" if path.is_symlink() else "/" if path.is_dir() else path.read_text(errors="replace")
        )
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("kind", ["link", "folder", "link above"])
def test_what_took_the_place_of_a_file_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    work_dir, elsewhere = tmp_path / "work_dir", tmp_path / "elsewhere"
    write(work_dir, 1)
    place = work_dir / "folder0" / "file0"
    if kind == "link above":
        (work_dir / "folder0").rename(elsewhere)
        (work_dir / "folder0").symlink_to(elsewhere)
    else:
        place.unlink()
        place.symlink_to("/somewhere") if kind == "link" else (place / "deep").mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="folder0/file0.* would be replaced"):
        write(work_dir, 2)
    assert contents(tmp_path) == before


def test_files_in_pycache_empty_folders_pipes_and_modes_stay(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    files = {"a/utils.py": b"x = 1\n", "b/utils.py": b""}
    write_pack(work_dir, files, manifest_of(files))
    for folder in ("a/__pycache__", "b/__pycache__", "mine/__pycache__", "mine/empty/emptier"):
        (work_dir / folder).mkdir(parents=True)
    mine = ["a/__pycache__/notes.txt", "a/__pycache__/other.cpython-311.pyc", "mine/__pycache__/utils.cpython-311.pyc"]
    compiled = [
        "a/__pycache__/utils.cpython-311.pyc",
        "a/__pycache__/utils.cpython-311.opt-1.pyc",
        "b/__pycache__/utils.cpython-311.pyc",
    ]
    for name in [*mine, *compiled]:
        (work_dir / name).write_text(name)
    os.mkfifo(work_dir / "mine" / "pipe")
    (work_dir / "mine" / "empty").chmod(0o500)
    files = {"a/utils.py": b"x = 2\n"}
    write_pack(work_dir, files, manifest_of(files))
    kept = {path.relative_to(work_dir).as_posix() for path in work_dir.rglob("*")}
    assert kept == {
        LIST, "manifest.json", "a", "a/utils.py", "a/__pycache__", "mine", "mine/__pycache__", "mine/empty",
        "mine/empty/emptier", "mine/pipe", *mine,
    }  # fmt: skip
    assert (work_dir / "mine" / "empty").stat().st_mode & 0o777 == 0o500
    assert [path.name for path in tmp_path.iterdir()] == ["work_dir"]


def test_a_foreign_manifest_is_no_licence_to_delete_what_it_lists(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    work_dir.mkdir()
    (work_dir / "thesis.tex").write_text("years")
    listed = {"thesis.tex": {"sha256": hashlib.sha256(b"years").hexdigest(), "bytes": 5}}
    (work_dir / MANIFEST).write_text(json.dumps({"name": "an app", "files": listed}))
    for attempt in (lambda: check_target(work_dir), lambda: write(work_dir, 1)):
        with pytest.raises(OutputError, match=f"holds files and no {LIST}"):
            attempt()
    assert (work_dir / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("name", ["../victim", "/etc/hostname", "a/../../victim", "link/victim"])
def test_a_list_that_leads_outside_deletes_nothing(tmp_path: Path, name: str) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (tmp_path / "victim").write_text("mine")
    (work_dir / "link").symlink_to("..")
    with (work_dir / LIST).open("a") as file:
        file.write(f"{hashlib.sha256(b'mine').hexdigest()}  {name}\n")
    with suppress(OutputError):
        write(work_dir, 2)
    assert (tmp_path / "victim").read_text() == "mine"


def test_siblings_of_any_name_stay(tmp_path: Path) -> None:
    names = [".work_dir.new-idea", ".work_dir.old-x", ".work_dir.lock", "work_dir.new", "new", "ready"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text(name)
    write(tmp_path / "work_dir", 1)
    write(tmp_path / "work_dir", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "work_dir"])
    assert all((tmp_path / name / "thesis.tex").read_text() == name for name in names)


@pytest.mark.parametrize("inside", ["thesis.tex", "new/thesis.tex", "old/manifest.json"])
@pytest.mark.parametrize("lock", [None, "mine", "folder"])
def test_a_folder_with_the_name_of_ours_is_refused_and_stays(tmp_path: Path, inside: str, lock: str | None) -> None:
    place = tmp_path / "work_dir" / STAGING
    (place / inside).parent.mkdir(parents=True)
    (place / inside).write_text("mine")
    if lock == "folder":
        (place / "lock").mkdir()
    elif lock:
        (place / "lock").write_text(lock)
    before = contents(tmp_path)
    with pytest.raises(OutputError, match=r"\.meta-eval\.new: holds files that meta-eval did not make"):
        write(tmp_path / "work_dir", 1)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["[a]", "*", "w?", "a b", "-x", "ü\n"])
def test_a_name_is_never_a_pattern(tmp_path: Path, name: str) -> None:
    for other in ("a", "w1", ".a.old-x"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "thesis.tex").write_text("mine")
    write(tmp_path / name, 1)
    write(tmp_path / name, 2)
    assert generation_of(tmp_path / name) == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a", "w1", ".a.old-x", name])


def test_what_is_saved_while_the_pack_is_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)

    def remove_old(target: Path, *words: Any, real: Any = ownership._remove_old) -> Any:
        (target / "folder0" / "late.txt").write_text("just saved")
        (target / "folder0" / "file0").write_text("just edited")
        return real(target, *words)

    monkeypatch.setattr(ownership, "_remove_old", remove_old)
    assert "folder0/file0" in write(work_dir, 2)[0]
    assert (work_dir / "folder0" / "late.txt").read_text() == "just saved"
    assert (work_dir / "folder0" / "file0").read_text() == "just edited"
    assert list(find_changes(work_dir, read_manifest(work_dir))) == ["folder0/file0"]


@pytest.mark.parametrize("step", range(13))
def test_a_kill_at_any_step_is_finished_by_who_opens_the_pack(tmp_path: Path, step: int) -> None:
    """Nobody ever finds files of both packs: the old ones are gone before the new ones come."""
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1, names=4)
    (work_dir / "folder1" / "mine.txt").write_text("mine")
    child = started(work_dir, 2, step)
    _, error = child.communicate()
    killed = child.wait() != 0
    assert not error
    assert killed == (step < 12)  # five go, five come, the list does, and that all is ready goes
    generations = {path.read_text()[0] for path in work_dir.rglob("file*")}
    assert len(generations) <= 1
    assert generation_of(work_dir) == "2"
    assert (work_dir / "folder1" / "mine.txt").read_text() == "mine"
    assert not (work_dir / STAGING).exists()


@pytest.mark.parametrize(
    ("kind", "name"), [("pack", "link/victim"), ("pack", "../victim"), ("x/../../victim", "a"), ("pack", "link")]
)
def test_what_a_stranger_had_ready_leads_nowhere(tmp_path: Path, kind: str, name: str) -> None:
    """A pack of somebody else may hold anything, and reading it must not write outside of it."""
    pack = tmp_path / "pack"
    write(pack, 1, names=1)
    (pack / "link").symlink_to("..")
    (pack / ".meta-eval.x").mkdir()
    (pack / STAGING).mkdir()
    for file, text in (
        ("lock", ""),
        ("0", "evil"),
        ("ready", f"{kind}\n{hashlib.sha256(b'evil').hexdigest()}  {name}\n"),
    ):
        (pack / STAGING / file).write_text(text)
    with suppress(UserError):
        read_manifest(pack)
    assert [path.name for path in tmp_path.iterdir()] == ["pack"]
    assert (pack / "link").is_symlink()


def test_a_lock_that_cannot_be_had_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        with pytest.raises(OutputError, match="cannot be locked .*two commands"):
            write(tmp_path / "work_dir", 1)
    assert list(tmp_path.iterdir()) == []

    def busy(*_: object) -> None:
        raise BlockingIOError

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", busy)
        patch.setattr("meta_eval.base.ownership._SECONDS", 0.2)
        with pytest.raises(OutputError, match="another meta-eval has been writing it"):
            write(tmp_path / "work_dir", 1)


def test_a_file_system_that_makes_no_folders_is_told() -> None:
    with pytest.raises(OutputError, match=r"/proc/work_dir: cannot be written"):
        write(Path("/proc/work_dir"), 1)
