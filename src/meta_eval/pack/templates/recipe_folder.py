"""Recognises the folder ``meta_template`` of Meta's own recipe: tasks of lm-eval 0.4.3 with the names of ours.

They lack the block ``metadata.meta_eval``, so such a folder cannot be prepared. Nor can the shipped templates be added
to it: the files of the recipe would stay, under names that tasks of ours have.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base import assets
from meta_eval.base.errors import TemplateError, UserError
from meta_eval.base.inputs import read_text, walk_files
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.base.yaml_files import parse_yaml
from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.pack.templates.template_folder import read_templates

# Files of the recipe that make a folder with templates of ours a mixture. A single one is a template without its block.
_SOME = 2


@dataclass(frozen=True, slots=True)
class RecipeFolder:
    """A folder with templates of Meta's recipe."""

    root: Path
    files: Sequence[Path]
    """Those of its YAMLs that have the name of a task of ours and no settings for meta-eval, sorted."""

    is_mixed: bool
    """Whether there are also templates with our settings, as ``init`` of an older meta-eval added them."""

    def describe_mixture(self) -> TemplateError:
        """The error for a mixed folder: what lies there, and how to get out."""
        names = join_names([str(file.relative_to(self.root)) for file in self.files], NAMED)
        if self.root.name == TEMPLATES.name:
            move = shlex.join(["mv", str(self.root), str(self.root.with_name(f"{TEMPLATES.name}.mixed"))])
            way = f"Run `{move}`: where {TEMPLATES.name} is missing, `prepare` uses the shipped templates"
        else:
            way = "Name another folder: `meta-eval init FOLDER` writes FOLDER/meta_template"
        return TemplateError(
            f"mixes templates of Meta's recipe ({names}), which lack the block metadata.meta_eval, with templates of "
            "meta-eval, and cannot be used",
            where=f"template_dir {self.root}",
            hint=f"{way}. A task of your own goes into a folder without the recipe's files, which template_dir names",
        )


def find_recipe(root: Path) -> RecipeFolder | None:
    """The templates of Meta's recipe in a folder: tasks with the names of ours, whose metadata are their version alone
    and which include no file.

    None if there are none, or if the folder has other templates as well that are neither the recipe's nor ours.
    """
    theirs: list[Path] = []
    is_mixed = is_other = False
    shipped = read_templates(assets.asset_path("meta_template")).tasks
    for path in sorted(path for path in walk_files(root) if path.suffix == ".yaml"):
        try:
            tree = parse_yaml(read_text(path), where=str(path), constructors={"!function": str}).tree
        except UserError:
            return None
        metadata = tree.get("metadata") if isinstance(tree, dict) else None
        if isinstance(metadata, dict) and "meta_eval" in metadata:
            is_mixed = True
        elif metadata is not None and (not isinstance(metadata, dict) or metadata.keys() - {"version"}):
            is_other = True
        elif isinstance(tree, dict) and "include" not in tree and str(tree.get("task")) in shipped:
            theirs.append(path)
    if is_mixed:
        return RecipeFolder(root, theirs, is_mixed) if len(theirs) >= _SOME else None
    return RecipeFolder(root, theirs, is_mixed) if theirs and not is_other else None
