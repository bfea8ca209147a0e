"""The checks of an engine: a model whose every answer is known, asked through the client of a backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.answers.requests import Encoder
from meta_eval.doctor.answer_checks import check_answers
from meta_eval.doctor.check import Check
from meta_eval.doctor.known_answers import model_folder, read_known_answers
from meta_eval.running.client import Client, with_token_ids


@dataclass(frozen=True, slots=True)
class EngineChecks:
    """The checks of one engine.

    Attributes:
        engine: What answered.
        seconds: That it took to answer, its start not counted.
        checks: In the order in which a user should fix what fails.
    """

    engine: str
    seconds: float
    checks: Sequence[Check]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.status == "passed" for check in self.checks)


def check_engine(client: Client) -> EngineChecks:
    """Ask a backend at work every known prompt that it says it can answer, twice, and compare.

    Raises:
        BackendError: The engine is gone.
    """
    import time

    from tokenizers import Tokenizer

    known = [answer for answer in read_known_answers() if answer.request.kind in client.backend.kinds]
    encoder = Encoder(Tokenizer.from_file(str(model_folder() / "tokenizer.json")))
    requests = list(with_token_ids([answer.request for answer in known], encoder))
    started = time.monotonic()
    rounds = [
        {response.request.id: response for response in client.answer(ordered)}
        for ordered in (requests, requests[::-1])  # in another order, so that other requests share a batch
    ]
    return EngineChecks(client.engine, time.monotonic() - started, check_answers(known, *rounds))
