"""The probes of a fidelity run: a few docs with prompts changed as a wrong set-up would change them.

`meta_eval.plugins.tokens.perturbations` makes them, `meta_eval.plugins.tokens.probe_signatures` interprets them. They
are ordinary requests of kind ``force``, with their own ids and hashes.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from meta_eval.plugins.tokens.perturbations import (
    MAX_ANSWER_TOKENS,
    PROMPTS,
    START,
    make_perturbations,
    turn_start_round,
)
from meta_eval.plugins.tokens.probe_table import Probed
from meta_eval.sockets import Answers, Encoder, Key, Request, encode_requests

# Number of docs with short prompts, which get all probes, and with the longest prompts, which get another start.
SHORT, LONG = 16, 8


# By task, numbers of docs.
Docs = Mapping[str, Sequence[int]]


class ProbeRequests:
    """The probes that a run sends in addition to its docs.

    Args:
        short: Requests of kind ``force`` that get all probes.
        long: Requests that get a changed start of the prompt.
    """

    def __init__(self, short: Iterable[Request], long: Iterable[Request]) -> None:
        self._ways = [(request, PROMPTS) for request in short] + [(request, (START,)) for request in long]

    def is_begun(self, answers: Answers) -> bool:
        """Whether any probe was answered; True without probes."""
        keys = [_key(request, name) for request, names in self._ways for name in names]
        return not keys or any(key in answers.by_key or key in answers.failed for key in keys)

    def build_requests(self, encoder: Encoder, answered: Container[Key] = ()) -> Iterator[Request]:
        """Build the probes without an answer.

        Args:
            encoder: The model's tokenizer.
            answered: The ids and hashes of answered probes.
        """
        for request, names in self._ways:
            left = {name for name in names if _key(request, name) not in answered}
            for encoded in encode_requests([request] if left else [], encoder):
                for name, (prompt, answer) in _variants(encoded, names, encoder):
                    if name in left and prompt and answer:
                        yield replace(_probe(request, name), prompt_ids=prompt, continuation_ids=[answer])

    def build_table(self, answers: Answers) -> Iterator[Probed]:
        """Build the rows of the table of probes, in the order of docs."""
        for request, names in self._ways:
            recorded_answer = answers.by_key.get(request.key)
            for name in names:
                answer = answers.by_key.get(_key(request, name))
                if recorded_answer is None or answer is None or answer.tokens is None:
                    continue
                tokens = answer.tokens
                yield Probed(
                    request.task, request.doc, name, _probe(request, name).sha256, recorded_answer.prompt_tokens or 0,
                    np.asarray(tokens.ids, np.int32), np.asarray(tokens.logprobs, np.float32),
                    np.asarray(tokens.top_logprobs, np.float32),
                )  # fmt: skip


def _probe(request: Request, name: str) -> Request:
    """The request of a probe: that of the doc, with another id and hash."""
    return replace(request, id=f"{request.id}/{name}", settings={"probe": name})


def _key(request: Request, name: str) -> Key:
    return _probe(request, name).key


def _variants(
    request: Request, names: Sequence[str], encoder: Encoder
) -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    ids, answer = list(request.prompt_ids or ()), list(request.forced_ids)
    if names == (START,):
        turned = turn_start_round(ids)
        if turned is not None:
            yield START, (turned, answer[:MAX_ANSWER_TOKENS])
    else:
        yield from make_perturbations(
            request.prompt, ids, answer, encoder.bos, encoder.encode_text, encoder.encode_spelled
        )


def choose_probed_docs(lengths: Mapping[str, Mapping[int, int]]) -> tuple[Docs, Docs]:
    """Choose the docs for all probes, the shortest of each task in turn, and the longest docs of all.

    Args:
        lengths: The length of the prompt by task and doc. The same lengths give the same docs.
    """
    orders = [[(task, doc) for doc in sorted(docs, key=lambda doc: (docs[doc], doc))] for task, docs in lengths.items()]
    in_turn = [doc for row in itertools.zip_longest(*orders) for doc in row if doc is not None]
    sizes = sorted((-size, task, doc) for task, docs in lengths.items() for doc, size in docs.items())
    return _by_task(in_turn[:SHORT]), _by_task([(task, doc) for _, task, doc in sizes[:LONG]])


def _by_task(docs: Iterable[tuple[str, int]]) -> Docs:
    numbers_by_task: dict[str, list[int]] = {}
    for task, doc in docs:
        numbers_by_task.setdefault(task, []).append(doc)
    return {task: sorted(numbers) for task, numbers in numbers_by_task.items()}
