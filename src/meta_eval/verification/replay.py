"""A model that answers each doc with what Meta's own model answered, so that everything behind a model can be proven.

It needs neither torch nor a GPU. lm-eval versions that look for plug-ins find it as ``--model meta-replay``; for the
others ``python -m meta_eval.verification.replay`` is ``lm_eval`` with this model in it, and takes the same arguments.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

NAME = "meta-replay"

# The answers of one doc, by the index of the request: texts, or pairs of log-likelihood and whether it is greedy.
Answers = Mapping[int, Sequence[Any]]


class ReplayLM(LM):  # type: ignore[misc]
    """Answers from the docs of a pack: ``recorded_output``, or ``recorded_negative_log_likelihoods`` for choice tasks.

    Docs of a recorded run of lm-eval hold every answer to every request (``recorded_responses``).

    A doc for which nothing was recorded is answered with the empty text, which no filter finds anything in, or with
    likelihoods that are no numbers, which the choice tasks count as ungraded.

    Args:
        answers: Other answers than the recorded ones, by doc index: those of a finished run, to grade them again.
        _: What lm-eval passes to any model (``pretrained``, ``batch_size``, …), so that the printed command can be
            tried with this one.
    """

    def __init__(self, answers: Sequence[Answers] | None = None, **_: Any) -> None:
        super().__init__()
        self._answers = answers

    @property
    def tokenizer_name(self) -> str:
        return NAME

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
        """One recorded output a request."""
        if self._answers is not None:
            return _saved(self._answers, requests)
        if _of_record(requests):
            return _saved(None, requests, nothing="")
        return [_recorded_text(request.doc) for request in requests]

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:  # noqa: ARG002
        """The recorded log-likelihood of each choice; the second value, whether it is greedy, is not recorded."""
        if self._answers is not None:
            return _saved(self._answers, requests)
        if _of_record(requests):
            return [tuple(pair) for pair in _saved(None, requests, nothing=(math.nan, False))]
        answers = []
        for request in requests:
            recorded = request.doc.get("recorded_negative_log_likelihoods")
            known = recorded is not None and request.idx < len(recorded) and recorded[request.idx] is not None
            answers.append((-recorded[request.idx] if known else float("nan"), False))
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:  # noqa: ARG002
        """The recorded log-likelihood of each text; only docs of a recorded run ask for one."""
        return _saved(self._answers, requests, nothing=math.nan)


def _of_record(requests: Sequence[Instance]) -> bool:
    """Whether the docs are those of a recorded run of lm-eval."""
    return bool(requests) and "recorded_responses" in requests[0].doc


def _recorded_text(doc: Mapping[str, Any]) -> str:
    """What was recorded; of a choice task that asks for the next token the likeliest choice, the first of equals."""
    if "continuations" not in doc:
        return doc["recorded_output"] or ""
    if not has_recorded_answer(doc):
        return ""
    likelihoods = doc["recorded_negative_log_likelihoods"]
    return str(doc["continuations"][min(range(len(likelihoods)), key=likelihoods.__getitem__)])


def _saved(answers: Sequence[Answers] | None, requests: Sequence[Instance], nothing: Any = None) -> list[Any]:
    """lm-eval asks a request as often as the task repeats it; each time the next saved response is the answer.

    Args:
        answers: By doc; None for those that stand in the docs.
        requests: What is asked.
        nothing: The answer where the doc has none.
    """
    asked: Counter[tuple[int, int]] = Counter()
    responses_given = []
    for request in requests:
        if answers is not None:
            responses = answers[request.doc_id][request.idx]
        else:
            recorded = json.loads(request.doc["recorded_responses"] or "null")
            responses = [nothing] if recorded is None else recorded[request.idx]
        responses_given.append(responses[asked[request.doc_id, request.idx] % len(responses)])
        asked[request.doc_id, request.idx] += 1
    return responses_given


def read_recorded(docs: Sequence[Mapping[str, Any]]) -> list[Answers]:
    """Read the recorded answers of docs of a recorded run; none where one has none, or where they are not of one."""
    recorded = [json.loads(doc.get("recorded_responses") or "null") for doc in docs]
    return [] if None in recorded else [dict(enumerate(responses)) for responses in recorded]


def has_recorded_answer(doc: Mapping[str, Any]) -> bool:
    """Whether there is anything to replay: an output, or a likelihood that is a number for every choice."""
    if "recorded_responses" in doc:
        return doc["recorded_responses"] is not None
    if "continuations" not in doc:
        return doc.get("recorded_output") is not None
    recorded = doc.get("recorded_negative_log_likelihoods") or []
    numbers = [value for value in recorded if isinstance(value, float) and math.isfinite(value)]
    return len(numbers) == len(doc["continuations"])


def register_replay_model() -> None:
    """Make lm-eval know the model by its name, where it did not find it as a plug-in."""
    import lm_eval.models  # noqa: F401 (fills the registry, which refuses newcomers while it is empty)
    from lm_eval.api.registry import MODEL_REGISTRY, register_model

    if NAME not in MODEL_REGISTRY:
        register_model(NAME)(ReplayLM)


def main() -> None:
    """``lm_eval``, with this model in it."""
    from lm_eval.__main__ import cli_evaluate

    register_replay_model()
    sys.exit(cli_evaluate())


if __name__ == "__main__":
    # Run as a script this module is not the one that lm-eval would import by its name.
    from meta_eval.verification.replay import main as run

    run()
