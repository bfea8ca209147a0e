"""Details of a run as the rows of a task."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from meta_eval.errors import DataError
from meta_eval.records.details_kinds import GRADED, Kind, choice_doc, guard, kind_of
from meta_eval.records.details_samples import Sample
from meta_eval.records.rows import Row, Rows, doc_json

# Stop texts and limit of GSM8K in lm-evaluation-harness b281b09. Of the stops those were in use that no answer holds.
_STOPS = (":", "Question:", "Question")
_MAX_GEN_TOKS = 256


@dataclass(frozen=True, slots=True)
class DetailsRows:
    """The rows of a task.

    Attributes:
        kind: What grades them.
        rows: As any record's.
        delimiter: Between prompt and choice; None where texts were generated.
        metrics: Those that were recorded and are graded again.
        kept: Those that were recorded and that nothing here grades again.
    """

    kind: Kind
    rows: Rows
    delimiter: str | None
    metrics: tuple[str, ...]
    kept: tuple[str, ...]


def read_details(samples: Iterable[Sample], said: str, where: str, see: Callable[[int, Sample], None]) -> DetailsRows:
    """Rows of the details of a task.

    Args:
        samples: Its docs, in their order.
        said: The task as its file is named.
        where: The record and task, for messages.
        see: Called with each, before it is let go.

    Raises:
        DataError: They cannot be asked or graded again, or a verdict is not what the recorded likelihoods give.
    """
    reading = _Reading(said)
    for number, sample in enumerate(samples):
        see(number, sample)
        reading.add(sample, f"{where}, doc {number}")
    return reading.end(where)


@dataclass(slots=True)
class _Reading:
    said: str
    kind: Kind | None = None
    delimiter: str | None = None
    generation: dict[str, Any] | None = None
    rows: list[Row] = field(default_factory=list)
    metrics: dict[str, None] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)

    def add(self, sample: Sample, where: str) -> None:
        kind = kind_of(sample, self.said, where)
        if self.kind not in (None, kind):
            raise DataError("was recorded in other metrics than the docs before it", where=where)
        self.kind = kind
        self.metrics.update(dict.fromkeys(sample.metrics))
        self.warnings["prompt_truncated"] += sample.truncated
        self.warnings["prompt_rebuilt"] += sample.rebuilt
        self.rows.append(
            self._text(sample, kind, where) if sample.text is not None else self._choice(sample, kind, where)
        )

    def end(self, where: str) -> DetailsRows:
        if self.kind is None:
            raise DataError("holds no row", where=where)
        if self.kind == "gsm8k" and not (self.generation or {}).get("until"):
            raise DataError("was generated with no stop text that is known: an answer holds each of them", where=where)
        prompts = Counter((row.prompt, row.continuations) for row in self.rows)
        self.warnings["duplicate_prompts"] = sum(prompts.values()) - len(prompts)
        kept = {name: count for name, count in sorted(self.warnings.items()) if count}
        graded = [name for name in GRADED[self.kind] if name in self.metrics]
        others = [name for name in self.metrics if name not in graded]
        rows = Rows(self.rows, self.generation, None, kept)
        return DetailsRows(self.kind, rows, self.delimiter, tuple(graded), tuple(others))

    def _text(self, sample: Sample, kind: Kind, where: str) -> Row:
        golds = [str(one) for gold in sample.golds for one in (gold if isinstance(gold, list) else [gold])]
        if kind == "gsm8k":
            known = self.generation["until"] if self.generation else _STOPS
            stops = [stop for stop in known if stop not in str(sample.text)]
            self.generation = {"until": stops, "do_sample": False, "max_gen_toks": _MAX_GEN_TOKS}
        elif self.generation not in (None, sample.generation):
            raise DataError(
                f"was generated with other settings than the docs before it: {sample.generation}", where=where
            )
        else:
            self.generation = sample.generation
        gold = golds[0] if golds else ""
        return _row(sample, kind, {"query": sample.query, "gold": gold, "golds": golds}, (), gold, [[sample.text]])

    def _choice(self, sample: Sample, kind: Kind, where: str) -> Row:
        delimiter, doc = choice_doc(sample, kind, where)
        if self.delimiter not in (None, delimiter):
            raise DataError("has another space between prompt and choice than the docs before it", where=where)
        self.delimiter = delimiter
        guard(sample, doc, kind, where)
        # Nobody recorded whether a choice is what the model would write.
        answers = [[[cost, False]] for cost in sample.likelihoods or ()]
        gold = sample.ending if sample.prompts else doc["choices"][doc.get("gold", 0)]
        behind = [sample.ending] * len(sample.prompts) or [delimiter + one for one in doc["choices"]]
        return _row(sample, kind, doc, tuple(behind), gold, answers)


def _row(
    sample: Sample,
    kind: Kind,
    doc: dict[str, Any],
    continuations: tuple[str, ...],
    gold: str,
    responses: list[list[Any]],
) -> Row:
    return Row(
        doc=doc,
        prompt=sample.prompt,
        continuations=continuations,
        question_hash=_digest(doc_json(doc)),
        prompt_hash=_digest(sample.prompt),
        gold=gold,
        prompts=sample.prompts,
        responses=responses,
        metrics={f"{name},none": value for name, value in sample.metrics.items() if name in GRADED[kind]},
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
