"""Graders of records without code of their own: plain lm-eval YAMLs, which are copied into packs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from meta_eval import assets
from meta_eval.pack.records.task_code import TaskCode
from meta_eval.pack.templates.template_folder import FolderReader, list_needed_files, merge_includes


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
