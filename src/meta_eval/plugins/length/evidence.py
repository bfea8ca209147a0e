"""How much longer the candidate's answers are than the baseline's, decided against ``length`` of ``gate.yaml``: in
tokens, and in seconds of a request.

The ratio of the means over all docs is paired doc by doc (`meta_eval.stats.ratio`: the delta method on a log scale,
docs of a cluster as one). It is what the same questions cost, so a task with longer answers counts more. Few endless
answers hold most of a sum, and then that scale proves too much: the ends are also those of Student's intervals of the
ratio and of its inverse, whatever is wider. At the 95 % level of all decisions its interval alone decides: above the
limit DON'T SHIP, below it nothing, and else UNDECIDED. Of candidates exactly at the limit about 2.5 % pass, and as many
fail. A cut answer counts as its limit, on both sides: the answer that was wanted is at least as long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from meta_eval.base.thresholds import LEVEL, LEVEL_TEXT
from meta_eval.harness.doc_results import DocResult, PerplexityParts, find_cluster_names, find_shared_questions
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.judge.alarm_kinds import RaisedAlarm
from meta_eval.sockets import (
    AlarmKind,
    AlarmOccurrence,
    Evidence,
    EvidenceCase,
    Findings,
    Item,
    Listing,
    Section,
    plural,
)
from meta_eval.stats import Interval

LONGER = AlarmKind("longer answers", "They are longer than gate.yaml allows: that is a DON'T SHIP.", fails=True)
NOT_SHOWN = AlarmKind(
    "length not shown", "The answers may be longer than gate.yaml allows: more docs, or counts of all, would show it."
)

_TOKENS, _SECONDS = "answer_tokens", "seconds"
_WORDS = {_TOKENS: "tokens of an answer", _SECONDS: "seconds of a request"}
# Limits of a run that cut an answer before its limit of tokens.
_OTHER_LIMITS = frozenset(("message_limit", "token_limit", "time_limit", "working_limit", "cost_limit", "turn_limit"))
_Percent = Annotated[float, Field(gt=-100, lt=10_000, allow_inf_nan=False, strict=True)]


class LengthRules(BaseModel):
    """``length`` in ``gate.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_most: _Percent | None = None
    """The largest allowed growth of the mean tokens of an answer, in percent; below 0 they must be shorter."""

    seconds_at_most: _Percent | None = None
    """That of the mean seconds of a request. They depend on what else the engine does."""

    @model_validator(mode="after")
    def _limits_something(self) -> LengthRules:
        if not self.limits:
            raise ValueError("limits nothing: write at_most, seconds_at_most or both")
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The limits by key of a figure of docs."""
        limits = {_TOKENS: self.at_most, _SECONDS: self.seconds_at_most}
        return {key: limit for key, limit in limits.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class Growth:
    """The ratio of the candidate's mean to the baseline's."""

    ratio: float
    """1 for equal lengths."""

    interval: Interval | None
    """Of it, at `LEVEL`; None for a single doc."""

    docs: int
    """Docs whose lengths are known on both sides."""

    def describe(self) -> str:
        """``+20.1 % (95 % interval +17.9 to +22.4) over 400 docs``."""
        bounds = (
            self.interval
            and f" ({LEVEL_TEXT} interval {_percent(self.interval.lower)} to {_percent(self.interval.upper)})"
        )
        return f"{_percent(self.ratio)} %{bounds or ''} over {plural(self.docs, 'doc')}"


@dataclass(slots=True)
class _Lengths:
    """Of paired docs, in one order."""

    baseline: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    clusters: list[Hashable] = field(default_factory=list)
    unknown: int = 0
    """Docs of which a side does not say its length."""

    def compare(self, places: Sequence[int]) -> Growth | None:
        """The growth of the docs at these places; None where nothing is known, or the baseline says nothing at all."""
        import numpy as np

        from meta_eval.stats.ratio import ratio_of_means

        before, after = (np.array([side[place] for place in places]) for side in (self.baseline, self.candidate))
        clusters, ones, whole = [self.clusters[place] for place in places], np.ones(len(places)), [0] * len(places)
        try:
            growth = ratio_of_means(after, before, ones, whole, clusters)
        except ValueError:
            return None
        interval = growth.positive_interval(LEVEL)
        if interval is not None and growth.value > 0:
            shrinkage = ratio_of_means(before, after, ones, whole, clusters, floor=1e-9)
            lows = [found.lower for mean in (growth, shrinkage) if (found := mean.interval(LEVEL))]
            upper = 1 / lows[1] if lows[1] > 0 else math.inf
            interval = Interval(min(interval.lower, max(lows[0], 0.0)), max(interval.upper, upper))
        return Growth(growth.value, interval, len(places))


class LengthEvidence(Evidence):
    """Alarms on longer answers, where ``gate.yaml`` limits them, and the growth of each task."""

    rules: ClassVar[type[BaseModel] | None] = LengthRules
    alarm_kinds: ClassVar[tuple[AlarmKind, ...]] = (LONGER, NOT_SHOWN)

    def find(self, case: EvidenceCase) -> Findings:
        """See `Evidence.find`."""
        alarms: list[RaisedAlarm] = []
        shown: dict[str, Growth] = {}
        tree: dict[str, Any] = {}
        for key, limit in case.rules.limits.items() if isinstance(case.rules, LengthRules) else ():
            lengths = _pair(case.baseline, case.candidate, key) if case.baseline else _Lengths()
            places: dict[str, list[int]] = {}
            for place, name in enumerate(lengths.tasks):
                places.setdefault(name, []).append(place)
            total = lengths.compare(range(len(lengths.tasks)))
            tasks = {name: growth for name, some in places.items() if (growth := lengths.compare(some))}
            tree[key] = {
                "at_most": limit, "unknown": lengths.unknown, **_as_json(total),
                "tasks": {name: _as_json(growth) for name, growth in tasks.items()},
            }  # fmt: skip
            alarms += _judge(key, total, limit, lengths.unknown)
            whole = {"all tasks": total} if total and len(tasks) > 1 else {}
            shown |= {f"{_WORDS[key]}, {name}": growth for name, growth in {**whole, **tasks}.items()}
        return Findings(tuple(alarms), data=shown, json=tree or None)

    def make_sections(self, findings: Findings) -> Iterator[Section]:
        """See `Evidence.make_sections`."""
        growths: Mapping[str, Growth] = findings.data
        items = tuple(Item((name,), growth.describe()) for name, growth in growths.items())
        yield Section("length", "Length beside the baseline's", "Length", (Listing(items),) if items else ())


def _judge(key: str, growth: Growth | None, limit: float, unknown: int) -> Iterator[RaisedAlarm]:
    allowed = f"at most {limit:+g} % is allowed".replace("-", "\u2212")
    if growth is None:
        note = f"of no doc both sides know the {_WORDS[key]}, and {allowed}"
        yield NOT_SHOWN.name, AlarmOccurrence(None, note=note)
        return
    most, found = 1 + limit / 100 + 1e-9, growth.interval  # what is just at the limit is allowed
    note = f"{_WORDS[key]} {growth.describe()}, and {allowed}"
    if found is not None and found.lower > most:
        yield LONGER.name, AlarmOccurrence(None, note=note)
    elif found is None or found.upper > most:
        yield NOT_SHOWN.name, AlarmOccurrence(None, note=note)
    if unknown:
        what = f"of {plural(unknown, 'doc')} a side does not know the {_WORDS[key]}"
        yield NOT_SHOWN.name, AlarmOccurrence(None, note=what)


def _pair(baseline: Run, candidate: Run, figure: str) -> _Lengths:
    """The lengths of docs that both answered with a text. Docs are paired by their content, else by their number."""
    lengths = _Lengths()
    shared = find_shared_questions([task.docs for task in candidate.tasks.values()])
    for name in sorted(baseline.tasks.keys() & candidate.tasks.keys()):
        before, after = (_read_task(run, name, figure) for run in (baseline, candidate))
        if not before.keys() & after.keys():
            before, after = (_by_number(side) for side in (before, after))
        both = [key for key in before if key in after]
        known = [key for key in both if before[key][1] is not None and after[key][1] is not None]
        if not known and all(_is_choice(doc, figure) for side in (before, after) for doc, _ in side.values()):
            continue
        lengths.unknown += len(both) - len(known)
        docs = [after[key][0] for key in known]
        lengths.clusters += find_cluster_names(name, docs, shared) or [(name, key) for key in known]
        for key in known:
            lengths.baseline.append(before[key][1] or 0.0)
            lengths.candidate.append(after[key][1] or 0.0)
            lengths.tasks.append(name)
    return lengths


_Side = Mapping[Hashable, tuple[DocResult, float | None]]


def _read_task(run: Run, name: str, figure: str) -> _Side:
    """By content each doc of a task and its mean length over all runs; None where a run does not say it."""
    runs = (run.tasks[name], *run.repeats.get(name, ()))
    by_run = [{key: (doc, _measure(doc, task, figure)) for key, doc in _number_docs(task.docs)} for task in runs]
    averaged: dict[Hashable, tuple[DocResult, float | None]] = {}
    for key, (doc, _) in by_run[0].items():
        values = [side[key][1] for side in by_run if key in side]
        known = [value for value in values if value is not None]
        averaged[key] = (doc, fmean(known) if len(known) == len(by_run) else None)
    return averaged


def _number_docs(docs: Sequence[DocResult]) -> Iterator[tuple[Hashable, DocResult]]:
    """Each doc under its content and the number of docs before it with the same."""
    seen: Counter[str] = Counter()
    for doc in docs:
        yield (doc.question_hash, seen[doc.question_hash]), doc
        seen[doc.question_hash] += 1


def _by_number(side: _Side) -> _Side:
    return {doc.doc_id: (doc, length) for doc, length in side.values()}


def _measure(doc: DocResult, task: TaskRun, figure: str) -> float | None:
    """A figure of an answer to a doc. Of tokens, thoughts are included where the engine counted them, and a cut answer
    has at least its limit: of several answers, those that were cut. Where a run has limits of time or turns, too, they
    may have cut it."""
    value, limit = doc.figures.get(figure), task.provenance.decoding.get("max_gen_toks")
    if _OTHER_LIMITS.isdisjoint(task.provenance.settings or ()) and figure == _TOKENS and doc.limit_hit:
        cut = doc.cuts.count(True) / len(doc.cuts)
        if isinstance(limit, int | float) and 0 < limit < 2**53 and (value is not None or cut == 1):
            return max(value or 0.0, cut * limit)
    return value


def _is_choice(doc: DocResult, figure: str) -> bool:
    """Whether likelihoods answer it, of which none has a length."""
    values = [value for result in doc.filter_results.values() for value in result.metrics.values()]
    if figure in doc.figures or any(isinstance(value, PerplexityParts) for value in values):
        return figure not in doc.figures
    return doc.limit_hit is False and (doc.n_choices is not None or not (doc.answer_length or doc.answer_empty))


def _as_json(growth: Growth | None) -> dict[str, Any]:
    if growth is None:
        return {"ratio": None, "interval": None, "docs": 0}
    interval = growth.interval and {"lower": growth.interval.lower, "upper": growth.interval.upper}
    return {"ratio": growth.ratio, "interval": interval, "docs": growth.docs}


def _percent(ratio: float) -> str:
    if math.isinf(ratio):
        return "any"
    return f"{round(100 * (ratio - 1), 1) + 0.0:+.1f}".replace("-", "\u2212")
