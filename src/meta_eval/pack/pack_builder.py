"""Builds a pack of prepared tasks: all its files, and the manifest that lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base import assets
from meta_eval.base.errors import DataError, TemplateError, UserError, locating
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.inputs import read_text
from meta_eval.base.logs import log
from meta_eval.base.ownership import PACK, check_folder, replace_folder
from meta_eval.base.pack_names import expand_patterns, split_excluded
from meta_eval.base.version import __version__
from meta_eval.harness.config_keys import list_config_keys
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config
from meta_eval.pack.manifest import (
    LM_EVAL_BELOW,
    LM_EVAL_MINIMUM,
    MANIFEST,
    SCHEMA_VERSION,
    FileEntry,
    Manifest,
    OriginalEntry,
    PreparedFrom,
    TaskEntry,
    VersionRange,
    explain_no_command,
    read_manifest,
)
from meta_eval.pack.prepared_task import LeftOut, PrepareContext, PreparedTask
from meta_eval.pack.punkt import read_punkt
from meta_eval.pack.templates import task_yaml
from meta_eval.pack.templates.template_folder import TemplateFolder


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack in memory: file content by path, and the manifest."""

    files: Mapping[str, bytes]
    manifest: Manifest


def build_pack(
    tasks: Sequence[PreparedTask],
    groups: Mapping[str, tuple[str, ...]],
    context: PrepareContext,
    templates: TemplateFolder,
    originals: Mapping[str, OriginalEntry],
) -> Pack:
    """Put prepared tasks together.

    Args:
        tasks: In the order of the manifest.
        groups: The members of each requested group.
        context: What the tasks were prepared with.
        templates: The YAML of groups, and the aliases of tasks.
        originals: Other datasets that the tasks were joined with.

    Raises:
        TemplateError: Two tasks would write one file.
    """
    config = context.config
    tasks, add_bos = _check_same_bos(tasks, context.left_out)
    groups = context.left_out.without(groups)
    kept_names = {task.name for task in tasks} | groups.keys()
    # Another task may include a template's YAML. Files made for a task replace copied ones.
    files = {name: content for task in tasks for name, content in task.template_files.items()}
    pack_files: dict[str, bytes] = {}
    for task in tasks:
        _add(pack_files, task.files, f"task {task.name}")
    for name, members in groups.items():
        _add(pack_files, dict([_group(templates, name, members)]), f"group {name}")
    files |= pack_files
    files[".gitignore"] = assets.read_asset("work_dir.gitignore")

    scores_ifeval = any(task.scores_ifeval for task in tasks)
    punkt = read_punkt(needed=any(task.needs_punkt for task in tasks)) if scores_ifeval else {}
    files |= punkt

    included, _ = split_excluded(expand_patterns(config.tasks, [task.name for task in tasks]))
    names = [name for name in dict.fromkeys(_canonical(templates, name) for name in included) if name in kept_names]
    run = config.run_settings(names, runs_code=any(task.entry.unsafe_code for task in tasks))
    run = run.model_copy(update={"add_bos_token": add_bos})
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        meta_eval=__version__,
        lm_eval=VersionRange(minimum=LM_EVAL_MINIMUM, below=LM_EVAL_BELOW),
        prepared_from=make_prepared_from(config),
        run_settings=run,
        originals=dict(originals),
        tasks={task.name: task.entry for task in tasks},
        groups=dict(groups),
        left_out=context.left_out.reasons,
        command=_make_command(run, [task.entry for task in tasks]),
        includes_punkt=bool(punkt) if scores_ifeval else None,
        files={
            name: FileEntry(sha256=hash_bytes(content), bytes=len(content)) for name, content in sorted(files.items())
        },
    )
    return Pack(files, manifest)


def make_prepared_from(config: Config) -> PreparedFrom:
    """What a manifest keeps of a configuration; the keys of plug-ins as JSON."""
    own = {name for keys in list_config_keys() for name in keys.model_fields}
    values = {name: getattr(config, name) for name in PreparedFrom.model_fields}
    return PreparedFrom.model_validate(values | config.model_dump(mode="json", include=own))


def _make_command(run: RunSettings, tasks: Sequence[TaskEntry]) -> tuple[str, ...]:
    """The ``lm_eval`` command of a pack. Empty if the backend has none, or none that asks all tasks."""
    backend = find_backend(run.backend)
    return () if explain_no_command(backend, tasks) else backend.command(run)


def _check_same_bos(tasks: Sequence[PreparedTask], left_out: LeftOut) -> tuple[list[PreparedTask], bool]:
    """Choose the tasks that can run in the same command, and whether it adds a BOS to each prompt.

    If some records had a BOS and some had none, the minority is left out.
    """
    bos_by_task = {task.name: task.entry.record.bos_in_prompts if task.entry.record else True for task in tasks}
    without = [name for name, with_bos in bos_by_task.items() if with_bos is False]
    with_bos = [name for name, has_bos in bos_by_task.items() if has_bos]
    add_bos = len(with_bos) >= len(without) if with_bos else not without
    others = {False: with_bos, True: without}[add_bos]
    words = {True: "without", False: "with"}
    for name in others:
        left_out.errors[name] = DataError(
            f"was run {words[add_bos]} a BOS, and most other tasks {words[not add_bos]} one; one command treats all "
            "tasks alike",
            where=name,
            hint="Prepare this task as a separate pack",
        )
    if not add_bos:
        if unknown := [name for name, has_bos in bos_by_task.items() if has_bos is None]:
            log.warning(
                f"unknown whether {', '.join(unknown)} was run with a BOS; none is added, as for the other tasks"
            )
        log.warning("the record was made without a BOS, so the command sets add_bos_token=False")
    return [task for task in tasks if task.name not in others], add_bos


def _add(pack_files: dict[str, bytes], files: Mapping[str, bytes], whose: str) -> None:
    """Raises:
    TemplateError: Two tasks, or a task and a group, would write one file.
    """
    for name, content in files.items():
        if pack_files.setdefault(name, content) != content:
            raise TemplateError(f"would write {name}, like another task or group", where=whose, hint="Rename it")


def _group(templates: TemplateFolder, name: str, members: Sequence[str]) -> tuple[str, bytes]:
    file = templates.group_files.get(name)
    place = file and templates.root / file
    text = read_text(place if place.exists() else assets.asset_path("meta_template") / file) if file and place else None
    path = file.as_posix() if file else f"{name}.yaml"
    with locating(file):
        return path, task_yaml.write_group(text, name=name, members=members).encode()


def _canonical(templates: TemplateFolder, name: str) -> str:
    """lm-eval's name of a task: not an alias, and without the shots of ``arc_challenge@25``."""
    name = name.partition("@")[0]
    return next((task for task, template in templates.tasks.items() if name in template.spec.aliases), name)


def check_target(work_dir: Path, config: Config | None = None) -> None:
    """Refuse a work_dir that prepare will not write into.

    Args:
        work_dir: The folder.
        config: What will be prepared; None if that is unknown.

    Raises:
        OutputError: It is not a folder, has files but no pack, or was edited where the same tasks are prepared again.
    """
    check_folder(work_dir, PACK, names=[MANIFEST])
    if config is None:
        return
    try:
        before = read_manifest(work_dir)
    except UserError:  # no manifest, or of an older version
        return
    if (before.prepared_from.tasks, before.prepared_from.evals_dataset) == (config.tasks, config.evals_dataset):
        check_folder(work_dir, PACK, names=before.files)


def write_pack(work_dir: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    """Write a pack, and replace the pack that is there.

    Args:
        work_dir: The folder; it is made if need be.
        files: Content by path inside the pack, without the manifest.
        manifest: Of the pack.

    Raises:
        OutputError: A file that prepare did not write is in the way, another command keeps writing, or the disk fails.
    """
    with replace_folder(work_dir, PACK) as new:
        for name, content in files.items():
            new.write(name, content)
        new.write(MANIFEST, manifest.to_json().encode())
