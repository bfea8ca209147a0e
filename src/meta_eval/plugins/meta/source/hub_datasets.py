"""Evals datasets and originals on the Hugging Face hub: what their cards and file names say."""

from __future__ import annotations

from meta_eval.base.inputs import describe_error
from meta_eval.pack import hub
from meta_eval.pack.hub import Repository
from meta_eval.plugins.meta.catalog.dataset_names import NOBODY, Identity, merge_identities
from meta_eval.plugins.meta.source import card as cards
from meta_eval.plugins.meta.source.dataset import EvalsDataset, OriginalDataset
from meta_eval.sockets import SourceError, locating, read_regular


def open_evals_dataset(
    dataset_id: str, *, revision: str | None, identity: Identity, client: hub.HubClient | None = None
) -> EvalsDataset:
    """Open an evals dataset at the current commit of ``revision`` (None: the default branch).

    Without a network, or with ``HF_HUB_OFFLINE``, the cached commit of that revision is used.

    Args:
        dataset_id: Hub id; a former name is followed.
        revision: Branch, tag or commit.
        identity: The model that it belongs to; if unknown, its config names may show it.
        client: Access to the hub.

    Raises:
        SourceError: It is missing, gated, unreachable, or not an evals dataset.
    """
    repository = hub.open_repository(dataset_id, revision=revision, client=client)
    card = _read_card(repository)
    with locating(dataset_id):
        table, warnings = cards.find_subsets(card, repository.names)
    if not table:
        raise SourceError(
            "holds no evals dataset subset",
            where=dataset_id,
            hint="An evals dataset has configs such as Llama-3.1-8B-Instruct-evals__mmlu_pro__details",
        )
    if identity == NOBODY:
        identity = merge_identities(entry.config for entry in table.values())
    warnings += repository.warnings
    subsets = tuple(sorted(table))
    metrics = cards.find_metrics(card, repository.names)
    return EvalsDataset(
        "hub", dataset_id, repository.revision, identity, subsets, table, repository.fetch_file, warnings, metrics
    )


def open_original(dataset_id: str, *, revision: str | None, client: hub.HubClient | None = None) -> OriginalDataset:
    """Open an original dataset at the current commit of ``revision`` (None: the default branch).

    Raises:
        SourceError: It is missing, gated or unreachable.
    """
    repository = hub.open_repository(dataset_id, revision=revision, client=client)
    card = _read_card(repository)
    return OriginalDataset(
        dataset_id,
        repository.revision,
        lambda split: cards.split_files(card, repository.names, split),
        repository.fetch_file,
    )


def _read_card(repository: Repository) -> str | None:
    """The text of a dataset's card; None if it has none."""
    if cards.CARD not in repository.names:
        return None
    try:
        return read_regular(repository.fetch_file(cards.CARD).path, limit=cards.MAX_CARD_BYTES).decode(
            "utf-8", "replace"
        )
    except OSError as error:
        raise SourceError(
            f"{cards.CARD} cannot be read: {describe_error(error)}", where=repository.dataset_id
        ) from None
