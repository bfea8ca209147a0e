"""Makes the rows of a task of details, and chooses their grader.

The recorded metrics decide the grader. Each kind of grader is a plain lm-eval YAML in ``assets/details``, which is
copied into the pack. For choices, the recorded likelihoods must give the recorded verdicts. A verdict that differs is
an error, because the measurement is then unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from meta_eval.base.assets.details.details_scoring import lighteval_choices, truthfulqa_mc
from meta_eval.base.hashing import hash_text
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs, count_repeated_prompts, format_doc
from meta_eval.plugins.boards import boards
from meta_eval.plugins.boards.details_row import DetailsDoc
from meta_eval.sockets import DataError, locating

# Tolerance of a metric that lighteval recorded. It sums exponentials in another order, of numbers with 32 bits.
SAME_RECORDED_METRIC = 1e-4


DetailsGrader = Literal["choices", "contexts", "truthfulqa_mc", "gsm8k", "lighteval_choices", "exact_match"]

# The metrics that each grader computes.
METRICS_OF_GRADER: Mapping[DetailsGrader, tuple[str, ...]] = {
    "choices": ("acc", "acc_norm"),
    "contexts": ("acc",),
    "truthfulqa_mc": ("mc1", "mc2"),
    "gsm8k": ("acc",),
    "lighteval_choices": ("acc", "acc_norm", "acc_norm_no_space"),
    "exact_match": ("em",),
}

# Said of rows without right answers.
_USE_EARLIER_RUN = (
    "Runs of the first leaderboard since November 2023 seem to keep none: use an earlier run, "
    "or leave the task out of tasks"
)

# The metric of verdicts for tasks that no leaderboard shows, in order of preference.
_VERDICTS = ("mc2,none", "acc_norm,none", "acc,none")


def choose_verdict_metric(metrics: Iterable[str], name: str) -> str:
    """Choose the ``metric,filter`` of verdicts: the metric that a leaderboard shows for the task, or else the usual
    metric."""
    recorded = [f"{metric},none" for metric in metrics]
    parts = [part for board in boards.list_boards().values() for part in board.parts if name in part.tasks]
    shown = [metric_key for part in parts for metric_key in part.metrics]
    return next((metric for metric in (*shown, *_VERDICTS) if metric in recorded), recorded[0])


def find_grader(sample: DetailsDoc, source_name: str) -> DetailsGrader:
    """Find the grader of a doc.

    Args:
        sample: The doc.
        source_name: The task as its file is named.

    Raises:
        DataError: There is no such grader.
    """
    grader: DetailsGrader | None = None
    if sample.text is not None:
        if sample.by_lighteval:
            grader = "exact_match"
        elif "gsm8k" in source_name.lower():  # texts of the first leaderboard; their metrics have the same name
            grader = "gsm8k"
    elif sample.by_lighteval:
        grader = "lighteval_choices"
    else:
        grader = (
            "contexts" if sample.prompts else "truthfulqa_mc" if {"mc1", "mc2"} & set(sample.metrics) else "choices"
        )
    if (
        "winogrande" in source_name.lower()
        and not sample.by_lighteval
        and not sample.own_continuations
        and not sample.prompts
    ):
        raise DataError(
            "does not say what follows the prompt: the harness scored one ending after each choice",
            hint="Leave the task out of tasks",
        )
    if grader is not None and set(METRICS_OF_GRADER[grader]) & set(sample.metrics):
        return grader
    raise DataError(
        f"was graded by {', '.join(sample.metrics) or 'nothing'}, which meta-eval cannot grade",
        hint="Leave the task out of tasks",
    )


def make_choice_doc(sample: DetailsDoc, grader: DetailsGrader) -> tuple[str, dict[str, Any]]:
    """The delimiter between prompt and choice, and the doc of a choice.

    Raises:
        DataError: The right choice is unknown, or there is no choice to ask for.
    """
    if not sample.choices and not sample.golds:
        raise DataError("keeps neither its choices nor which of them is right", hint=_USE_EARLIER_RUN)
    if len(sample.choices) < 2 or len(sample.choices) != len(sample.likelihoods) or "" in sample.choices:
        raise DataError(f"has {len(sample.choices)} choices and {len(sample.likelihoods)} likelihoods")
    golds = [gold for gold in sample.golds if isinstance(gold, int) and not isinstance(gold, bool)]
    if not golds or len(golds) != len(sample.golds) or not all(0 <= gold < len(sample.choices) for gold in golds):
        raise DataError("does not say which choice is right")
    if grader == "lighteval_choices":
        return "", {"query": sample.query, "choices": list(sample.choices), "golds": golds, "gold": golds[0]}
    if grader == "contexts":
        if len(golds) > 1:
            raise DataError("has several right choices")
        return "", {"query": sample.query, "choices": list(sample.choices), "gold": golds[0], "ending": sample.ending}
    spaced = [choice.startswith(" ") for choice in sample.choices]
    if any(spaced) and not all(spaced):
        raise DataError("has choices with and without a space in front")
    # The harness does not count a leading space; a space at the end of the prompt belongs to the choice.
    delimiter = sample.delimiter or (" " if all(spaced) else "")
    doc = {"query": sample.query, "choices": [choice.removeprefix(" ") for choice in sample.choices]}
    if "" in doc["choices"]:
        raise DataError("has an empty choice")
    if grader == "truthfulqa_mc":
        return delimiter, {**doc, **_two_lists(golds)}
    if len(golds) > 1:
        raise DataError("has several right choices")
    return delimiter, {**doc, "gold": golds[0]}


def _two_lists(golds: list[int]) -> dict[str, int]:
    """``mc1``: only the first choice is right. ``mc2``, listed after it: the first k choices are right."""
    if len(golds) < 2 or golds[0] != 0 or golds[1:] != list(range(golds[1], golds[1] + len(golds) - 1)):
        raise DataError("its right choices are not where TruthfulQA's two lists have them")
    return {"mc1": golds[1], "true": len(golds) - 1}


def check_recorded_verdicts(sample: DetailsDoc, doc: dict[str, Any], grader: DetailsGrader) -> None:
    """Check that the recorded likelihoods give the recorded verdicts.

    Raises:
        DataError: A verdict differs.
    """
    costs = [(cost, False) for cost in sample.likelihoods]
    if grader == "truthfulqa_mc":
        computed = truthfulqa_mc(doc, costs)
    else:
        computed = lighteval_choices({"golds": [doc["gold"]], **doc}, costs)
    for name in METRICS_OF_GRADER[grader]:
        recorded = sample.metrics.get(name)
        if recorded is not None and not math.isclose(computed[name], recorded, rel_tol=0, abs_tol=SAME_RECORDED_METRIC):
            raise DataError(
                f"the recorded likelihoods give {name} {computed[name]:.6g}, and {recorded:.6g} was recorded",
                hint="The file was edited or graded by unknown rules: leave the task out of tasks",
            )


# Stop texts and limit of GSM8K in lm-evaluation-harness b281b09. A stop was in use if no recorded answer contains it.
_STOPS = (":", "Question:", "Question")
_MAX_GEN_TOKS = 256


@dataclass(frozen=True, slots=True)
class GradedDocs:
    """The rows of a task."""

    grader: DetailsGrader
    """The kind of their grader."""

    docs: RecordedDocs
    """The docs, as in any record."""

    delimiter: str | None
    """Between prompt and choice; None if texts were generated."""

    metrics: tuple[str, ...]
    """Recorded metrics that are graded again."""

    not_regraded: tuple[str, ...]
    """Recorded metrics without a grader here."""


def read_details(
    samples: Iterable[DetailsDoc], source_name: str, check: Callable[[int, DetailsDoc], None]
) -> GradedDocs:
    """Read the details of a task.

    Args:
        samples: Its docs, in their order.
        source_name: The task as its file is named.
        check: Called with the index and row of each doc, before it is released.

    Raises:
        DataError: They cannot be asked or graded again, or a verdict does not follow from the recorded likelihoods.
    """
    reading = _DetailsReading(source_name)
    for number, sample in enumerate(samples):
        check(number, sample)
        with locating(f"doc {number}", behind=", "):
            reading.add(sample)
    return reading.end()


@dataclass(slots=True)
class _DetailsReading:
    source_name: str
    grader: DetailsGrader | None = None
    is_chat: bool = False
    delimiter: str | None = None
    generation: dict[str, Any] | None = None
    rows: list[RecordedDoc] = field(default_factory=list)
    metrics: dict[str, None] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)

    def add(self, sample: DetailsDoc) -> None:
        grader = find_grader(sample, self.source_name)
        if self.grader not in (None, grader):
            raise DataError("was recorded with other metrics than the docs before it")
        if self.is_chat != sample.is_chat and self.rows:
            raise DataError("was sent in another way than the docs before it: as text, or as chat messages")
        self.grader, self.is_chat = grader, sample.is_chat
        self.metrics.update(dict.fromkeys(sample.metrics))
        self.warnings["prompt_truncated"] += sample.truncated
        self.warnings["prompt_rebuilt"] += sample.rebuilt
        self.rows.append(self._text(sample, grader) if sample.text is not None else self._choice(sample, grader))

    def end(self) -> GradedDocs:
        if self.grader is None:
            raise DataError("holds no row")
        if self.grader == "gsm8k" and not (self.generation or {}).get("until"):
            raise DataError("has no recognisable stop text: every known one occurs in an answer")
        self.warnings["duplicate_prompts"] = count_repeated_prompts(self.rows)
        warnings = dict(sorted(self.warnings.items()))
        graded = [name for name in METRICS_OF_GRADER[self.grader] if name in self.metrics]
        others = [name for name in self.metrics if name not in graded]
        rows = RecordedDocs(self.rows, self.generation, None, warnings, asked_as="chat" if self.is_chat else "text")
        return GradedDocs(self.grader, rows, self.delimiter, tuple(graded), tuple(others))

    def _text(self, sample: DetailsDoc, grader: DetailsGrader) -> RecordedDoc:
        golds = [str(text) for gold in sample.golds for text in (gold if isinstance(gold, list) else [gold])]
        if not golds:
            raise DataError("does not keep the right answer", hint=_USE_EARLIER_RUN)
        if grader == "gsm8k":
            stop_texts = self.generation["until"] if self.generation else _STOPS
            stops = [stop for stop in stop_texts if stop not in (sample.text or "")]
            self.generation = {"until": stops, "do_sample": False, "max_gen_toks": _MAX_GEN_TOKS}
        elif self.generation not in (None, sample.generation):
            raise DataError(f"was generated with other settings than the docs before it: {sample.generation}")
        else:
            self.generation = sample.generation
        gold = golds[0]
        return _row(sample, grader, {"query": sample.query, "gold": gold, "golds": golds}, (), gold)

    def _choice(self, sample: DetailsDoc, grader: DetailsGrader) -> RecordedDoc:
        delimiter, doc = make_choice_doc(sample, grader)
        if self.delimiter not in (None, delimiter):
            raise DataError("has another space between prompt and choice than the docs before it")
        self.delimiter = delimiter
        check_recorded_verdicts(sample, doc, grader)
        gold = sample.ending if sample.prompts else doc["choices"][doc.get("gold", 0)]
        behind = [sample.ending] * len(sample.prompts) or [delimiter + choice for choice in doc["choices"]]
        return _row(sample, grader, doc, tuple(behind), gold)


def _row(
    sample: DetailsDoc, grader: DetailsGrader, doc: dict[str, Any], continuations: tuple[str, ...], gold: str
) -> RecordedDoc:
    metrics = {f"{name},none": sample.metrics[name] for name in sample.metrics if name in METRICS_OF_GRADER[grader]}
    return RecordedDoc(
        doc,
        sample.prompt,
        gold,
        continuations,
        hash_text(format_doc(doc)),
        prompts=sample.prompts,
        responses=sample.responses,
        metrics=metrics,
    )
