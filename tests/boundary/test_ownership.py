"""Whatever a user does in a folder, a command that writes there loses none of it, and writes all of its own or nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from noted import noted
from places import THOROUGH

from meta_eval.base.outputs import OutputError
from meta_eval.base.ownership import READY, STAGING, list_name, replace_folder

NAMES = ["a", "b.py", "d/a", "d/b.py", "d/e/a", "f/a", "__pycache__/a"]
LIST = list_name("kind")


def contents(folder: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def do(folder: Path, name: str, what: str) -> None:
    """What a user may do with a path; what cannot be is left."""
    path = folder / name
    try:
        if what == "remove":
            path.unlink()
        elif what == "remove above":
            shutil.rmtree(folder / name.partition("/")[0])
        elif what == "link":
            path.symlink_to(folder.parent / "elsewhere")
        elif what == "folder":
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(what)
    except OSError:
        pass


users = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(["edit", "other edit", "ours 1", "remove", "remove above", "link", "folder"]),
)
writes = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["ours 1", "ours 2"]), min_size=1)


@settings(max_examples=60 if THOROUGH else 10, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(users | writes | st.just("end"), max_size=12))
def test_no_step_of_a_user_is_lost(steps: list[Any]) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        (Path(place) / "elsewhere").mkdir()
        folder, ours = Path(place) / "folder", dict[str, bytes | str]()
        for step in steps:
            if isinstance(step, tuple):
                do(folder, *step)
                continue
            before = contents(folder)
            mine = {name: content for name, content in before.items() if ours.get(name) != content and name != LIST}
            try:
                with noted(), replace_folder(folder, "kind", shared=True) as new:
                    if step == "end":
                        raise KeyboardInterrupt
                    for name, text in step.items():
                        new.write(name, text.encode())
            except (OutputError, KeyboardInterrupt):
                assert contents(folder) == before
            else:
                ours = {name: text.encode() for name, text in step.items()}
                assert contents(folder).items() >= (mine | ours).items()
                assert contents(folder).keys() == mine.keys() | ours.keys() | {LIST}
                assert all(mine[name] == ours[name] for name in mine.keys() & ours.keys())
        assert list((Path(place) / "elsewhere").iterdir()) == []


def test_each_kind_of_command_replaces_its_own(tmp_path: Path) -> None:
    for kind, name in (("one", "a"), ("two", "b"), ("one", "c")):
        with replace_folder(tmp_path / "folder", kind, shared=True) as new:
            new.write(name, kind.encode())
    assert contents(tmp_path / "folder").keys() == {"b", "c", list_name("one"), list_name("two")}


@pytest.mark.parametrize("name", [".git/HEAD", ".GIT/HEAD", "d/.git/hooks/pre-commit"])
def test_a_list_of_a_stranger_reaches_into_no_hidden_folder(name: str, tmp_path: Path) -> None:
    do(tmp_path, name, "ref")
    line = f"{hashlib.sha256(b'ref').hexdigest()}  {name}\n"
    for place, text in ((LIST, line), (f"{STAGING}/{READY}", f"kind\n{line}")):
        do(tmp_path, f"{STAGING}/lock", "")
        do(tmp_path, place, text)
        with (
            pytest.raises(OutputError, match="does not list the files"),
            replace_folder(tmp_path, "kind", shared=True) as new,
        ):
            new.write("a", b"text")
        assert (tmp_path / name).read_text() == "ref"
        (tmp_path / place).unlink()


def test_a_list_can_be_checked_by_sha256sum(tmp_path: Path) -> None:
    with replace_folder(tmp_path, "kind") as new:
        new.write("a b/c", b"text")
    assert (tmp_path / LIST).read_text().split(None, 1) == [
        "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1", "a b/c\n",
    ]  # fmt: skip


def test_a_folder_in_more_than_a_thousand_folders_is_refused_in_one_message(tmp_path: Path) -> None:
    deep, message = tmp_path.joinpath(*"a" * 1500), r"^work_dir: cannot be written \(File name too long\)"
    with pytest.raises(OutputError, match=message), replace_folder(deep, "kind", where="work_dir"):
        pass
    assert not list(tmp_path.iterdir())
