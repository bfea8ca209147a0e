"""Finds runs whose model was given two BOS tokens: the prompts bring one, and lm-eval's backend puts another in front.

Read in lm-eval's code: 0.4.8 to 0.4.13. Up to 0.4.9.1 its ``vllm`` and ``hf`` add special tokens with
``add_bos_token=True``, and for Gemma always, whatever the prompt begins with; later ones look at the prompt first.
``sglang`` (for Gemma always) and the clients of completions endpoints do so in all these versions.
"""

from __future__ import annotations

import re
from collections import Counter

from meta_eval.base.counts import plural
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.task_run import TaskRun
from meta_eval.judge.decision import AlarmOccurrence

# The first version of lm-eval in which a backend adds no BOS to a prompt that brings one; None if there is none.
_MENDED_IN: dict[str, tuple[int, ...] | None] = {
    "vllm": (0, 4, 9, 2),
    "hf": (0, 4, 9, 2),
    "hf-auto": (0, 4, 9, 2),
    "huggingface": (0, 4, 9, 2),
    "sglang": None,
    "local-completions": None,
    "openai-completions": None,
}
# Backends that add it for Gemma without being told.
_FOR_GEMMA = ("vllm", "hf", "hf-auto", "huggingface", "sglang")


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
    backend, version = provenance.backend or "", provenance.lm_eval or ""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    if backend not in _MENDED_IN or numbers is None:
        return None
    mended = _MENDED_IN[backend]
    if mended is not None and tuple(map(int, numbers[0].split("."))) >= mended:
        return None
    if provenance.model_args.get("add_bos_token", "").lower() == "true":
        why = "add_bos_token=True"
    elif backend in _FOR_GEMMA and "gemma" in (provenance.model or "").lower():
        why = "as for every Gemma"
    else:
        return None
    return f"lm-eval {numbers[0]} put another in front on {backend} ({why})"
