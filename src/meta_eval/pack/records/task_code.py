"""Finds the code of a task: its YAML and functions, in the user's template folder or the installed lm-eval.

Both are trusted like installed packages. Function names in a results file are text and never run.

In the pack the files keep their relative paths. Copied YAML files are renamed, so that lm-eval does not register them
as tasks. The YAML that prepare writes has the original name.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from meta_eval.base import assets
from meta_eval.base.errors import ConfigError, SourceError, TemplateError, locating
from meta_eval.base.inputs import explain_locked, read_regular, read_text, walk
from meta_eval.base.pack_names import COPIED_SUFFIX, is_name
from meta_eval.base.yaml_files import MAX_BYTES, parse_yaml
from meta_eval.pack.templates.checks import check_functions, check_keys, check_metrics, check_numbers
from meta_eval.pack.templates.spec import FunctionRef, find_functions
from meta_eval.pack.templates.template_folder import (
    FolderReader,
    list_needed_files,
    locate_file,
    merge_includes,
    need_named_folder,
)

# Where the installed lm-eval's files go in a pack.
_FOLDER = "lm_eval_tasks"

_NAMED = rb"""(?m)^["']?%s["']?[ \t]*:[ \t]*["']?%s["']?[ \t]*(?:\#.*)?\r?$"""
_ANY_NAME = re.compile(rb"""(?m)^["']?(?:task|group)["']?[ \t]*:.*$""")
_TASK_NAME = re.compile(rb"""(?m)^["']?task["']?[ \t]*:[ \t]*["']?([^"'#\s]+)["']?[ \t]*(?:\#.*)?\r?$""")
_GROUP = re.compile(rb"(?m)^group[ \t]*:")
_INCLUDE = re.compile(r"""(?m)^(["']?include["']?[ \t]*:[ \t]*)(["']?)([^"'#\s][^"'#\n]*?)\2[ \t]*(?=\#|$)""")


@dataclass(frozen=True, slots=True)
class TaskCode:
    """The code that grades a task."""

    name: str
    """The task."""

    root: Path
    """The folder of its files."""

    file: PurePosixPath
    """Its YAML, relative to the root."""

    settings: Mapping[str, Any]
    """The whole configuration, includes merged in, ``!function`` as `FunctionRef`."""

    folder_of_key: Mapping[str, PurePosixPath]
    """For each key, the folder that its ``!function`` paths are relative to."""

    yaml_chain: tuple[PurePosixPath, ...]
    """The YAML and its includes."""

    all_files: tuple[PurePosixPath, ...]
    """All files, including the chain."""

    source_label: str
    """Where it comes from, in words: ``lm-eval 0.4.13``, or ``template_dir``."""

    folder: PurePosixPath
    """The folder of its files in a pack."""

    output_yaml: PurePosixPath | None = None
    """The YAML that prepare writes, if its name differs from ``file`` because the code grades several tasks."""

    @property
    def version(self) -> str | None:
        """The version in its metadata."""
        metadata = self.settings.get("metadata")
        version = metadata.get("version") if isinstance(metadata, Mapping) else None
        return None if version is None else str(version)

    def files(self) -> dict[str, bytes]:
        """The files for the pack by path, without the module that reads the docs."""
        yaml_chain = set(self.yaml_chain)
        contents = {}
        for file in self.all_files:
            content = read_regular(locate_file(self.root, file))
            if file in yaml_chain:
                contents[str(self.folder / name_copied_yaml(file))] = _with_new_names(content, self.root / file)
            else:
                contents[str(self.folder / file)] = content
        return contents


def name_copied_yaml(file: PurePosixPath) -> PurePosixPath:
    """The new name of a copied YAML, which lm-eval does not register as a task."""
    return file.with_name(file.name + COPIED_SUFFIX) if file.suffix == ".yaml" else file


def find_code(name: str, template_dir: Path) -> TaskCode:
    """The code of a task.

    Args:
        name: The task.
        template_dir: The user's template folder, which comes first; ignored if it does not exist.

    Raises:
        SourceError: No task has this name, several files define it, it is a class, or the folder cannot be read.
        TemplateError: Its YAML cannot be read, or has a key or an aggregation that lm-eval does not know, or a function
            that is not there; or no task has this name, and there is no template folder.
    """
    if (why := explain_locked(template_dir)) is not None:
        raise SourceError(why, where=f"template_dir {template_dir}")
    places: list[tuple[Path, str, PurePosixPath]] = []
    shipped = assets.asset_path("meta_template")
    for folder, words in ((template_dir, "template_dir"), (shipped, "the templates that meta-eval ships")):
        if folder.is_dir():
            places.append((folder, words, PurePosixPath()))
    installed = _installed()
    if installed is not None:
        places.append((installed[0], installed[1], PurePosixPath(_FOLDER)))
    for root, source_label, prefix in places:
        reading = FolderReader(root)
        files = [
            file
            for file in _of_name(root, "task", name)
            if isinstance(merge_includes(reading, file, ())[0].get("task"), str)
        ]
        if len(files) > 1:
            raise SourceError(
                f"{len(files)} files define the task {name}: {', '.join(map(str, files))}",
                where=str(root),
                hint="Copy the right one, with the files it includes, into template_dir",
            )
        if files:
            settings, folder_of_key, yaml_chain = merge_includes(reading, files[0], ())
            if "class" in settings:
                raise SourceError(
                    f"the task {name} is a Python class that reads its own dataset instead of recorded docs",
                    where=str(root / files[0]),
                    hint="Leave it out of tasks",
                )
            if root == template_dir:  # an installed lm-eval knows the keys of its own tasks
                for file in yaml_chain:
                    with locating(root / file):
                        check_keys(reading.tree(file))
                        check_numbers(reading.tree(file))
                        check_metrics(reading.tree(file).get("metric_list"))
                check_functions(partial(locate_file, root), settings, folder_of_key, files[0])
            all_files = list_needed_files(reading, yaml_chain)
            if prefix.name:  # only in lm-eval's folder: leave out files of other tasks
                function_files = {
                    folder_of_key[key] / ref.module_file
                    for key in folder_of_key
                    for ref in find_functions(settings[key])
                }
                # Folders below the task's folders that hold other tasks, such as ``ifeval/multilingual``.
                own = {file.parent for file in (*yaml_chain, *function_files)}
                below = _folders(root.absolute(), _stamp(root)).items()
                others = {folder for folder, above in below if folder not in own and not own.isdisjoint(above)}
                all_files = tuple(
                    file
                    for file in all_files
                    if (root / file).exists() and file.suffix != ".md" and others.isdisjoint(file.parents)
                )
            return TaskCode(name, root, files[0], settings, folder_of_key, yaml_chain, all_files, source_label, prefix)
    need_named_folder(template_dir)
    lm_eval = installed[1] if installed else "no lm-eval is installed"
    raise SourceError(
        f"no code for the task {name}: it is neither in template_dir nor in lm-eval ({lm_eval})",
        where=str(template_dir),
        hint="Install the lm-eval that has it, or copy the folder of your own task into template_dir",
    )


def find_allowed_code(name: str, template_dir: Path, *, allow_code: bool) -> TaskCode:
    """Find the code of a task, if it may run here.

    Raises:
        ConfigError: It runs programs that the model writes, and ``allow_code`` is false.
        SourceError, TemplateError: As of `find_code`.
    """
    code = find_code(name, template_dir)
    if code.settings.get("unsafe_code") and not allow_code:
        raise ConfigError(
            "runs model-written code, and lm-eval's task has no sandbox",
            where=name,
            hint="Set allow_code: true, but only on a disposable machine",
        )
    return code


def read_group(name: str) -> str | None:
    """The YAML of a group of the installed lm-eval; None if there is no such group."""
    installed = _installed()
    if installed is None:
        return None
    files = list(_of_name(installed[0], "group", name))
    return read_text(installed[0] / files[0]) if len(files) == 1 else None


def has_task(name: str, template_dir: Path | None = None) -> bool:
    """Whether the installed lm-eval, or a template folder, has a task of this name."""
    installed = _installed()
    roots = [root for root in (template_dir, installed[0] if installed else None) if root is not None and root.is_dir()]
    return any(any(_of_name(root, "task", name)) for root in roots)


def list_task_names(template_dir: Path) -> Iterator[str]:
    """The tasks of the installed lm-eval and of a template folder, sorted."""
    installed = _installed()
    roots = [root for root in (template_dir, installed[0] if installed else None) if root is not None and root.is_dir()]
    lines = [lines for root in roots for _, lines in _naming(root.absolute(), _stamp(root)) if not _GROUP.search(lines)]
    names = {match[1].decode(errors="replace") for text in lines for match in _TASK_NAME.finditer(text)}
    yield from sorted(name for name in names if is_name(name))


def list_group_members(name: str) -> tuple[str, ...]:
    """The tasks of a group or tag of the installed lm-eval, including nested groups; empty for an unknown name.

    Raises:
        SourceError: A member has its own settings, so it has no name.
    """
    installed = _installed()
    if installed is None:
        return ()
    text = read_group(name)
    if text is None:
        return _tagged(installed[0], name)
    listed = parse_yaml(text, where=f"lm-eval's group {name}", constructors={"!function": FunctionRef}).tree.get("task")
    tasks: dict[str, None] = {}
    for member in listed if isinstance(listed, list) else [listed]:
        if not isinstance(member, str):
            raise SourceError(
                f"the group {name} overrides the settings of a task", where=installed[1], hint="Name its tasks"
            )
        tasks.update(dict.fromkeys((member,) if has_task(member) else list_group_members(member)))
    return tuple(tasks)


def _tagged(root: Path, tag: str) -> tuple[str, ...]:
    """The tasks that carry a tag, in the order of their files."""
    # If the tag is in a file that others include, these are in its folder or below.
    place, stamp, encoded = root.absolute(), _stamp(root), tag.encode()
    files_of = _folders_of_texts(place, stamp)
    tagged = {folder for folder, files in files_of.items() if any(encoded in text for _, text in files)}
    above_of = _folders(place, stamp)
    folders = [folder for folder, above in above_of.items() if folder in tagged or not tagged.isdisjoint(above)]
    tasks: dict[str, None] = {}
    reading = FolderReader(root)
    files = (file for folder in folders for file, _ in files_of[folder] if file.suffix == ".yaml")
    for file in sorted(files, key=lambda file: file.parts):
        try:
            settings = merge_includes(reading, file, ())[0]
        except TemplateError:  # a task in it is refused if it is named
            continue
        tags, task = settings.get("tag"), settings.get("task")
        if isinstance(task, str) and tag in (tags if isinstance(tags, list) else [tags]):
            tasks[task] = None
    return tuple(tasks)


@lru_cache(maxsize=1)
def _installed() -> tuple[Path, str] | None:
    """The folder of lm-eval's tasks, and its version. lm-eval is not imported, which would take seconds."""
    spec = find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        which = f"lm-eval {version('lm_eval')}"
    except PackageNotFoundError:
        which = "lm-eval of unknown version"
    return Path(spec.submodule_search_locations[0]) / "tasks", which


def _of_name(root: Path, key: str, name: str) -> Iterator[PurePosixPath]:
    """The YAML files below a folder with this name; unreadable files are ignored."""
    pattern = re.compile(_NAMED % (key.encode(), re.escape(name).encode()))
    encoded = name.encode()
    naming, joined, starts = _joined(root.absolute(), _stamp(root))
    at = joined.find(encoded)
    while at >= 0:
        number = bisect_right(starts, at) - 1
        file, lines = naming[number]
        if pattern.search(lines) and (key == "group" or not _GROUP.search(lines)):
            yield file
        at = joined.find(encoded, starts[number] + len(lines) + 1)


def _stamp(root: Path) -> Hashable:
    """What changes when a YAML below a folder does; nothing of the installed lm-eval, which has thousands."""
    if (installed := _installed()) is not None and root == installed[0]:
        return None
    found = []
    for folder, _, names in walk(root):
        for name in names:
            if name.endswith("yaml"):
                with suppress(OSError):
                    status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 (of many files)
                    found.append((folder, name, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(sorted(found))


@lru_cache(maxsize=16)
def _naming(root: Path, stamp: Hashable) -> Sequence[tuple[PurePosixPath, bytes]]:
    """The naming lines of every YAML below a folder that can be a task or a group."""
    candidates = (
        (file, b"\n".join(_ANY_NAME.findall(text))) for file, text in _texts(root, stamp) if file.suffix == ".yaml"
    )
    return [(file, lines) for file, lines in candidates if lines]


@lru_cache(maxsize=16)
def _joined(root: Path, stamp: Hashable) -> tuple[Sequence[tuple[PurePosixPath, bytes]], bytes, Sequence[int]]:
    """The same, all lines as one text, and where each file's begin: lm-eval has thousands of files, a group hundreds of
    tasks."""
    naming = _naming(root, stamp)
    ends = accumulate((len(lines) + 1 for _, lines in naming), initial=0)
    return naming, b"\n".join(lines for _, lines in naming), list(ends)[:-1]


@lru_cache(maxsize=16)
def _folders(root: Path, stamp: Hashable) -> Mapping[PurePosixPath, Set[PurePosixPath]]:
    """The folders below a folder with YAML files that can be tasks, and all folders above them."""
    return {
        folder: frozenset(folder.parents)
        for folder in {file.parent for file, _ in _texts(root, stamp) if file.suffix == ".yaml"}
    }


@lru_cache(maxsize=16)
def _folders_of_texts(root: Path, stamp: Hashable) -> Mapping[PurePosixPath, Sequence[tuple[PurePosixPath, bytes]]]:
    """The same as `_texts`, by folder."""
    files_of: dict[PurePosixPath, list[tuple[PurePosixPath, bytes]]] = {}
    for file, text in _texts(root, stamp):
        files_of.setdefault(file.parent, []).append((file, text))
    return files_of


@lru_cache(maxsize=16)
def _texts(root: Path, stamp: Hashable) -> Sequence[tuple[PurePosixPath, bytes]]:
    """Every YAML below a folder, read once, including shared files such as ``_some_yaml``."""
    texts = []
    noted = stamp is not None  # of the installed lm-eval, nobody edits a file
    for folder, _, names in walk(root):
        place = Path(folder)
        inside = PurePosixPath(place.relative_to(root).as_posix())
        for name in names:
            if name.endswith("yaml"):
                try:
                    texts.append((inside / name, read_regular(place / name, limit=MAX_BYTES, noted=noted)))
                except OSError:
                    continue
    return sorted(texts, key=lambda entry: entry[0].parts)


def _with_new_names(content: bytes, path: Path) -> bytes:
    """Rename the includes of a YAML to the copies.

    Raises:
        TemplateError: The include is not on a single line.
    """
    text = content.decode("utf-8")
    new, count = _INCLUDE.subn(lambda match: f"{match[1]}{match[2]}{_new_name(match[3])}{match[2]}", text)
    if count > 1 or (not count and re.search(r"(?m)^[\"']?include[\"']?[ \t]*:", text)):
        raise TemplateError(
            "include: must be one name on one line",
            where=str(path),
            hint="Copy the task into template_dir and correct it there",
        )
    return new.encode()


def _new_name(name: str) -> str:
    return name + COPIED_SUFFIX if name.endswith(".yaml") else name


def make_grader_code(grader: str, name: str, root: Path | None = None) -> TaskCode:
    """The code that grades a task.

    Args:
        grader: The name of the YAML, without its ending.
        name: The task.
        root: The folder that holds it; a pack has one of the same name. None means that of this package.
    """
    root = root or assets.asset_path("details")
    file = PurePosixPath(f"{grader}.yaml")
    reading = FolderReader(root)
    settings, folder_of_key, yaml_chain = merge_includes(reading, file, ())
    return TaskCode(
        name, root, file, settings, folder_of_key, yaml_chain, list_needed_files(reading, yaml_chain), "meta-eval",
        PurePosixPath(root.name), PurePosixPath(f"{name}.yaml"),
    )  # fmt: skip
