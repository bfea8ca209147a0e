"""The ``metadata: {meta_eval: …}`` block of a template, and its settings as lm-eval reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from meta_eval.base.thresholds import MAX_GEN_TOKS, MIN_AGREEMENT

Variant = Literal["instruct", "pretrain"]
FormatStatus = Literal["seen", "documented", "assumed"]
GradedBy = Literal["program", "judge"]

# How to find docs that share something. ``passage``: the text before the question, which is the prompt's last line that
# neither asks nor answers. ``document``: the prompt's longest line. ``parallel``: the n-th docs of all subtasks are the
# same question (if golds differ, those with the same gold).
ClusterRule = Literal["passage", "document", "parallel"]


class FunctionRef(str):
    """The text after ``!function``, such as ``utils.process_docs``: a module next to the YAML and a name in it."""

    @property
    def module_file(self) -> str:
        return self.rpartition(".")[0] + ".py"

    @property
    def function(self) -> str:
        return self.rpartition(".")[2]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PublishedMetric(_Block):
    """The published score that a metric of this task is compared with.

    ``metric`` includes its filter, as in lm-eval (``exact_match_macro,strict-match``). ``averaging`` and ``benchmark``
    select a score if the catalog has several for the subset.
    """

    metric: str = Field(min_length=1)
    averaging: Literal["macro", "micro", "mean of four"] | None = None
    benchmark: str | None = None


class TaskSpec(_Block):
    """``metadata.meta_eval`` of a template.

    Which rows it reads:

    - ``subset``: the details subset.
    - ``variants`` and ``families``: the evals datasets that it fits.
    - ``join``: the original dataset with its ground truth, row by row or as a separate table.
    - ``groups``: its groups, and for which families.
    - ``aliases``: other names for it.
    - ``copy_of``: the task of which this is a copy. It says that groups, aliases, published and row_format, where they
    are still those of that task, are meant for this task too.
    - ``row_format``: how the layout of the rows is known: seen in real rows, documented, or assumed. A checkout before
    1.0.0 wrote ``verified`` for ``seen``.
    - ``asked_as``: ``chat`` if a prompt is the JSON text of chat messages. Default: text.
    - ``answer``: ``message`` if process_results grades the JSON text of a whole message with its tool calls. Default:
    the text.
    - ``cluster``: how to find docs that share a question or passage. Without it, docs are independent unless
      process_docs makes a column ``cluster``.

    How verify judges it:

    - ``primary_metric``: the metric that says whether an answer is right, written as in lm-eval.
      Default: the first metric under the first filter.
    - ``recorded_metric``: the recorded metric that it is compared with, if that is not yes or no.
      Default: the metric's own name.
    - ``is_correct_metric``: another metric, for tasks in which ``is_correct`` does not say whether an answer is right.
    verify
      compares ``is_correct`` with this metric and never with a verdict.
    - ``graded_by``: the source of Meta's verdicts.
    - ``min_agreement``: the share of docs, 0 to 1, on which both must agree. Default: `MIN_AGREEMENT`.
    """

    subset: str = Field(min_length=1)
    variants: tuple[Variant, ...] = Field(min_length=1)
    families: tuple[str, ...] = Field(min_length=1)
    join: str | None = None
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    copy_of: str | None = Field(default=None, min_length=1)
    published: tuple[PublishedMetric, ...] = ()
    row_format: FormatStatus = "assumed"
    asked_as: Literal["text", "chat"] = "text"
    answer: Literal["text", "message"] = "text"
    cluster: ClusterRule | None = None
    primary_metric: str | None = Field(default=None, pattern=r"^[^,]+,[^,]+$")
    recorded_metric: str | None = Field(default=None, min_length=1)
    is_correct_metric: str | None = Field(default=None, pattern=r"^[^,]+,[^,]+$")
    graded_by: GradedBy = "program"
    min_agreement: float | None = Field(default=None, ge=0, le=1, strict=True)

    @field_validator("row_format", mode="before")
    @classmethod
    def _read_earlier_word(cls, value: object) -> object:
        return "seen" if value == "verified" else value

    @field_validator("groups", mode="before")
    @classmethod
    def _list_means_all_families(cls, value: object) -> object:
        names = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return dict.fromkeys(value, ()) if names else value  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Template:
    """One task template."""

    name: str
    """The task's name, ``meta_mmlu_pro_instruct``."""

    file: PurePosixPath
    """Its YAML, relative to the template folder."""

    spec: TaskSpec
    """Its ``metadata.meta_eval`` block."""

    settings: Mapping[str, Any]
    """The whole task configuration with includes merged, ``!function`` as `FunctionRef`."""

    inherited: frozenset[str]
    """The keys that its includes set."""

    folder_of_key: Mapping[str, PurePosixPath]
    """For each ``!function`` key in ``settings``, the folder that it is relative to."""

    files: tuple[PurePosixPath, ...]
    """All files of the template folder that it needs: itself and its includes first, then sorted."""

    @property
    def process_docs(self) -> tuple[PurePosixPath, str] | None:
        """The module (relative) and name of the function that makes docs of rows; None if rows are docs."""
        reference = self.settings.get("process_docs")
        if not isinstance(reference, FunctionRef):
            return None
        return self.folder_of_key["process_docs"] / reference.module_file, reference.function

    @property
    def modules(self) -> tuple[tuple[str, PurePosixPath], ...]:
        """Each key with functions, and the module (relative) of each function."""
        return tuple(
            (key, self.folder_of_key[key] / reference.module_file)
            for key, value in self.settings.items()
            for reference in find_functions(value)
        )

    @property
    def max_gen_toks(self) -> int:
        """The token limit of an answer; 0 for a choice task. lm-eval's default is 256."""
        if self.output_type != "generate_until":
            return 0
        return int((self.settings.get("generation_kwargs") or {}).get("max_gen_toks", MAX_GEN_TOKS))

    @property
    def output_type(self) -> str:
        return str(self.settings.get("output_type", "generate_until"))

    @property
    def unsafe_code(self) -> bool:
        """Whether scoring runs code written by the model."""
        return bool(self.settings.get("unsafe_code"))

    @property
    def primary_metric(self) -> str:
        """The primary metric: the ``metric,filter`` that says whether an answer is right."""
        return self.spec.primary_metric or f"{self.metrics[0]},{self.filters[0]}"

    @property
    def min_agreement(self) -> float:
        min_agreement = self.spec.min_agreement
        return MIN_AGREEMENT[self.spec.graded_by] if min_agreement is None else min_agreement

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics; at least one."""
        return _names(self.settings.get("metric_list"), "metric") or ("exact_match",)

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of its filters; lm-eval's ``none`` without filters."""
        return _names(self.settings.get("filter_list"), "name") or ("none",)

    def in_group(self, group: str, family: str | None) -> bool:
        families = self.spec.groups.get(group)
        if families is None:
            return False
        return family is None or family in (families or self.spec.families)


def _names(items: object, key: str) -> tuple[str, ...]:
    return tuple(str(item[key]) for item in items if key in item) if isinstance(items, list) else ()


def find_functions(value: object) -> Iterable[FunctionRef]:
    """Find every ``!function`` in a YAML value, at any depth."""
    if isinstance(value, FunctionRef):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from find_functions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_functions(inner)
