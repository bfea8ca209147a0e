"""A model that gives the recorded answers, for checking everything after the model.

It needs neither torch nor a GPU. ``python -m meta_eval.harness.replay`` is ``lm_eval`` with this model, and takes the
same arguments.
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

# The answers of a doc by index of the request: texts, or pairs of log-likelihood and is-greedy.
RecordedResponses = Mapping[int, Sequence[Any]]


class ReplayLM(LM):  # type: ignore[misc]
    """Answers from the docs of a pack: ``recorded_output``, or ``recorded_negative_log_likelihoods`` for choice tasks.

    Docs of a recorded run of lm-eval hold every answer to every request (``recorded_responses``).

    A doc without a recorded answer gets the empty text, from which filters extract nothing, or NaN likelihoods, which
    choice tasks count as ungraded.

    Args:
        answers: Answers by doc index instead of the recorded answers: those of a finished run, to grade them again.
        _: lm-eval's arguments for any model (``pretrained``, ``batch_size``, …), so that the printed command works with
            this model.
    """

    def __init__(self, answers: Sequence[RecordedResponses] | None = None, **_: Any) -> None:
        super().__init__()
        self._answers = answers

    @property
    def tokenizer_name(self) -> str:
        return NAME

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
        """The recorded output of each request."""
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
            is_recorded = recorded is not None and request.idx < len(recorded) and recorded[request.idx] is not None
            answers.append((-recorded[request.idx] if is_recorded else float("nan"), False))
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:  # noqa: ARG002
        """The recorded log-likelihood of each text; only recorded runs have such requests."""
        return _saved(self._answers, requests, nothing=math.nan)


def _of_record(requests: Sequence[Instance]) -> bool:
    """Whether the docs are those of a recorded run of lm-eval."""
    return bool(requests) and "recorded_responses" in requests[0].doc


def _recorded_text(doc: Mapping[str, Any]) -> str:
    """The recorded output. For a choice task scored by the next token, it is the likeliest choice; the first of
    equals."""
    if "continuations" not in doc:
        return doc["recorded_output"] or ""
    if not has_recorded_answer(doc):
        return ""
    likelihoods = doc["recorded_negative_log_likelihoods"]
    return str(doc["continuations"][min(range(len(likelihoods)), key=likelihoods.__getitem__)])


def _saved(answers: Sequence[RecordedResponses] | None, requests: Sequence[Instance], nothing: Any = None) -> list[Any]:
    """The saved responses, in order: lm-eval sends a request as often as the task repeats it.

    Args:
        answers: Answers by doc; None to use those in the docs.
        requests: The requests.
        nothing: The answer for a doc without answers.
    """
    request_counts: Counter[tuple[int, int]] = Counter()
    responses_given = []
    for request in requests:
        if answers is not None:
            responses = answers[request.doc_id][request.idx]
        else:
            recorded = json.loads(request.doc["recorded_responses"] or "null")
            responses = [nothing] if recorded is None else recorded[request.idx]
        responses_given.append(responses[request_counts[request.doc_id, request.idx] % len(responses)])
        request_counts[request.doc_id, request.idx] += 1
    return responses_given


def read_recorded(docs: Sequence[Mapping[str, Any]]) -> list[RecordedResponses]:
    """Read the recorded answers of docs of a recorded run; none where one has none, or where they are not of one."""
    recorded: list[RecordedResponses] = []
    for doc in docs:
        responses = json.loads(doc.get("recorded_responses") or "null")
        if responses is None:
            return []
        recorded.append(dict(enumerate(responses)))
    return recorded


def has_recorded_answer(doc: Mapping[str, Any]) -> bool:
    """Whether a doc has an answer to replay: an output, or a numeric likelihood for every choice."""
    if "recorded_responses" in doc:
        return doc["recorded_responses"] is not None
    if "continuations" not in doc:
        return doc.get("recorded_output") is not None
    recorded = doc.get("recorded_negative_log_likelihoods") or []
    numbers = [value for value in recorded if isinstance(value, float) and math.isfinite(value)]
    return len(numbers) == len(doc["continuations"])


def register_replay_model() -> None:
    """Register the model in lm-eval."""
    import lm_eval.models  # noqa: F401 (fills the registry, which refuses additions while empty)
    from lm_eval.api.registry import MODEL_REGISTRY, register_model

    if NAME not in MODEL_REGISTRY:
        register_model(NAME)(ReplayLM)


def main() -> None:
    """Run ``lm_eval`` with this model."""
    from lm_eval.__main__ import cli_evaluate

    register_replay_model()
    sys.exit(cli_evaluate())


if __name__ == "__main__":
    # As a script, this module is not the module that lm-eval imports by name.
    from meta_eval.harness.replay import main as run

    run()
