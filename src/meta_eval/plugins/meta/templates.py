"""Reads the templates of Meta's tasks: a join that a template names must exist, and no task has a group's name.

The folder ``meta_template`` of Meta's own recipe has tasks of lm-eval 0.4.3 with the names of ours, but without our
settings. It lies beside the recipe's configuration, and is recognised: the shipped templates are used in its place.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from meta_eval.base import assets
from meta_eval.base.display import quoted
from meta_eval.base.errors import TemplateError, suggest_name
from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.pack.templates.recipe_folder import find_recipe
from meta_eval.pack.templates.template_folder import TemplateFolder, read_templates
from meta_eval.plugins.meta.joins import JOINS
from meta_eval.sockets import log, read_regular


def read_shipped_templates() -> TemplateFolder:
    """The shipped templates."""
    return read_meta_templates(assets.asset_path("meta_template"))


def add_shipped_templates(folder: TemplateFolder) -> tuple[TemplateFolder, TemplateFolder]:
    """Add the shipped templates to a folder that has none of them, so that a task of the user's and Meta's are one run.

    A shipped task stays out if a file of it is in the folder with other content: a pack has one file of a name.

    Returns:
        All templates, and the shipped ones.

    Raises:
        TemplateError: A task has the name of a group.
    """
    shipped = read_shipped_templates()
    if folder.tasks.keys() & shipped.tasks.keys():
        return folder, shipped

    def is_other(file: PurePosixPath) -> bool:
        place = folder.root / file
        return place.exists() and read_regular(place) != read_regular(shipped.root / file)

    added = {name: task for name, task in shipped.tasks.items() if not any(map(is_other, task.files))}
    groups = {**shipped.group_files, **folder.group_files}
    both = TemplateFolder(folder.root, {**folder.tasks, **added}, groups)
    _refuse_names_of_groups(both)
    return both, shipped


class RecipeError(TemplateError):
    """A folder holds the templates of Meta's recipe."""


def read_meta_templates(root: Path) -> TemplateFolder:
    """Read every template below a folder.

    Raises:
        TemplateError: As in `template_folder.read_templates`, a template names an unknown join or has the name of a
            group, or the folder is that of Meta's recipe, or a mixture of those with ours.
    """
    try:
        folder = read_templates(root)
    except TemplateError:
        recipe = find_recipe(root) if root.is_dir() else None
        if recipe is None:
            raise
        if recipe.is_mixed:
            raise recipe.describe_mixture() from None
        raise RecipeError(
            "holds the templates of Meta's recipe, which lack the block metadata.meta_eval and cannot be used",
            where=f"template_dir {root}",
            hint="Name another folder (template_dir, or --template-dir), such as one that `meta-eval init FOLDER` "
            "writes; the shipped templates are used where none is named",
        ) from None
    for template in folder.tasks.values():
        name = template.spec.join
        if name is not None and name not in JOINS:
            raise TemplateError(
                f"metadata.meta_eval.join: unknown join{suggest_name(name, JOINS)}; joins: {', '.join(JOINS)}",
                where=str(root / template.file),
            )
        original = template.spec.copy_of
        if (
            original is not None
            and original not in folder.tasks
            and original not in (known := read_shipped_templates().tasks)
        ):
            log.warning(
                f"{template.name}: copy_of: no task is named {quoted(original)}"
                f"{suggest_name(original, [*folder.tasks, *known])}; in a group it counts beside its original"
            )
    _refuse_names_of_groups(folder)
    return folder


def _refuse_names_of_groups(folder: TemplateFolder) -> None:
    for name in folder.groups:
        if name in folder.tasks:
            raise TemplateError(
                f"task: {name!r} is the name of a group, too",
                where=str(folder.root / folder.tasks[name].file),
                hint="Give the task another name",
            )


def open_templates(root: Path) -> TemplateFolder:
    """Read the templates of a configuration: the shipped ones if the default folder is missing, or is that of Meta's
    recipe.

    Raises:
        TemplateError: As in `read_meta_templates`.
    """
    if root != TEMPLATES:
        return read_meta_templates(root)
    if root.exists():
        try:
            return read_meta_templates(root)
        except RecipeError:
            log.warning(
                f"./{root} holds the templates of Meta's recipe: using the shipped templates in their place, so edits "
                "there have no effect"
            )
    return read_shipped_templates()
