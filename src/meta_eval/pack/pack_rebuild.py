"""Rebuilds a published pack without trusting its publisher.

A publication names the rows to fetch: datasets at commits, tasks, and settings that change docs. Nothing else in it
reaches a command, a path or the pack. Templates, published scores and thresholds come from this machine. Model, engine
and folders come from the reader. Any difference from the publication is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval import assets
from meta_eval.boundary.paths import is_in
from meta_eval.config import Config, ValuePlace, load_config, open_config
from meta_eval.joins import JOINS
from meta_eval.messages.errors import ConfigError, DataError, PackError, TemplateError
from meta_eval.messages.logs import log, report_progress
from meta_eval.pack.meta_pack import Prepared, assemble_pack
from meta_eval.pack.pack_writer import check_target, write_pack
from meta_eval.pack.publication import PUBLICATION, Publication, describe_pack, find_differences, read_publication
from meta_eval.pack.punkt import NLTK_DATA
from meta_eval.templates.template_folder import read_templates
from meta_eval.verb_options import PrepareOptions

_MOST = 5


def rebuild_pack(config: Config | Path | str | None, folder: Path, options: PrepareOptions) -> Prepared:
    """Rebuild the pack of a publication from rows that are fetched here, and check that it is the same.

    Args:
        config: The reader's configuration: model, engine, folders. Its datasets and tasks do not count. None for none.
        folder: The publication.
        options: The reader's overrides and templates.

    Raises:
        PackError: The folder is not a publication, or is damaged.
        ConfigError: A setting would make another pack, or would be taken from the publication.
        TemplateError: The templates here lack a task.
        SourceError: The rows cannot be had.
        DataError: The result differs from the publication.
    """
    published = read_publication(folder)
    template_dir, file = options.template_dir, Path(config) if isinstance(config, Path | str) else None
    _refuse_inside(folder, {"the working directory": Path(), "--config": file, "--template-dir": template_dir})
    config = _config(published, config, options.overrides)
    _refuse_inside(folder, {f"{name} {text}": Path(text) for name, text in _paths(config)})
    _refuse_local_rows(published)
    _warn_of_originals(published)
    config = config.model_copy(
        update={"allow_code": published.allow_code, "template_dir": str(_templates(folder, published, template_dir))}
    )
    check_target(Path(config.work_dir))
    pack = assemble_pack(config, ValuePlace(str(folder)))
    _compare(folder, published, describe_pack(folder, pack.manifest))
    report_progress(f"writing {config.work_dir}")
    write_pack(Path(config.work_dir), pack.files, pack.manifest)
    return Prepared(pack.manifest, config.work_dir)


def _paths(config: Config) -> Iterator[tuple[str, str]]:
    """The reader's settings that may name a file or folder, each with its name."""
    for name in ("model_name", "other_models", "tokenizer", "work_dir", "output_path", "model_args"):
        value = getattr(config, name)
        values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        yield from ((name, text) for text in values if isinstance(text, str))


def _refuse_inside(folder: Path, folders: Mapping[str, Path | None]) -> None:
    """Raises:
    ConfigError: The reader would take settings, code or a model from the publication, or write into it.
    """
    for what, path in folders.items():
        if path is not None and is_in(path, folder):
            raise ConfigError(
                f"is inside the publication {folder}, where only {PUBLICATION} is used",
                where=what,
                hint="Work in another folder, and name files and folders outside the publication",
            )


def _config(published: Publication, config: Config | Path | str | None, overrides: Sequence[str]) -> Config:
    """The reader's configuration with the published rows."""
    decided: dict[str, Any] = {
        "evals_dataset": published.evals_dataset,
        "evals_revision": published.evals_revision,
        "evals_run": None,
        "baseline": None,
        "tasks": list(published.tasks),
        "originals": {name: original.model_dump() for name, original in published.originals.items()},
        "apply_chat_template": False,
        "fewshot_as_multiturn": True,
        "system_instruction": None,
        "bundle": published.bundle,
        "choice_scoring": published.choice_scoring,
        "allow_unmatched": published.allow_unmatched,
    }
    for override in overrides:
        key = override.partition("=")[0].partition(".")[0].strip()
        if key == "template_dir":
            raise ConfigError(
                "cannot be set with --from", where=f"--set {override:.200}", hint="Use --template-dir DIR"
            )
        if key in decided:
            raise ConfigError(
                f"{key} is fixed by the publication; a different value would make a different pack",
                where=f"--set {override:.200}",
                hint="Set only the model, its engine and folders, or leave --from out",
            )
    overrides = [*overrides, *(f"{key}={json.dumps(value)}" for key, value in decided.items())]
    config_of_user = load_config(None, overrides) if config is None else open_config(config, overrides)[0]
    if published.allow_code and not config_of_user.allow_code:
        raise ConfigError(
            "some of its tasks run model-written code",
            where=PUBLICATION,
            hint="To allow it on this machine, add --set allow_code=true",
        )
    return config_of_user


def _refuse_local_rows(published: Publication) -> None:
    """Raises:
    PackError: A folder here has the name of a hub dataset and would be read instead of it.
    """
    for name in (published.evals_dataset, *(original.id for original in published.originals.values())):
        if "/" in name and Path(name).exists():
            raise PackError(
                "is a local folder, and would be read instead of the hub dataset of the same name",
                where=name,
                hint="Work in another folder",
            )


def _warn_of_originals(published: Publication) -> None:
    for join, original in published.originals.items():
        join_original = JOINS[join].original if join in JOINS else None
        if join_original is None or original.id not in (join_original.id, join_original.fallback):
            log.warning(f"the publication reads the ground truth of {join} from {original.id} instead of the default")


def _templates(folder: Path, published: Publication, template_dir: Path | None) -> Path:
    """The templates that make the pack: the shipped ones, or those that the reader named.

    Raises:
        ConfigError: They lead into the publication.
        TemplateError: They lack a task.
    """
    root = assets.asset_path("meta_template") if template_dir is None else template_dir
    templates = read_templates(root)
    if template_dir is not None:
        links = [path for path in root.rglob("*") if path.is_symlink()]
        _refuse_inside(folder, {f"--template-dir, {path}": path for path in links})
    missing = [name for name in published.contents if name not in templates.tasks]
    if missing:
        raise TemplateError(f"has no task {missing[0]}, which is in the pack", where=str(root), hint=_hint(folder))
    return root.absolute()


def _hint(folder: Path) -> str:
    return (
        f"Read {folder / 'templates'}: that code is never run from there. Where you trust it, copy it to a folder of "
        "your own and name that with --template-dir"
    )


def _compare(folder: Path, published: Publication, rebuilt: Publication) -> None:
    """Raises:
    DataError: The rebuilt pack differs from the publication.
    """
    other = find_differences(published, rebuilt, most=_MOST + 1)
    if not other:
        return
    more = " and more" if len(other) > _MOST else ""
    hint = f"It was made by meta-eval {published.meta_eval}"
    if any(key.startswith(f"files.{NLTK_DATA}/") for key in other):
        hint = "One machine has nltk's Punkt model and one has not: python -m nltk.downloader punkt_tab"
    elif any(key.startswith("files.") and ".parquet." not in key for key in other):
        hint = f"Other templates made it, or another version ({published.meta_eval}). {_hint(folder)}"
    elif published.choice_scoring == "next_token":
        hint += ", and docs hold the tokens of the model that it was made for (choice_scoring: next_token)"
    raise DataError(
        f"these files differ from the published ones: {', '.join(other[:_MOST])}{more}", where=str(folder), hint=hint
    )
