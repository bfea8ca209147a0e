"""The ``metadata: {meta_eval: …}`` block of a template, and its settings as lm-eval reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from meta_eval.catalog.dataset_names import Variant
from meta_eval.joins import JOINS
from meta_eval.messages.errors import suggestion
from meta_eval.thresholds import MAX_GEN_TOKS, MIN_AGREEMENT

FormatStatus = Literal["verified", "documented", "assumed"]
GradedBy = Literal["program", "judge"]

# How docs show that they share something: by the ``passage`` before their question, the last line of the prompt that
# neither asks nor answers; by the ``document`` that they are about, the prompt's longest line; or as ``parallel``, the
# n-th docs of all subtasks being one question (where their golds differ: those with the same gold).
ClusterRule = Literal["passage", "document", "parallel"]


class FunctionRef(str):
    """The text behind ``!function``: ``utils.process_docs``, a path beside the YAML and a name in it."""

    @property
    def module_file(self) -> str:
        return self.rpartition(".")[0] + ".py"

    @property
    def function(self) -> str:
        return self.rpartition(".")[2]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedMetric(_Block):
    """Which published number a metric of this task answers.

    ``metric`` is written as lm-eval writes it, with its filter (``exact_match_macro,strict-match``); ``averaging`` and
    ``benchmark`` say which number of the subset is meant where the catalog has several.
    """

    metric: str = Field(min_length=1)
    averaging: str | None = None
    benchmark: str | None = None


class TaskSpec(_Block):
    """``metadata.meta_eval`` of a template.

    ``subset`` is the details subset that it reads; ``variants`` and ``families`` the evals datasets that it fits;
    ``join`` the original dataset that brings its ground truth, row by row or as a table of its own; ``groups`` the
    groups that it belongs to, for which families; ``aliases`` other names that a user may ask for it by; ``format``
    what the template's idea of the rows rests on: real rows seen, documented, or assumed; ``cluster`` how docs show
    that they share a question or a passage (without it, unless process_docs makes a column ``cluster``, each stands
    alone).

    How verify judges it: ``verdict`` the metric, written as lm-eval writes it, that says whether one answer is right
    (without it the first metric under the first filter); ``recorded_metric`` the name among the recorded metrics that
    it is compared with where that is no yes or no (without it the metric's own name); ``reading`` another metric, for
    where ``is_correct`` does not say whether an answer is right: what it says instead, read from our verdicts. verify
    then compares it with this metric, and nothing compares it with a verdict; ``graded_by`` what gave Meta's
    verdicts; ``min_agreement`` the share of docs, 0 to 1, on which both must agree (without it `MIN_AGREEMENT`).
    """

    subset: str = Field(min_length=1)
    variants: tuple[Variant, ...] = Field(min_length=1)
    families: tuple[str, ...] = Field(min_length=1)
    join: str | None = None
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    published: tuple[PublishedMetric, ...] = ()
    format: FormatStatus = "assumed"
    cluster: ClusterRule | None = None
    verdict: str | None = Field(default=None, pattern=r"^[^,]+,[^,]+$")
    recorded_metric: str | None = Field(default=None, min_length=1)
    reading: str | None = Field(default=None, pattern=r"^[^,]+,[^,]+$")
    graded_by: GradedBy = "program"
    min_agreement: float | None = Field(default=None, ge=0, le=1, strict=True)

    @field_validator("join")
    @classmethod
    def _known_join(cls, name: str | None) -> str | None:
        if name is not None and name not in JOINS:
            raise ValueError(f"unknown join{suggestion(name, JOINS)}; joins: {', '.join(JOINS)}")
        return name

    @field_validator("groups", mode="before")
    @classmethod
    def _list_means_all_families(cls, value: object) -> object:
        names = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return dict.fromkeys(value, ()) if names else value  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Template:
    """One task template.

    Attributes:
        name: The task's name, ``meta_mmlu_pro_instruct``.
        file: Its YAML, relative to the template folder.
        spec: Its ``metadata.meta_eval`` block.
        settings: The whole task configuration with every include merged in, ``!function`` as `FunctionRef`.
        inherited: The keys that its includes set.
        origins: For each ``!function`` key in ``settings``, the folder (relative) that it counts from.
        files: Every file below the template folder that it needs, itself and its includes first, sorted.
    """

    name: str
    file: PurePosixPath
    spec: TaskSpec
    settings: Mapping[str, Any]
    inherited: frozenset[str]
    origins: Mapping[str, PurePosixPath]
    files: tuple[PurePosixPath, ...]

    @property
    def process_docs(self) -> tuple[PurePosixPath, str] | None:
        """The module (relative) and the name of the function that makes docs of rows; None when rows are docs."""
        reference = self.settings.get("process_docs")
        if not isinstance(reference, FunctionRef):
            return None
        return self.origins["process_docs"] / reference.module_file, reference.function

    @property
    def modules(self) -> tuple[tuple[str, PurePosixPath], ...]:
        """Each key that names functions, with the module (relative) of each."""
        return tuple(
            (key, self.origins[key] / reference.module_file)
            for key, value in self.settings.items()
            for reference in find_functions(value)
        )

    @property
    def max_gen_toks(self) -> int:
        """Tokens that an answer may have; 0 for a choice task, and lm-eval's 256 where a template names none."""
        if self.output_type != "generate_until":
            return 0
        return int((self.settings.get("generation_kwargs") or {}).get("max_gen_toks", MAX_GEN_TOKS))

    @property
    def output_type(self) -> str:
        return str(self.settings.get("output_type", "generate_until"))

    @property
    def unsafe_code(self) -> bool:
        """Whether scoring runs code that the model wrote."""
        return bool(self.settings.get("unsafe_code"))

    @property
    def verdict(self) -> str:
        """The primary metric: the ``metric,filter`` that says whether an answer is right."""
        return self.spec.verdict or f"{self.metrics[0]},{self.filters[0]}"

    @property
    def min_agreement(self) -> float:
        given = self.spec.min_agreement
        return MIN_AGREEMENT[self.spec.graded_by] if given is None else given

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics; at least one."""
        return _names(self.settings.get("metric_list"), "metric") or ("exact_match",)

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of its filters; lm-eval's ``none`` where it has none of its own."""
        return _names(self.settings.get("filter_list"), "name") or ("none",)

    def in_group(self, group: str, family: str | None) -> bool:
        families = self.spec.groups.get(group)
        if families is None:
            return False
        return family is None or family in (families or self.spec.families)


def _names(items: object, key: str) -> tuple[str, ...]:
    return tuple(str(item[key]) for item in items if key in item) if isinstance(items, list) else ()


def find_functions(value: object) -> Iterable[FunctionRef]:
    """Every ``!function`` in a value of a YAML, however deep."""
    if isinstance(value, FunctionRef):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from find_functions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_functions(inner)
