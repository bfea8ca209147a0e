"""Makes a new template from an existing template."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from yaml import safe_load

from meta_eval.base import assets
from meta_eval.base.display import quoted
from meta_eval.base.errors import TemplateError, suggest_name
from meta_eval.base.inputs import read_text
from meta_eval.base.outputs import replace_file
from meta_eval.base.pack_names import RULE, is_name, join_names
from meta_eval.pack.templates import task_yaml
from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import TemplateFolder, locate_file
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.tasks_options import NewTaskOptions
from meta_eval.plugins.meta.templates import RecipeError, read_meta_templates
from meta_eval.sockets import ConfigError, locating, log


@dataclass(frozen=True, slots=True)
class NewTask:
    """The new file, and the lines to edit, each with file and line number."""

    files: tuple[Path, ...]
    edits: tuple[str, ...]


def check_subset(subset: str, datasets: Sequence[EvalsDataset] | None) -> None:
    """Refuse a subset that an evals dataset lacks. Without a dataset, warn of a subset that Meta has not published.

    Raises:
        ConfigError: It is empty, or none of the datasets has it.
    """
    if not subset.strip():
        raise ConfigError("is empty", where="--subset", hint="Name a subset of the evals dataset")
    if datasets is None:
        published = {name for each in catalog.list_dataset_ids() for name in _list_subsets(each)}
        if subset not in published:
            log.warning(
                f"--subset {subset}: Meta published no such subset{suggest_name(subset, published)}; whether a dataset "
                "of yours has it was not checked: name it with --evals-dataset"
            )
        return
    subsets = {name for dataset in datasets for name in dataset.subsets}
    if subset not in subsets:
        raise ConfigError(
            f"{datasets[0].dataset_id} has no subset {subset!r}{suggest_name(subset, subsets)}",
            where="--subset",
            hint=f"It offers: {join_names(sorted(subsets), 12)}",
        )


def _list_subsets(dataset_id: str) -> Sequence[str]:
    identity = catalog.identify_dataset(dataset_id)
    return catalog.list_subsets(str(identity.family), str(identity.variant))


def write_template(name: str, options: NewTaskOptions) -> NewTask:
    """Write ``template_dir/<name>/``: the YAML of ``like`` under a new name, with the files it needs from its folder.

    ``like`` is searched in the template folder, then among the shipped templates. Missing shared files are copied too.

    Raises:
        ConfigError: The name is not a valid task name, or is taken.
        TemplateError: ``like`` is neither a task nor a folder of tasks.
    """
    template_dir, like = options.template_dir, options.like
    if not is_name(name):
        raise ConfigError(f"{quoted(name)} is not a valid task name", hint=RULE)
    if safe_load(name) != name:  # yes, null, 123: the YAML would hold no text
        raise ConfigError(f"{quoted(name)} is not a valid task name: YAML reads no text in it", hint="Add a word")
    if name.startswith("_"):
        raise ConfigError(f"{quoted(name)} is not a valid task name: folders that begin with '_' are not searched")
    shipped = read_meta_templates(assets.asset_path("meta_template"))
    local = _read_own(template_dir, name, options) if any(template_dir.rglob("*.yaml")) else None
    known = [local, shipped] if local else [shipped]
    meant = {alias for folder in known for task in folder.tasks.values() for alias in task.spec.aliases}
    if name in meant.union(*(folder.groups for folder in known)):
        raise ConfigError(
            f"{quoted(name)} is the name of a group, or another name of a task", hint="Choose another name"
        )
    target = template_dir / name
    if target.exists() or (local is not None and name in local.tasks):
        raise ConfigError("already exists", where=str(target), hint="Choose another name")
    source, template = _find(known, like)
    own_files, shared = _parted(template)
    for file in shared:
        path = template_dir / file
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as out:
                out.write(read_text(locate_file(source.root, file)))
    target.mkdir(parents=True)
    files = []
    for file in own_files:
        path = target / (f"{name}.yaml" if file == template.file else file.name)
        content = read_text(locate_file(source.root, file))
        if file == template.file:
            with locating(source.root / file):
                content = task_yaml.rename_task(content, name=name, subset=options.subset)
        with replace_file(path) as out:
            out.write(content)
        files.append(path)
    yaml = target / f"{name}.yaml"
    return NewTask(tuple(files), tuple(_edits(yaml)))


def _read_own(template_dir: Path, name: str, options: NewTaskOptions) -> TemplateFolder:
    """The templates of the folder to write into.

    Raises:
        TemplateError: It cannot be read; where it is that of Meta's recipe, with the command that writes elsewhere.
    """
    try:
        return read_meta_templates(template_dir)
    except RecipeError as error:
        words = ["meta-eval", "tasks", "new", name, "--subset", options.subset, "--like", options.like]
        again = shlex.join([*words, "--template-dir", "mine"])
        hint = f"Write the task into a folder of its own: `{again}`, which needs no other file there"
        raise RecipeError(error.what, where=error.where, hint=hint) from None


def _find(folders: Sequence[TemplateFolder], like: str) -> tuple[TemplateFolder, Template]:
    for folder in folders:
        if like in folder.tasks:
            return folder, folder.tasks[like]
        inside = [task for task in folder.tasks.values() if task.file.parent.name == like]
        if inside:
            return folder, min(inside, key=lambda task: ("instruct" not in task.spec.variants, task.name))
    names = [
        word for folder in folders for task in folder.tasks.values() for word in (task.name, task.file.parent.name)
    ]
    raise TemplateError(
        f"unknown task or folder {like!r}{suggest_name(like, names)}",
        where="--like",
        hint="List them with `meta-eval tasks`",
    )


def _parted(template: Template) -> tuple[list[PurePosixPath], list[PurePosixPath]]:
    """The files for the new folder, and the files that includes refer to, which keep their place."""
    folder = template.file.parent
    neighbours = [file for file in template.files if file.parent == folder and file != template.file]
    in_folder = {(template.folder_of_key[key] == folder) for key, module in template.modules if module.parent == folder}
    own_files = [template.file, *(neighbours if True in in_folder else [])]
    shared = [file for file in template.files if file.parent != folder]
    return own_files, shared + (neighbours if False in in_folder else [])


_WHAT = {
    "filter_list": "what is extracted of an answer",
    "generation_kwargs": "how the model answers (max_gen_toks)",
    "variants": "for instruct or pretrain models",
    "families": "of which Llama families",
    "groups": "the groups that it belongs to",
    "published": "the published number that this metric is compared with",
    "row_format": "seen once you have compared it with real rows",
}


def _edits(yaml: Path) -> Sequence[str]:
    lines = read_text(yaml).splitlines()
    edits = []
    for key, what in _WHAT.items():
        number = next((n for n, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:")), None)
        if number is not None:
            edits.append(f"{yaml}:{number} {key}: {what}")
    return edits
