"""Writing a pack: whole or not at all, never over another's files, and never two at once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from noted import noted
from places import HELPERS, KILLS, REPOSITORY
from runs import ASKED, RUN, entry

from meta_eval.errors import PackError
from meta_eval.pack.manifest import MANIFEST, SCHEMA_VERSION, FileEntry, Manifest, Range, read_manifest
from meta_eval.pack.write import check_target, write_pack


def manifest_of(files: dict[str, bytes]) -> Manifest:
    entries = {n: FileEntry(sha256=hashlib.sha256(c).hexdigest(), bytes=len(c)) for n, c in files.items()}
    return Manifest(
        schema_version=SCHEMA_VERSION, meta_eval="0", lm_eval=Range(minimum="0", below="1"), prepared_from=ASKED, run=RUN,
        originals={}, tasks={"meta_some": entry(1, docs_file=None)}, groups={}, command=(), files=entries,
    )  # fmt: skip


def write(work_dir: Path, generation: int, names: int = 40) -> list[str]:
    files = {f"folder{n % 4}/file{n}": f"{generation}\n".encode() * 200 for n in range(names)}
    with noted() as said:
        write_pack(work_dir, files, manifest_of(files))
    return said


def generation_of(work_dir: Path) -> str:
    """The one generation that every file and the manifest agree on; fails when the pack is a mixture."""
    manifest = read_manifest(work_dir)
    found = {(work_dir / name).read_bytes().decode().splitlines()[0] for name in manifest.files}
    assert len(found) == 1
    for name, listed in manifest.files.items():
        assert hashlib.sha256((work_dir / name).read_bytes()).hexdigest() == listed.sha256
    return found.pop()


def start(work_dir: Path, generation: int) -> int:
    """A process that writes packs whose every byte says which generation they are of; forked, so that it starts at once."""
    child = os.fork()
    if child == 0:
        try:
            while True:
                write(work_dir, generation)
                generation += 2
        finally:
            os._exit(1)
    return child


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL  # until then it wrote


def test_a_new_pack_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    work_dir = tmp_path / "deep" / "work_dir"
    write(work_dir, 1, names=40)
    write(work_dir, 2, names=3)
    assert generation_of(work_dir) == "2"
    assert not (work_dir / "folder0" / "file4").exists()
    assert [path.name for path in work_dir.parent.iterdir()] == ["work_dir"]


def test_kills_leave_one_whole_pack(tmp_path: Path) -> None:
    """Two writers race and are killed at random moments, one after the other, again and again."""
    work_dir = tmp_path / "work_dir"
    write(work_dir, 0)
    chance = random.Random(7)
    for number in range(KILLS):
        steady, other = start(work_dir, 1), start(work_dir, 1_000 * (number + 1))
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


def test_a_kill_between_two_renames_is_repaired_by_the_next_prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system cannot exchange folders, the old pack may lie aside for a moment."""
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "mine.txt").write_text("mine")
    (tmp_path / ".work_dir.meta-eval").mkdir()
    (tmp_path / ".work_dir.meta-eval" / "lock").touch()
    work_dir.rename(tmp_path / ".work_dir.meta-eval" / "old")
    write(work_dir, 2)
    assert generation_of(work_dir) == "2"
    assert (work_dir / "mine.txt").read_text() == "mine"


def test_without_an_exchange_the_pack_is_replaced_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.pack.write._exchange", lambda one, other: False)
    write(tmp_path / "work_dir", 1)
    write(tmp_path / "work_dir", 2)
    assert generation_of(tmp_path / "work_dir") == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["work_dir"]


def test_an_error_on_the_way_leaves_the_old_pack(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    files = {"folder0/file0": b"new", "folder0/file0/below": b"impossible"}
    with pytest.raises(PackError, match="cannot be written"):
        write_pack(work_dir, files, manifest_of(files))
    assert generation_of(work_dir) == "1"


def test_a_users_own_files_move_along(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "folder1" / "notes.md").write_text("mine")
    (work_dir / "link").symlink_to("nowhere")
    write(work_dir, 2)
    assert (work_dir / "folder1" / "notes.md").read_text() == "mine"
    assert (work_dir / "link").readlink() == Path("nowhere")


def test_an_edited_file_is_kept_beside_the_new_one_and_said(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "folder0" / "file0").write_text("edited")
    said = write(work_dir, 2)
    assert generation_of(work_dir) == "2"
    assert (work_dir / "folder0" / "file0.edited").read_text() == "edited"
    assert "folder0/file0.edited" in said[0]
    assert write(work_dir, 3) == []
    assert (work_dir / "folder0" / "file0.edited").read_text() == "edited"


def test_a_users_file_is_never_overwritten_by_a_new_one(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1, names=1)
    (work_dir / "folder1").mkdir()
    (work_dir / "folder1" / "file1").write_text("mine")
    with pytest.raises(PackError, match=r"folder1/file1: was put there by hand"):
        write(work_dir, 2, names=2)
    assert (work_dir / "folder1" / "file1").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "foreign", "parent"])
def test_a_folder_that_prepare_did_not_make_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_dir = tmp_path / "work_dir"
    if kind == "file":
        work_dir.write_text("x")
    elif kind == "foreign":
        work_dir.mkdir()
        (work_dir / "thesis.tex").write_text("x")
    else:
        (work_dir / "inside").mkdir(parents=True)
        monkeypatch.chdir(work_dir / "inside")
    before = sorted(tmp_path.rglob("*"))
    for attempt in (lambda: check_target(work_dir), lambda: write(work_dir, 1)):
        with pytest.raises(PackError, match="work_dir"):
            attempt()
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_and_a_link_to_a_pack_are_taken(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "work_dir").symlink_to("real")
    write(tmp_path / "work_dir", 1)
    write(tmp_path / "work_dir", 2)
    assert (tmp_path / "work_dir").is_symlink()
    assert generation_of(tmp_path / "real") == "2"


def test_a_broken_manifest_is_no_licence_to_delete(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / MANIFEST).write_text("{}")
    with pytest.raises(PackError, match="does not say which files.*another work_dir"):
        write(work_dir, 2)
    assert (work_dir / "folder0" / "file0").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a pack"),
        ("{", "is not JSON"),
        ('{"schema_version": 9}', "version 9"),
        ('{"schema_version": 1}', "version 1, and this meta-eval reads 3"),
        ('{"schema_version": 3}', "Field required"),
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
        with pytest.raises(PackError, match="No space left on device"):
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


def test_every_edit_of_a_file_is_kept_under_a_name_of_its_own(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 0)
    for edit in ("first", "second", "third", "third"):
        (work_dir / "folder0" / "file0").write_text(edit)
        write(work_dir, 1)
    kept = {path.read_text() for path in work_dir.glob("folder0/file0.edited*")}
    assert kept == {"first", "second", "third"}


def test_an_edit_never_takes_the_name_of_a_users_file(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (work_dir / "folder0" / "file0.edited").write_text("mine")
    (work_dir / "folder0" / "file0").write_text("edit")
    write(work_dir, 2)
    assert (work_dir / "folder0" / "file0.edited").read_text() == "mine"
    assert (work_dir / "folder0" / "file0.edited2").read_text() == "edit"


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_took_the_place_of_a_file_is_kept(tmp_path: Path, kind: str) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    place = work_dir / "folder0" / "file0"
    place.unlink()
    if kind == "link":
        place.symlink_to("/somewhere")
    else:
        (place / "deep").mkdir(parents=True)
        (place / "deep" / "notes").write_text("mine")
    write(work_dir, 2)
    assert generation_of(work_dir) == "2"
    kept = contents(work_dir / "folder0")
    assert kept["file0.edited" if kind == "link" else "file0.edited/deep/notes"] == (
        "-> /somewhere" if kind == "link" else "mine"
    )


def test_files_in_pycache_empty_folders_pipes_and_modes_move_along(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    files = {"a/utils.py": b"x = 1\n"}
    write_pack(work_dir, files, manifest_of(files))
    for folder in ("a/__pycache__", "mine/__pycache__", "mine/empty/emptier"):
        (work_dir / folder).mkdir(parents=True)
    mine = ["a/__pycache__/notes.txt", "a/__pycache__/other.cpython-311.pyc", "mine/__pycache__/utils.cpython-311.pyc"]
    for name in [*mine, "a/__pycache__/utils.cpython-311.pyc", "a/__pycache__/utils.cpython-311.opt-1.pyc"]:
        (work_dir / name).write_text(name)
    os.mkfifo(work_dir / "mine" / "pipe")
    (work_dir / "mine" / "empty").chmod(0o500)
    write_pack(work_dir, files, manifest_of(files))
    found = {path.relative_to(work_dir).as_posix() for path in work_dir.rglob("*")}
    assert found == {
        "manifest.json", "a", "a/utils.py", "a/__pycache__", "mine", "mine/__pycache__", "mine/empty",
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
        with pytest.raises(PackError, match="does not say which files"):
            attempt()
    assert (work_dir / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("name", ["../victim", "/etc/hostname", "a/../../victim"])
def test_a_manifest_that_lists_files_outside_is_refused(tmp_path: Path, name: str) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    (tmp_path / "victim").write_text("mine")
    tree = json.loads((work_dir / MANIFEST).read_text())
    tree["files"][name] = {"sha256": hashlib.sha256(b"mine").hexdigest(), "bytes": 4}
    (work_dir / MANIFEST).write_text(json.dumps(tree))
    with pytest.raises(PackError, match="does not say which files"):
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
    place = tmp_path / ".work_dir.meta-eval"
    (place / inside).parent.mkdir(parents=True)
    (place / inside).write_text("mine")
    if lock == "folder":
        (place / "lock").mkdir()
    elif lock:
        (place / "lock").write_text(lock)
    before = contents(tmp_path)
    with pytest.raises(PackError, match=r"work_dir\.meta-eval: is in the way"):
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


def test_a_mounted_volume_is_refused_and_never_emptied(tmp_path: Path) -> None:
    """In a mount namespace of its own, where this process may have one; a folder bound elsewhere looks like any other."""
    work_dir, volume = tmp_path / "work_dir", tmp_path / "volume"
    write(work_dir, 1)
    volume.mkdir()
    (volume / "thesis.tex").write_text("years")
    (work_dir / "data").mkdir()
    script = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(HELPERS)]!r}
from pathlib import Path
from test_write import write
from meta_eval.errors import PackError
for work_dir in (Path({str(work_dir)!r}), Path({str(work_dir / "data")!r})):
    try:
        write(work_dir, 2)
    except PackError as error:
        print(error)
"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
         'mount --bind "$1" "$2" && exec "$3" -c "$4"', "sh", str(volume), str(work_dir / "data"), sys.executable, script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr}")
    first, second = done.stdout.splitlines()
    assert "work_dir/data: is another file system, mounted inside work_dir" in first, done.stderr
    assert "is where a file system is mounted" in second
    assert (volume / "thesis.tex").read_text() == "years"
    assert generation_of(work_dir) == "1"
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    secret = work_dir / "secret"
    secret.mkdir()
    (secret / "thesis.tex").write_text("years")
    secret.chmod(0)
    tmp_path.chmod(0o777)
    child = os.fork()
    if child == 0:  # root reads everything
        code = 1
        try:
            if os.getuid() == 0:
                os.chown(work_dir, 65534, 65534)
                for above in (one for one in tmp_path.parents if "pytest-of" in str(one)):
                    above.chmod(above.stat().st_mode | 0o005)
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            write(work_dir, 2)
        except PackError as error:
            code = 7 if "secret: cannot be read" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    secret.chmod(0o700)
    assert (secret / "thesis.tex").read_text() == "years"
    assert generation_of(work_dir) == "1"


def test_what_is_saved_while_the_pack_is_replaced_moves_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_dir = tmp_path / "work_dir"
    write(work_dir, 1)
    from meta_eval.pack import write as module

    def take_place(ready: Path, old: Path, target: Path, real: object = module._take_place) -> None:
        (target / "folder0" / "late.txt").write_text("just saved")
        (target / "folder0" / "file0").write_text("just edited")
        real(ready, old, target)  # type: ignore[operator]

    monkeypatch.setattr(module, "_take_place", take_place)
    write(work_dir, 2)
    assert generation_of(work_dir) == "2"
    assert (work_dir / "folder0" / "late.txt").read_text() == "just saved"
    assert (work_dir / "folder0" / "file0.edited").read_text() == "just edited"


def test_a_lock_that_cannot_be_had_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        with pytest.raises(PackError, match="cannot be locked .*two prepares"):
            write(tmp_path / "work_dir", 1)
    assert list(tmp_path.iterdir()) == []

    def busy(*_: object) -> None:
        raise BlockingIOError

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", busy)
        patch.setattr("meta_eval.pack.workshop._SECONDS", 0.2)
        with pytest.raises(PackError, match="another prepare has held it"):
            write(tmp_path / "work_dir", 1)


def test_a_file_system_that_makes_no_folders_is_told() -> None:
    with pytest.raises(PackError, match=r"work_dir /proc/work_dir: cannot be written"):
        write(Path("/proc/work_dir"), 1)
