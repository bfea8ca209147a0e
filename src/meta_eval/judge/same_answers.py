"""Finds two runs that claim other models or weights, and whose answers are all the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

from meta_eval.base.thresholds import SAME_SHORT_TEXT_DOCS, SAME_TEXT_DOCS, SHORT_TEXT_CHARS
from meta_eval.harness.lm_eval_run import Run
from meta_eval.harness.provenance import Provenance
from meta_eval.judge.decision import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.pair import RunPair

# Model arguments that say which weights run.
_OF_WEIGHTS = re.compile(r"lora|adapter|peft|quant|bnb|load_in_\d+bit|gguf|delta|revision|^dtype$", re.IGNORECASE)
_DEFAULTS = ("", "auto", "false", "none")
_CAUSES = "perhaps an adapter that was not loaded, or one model under two names"


def find_same_answers(baseline: Run, candidate: Run, pairs: Iterable[RunPair]) -> list[RaisedAlarm]:
    """Raise an alarm if every doc of all tasks has the same answers in both, and the two claim to differ.

    Args:
        baseline: Run A.
        candidate: Run B.
        pairs: The paired docs of each task.
    """
    claim = next(
        filter(
            None,
            (
                _describe_claim(baseline.tasks[task].provenance, candidate.tasks[task].provenance)
                for task in sorted(baseline.tasks.keys() & candidate.tasks.keys())
            ),
        ),
        None,
    )
    if claim is None:
        return []
    texts = likelihoods = short = 0
    for pair in pairs:
        for a, b in zip(pair.baseline.docs, pair.candidate.docs, strict=True):
            if a.answer_hash is None or a.answer_hash != b.answer_hash:
                return []
            if b.answer_empty:
                continue
            texts += bool(b.answer_tail)
            likelihoods += not b.answer_tail
            short += 0 < len(b.answer_tail) < SHORT_TEXT_CHARS
    count = texts + likelihoods
    if count - short < SAME_TEXT_DOCS and count < SAME_SHORT_TEXT_DOCS:
        return []
    kinds = [f"{texts:,} of {texts:,} answers are the same text"] if texts else []
    kinds += [f"the likelihoods of {likelihoods:,} of {likelihoods:,} docs are the same"] if likelihoods else []
    note = f"{' and '.join(kinds)}, of {claim}: {_CAUSES}"
    return [("same answers", AlarmOccurrence(None, note=note, veto=False))]


def _describe_claim(a: Provenance, b: Provenance) -> str | None:
    """The models, or the arguments of one model, that the runs claim; None if they claim the same."""
    if a.results_file is None or b.results_file is None:
        return None
    if a.model != b.model:
        return f"{a.model!s:.80} in A and {b.model!s:.80} in B"
    for name in sorted(filter(_OF_WEIGHTS.search, {*a.model_args, *b.model_args})):
        values = [side.model_args.get(name, "") for side in (a, b)]
        if len({"" if value.lower() in _DEFAULTS else value for value in values}) > 1:
            return f"{a.model} with {name}: {values[0] or 'none'} in A and {values[1] or 'none'} in B"
    return None
