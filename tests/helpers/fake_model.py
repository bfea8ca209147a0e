"""A model's folder with a tokenizer, and a backend without an engine that answers from the hash of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from small_model import write_tokenizer

from meta_eval.ask.client import Client
from meta_eval.ask.request import Request
from meta_eval.harness.answer import Answer
from meta_eval.harness.token_logprobs import TokenLogprobs, collect_tokens


def model_folder(path: Path, *, weights: bytes = b"weights") -> Path:
    """Make a folder that looks like a model's."""
    write_tokenizer(path)
    (path / "model.safetensors").write_bytes(weights)
    return path


def says(request: Request) -> dict[str, Any]:
    """Return the fake model's answer, which is always the same for a request."""
    number = int(request.prompt_sha256[:8], 16)
    if request.kind == "choices":
        return {"choices": [(-float((number >> shift) % 7 + 1), None) for shift, _ in enumerate(request.continuations)]}
    letter = "ABCDEFGHIJ"[number % 10]
    return {"text": f"The best answer is {letter}.", "finish_reason": "stop", "completion_tokens": 6}


def finds(ask: Request) -> TokenLogprobs:
    """Return fixed log-probabilities of the given tokens. Every third token is the second choice."""
    places: list[dict[int, tuple[float, int | None]]] = []
    for number, token in enumerate(ask.forced_ids):
        others = range(token + 1, token + 1 + ask.top_k)
        place: dict[int, tuple[float, int | None]] = {other: (-1.0 - other / 1000, None) for other in others}
        place[token] = (-0.125 * (token % 7), 1)
        if number % 3 == 2:
            place[token] = (-0.75, 2)
            place[999] = (-0.5, 1)
        places.append(place)
    return collect_tokens(ask.forced_ids, places, ask.top_k)


class FakeClient(Client):
    """Answers as `says`.

    Attributes:
        asked: The ids of the requests to all clients, in order.
        made: All clients.
        before: Called before each answer with the client's count of answers. Its exception ends the run there.
        fails: Returns the error of a request's n-th attempt (from 1), or None.
    """

    asked: ClassVar[list[str]] = []
    made: ClassVar[list[FakeClient]] = []
    before: Callable[[int], None] = staticmethod(lambda _given: None)
    fails: Callable[[Request, int], str | None] = staticmethod(lambda _request, _attempt: None)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made.append(self)
        self.left = False

    def __exit__(self, *_: object) -> None:
        self.left = True

    @property
    def engine(self) -> str:
        return "fake 1.0"

    def answer(self, asks: Iterable[Request]) -> Iterator[Answer]:
        open_: set[str] = set()
        for given, ask in enumerate(asks):
            type(self).before(given)
            assert ask.id not in open_, "a server tells what is asked side by side by its id"
            open_.add(ask.id)
            self.asked.append(ask.id)
            error = type(self).fails(ask, self.asked.count(ask.id))
            times = {"started": 1000.0 + given, "ended": 1001.0 + given}
            if error is not None:
                yield ask.answer(error=error, **times)
            elif ask.kind == "force":
                yield ask.answer(prompt_tokens=len(ask.prompt_ids or ()), tokens=finds(ask), **times)
            else:
                tokens = len(ask.prompt_ids or ())
                yield ask.answer(prompt_tokens=tokens, **says(ask), **times)
