"""Reads template folders: their tasks, includes and groups.

There is no list of tasks. A task is any ``*.yaml`` below the template folder with a ``task:`` name. Its block
``metadata: {meta_eval: …}`` has all settings for meta-eval. A YAML without a name that others include is no task.

Names that begin with an underscore are shared by tasks: ``_common/``, ``_generative_yaml``. If a template folder lacks
such a file, the shipped file is used, so a copied task folder works on its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from meta_eval.base import assets
from meta_eval.base.display import name_path, quoted
from meta_eval.base.errors import TemplateError, describe_wrong_value, join_errors, locating, suggest_name
from meta_eval.base.inputs import InputError, explain_locked, read_text, suggest_path, walk, walk_files
from meta_eval.base.logs import log
from meta_eval.base.pack_names import RULE, is_inside, is_name, join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.base.yaml_files import MAX_BYTES, YamlError, parse_yaml
from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.pack.templates.checks import NEEDS_FILE, check_group, check_settings
from meta_eval.pack.templates.spec import FunctionRef, PublishedMetric, TaskSpec, Template, find_functions


@dataclass(frozen=True, slots=True)
class TemplateFolder:
    """All templates of a folder by name, and the YAML files of its groups."""

    root: Path
    tasks: Mapping[str, Template]
    group_files: Mapping[str, PurePosixPath]

    @property
    def groups(self) -> tuple[str, ...]:
        group_names = {group for task in self.tasks.values() for group in task.spec.groups}
        return tuple(sorted(group_names | set(self.group_files)))


_MOST_INCLUDES = 32
# Result of `merge_includes`: settings, the folder of each key, the file and its includes.
Merged = tuple[dict[str, Any], dict[str, PurePosixPath], tuple[PurePosixPath, ...]]
_OF_A_RECORD = "For tasks of your own in a recorded run, set evals_dataset to the folder of the run"
_FUNCTIONS = {"!function": FunctionRef}


def read_template_yaml(path: Path) -> dict[str, Any]:
    """Read a template's YAML as plain Python, ``!function`` as `FunctionRef`.

    Raises:
        TemplateError: It cannot be read or is not a YAML mapping.
    """
    copied: dict[str, Any] = _copy(_tree(path))
    return copied


def _copy(tree: Any) -> Any:
    """A copy of a tree of YAML; `copy.deepcopy` takes as long as the parser."""
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list) else tree


def _tree(path: Path) -> dict[str, Any]:
    """Read a YAML. The result is shared and must not be changed."""
    try:
        tree = _parsed(read_text(path, limit=MAX_BYTES), str(path))
    except (InputError, YamlError) as error:
        raise TemplateError(error.what, where=error.where, hint=error.hint) from None
    if not isinstance(tree, dict):
        raise TemplateError("must be a YAML mapping", where=str(path))
    return tree


@lru_cache(maxsize=256)
def _parsed(text: str, where: str) -> Any:
    """Parse a text; cached, because templates share includes."""
    return parse_yaml(text, where=where, constructors=_FUNCTIONS).tree


def need_named_folder(root: Path) -> None:
    """Refuse a template folder that is not there; the default one need not be.

    Raises:
        TemplateError: There is no such folder.
    """
    if root != TEMPLATES and not root.is_dir():
        raise _missing_folder(root)


def _missing_folder(root: Path) -> TemplateError:
    return TemplateError(
        "is a file, not a folder" if root.exists() else f"there is no such folder{suggest_path(root)}",
        where=f"template_dir {name_path(root)}",
        hint="Run `meta-eval init` to write meta_template/, or set template_dir",
    )


def read_templates(root: Path) -> TemplateFolder:
    """Read every template below a folder.

    Raises:
        TemplateError: The folder does not exist or has no task, two tasks have the same name, or a YAML is not a
            template.
    """
    if not root.is_dir():
        raise _missing_folder(root)
    if (why := explain_locked(root)) is not None:
        raise TemplateError(why, where=f"template_dir {name_path(root)}")
    reading = FolderReader(root)
    tasks: dict[str, Template] = {}
    groups: dict[str, PurePosixPath] = {}
    clashes: list[_Clash] = []
    listed = list(_list_yaml(root))
    shared = _find_shared(reading, listed)
    for path, file in listed:
        top = reading.tree(file)
        if "group" in top:
            with locating(path):
                _need_name("group", top["group"])
                check_group(top)
            if groups.setdefault(top["group"], file) != file:
                clashes.append(_Clash("group", top["group"], groups[top["group"]], file))
            continue
        if file in shared:
            continue
        with locating(path):
            template = _template(reading, file)
        if tasks.setdefault(template.name, template) != template:
            clashes.append(_Clash("task", template.name, tasks[template.name].file, file))
    if clashes:
        raise _describe_clashes(root, clashes)
    tasks = _without_copied_facts(tasks)
    if not tasks:
        raise TemplateError(
            "holds no task template (a *.yaml with a `task:` name)",
            where=f"template_dir {name_path(root)}",
            hint="Write one, or set template_dir to a folder that has some",
        )
    return TemplateFolder(root, tasks, groups)


def _without_copied_facts(tasks: Mapping[str, Template]) -> dict[str, Template]:
    """The tasks, those copied by hand without what still is of their original: its groups, aliases, published numbers,
    and that its rows were seen. Of tasks that read the same rows, the original is the shipped one, else the first
    by path. A copy that names its original in ``copy_of`` keeps them."""
    shipped = assets.asset_path("meta_template")
    ours = [task for task in tasks.values() if (shipped / task.file).is_file()]
    originals = [*ours, *(task for task in tasks.values() if task not in ours and task.spec.copy_of is None)]
    own = dict(tasks)
    copies: dict[bool, dict[str, str]] = {True: {}, False: {}}  # by whether the original is shipped
    for at, task in enumerate(originals[len(ours) :], len(ours)):
        twins = [other for other in originals[:at] if _reads_same_rows(task, other)]
        spec = task.spec
        kept = spec.model_copy(
            update={
                "groups": {
                    group: families
                    for group, families in spec.groups.items()
                    if not any(group in of.spec.groups for of in twins)
                },
                "aliases": tuple(alias for alias in spec.aliases if not any(alias in of.spec.aliases for of in twins)),
                "published": tuple(
                    metric for metric in spec.published if not any(metric in of.spec.published for of in twins)
                ),
                "row_format": "assumed"
                if any(spec.row_format == of.spec.row_format for of in twins)
                else spec.row_format,
            }
        )
        if kept != spec:
            own[task.name] = replace(task, spec=kept)
            copies[twins[0] in ours][task.name] = twins[0].name
    for is_shipped, names in copies.items():
        if names:
            of = join_names(list(dict.fromkeys(names.values())), NAMED)
            reversed_hint = "" if is_shipped else "; if it is the original, add copy_of to the other"
            log.warning(
                f"{join_names(list(names), NAMED)}: same rows as {of}, so it counts as a copy: the groups, "
                "published numbers and row_format that both have are not used for it. To use them, add copy_of with "
                f"the name of the other to metadata.meta_eval{reversed_hint}"
            )
    return own


def _reads_same_rows(task: Template, other: Template) -> bool:
    mine, its = task.spec, other.spec
    return (
        mine.subset == its.subset
        and not {*mine.variants}.isdisjoint(its.variants)
        and not {*mine.families}.isdisjoint(its.families)
    )


def _list_yaml(root: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    for path in sorted(path for path in walk_files(root) if path.suffix == ".yaml"):
        file = PurePosixPath(path.relative_to(root).as_posix())
        if not _hidden(file) and not any(part.startswith("_") for part in file.parent.parts):
            yield path, file


def _find_shared(reading: FolderReader, listed: Iterable[tuple[Path, PurePosixPath]]) -> set[PurePosixPath]:
    """The files that others include and that name no task themselves."""
    included: set[PurePosixPath] = set()
    for path, file in listed:
        with locating(path):
            included |= {*merge_includes(reading, file, ())[2][1:]}
    return {file for file in included if "task" not in merge_includes(reading, file, ())[0]}


class FolderReader:
    """A template folder while it is read. Tasks share files and folders, and each is read once.

    Its results are shared and must not be changed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = cache(lambda file: locate_file(root, file))
        self.tree = cache(lambda file: _tree(self.place(file)))
        self.companions = cache(lambda folder: tuple(_companions(root, folder)))
        self.modules = cache(lambda file: tuple(_modules(self, file)))
        self.beside = cache(lambda modules: _beside(self, modules))
        self.within = cache(self._within)
        self.fits_pack = cache(lambda file: is_inside(file.as_posix()) and file.parts[0] not in _TAKEN)
        self.merged: dict[PurePosixPath, Merged] = {}
        self._resolved = cache(Path.resolve)

    def _within(self, folder: PurePosixPath, relative: str) -> PurePosixPath:
        target = self._resolved(self.root / folder / relative)
        return PurePosixPath(target.relative_to(self._resolved(self.root)).as_posix())


def _template(reading: FolderReader, file: PurePosixPath) -> Template:
    root = reading.root
    settings, folder_of_key, yaml_chain = merge_includes(reading, file, ())
    name = settings.get("task")
    if not isinstance(name, str) or not name:
        raise TemplateError("is neither a task (`task: name`) nor a group (`group: name`)", hint=_OF_A_RECORD)
    _need_name("task", name)
    metadata = settings.get("metadata")
    block = metadata.get("meta_eval") if isinstance(metadata, dict) else None
    if not isinstance(block, dict):
        raise TemplateError(
            "metadata.meta_eval: is not set",
            hint=(
                "Say what the task reads, at least {subset: mmlu_pro, variants: [instruct], families: ['3.1']}. "
                f"{_OF_A_RECORD}"
            ),
        )
    try:
        spec = TaskSpec.model_validate(block)
    except ValidationError as error:
        raise _spec_error(error) from None
    for key, families in (("groups", spec.groups), ("aliases", spec.aliases)):
        for entry in families:
            _need_name(f"metadata.meta_eval.{key}", entry)
    check_settings(settings)
    content = reading.tree(file)
    inherited = merge_includes(reading, _include_of(reading, file, content), ())[0] if content.get("include") else {}
    all_files = list_needed_files(reading, yaml_chain)
    for inside in all_files:
        if not reading.fits_pack(inside):
            raise TemplateError(
                "a pack cannot hold a file of this name", where=quoted(str(root / inside)), hint="Rename it"
            )
    template = Template(name, file, spec, _copy(settings), frozenset(inherited), folder_of_key, all_files)
    published = ((f"published.{number}.metric", metric.metric) for number, metric in enumerate(spec.published))
    for key, metric_key in (
        ("primary_metric", template.primary_metric),
        ("is_correct_metric", spec.is_correct_metric),
        *published,
    ):
        metric, _, filter_name = (metric_key or template.primary_metric).partition(",")
        if metric not in template.metrics or filter_name not in template.filters:
            raise TemplateError(
                f"metadata.meta_eval.{key}: {metric_key!r} is not a metric and filter of this task",
                hint=f"Metrics: {', '.join(template.metrics)}; filters: {', '.join(template.filters)}",
            )
    return template


# Files of a pack that no template brings.
_TAKEN = ("manifest.json", ".gitignore")

# Names that are there twice, as one error lists them.
_MOST_CLASHES = 8


@dataclass(frozen=True, slots=True)
class _Clash:
    """A name of two tasks, or of two groups, and their files in the order of their paths."""

    key: str
    name: str
    first: PurePosixPath
    second: PurePosixPath

    @property
    def copy(self) -> PurePosixPath:
        """The file to rename: that which is not shipped under this path."""
        return self.second if (assets.asset_path("meta_template") / self.first).is_file() else self.first


def _describe_clashes(root: Path, clashes: Sequence[_Clash]) -> TemplateError:
    """One error for all names that are there twice."""
    said = [f"{clash.key} {clash.name!r} in {clash.first} and in {clash.second}" for clash in clashes[:_MOST_CLASHES]]
    edits = [f"`{clash.key}:` in {root / clash.copy}" for clash in clashes[:_MOST_CLASHES]]
    more = f" and {len(clashes) - _MOST_CLASHES} more" if len(clashes) > _MOST_CLASHES else ""
    return TemplateError(
        f"a name is used twice: {'; '.join(said)}{more}", where=f"template_dir {name_path(root)}",
        hint=f"Each YAML of a copied folder needs a name of its own: edit {join_names(edits, _MOST_CLASHES)}{more}",
    )  # fmt: skip


def _need_name(key: str, name: object) -> None:
    if not is_name(name):
        raise TemplateError(f"{key}: {quoted(name)} is not a valid name", hint=RULE)


def merge_includes(reading: FolderReader, file: PurePosixPath, above: tuple[PurePosixPath, ...]) -> Merged:
    """Merge a YAML with its includes as lm-eval does: key by key, the including file wins.

    Args:
        reading: The reader of the folder; includes must stay inside it.
        file: The YAML, relative to it.
        above: The files that include it.

    Returns:
        The settings, with values that tasks share; the folder that each key's functions are relative to; the file and
        its includes.

    Raises:
        TemplateError: A file cannot be read, or an include is missing or circular.
    """
    if file in above:
        raise TemplateError("includes itself", where=str(reading.root / file))
    if file not in reading.merged and len(above) <= _MOST_INCLUDES:
        reading.merged[file] = _merged(reading, file, above)
    settings, folder_of_key, chain = reading.merged.get(file, ({}, {}, (file,)))
    full_chain = (*above, *chain)
    if len(full_chain) > _MOST_INCLUDES + 1:
        raise TemplateError(
            f"ends a chain of more than {_MOST_INCLUDES} includes",
            where=str(reading.root / full_chain[_MOST_INCLUDES + 1]),
        )
    return dict(settings), dict(folder_of_key), chain


def _merged(reading: FolderReader, file: PurePosixPath, above: tuple[PurePosixPath, ...]) -> Merged:
    local = dict(reading.tree(file))
    include = local.pop("include", None)
    settings: dict[str, Any] = {}
    folder_of_key: dict[str, PurePosixPath] = {}
    chain: tuple[PurePosixPath, ...] = (file,)
    if include:
        with locating(reading.root / file):
            target = _include_of(reading, file, {"include": include})
        settings, folder_of_key, inner_chain = merge_includes(reading, target, (*above, file))
        chain += inner_chain
    settings.update(local)
    folder_of_key = {key: at for key, at in folder_of_key.items() if key not in local}
    folder_of_key |= dict.fromkeys(local, file.parent)
    return settings, folder_of_key, chain


def _include_of(reading: FolderReader, file: PurePosixPath, tree: Mapping[str, Any]) -> PurePosixPath:
    include = tree["include"]
    if isinstance(include, list) and len(include) == 1:
        include = include[0]
    if not isinstance(include, str):
        raise TemplateError(
            "include: must name one file; lm-eval versions disagree on the order of several",
            hint="Include one file, and let it include the next",
        )
    target = _below(reading, file.parent, include)
    if not reading.place(target).is_file():
        raise TemplateError(f"include: there is no file {include!r}", hint=NEEDS_FILE)
    return target


def _below(reading: FolderReader, folder: PurePosixPath, relative: str) -> PurePosixPath:
    """A path written in a template, relative to the template folder; it must not lead out of it."""
    try:
        return reading.within(folder, relative)
    except (ValueError, OSError, RuntimeError):  # RuntimeError: circular links
        raise TemplateError(
            f"{quoted(relative)} points outside the template folder",
            hint="Copy the file into the folder: a pack must be self-contained",
        ) from None


def list_needed_files(reading: FolderReader, yaml_chain: Sequence[PurePosixPath]) -> tuple[PurePosixPath, ...]:
    """List the files that a task needs: its YAML and includes, and all other files in the folders of their functions
    except YAML.

    A function's module may load files next to it and in the ``_common`` next to its folder, so both folders are needed
    whole. Of the template folder itself only the module is needed. Replaced functions count too, because the
    replacement usually builds on their module.

    Args:
        reading: The reader of the template folder.
        yaml_chain: The task's YAML and its includes.
    """
    modules = frozenset(module for file in yaml_chain for module in reading.modules(file))
    return tuple(sorted(reading.beside(modules).union(yaml_chain), key=lambda file: file.parts))


def _beside(reading: FolderReader, modules: frozenset[PurePosixPath]) -> frozenset[PurePosixPath]:
    """Modules and the files that they may load."""
    folders = {
        folder
        for module in modules
        if module.parent != PurePosixPath(".")
        for folder in (module.parent, module.parent.parent / "_common")
    }
    return modules.union(*map(reading.companions, folders))


def _modules(reading: FolderReader, file: PurePosixPath) -> Iterator[PurePosixPath]:
    """The modules of the functions that a YAML names itself."""
    of_module: dict[str, tuple[str, FunctionRef]] = {}
    for key, value in reading.tree(file).items():
        for reference in find_functions(value):
            of_module.setdefault(reference.module_file, (key, reference))
    for name, (key, reference) in of_module.items():
        with locating(f"{reading.root / file}: {key}"):
            module = _below(reading, file.parent, name)
            if not reading.place(module).is_file():
                raise TemplateError(f"!function {reference}: there is no file {module}", hint=NEEDS_FILE)
        yield module


def _companions(root: Path, folder: PurePosixPath) -> Iterator[PurePosixPath]:
    """The files of a folder but YAML and what is hidden. `os.walk` is several times quicker than `Path.rglob`."""
    for place in () if _hidden(folder) else _places(root, folder):
        for base, folders, names in walk(place):
            folders[:] = [name for name in folders if not _is_hidden(name)]
            inside = folder / os.path.relpath(base, place)
            for name in names:
                file = Path(base, name)
                if not _is_hidden(name) and not name.endswith((".yaml", ".pyc")) and file.is_file():
                    if file.is_symlink() and not file.resolve().is_relative_to(root.resolve()):
                        hint = "Copy the file into the folder: a pack must be self-contained"
                        raise TemplateError("is a link out of the template folder", where=str(file), hint=hint)
                    yield inside / name


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _hidden(file: PurePosixPath) -> bool:
    return any(map(_is_hidden, file.parts))


def locate_file(root: Path, file: PurePosixPath) -> Path:
    """Find a file of a template folder: in the folder, or among the shipped files that tasks share."""
    return next((place for place in _places(root, file) if place.exists()), root / file)


def _places(root: Path, file: PurePosixPath) -> Iterator[Path]:
    yield root / file
    shared = next((number for number, part in enumerate(file.parts) if part.startswith("_")), None)
    if shared is not None:
        yield assets.asset_path("meta_template").joinpath(*file.parts[shared:])


def _spec_error(error: ValidationError) -> TemplateError:
    # A misspelt key is also missing under its right name; report the misspelling, first.
    items = sorted(error.errors(include_url=False), key=lambda item: item["type"] != "extra_forbidden")
    found: list[TemplateError] = []
    for item in items:
        if item["type"] != "missing" or not any(repr(item["loc"][-1]) in each.what for each in found):
            found.append(_key_error(item))
    return join_errors(found)


def _key_error(first: ErrorDetails) -> TemplateError:
    key = ".".join(["metadata", "meta_eval", *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        keys = set(TaskSpec.model_fields) if len(first["loc"]) == 1 else set(PublishedMetric.model_fields)
        what = f"{key}: there is no such key{suggest_name(str(first['loc'][-1]), keys)}"
        return TemplateError(what, hint=f"Known keys: {', '.join(sorted(keys))}")
    if first["type"] == "missing":
        return TemplateError(f"{key}: is not set")
    return TemplateError(
        f"{key}: {quoted(first['input'])} is not allowed: {describe_wrong_value(first['msg'], first['input'])}"
    )
