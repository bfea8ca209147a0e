"""Checks an engine with the shipped model, through the client of a backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.ask.client import Client
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.doctor.answer_checks import check_answers
from meta_eval.doctor.check import Finding
from meta_eval.doctor.known_answers import find_model_folder, read_known_answers


@dataclass(frozen=True, slots=True)
class EngineChecks:
    """The checks of an engine.

    Attributes:
        engine: The engine that answered.
        seconds: Time to answer, without the start.
        checks: In the order in which to fix failures.
    """

    engine: str
    seconds: float
    checks: Sequence[Finding]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.status == "passed" for check in self.checks)


def check_engine(client: Client) -> EngineChecks:
    """Send a running backend every known prompt that it supports, twice, and compare the answers.

    Raises:
        BackendError: The engine is gone.
    """
    import time

    from tokenizers import Tokenizer

    known_answers = [answer for answer in read_known_answers() if answer.request.kind in client.backend.kinds]
    encoder = Encoder(Tokenizer.from_file(str(find_model_folder() / "tokenizer.json")))
    requests = list(encode_requests([answer.request for answer in known_answers], encoder))
    started = time.monotonic()
    rounds = [
        {answer.id: answer for answer in client.answer(ordered)}
        for ordered in (requests, requests[::-1])  # another order makes other batches
    ]
    return EngineChecks(client.engine, time.monotonic() - started, check_answers(known_answers, *rounds))
