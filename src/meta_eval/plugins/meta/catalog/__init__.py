"""The catalog: Meta's evals datasets, their subsets, and the scores that Meta published for them.

The facts and their sources are in ``datasets.yaml``, ``published.yaml`` and ``gaps.yaml`` beside this file. They are
read on first use. An error in them is a bug of meta-eval and raises a plain exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from meta_eval.pack.templates.spec import Variant
from meta_eval.plugins.meta.catalog import dataset_names
from meta_eval.plugins.meta.catalog.dataset_names import Identity

_Averaging = Literal["macro", "micro", "mean of four"]
Percent = Annotated[float, Field(ge=0, le=100)]


class CatalogFact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class _Measured(CatalogFact):
    """How a score was measured, according to its source."""

    benchmark: str
    """The benchmark's name in the source."""

    metric: str
    """The metric as in the source, without averaging: ``acc``, ``acc_char``, ``em``, ``f1``, ``pass@1``, …"""

    averaging: _Averaging | None = None
    """``macro`` over subtasks, ``micro`` over docs, ``mean of four`` of IFEval's accuracies, or None."""

    shots: str | None = None
    """As in the source (``5``, ``3-5``). None if not stated."""

    cot: bool = False
    """Whether the source states chain of thought."""

    same_settings: bool = True
    """Whether the settings are those of the subset's rows. If not, this is the nearest score, and ``note`` says what
    differs."""

    note: str | None = None
    """What to know before you compare with it."""


class PublishedNumber(_Measured):
    """A score that Meta published for a model."""

    model: str
    """Model name without the organisation."""

    subset: str | None
    """The details subset whose rows gave the score. None if no such rows were published."""

    value: Percent
    """Percent, 0 to 100."""

    source: str = Field(min_length=1)
    """The document."""

    commit: str | None = None
    """The commit at which the document was read. None if it has none."""


class Reproduction(CatalogFact):
    """A score that others measured on the same rows. ``value`` is in percent. ``subset`` is None for other rows."""

    model: str
    subset: str | None
    value: Percent
    averaging: _Averaging | Literal["mean of two"] | None = None
    source: str = Field(min_length=1)
    note: str | None = None


class Gap(CatalogFact):
    """A known, harmless reason why a score may differ from the published score, and where it applies.

    An empty field applies to everything. ``recorded``: the reason also applies to Meta's recorded answers, because it
    lies in the graders or in the published score.
    """

    text: str
    source: str
    subsets: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    graded_by: str | None = None
    row_format: str | None = None
    recorded: bool = False


class Dataset(CatalogFact):
    """A published evals dataset."""

    id: str
    """Its current id on the hub."""

    model: str
    """Its model, without the organisation."""

    family: str
    """``3.1``, ``3.2`` or ``3.3``."""

    variant: Variant
    """``instruct`` or ``pretrain``."""

    licence: str
    """The licence tag of its card."""

    gated: bool | None
    """Whether its card declares a gate. None if unknown."""

    aliases: tuple[str, ...]
    """Former ids."""


class _SubsetList(CatalogFact):
    family: str
    variant: Variant
    subsets: tuple[str, ...]


class _Datasets(CatalogFact):
    subsets: tuple[_SubsetList, ...]
    datasets: tuple[Dataset, ...]


class _Row(_Measured):
    """A line of a source's table: a benchmark for several models."""

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


def find_canonical_id(dataset_id: str) -> str:
    """The current hub id of an evals dataset. Former ids are translated; unknown ids stay the same."""
    listed = find_dataset(dataset_id)
    return listed.id if listed else dataset_id


def is_listed(dataset_id: str) -> bool:
    """Whether an id, current or former, is a published evals dataset."""
    return find_dataset(dataset_id) is not None


def find_dataset(dataset_id: str) -> Dataset | None:
    """Find a published evals dataset by its current or former id. None if there is none."""
    return _datasets_by_id().get(dataset_id)


def list_dataset_ids() -> tuple[str, ...]:
    """The current ids of all published evals datasets, in catalog order."""
    return tuple(entry.id for entry in _datasets().datasets)


def identify_dataset(dataset_id: str) -> Identity:
    """The family, variant and model of an evals dataset.

    They come from the catalog, or from the last part of a name such as ``Llama-3.1-8B-Instruct-evals`` or
    ``Meta-Llama-3.1-8B-evals``. All None if the name fits neither.
    """
    listed = find_dataset(dataset_id)
    if listed:
        return Identity(listed.model, listed.family, listed.variant)
    return dataset_names.parse_identity(dataset_id)


def list_subsets(family: str, variant: str) -> tuple[str, ...]:
    """The details subsets that every evals dataset of a family and variant has, sorted. Empty for an unknown pair."""
    for entry in _datasets().subsets:
        if (entry.family, entry.variant) == (family, variant):
            return tuple(sorted(entry.subsets))
    return ()


def list_numbers(model: str | None = None) -> tuple[PublishedNumber, ...]:
    """All published scores, or those of a model. Includes benchmarks without a published subset."""
    if model is None:
        return tuple(number for of_model in _numbers().values() for number in of_model)
    return _numbers().get(model, ())


def find_published(model: str, subset: str) -> tuple[PublishedNumber, ...]:
    """The published scores of a model on the rows of a subset. May be empty.

    Several scores differ in ``averaging``. Those of ``infinite_bench``, which holds two benchmarks, differ in
    ``benchmark`` and ``metric``.
    """
    return tuple(number for number in list_numbers(model) if number.subset == subset)


def find_reproductions(model: str, subset: str) -> tuple[Reproduction, ...]:
    """Scores that others measured for a model on the rows of a subset, with the recipe's scoring. May be empty."""
    return tuple(entry for entry in _published().reproduced if (entry.model, entry.subset) == (model, subset))


@cache
def list_gaps() -> tuple[Gap, ...]:
    """Known reasons for differing scores, in the order in which reports name them."""
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
    """The scores of every model, in catalog order."""
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
    return parse_catalog(read_catalog_text(name))


def read_catalog_text(name: str) -> str:
    """Read the text of a file of the catalog."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def parse_catalog(text: str) -> Any:
    """Parse the YAML of a file of the catalog."""
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe; C is quicker)
