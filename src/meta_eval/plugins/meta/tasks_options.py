"""Options of `tasks`, `tasks list`, `tasks show` and `tasks new`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.sockets import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOptions(Options):
    """The templates that `tasks` uses."""

    template_dir: Path = option(
        TEMPLATES, Path, "--template-dir DIR",
        "Folder of templates. Default: the shipped templates if this one is missing.",
    )  # fmt: skip
    """Their folder. If the default folder is missing, the shipped templates are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(TemplateOptions):
    """Options of `tasks list`, in addition to those of `TemplateOptions`."""

    evals_dataset: str | None = option(
        None, str | None, "--evals-dataset X",
        "Only tasks that this evals dataset has: a hub id, a folder, or sample.",
    )  # fmt: skip
    """Only tasks that this evals dataset has: a hub id, a folder, or ``sample``. None means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTaskOptions(TemplateOptions):
    """Options of `tasks new`, in addition to those of `TemplateOptions`."""

    subset: str = option(MISSING, str, "--subset S", "The subset of the evals dataset that the task reads.")
    """The details subset that the task reads."""

    like: str = option("mmlu_pro", str, "--like TASK", "The task, or folder of tasks, to copy.")
    """The task, or folder of tasks, to copy."""

    evals_dataset: str | None = option(
        None, str | None, "--evals-dataset X",
        "Check that this evals dataset has the subset: a hub id, a folder, or sample.",
    )  # fmt: skip
    """The evals dataset that must have the subset. None means that a name of no published subset is only a warning."""
