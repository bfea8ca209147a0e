"""Finds the source of a name in the configuration: the sample, a local folder, or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meta_eval.base.errors import UnreachableError, suggest_name
from meta_eval.base.inputs import expand_home, suggest_path
from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import SAMPLE
from meta_eval.plugins.meta.source.dataset import EvalsDataset, OriginalDataset, Subset
from meta_eval.sockets import ConfigError, SourceError, log


def open_evals_dataset(name: str, *, revision: str | None = None) -> Sequence[EvalsDataset]:
    """Open the evals datasets of a name: several for the embedded sample, which has a dataset for each model.

    Args:
        name: ``sample``, a local folder, or a hub id.
        revision: A branch, tag or commit of a hub dataset; None for the newest.

    Raises:
        ConfigError: The name is neither an existing path nor a hub id.
        SourceError: The hub does not have it or does not give it.
    """
    if name == SAMPLE:
        from meta_eval.plugins.meta.source import sample

        return sample.list_parts()
    dataset: EvalsDataset
    if _is_path(name, "evals_dataset"):
        from meta_eval.plugins.meta.source import local_folder

        dataset = local_folder.open_evals_dataset(name, identity=catalog.identify_dataset(name))
    else:
        from meta_eval.plugins.meta.source import hub_datasets

        dataset_id = catalog.find_canonical_id(name)
        if dataset_id != name:
            log.warning(f"{name} is now called {dataset_id}")
        if not catalog.is_listed(dataset_id):
            near = suggest_name(dataset_id, catalog.list_dataset_ids())
            log.warning(
                f"{dataset_id} is not one of the evals datasets that Meta published for Llama 3.1, 3.2 and 3.3{near}"
            )
        log.warning(f"asking the hub for {dataset_id}")
        try:
            dataset = hub_datasets.open_evals_dataset(
                dataset_id, revision=revision, identity=catalog.identify_dataset(dataset_id)
            )
        except UnreachableError as error:
            hint = f"{error.hint}; or set evals_dataset to a local folder, or to `{SAMPLE}`"
            raise UnreachableError(error.what, where=error.where, hint=hint) from None
    for warning in dataset.warnings:
        log.warning(warning)
    return (dataset,)


def find_listed_dataset(name: str) -> EvalsDataset | None:
    """Find a published evals dataset in the catalog, which lists its subsets without asking the hub.

    None for any other name.
    """
    dataset_id = catalog.find_canonical_id(name)
    if not catalog.is_listed(dataset_id) or Path(name).exists():
        return None
    identity = catalog.identify_dataset(dataset_id)
    subsets = catalog.list_subsets(str(identity.family), str(identity.variant))
    stem = dataset_id.partition("/")[2]
    table = {subset: Subset(f"{stem}__{subset}__details", (subset,)) for subset in subsets}

    def refuse(subset: str) -> DataFile:
        raise SourceError("has no file here, only an entry in the catalog", where=f"{dataset_id}, subset {subset}")

    return EvalsDataset("hub", dataset_id, "", identity, subsets, table, refuse)


def open_original(name: str, *, revision: str | None, where: str) -> OriginalDataset:
    """An original dataset: a local file or folder, or one of the hub.

    Raises:
        ConfigError: The name is neither an existing path nor a hub id, or a path with a revision; ``where`` is its key.
        SourceError: The hub does not have it or does not give it.
    """
    if _is_path(name, where):
        if revision is not None:
            raise ConfigError(
                f"names a hub commit, but {name} is local", where=f"{where}.revision", hint="Leave it out"
            )
        from meta_eval.plugins.meta.source import local_folder

        return local_folder.open_original(name)
    from meta_eval.plugins.meta.source import hub_datasets

    return hub_datasets.open_original(name, revision=revision)


def is_hub_id(name: str) -> bool:
    """Whether a name has the form of an id on the hub, ``owner/name``."""
    return not name.startswith((".", "/", "~")) and name.count("/") == 1


def _is_path(name: str, where: str) -> bool:
    """Whether a name is a path on this machine. A name that is neither a path nor a hub id is refused."""
    path = expand_home(name, where=where)
    if path.exists():
        return True
    if not is_hub_id(name):
        meta = f"meta-llama/{catalog.identify_dataset(name).model}-evals"
        near = (
            f"; did you mean {meta!r}?"
            if catalog.is_listed(meta)
            else suggest_name(name, [SAMPLE]) or suggest_path(path)
        )
        raise ConfigError(
            f"{name!r} is neither a file, a folder nor a hub id{near}",
            where=where,
            hint="Name a hub id (owner/name), a local folder, or `sample`",
        )
    return False
