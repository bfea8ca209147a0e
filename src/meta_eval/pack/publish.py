"""A pack without its rows, for others to rebuild: templates, manifest and hashes, as a dataset repository.

Rows are gated, and a pack quotes them. What makes a pack of them is not: the same templates, the same commits of the
datasets and the same settings give the same bytes. So these are published, and whoever has access to the rows makes
the pack anew and is told whether it is the very one. Nothing that was published is run: the templates that work are
those of the reader's own machine, and must be the published ones byte for byte.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from meta_eval import assets
from meta_eval.boundary.outputs import replacing_folder
from meta_eval.config import Config
from meta_eval.engines import ENGINES
from meta_eval.errors import DataError, PackError, TemplateError
from meta_eval.notes import Progress, silent
from meta_eval.pack.integrity import check, sha256_of
from meta_eval.pack.manifest import MANIFEST, Manifest, PreparedFrom, read_manifest
from meta_eval.pack.prepare import Prepared, assemble
from meta_eval.pack.write import check_target, write_pack
from meta_eval.source.open import SAMPLE
from meta_eval.templates.folder import discover, place_of

TEMPLATES = "templates"
HASH = "manifest.sha256"
_MOST = 5


@dataclass(frozen=True, slots=True)
class Publication:
    """What was written: the folder, the templates in it, and the files of the pack that it does not hold."""

    folder: Path
    templates: tuple[str, ...]
    withheld: tuple[str, ...]


def publish(pack: Path, folder: Path) -> Publication:
    """Write what may be published of a pack, whole or not at all.

    Args:
        pack: The folder that prepare wrote.
        folder: Where to write; a publication that is there is replaced, any other folder is refused.

    Raises:
        PackError: The folder is no pack, was edited, or its rows are on no hub.
        TemplateError: The templates that made it are not here.
        OutputError: The folder cannot be written.
    """
    manifest = read_manifest(pack)
    check(pack, manifest, edited=False)
    _refuse_what_nobody_can_rebuild(pack, manifest)
    root = _templates(manifest.prepared_from)
    files = _template_files(root, manifest)
    for name, source in files.items():
        of_pack = manifest.files.get(name)
        if of_pack is not None and not name.endswith(".yaml") and sha256_of(source) != of_pack.sha256:
            raise TemplateError(
                f"{name} is not the one that made the pack", where=str(root), hint="Run `meta-eval prepare` again"
            )
    with replacing_folder(folder, marker=HASH, inputs=[pack, root]) as out:
        for name, source in files.items():
            target = out / TEMPLATES / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
        content = (pack / MANIFEST).read_bytes()
        (out / MANIFEST).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        (out / HASH).write_text(f"{digest}  {MANIFEST}\n", encoding="utf-8")
        (out / "README.md").write_text(_card(manifest, digest), encoding="utf-8")
    return Publication(folder, tuple(files), tuple(name for name in manifest.files if name not in files))


def rebuild(folder: Path, work_dir: str | None = None, *, progress: Progress = silent) -> Prepared:
    """Make the pack of a publication anew, of rows that are fetched here, and check that it is the same.

    Args:
        folder: The publication.
        work_dir: Where; None for the name that the published pack had. With this name the manifest is the same too.
        progress: Called with what is being done.

    Raises:
        PackError: The folder is no publication, or was damaged.
        TemplateError: The templates here are not the published ones.
        SourceError: The rows cannot be had.
        DataError: What came out is not what was published.
    """
    published = _read(folder)
    target = work_dir if work_dir is not None else published.run.include_path
    config = _config(published, target)
    check_target(Path(target))
    _same_templates(folder, _templates(published.prepared_from), published)
    made = assemble(config, str(folder), progress)
    names = sorted(made.manifest.files.keys() | published.files.keys())
    other = [name for name in names if made.manifest.files.get(name) != published.files.get(name)]
    if other:
        more = f" and {len(other) - _MOST} more" if len(other) > _MOST else ""
        raise DataError(
            f"what came out is not what was published: {', '.join(other[:_MOST])}{more}",
            where=str(folder),
            hint=f"It was made by meta-eval {published.meta_eval}, of the revisions that its {MANIFEST} names",
        )
    run = published.run.model_copy(update={"include_path": target})
    manifest = published.model_copy(update={"run": run, "command": ENGINES[run.backend].command(run)})
    progress(f"writing {target}")
    write_pack(Path(target), made.files, manifest)
    return Prepared(manifest, target)


def _read(folder: Path) -> Manifest:
    try:
        said = (folder / HASH).read_text(encoding="ascii").split()
        found = sha256_of(folder / MANIFEST)
    except (OSError, UnicodeError):
        raise PackError(
            f"holds no {HASH} beside a {MANIFEST}, so it is no publication",
            where=str(folder),
            hint="Name a folder that `meta-eval publish` wrote",
        ) from None
    if said[:1] != [found]:
        raise PackError(f"{MANIFEST} does not have the SHA-256 of {HASH}", where=str(folder), hint="Fetch it again")
    return read_manifest(folder)


def _config(published: Manifest, work_dir: str) -> Config:
    """The configuration that the published pack was made of, its datasets at the commits that were read."""
    asked = published.prepared_from
    given = {name: getattr(published.run, name) for name in Config.model_fields if hasattr(published.run, name)}
    given |= {name: getattr(asked, name) for name in PreparedFrom.model_fields if name in Config.model_fields}
    revisions = {entry.dataset_revision for entry in published.tasks.values()}
    if asked.evals_dataset != SAMPLE and len(revisions) == 1:
        given["evals_revision"] = revisions.pop()
    given |= {"work_dir": work_dir, "originals": {name: one.model_dump() for name, one in asked.originals.items()}}
    return Config.model_validate(
        {key: value for key, value in given.items() if key != "tasks"} | {"tasks": asked.tasks}
    )


def _refuse_what_nobody_can_rebuild(pack: Path, manifest: Manifest) -> None:
    of_record = [name for name, entry in manifest.tasks.items() if entry.record is not None]
    if of_record:
        raise PackError(
            f"{of_record[0]} is made of a run or of lm-eval's own tasks, whose docs are on no hub",
            where=str(pack),
            hint="Only packs of published evals datasets can be made anew by others",
        )
    if manifest.prepared_from.baseline is not None:
        raise PackError(
            "it holds the answers of a baseline, a run of yours that others do not have",
            where=str(pack),
            hint="Prepare it with baseline: null",
        )
    source = manifest.prepared_from.evals_dataset
    if source != SAMPLE and Path(source).expanduser().exists():
        raise PackError(
            f"its rows come from {source}, a folder of this machine",
            where=str(pack),
            hint="Prepare it of the evals dataset's id on the hub",
        )


def _templates(asked: PreparedFrom) -> Path:
    path = Path(asked.template_dir)
    return path if path.is_dir() else assets.path("meta_template")


def _template_files(root: Path, manifest: Manifest) -> dict[str, Path]:
    """The files of the templates that the pack's tasks and groups need, by path."""
    found = discover(root)
    missing = [name for name in manifest.tasks if name not in found.tasks]
    if missing:
        raise TemplateError(
            f"has no task {missing[0]}, of which the pack is made",
            where=f"template_dir {root}",
            hint="Run this where the pack was prepared",
        )
    names = {PurePosixPath(file) for name in manifest.tasks for file in found.tasks[name].files}
    names |= {found.group_files[name] for name in manifest.groups if name in found.group_files}
    return {name.as_posix(): place_of(root, name) for name in sorted(names)}


def _same_templates(folder: Path, root: Path, published: Manifest) -> None:
    """Raises:
    TemplateError: A template here is not the published one: published code is read by people, and run by nobody.
    """
    ours = _template_files(root, published)
    base = folder / TEMPLATES
    theirs = {path.relative_to(base).as_posix(): path for path in base.rglob("*") if path.is_file()}
    other = [
        name
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or sha256_of(ours[name]) != sha256_of(theirs[name])
    ]
    if other:
        raise TemplateError(
            f"{', '.join(other[:_MOST])}{' and more' if len(other) > _MOST else ''} here and in the publication "
            "differ, and published code is not run",
            where=str(root),
            hint=f"Read {base}; where you trust it, copy it to {published.prepared_from.template_dir}",
        )


def _card(manifest: Manifest, digest: str) -> str:
    """The dataset repository's page; not a word of any row."""
    asked = manifest.prepared_from
    rows = "\n".join(
        f"| `{name}` | {entry.docs:,} | `{entry.dataset_id}` | `{entry.dataset_config}` | `{entry.dataset_revision}` |"
        for name, entry in manifest.tasks.items()
    )
    return f"""---
tags:
- meta-eval
- lm-evaluation-harness
viewer: false
---

# A task pack without its rows

The templates, the manifest and the hashes of a pack of `{asked.evals_dataset}` for lm-evaluation-harness, made by
meta-eval {manifest.meta_eval}. It holds no question, no prompt and no answer: these stay in the evals dataset, under
its licence and behind its gate.

Whoever has access to the rows makes the same pack of them, byte for byte:

```
meta-eval prepare --from FOLDER
```

where FOLDER is this repository on your disk. It fetches the rows at the revisions below, and stops unless every file
has the SHA-256 that `{MANIFEST}` says. The manifest itself has `{digest}`.

| task | docs | evals dataset | config | revision |
|---|--:|---|---|---|
{rows}
"""
