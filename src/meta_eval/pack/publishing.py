"""Writes a pack without its rows, for others to rebuild: a dataset repository of settings, hashes and templates.

Rows are gated, and a pack contains them. The recipe is not gated: the same templates, dataset commits and settings give
the same bytes. Templates are published for reading; `pack_rebuild` never runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from meta_eval import assets
from meta_eval.boundary.hashing import hash_file
from meta_eval.boundary.inputs import read_regular
from meta_eval.boundary.ownership import list_name, replace_folder
from meta_eval.messages.errors import TemplateError
from meta_eval.messages.secrets import holds_secret
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import Manifest, PreparedFrom, read_manifest
from meta_eval.pack.publication import PUBLICATION, Publication, describe_pack
from meta_eval.templates.template_folder import locate_file, read_templates

TEMPLATES = "templates"
README = "README.md"
_KIND = "publication"


@dataclass(frozen=True, slots=True)
class RecipeExport:
    """The files of a publication that were written.

    Attributes:
        folder: Where they are.
        publication: The description of the pack.
        files: Its files, by path.
        withheld: Files of the pack that are not published.
        user_files: Other files in the folder, left unchanged.
    """

    folder: Path
    publication: Publication
    files: tuple[str, ...]
    withheld: tuple[str, ...]
    user_files: tuple[str, ...]


def publish_pack(pack: Path, folder: Path) -> RecipeExport:
    """Write the publishable part of a pack, whole or not at all.

    Args:
        pack: The folder that prepare wrote.
        folder: Where to write, such as a clone of a repository. Only unchanged files of an earlier publication are
            replaced.

    Raises:
        PackError: The folder is not a pack, was edited, or its rows are not on the hub.
        TemplateError: The templates that made it are not here, or hold a credential.
        OutputError: The folder cannot be written.
    """
    manifest = read_manifest(pack)
    check_unchanged(pack, manifest, edited=False)
    publication = describe_pack(pack, manifest)
    root = _templates(manifest.prepared_from)
    templates = _template_files(root, manifest)
    files = {PUBLICATION: publication.to_json().encode()}
    files |= {f"{TEMPLATES}/{name}": _template(root, name, path, manifest) for name, path in templates.items()}
    with replace_folder(folder, _KIND, shared=True, inputs=[pack, root]) as new:
        for name, content in files.items():
            new.write(name, content)
        new.write(README, _card(publication).encode(), optional=True)
    withheld = tuple(name for name in manifest.files if name not in templates)
    written = sorted([*files, README, list_name(_KIND)])
    return RecipeExport(folder, publication, tuple(written), withheld, tuple(_list_user_files(folder, set(written))))


def _list_user_files(folder: Path, recipe_files: set[str]) -> Iterator[str]:
    """Other files in the folder, beside ours and in our subfolders."""
    tops = {name.partition("/")[0] for name in recipe_files}
    for path in sorted(folder.iterdir()):
        if path.name not in tops:
            yield path.name
        elif path.is_dir():
            inside = (file.relative_to(folder).as_posix() for file in path.rglob("*") if not file.is_dir())
            yield from sorted(name for name in inside if name not in recipe_files)


def _templates(prepared_from: PreparedFrom) -> Path:
    path = Path(prepared_from.template_dir)
    return path if path.is_dir() else assets.asset_path("meta_template")


def _template_files(root: Path, manifest: Manifest) -> dict[str, Path]:
    """The files of the templates that the pack's tasks and groups need, by path."""
    templates = read_templates(root)
    missing = [name for name in manifest.tasks if name not in templates.tasks]
    if missing:
        raise TemplateError(
            f"has no task {missing[0]}, which is in the pack",
            where=f"template_dir {root}",
            hint="Run this where the pack was prepared",
        )
    names = {PurePosixPath(file) for name in manifest.tasks for file in templates.tasks[name].files}
    names |= {templates.group_files[name] for name in manifest.groups if name in templates.group_files}
    return {name.as_posix(): locate_file(root, name) for name in sorted(names)}


def _template(root: Path, name: str, path: Path, manifest: Manifest) -> bytes:
    """Raises:
    TemplateError: It is not the file that made the pack, or holds a credential.
    """
    pack_file = manifest.files.get(name)
    if pack_file is not None and not name.endswith(".yaml") and hash_file(path) != pack_file.sha256:
        raise TemplateError(
            f"{name} differs from the template that made the pack",
            where=str(root),
            hint="Run `meta-eval prepare` again",
        )
    content = read_regular(path)
    if holds_secret(content.decode(errors="replace")):
        raise TemplateError("holds a credential, which would be published", where=str(path), hint="Take it out")
    return content


def _card(publication: Publication) -> str:
    """The dataset repository's page; it quotes no row."""
    rows = "\n".join(
        f"| `{name}` | {description['docs']:,} | `{description['dataset_id']}` | `{description['dataset_config']}` | "
        f"`{description['dataset_revision']}` |"
        for name, description in publication.contents.items()
    )
    return f"""---
tags:
- meta-eval
- lm-evaluation-harness
viewer: false
---

# A task pack without its rows

What makes a pack of `{publication.evals_dataset}` for lm-evaluation-harness: datasets and commits, tasks, settings,
templates, and the SHA-256 of every file, in `{PUBLICATION}`. Made by meta-eval {publication.meta_eval}. It holds no
question, no prompt and no answer: these stay in the evals dataset, under its licence and behind its gate.

Whoever has access to the rows makes the same pack of them:

```
meta-eval prepare --from FOLDER --set model_name=MODEL
```

where FOLDER is this repository on your disk, and not the folder that you stand in. meta-eval fetches the rows at the
commits below, runs its own templates and none of `{TEMPLATES}/`, and stops unless every file has the published SHA-256.

| task | docs | evals dataset | config | revision |
|---|--:|---|---|---|
{rows}
"""
