"""The catalog: the evals datasets that Meta published, their subsets, and the numbers that Meta published for them.

The facts stand in ``datasets.yaml``, ``published.yaml`` and ``gaps.yaml`` beside this file, each with its source; this
module reads them once, on first use. A mistake in them is a fault of meta-eval and raises a plain exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from meta_eval.catalog import dataset_names
from meta_eval.catalog.dataset_names import Identity, Variant

Averaging = Literal["macro", "micro", "mean of four"]
Percent = Annotated[float, Field(ge=0, le=100)]


class CatalogFact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Measured(CatalogFact):
    """How numbers were measured, as their source says it.

    Attributes:
        benchmark: The benchmark's name in the source.
        metric: As the source writes it, without its averaging: ``acc``, ``acc_char``, ``em``, ``f1``, ``pass@1``, …
        averaging: ``macro`` over subtasks, ``micro`` over docs, ``mean of four`` of IFEval's accuracies, or None.
        shots: As the source writes it (``5``, ``3-5``); None when it says nothing.
        cot: Whether the source says chain of thought.
        same_settings: Whether it was measured with the settings of the subset's rows; where it was not, it is the
            nearest number that there is, and ``note`` says what differs.
        note: What one must know before comparing with it.
    """

    benchmark: str
    metric: str
    averaging: Averaging | None = None
    shots: str | None = None
    cot: bool = False
    same_settings: bool = True
    note: str | None = None


class PublishedNumber(_Measured):
    """One number that Meta published for one model.

    Attributes:
        model: Model name without the organisation.
        subset: The details subset whose rows gave the number; None when no such rows were published.
        value: Percent, 0 to 100.
        source: The document that it stands in.
        commit: The commit at which that document was read; None for what has none.
    """

    model: str
    subset: str | None
    value: Percent
    source: str = Field(min_length=1)
    commit: str | None = None


class Reproduction(CatalogFact):
    """A score that others measured on the same rows. ``value`` is in percent; ``subset`` is None for other rows."""

    model: str
    subset: str | None
    value: Percent
    averaging: Averaging | Literal["mean of two"] | None = None
    source: str = Field(min_length=1)
    note: str | None = None


class Gap(CatalogFact):
    """A known, harmless reason why a score may differ from the published one, and what it applies to.

    A field that is empty applies to everything. ``recorded``: it is one for Meta's recorded answers already, whatever
    runs: the graders' or the published number's.
    """

    text: str
    source: str
    subsets: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    graded_by: str | None = None
    format: str | None = None
    recorded: bool = False


class Dataset(CatalogFact):
    """One published evals dataset.

    Attributes:
        id: Its id on the hub today.
        model: The model it is of, without the organisation.
        family: ``3.1``, ``3.2`` or ``3.3``.
        variant: ``instruct`` or ``pretrain``.
        licence: The licence tag of its card.
        gated: Whether its card carries a gate; None when not known.
        aliases: Ids that it had before.
    """

    id: str
    model: str
    family: str
    variant: Variant
    licence: str
    gated: bool | None
    aliases: tuple[str, ...]


class _SubsetList(CatalogFact):
    family: str
    variant: Variant
    subsets: tuple[str, ...]


class _Datasets(CatalogFact):
    subsets: tuple[_SubsetList, ...]
    datasets: tuple[Dataset, ...]


class _Row(_Measured):
    """One line of a source's table: the same benchmark for several models."""

    subset: str | tuple[str, ...] | None
    values: tuple[Percent | None, ...]


class _Table(CatalogFact):
    source: str
    commit: str | None = None
    models: tuple[str, ...]
    numbers: tuple[_Row, ...]

    @model_validator(mode="after")
    def _a_value_for_every_model(self) -> Self:
        for row in self.numbers:
            if len(row.values) != len(self.models):
                raise ValueError(f"{row.benchmark}: {len(row.values)} values for {len(self.models)} models")
        return self


class _Published(CatalogFact):
    tables: tuple[_Table, ...]
    reproduced: tuple[Reproduction, ...]


def canonical_id(dataset_id: str) -> str:
    """The id that an evals dataset has on the hub today: an old name translated, any other unchanged."""
    listed = find_dataset(dataset_id)
    return listed.id if listed else dataset_id


def is_listed(dataset_id: str) -> bool:
    """Whether this is one of the published evals datasets, by its present or an old id."""
    return find_dataset(dataset_id) is not None


def find_dataset(dataset_id: str) -> Dataset | None:
    """The published evals dataset of this present or old id; None when there is none."""
    return _datasets_by_id().get(dataset_id)


def list_dataset_ids() -> tuple[str, ...]:
    """The present ids of all published evals datasets, in the order of the catalog."""
    return tuple(entry.id for entry in _datasets().datasets)


def identify_dataset(dataset_id: str) -> Identity:
    """The family, variant and model that the name of an evals dataset stands for.

    From the catalog; for anything else from a last path component such as ``Llama-3.1-8B-Instruct-evals`` or
    ``Meta-Llama-3.1-8B-evals``, whatever stands before it; all None when the name says nothing.
    """
    listed = find_dataset(dataset_id)
    if listed:
        return Identity(listed.model, listed.family, listed.variant)
    return dataset_names.parse_identity(dataset_id)


def list_subsets(family: str, variant: str) -> tuple[str, ...]:
    """The details subsets that every evals dataset of a family and variant has, sorted; empty for an unknown pair."""
    for entry in _datasets().subsets:
        if (entry.family, entry.variant) == (family, variant):
            return tuple(sorted(entry.subsets))
    return ()


def list_numbers(model: str | None = None) -> tuple[PublishedNumber, ...]:
    """All published numbers, or those of a model, including benchmarks without a published subset."""
    if model is None:
        return tuple(number for of_model in _numbers().values() for number in of_model)
    return _numbers().get(model, ())


def find_published(model: str, subset: str) -> tuple[PublishedNumber, ...]:
    """The published numbers of a model on the rows of a subset; empty when there is none.

    Several differ in ``averaging``; those of ``infinite_bench``, which holds two benchmarks, in ``benchmark`` and
    ``metric``.
    """
    return tuple(number for number in list_numbers(model) if number.subset == subset)


def find_reproductions(model: str, subset: str) -> tuple[Reproduction, ...]:
    """Scores that others measured for a model on the rows of a subset, with the recipe's scoring; may be empty."""
    return tuple(entry for entry in _published().reproduced if (entry.model, entry.subset) == (model, subset))


@cache
def list_gaps() -> tuple[Gap, ...]:
    """The known reasons why scores differ, in the order in which they are said."""
    return tuple(map(Gap.model_validate, read_catalog("gaps.yaml")["gaps"]))


@cache
def _datasets() -> _Datasets:
    return _Datasets.model_validate(read_catalog("datasets.yaml"))


@cache
def _datasets_by_id() -> Mapping[str, Dataset]:
    return {name: entry for entry in _datasets().datasets for name in (entry.id, *entry.aliases)}


@cache
def _published() -> _Published:
    return _Published.model_validate(read_catalog("published.yaml"))


@cache
def _numbers() -> Mapping[str, tuple[PublishedNumber, ...]]:
    """The numbers of every model, in the order of the catalog."""
    of_model: dict[str, list[PublishedNumber]] = {}
    for table in _published().tables:
        for row in table.numbers:
            shared = row.model_dump(exclude={"subset", "values"}) | {"source": table.source, "commit": table.commit}
            row_subsets = row.subset if isinstance(row.subset, tuple) else (row.subset,)
            for model, value in zip(table.models, row.values, strict=True):
                if value is not None:
                    of_model.setdefault(model, []).extend(
                        PublishedNumber(model=model, subset=subset, value=value, **shared) for subset in row_subsets
                    )
    return {model: tuple(entries) for model, entries in of_model.items()}


def read_catalog(name: str) -> Any:
    """Read a YAML file of the catalog."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # an eighth of the time, where it was built
    return yaml.load(files(__name__).joinpath(name).read_text(encoding="utf-8"), loader)  # noqa: S506 (both are safe)
