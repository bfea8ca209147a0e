"""Graders of records without code of their own: plain lm-eval YAMLs in ``assets``, which are copied into packs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from meta_eval import assets
from meta_eval.records.task_code import TaskCode
from meta_eval.templates.template_folder import FolderReader, list_needed_files, merge_includes


def make_grader_code(grader: str, name: str, folder: Literal["details", "chat"] = "details") -> TaskCode:
    """The code that grades a task.

    Args:
        grader: The name of the YAML, without its ending.
        name: The task.
        folder: The folder of ``assets``, which has the same name in a pack.
    """
    root = assets.asset_path(folder)
    file = PurePosixPath(f"{grader}.yaml")
    reading = FolderReader(root)
    settings, folder_of_key, yaml_chain = merge_includes(reading, file, ())
    return TaskCode(
        name, root, file, settings, folder_of_key, yaml_chain, list_needed_files(reading, yaml_chain), "meta-eval",
        PurePosixPath(folder), PurePosixPath(f"{name}.yaml"),
    )  # fmt: skip
