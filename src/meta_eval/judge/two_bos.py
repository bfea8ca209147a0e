"""Finds runs whose model was given two BOS tokens: prompts bring one, and lm-eval's backend puts another in front."""

from __future__ import annotations

import re
from collections import Counter

from meta_eval.base.display import plural
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.judge.judgement import AlarmOccurrence
from meta_eval.pack.backends.base import AddedBos
from meta_eval.pack.backends.registry import UnknownBackendError, find_backend


def find_two_bos(run: TaskRun) -> AlarmOccurrence | None:
    """Find the prompts of a run that reached the model with two BOS tokens; None if there are none."""
    added = _explain_added_bos(run.provenance)
    brought = Counter(doc.leading_bos for doc in run.docs if _count_bos(doc.leading_bos) + bool(added) > 1)
    brought.pop("", None)
    if not brought:
        return None
    texts, count = brought.most_common(1)[0][0], sum(brought.values())
    begin = "begins" if count == 1 else "begin"
    prompts = f"{count:,} of {plural(len(run.docs), 'prompt')} {begin} with {texts:.60}"
    return AlarmOccurrence(run.task, note=f"{prompts}, and {added}" if added else prompts)


def _count_bos(texts: str) -> int:
    return len(re.findall(r"[<\[][^<\[]*", texts))


def _explain_added_bos(provenance: Provenance) -> str | None:
    """How lm-eval's backend put a BOS before the prompt, a clause; None if it did not, or if that is unknown."""
    numbers = re.match(r"\d+(?:\.\d+)*", provenance.lm_eval or "")
    added = _find_added_bos(provenance.backend or "")
    if added is None or numbers is None:
        return None
    if added.until is not None and tuple(map(int, numbers[0].split("."))) >= added.until:
        return None
    if provenance.model_args.get("add_bos_token", "").lower() == "true":
        why = "add_bos_token=True"
    elif added.for_gemma and "gemma" in (provenance.model or "").lower():
        why = "as for every Gemma"
    else:
        return None
    later = f"; {'.'.join(map(str, added.until))} does not" if added.until else ""
    return f"lm-eval {numbers[0]} put another in front on {provenance.backend} ({why}{later})"


def _find_added_bos(backend: str) -> AddedBos | None:
    try:
        return find_backend(backend).added_bos
    except UnknownBackendError:
        return None
