"""A backend that gives Meta's recorded answers or those of a test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from packs import read_docs

from meta_eval.ask.answers.answer_matching import cut_at_stop
from meta_eval.ask.client import Client, EngineRequest, EngineResponse
from meta_eval.harness.token_logprobs import TokenPlace, collect_tokens

Answer = Callable[[EngineRequest, "Meta"], EngineResponse]


class Meta(Client):
    """Gives Meta's recorded answers except for the fault in ``how``."""

    how: Answer
    asked: Counter[str]
    recorded: dict[str, dict[str, Any]]
    forces: bool
    likes: bool

    @classmethod
    def begin(cls, how: Answer, *, forces: bool = True, likes: bool = False) -> None:
        """Forget all requests and set how to answer.

        Args:
            how: Returns an answer.
            forces: It can return log-probabilities of a text.
            likes: The recorded answer is always likely, also if its own answer differs.
        """
        cls.how, cls.asked = staticmethod(how), Counter()  # type: ignore[assignment]
        cls.forces, cls.likes = forces, likes

    @property
    def engine(self) -> str:
        return "recorded"

    def answer(self, asks: Iterable[EngineRequest]) -> Iterator[EngineResponse]:
        for ask in asks:
            if ask.request.kind == "force":
                yield self.finds(ask)
                continue
            type(self).asked[ask.request.id] += 1
            yield type(self).how(ask, self)

    def finds(self, ask: EngineRequest) -> EngineResponse:
        """Return a likely recorded answer if its own answer would be the same, otherwise an unlikely one."""
        doc = self.recorded[ask.request.id]
        asked = replace(ask, request=replace(ask.request, kind="generate", continuations=()), continuation_ids=None)
        response = type(self).how(asked, self)
        if response.error is not None or not type(self).forces:
            return EngineResponse(ask.request, error=response.error or "forces nothing")
        likely = response.text == cut_at_stop(doc["recorded_output"] or "x", ()) or type(self).likes
        ids = list(ask.forced_ids)
        other: TokenPlace = {-1: (-0.01, None)}
        places: list[TokenPlace] = [{token: (-0.01, 1)} if likely else {token: (-9.0, 99), **other} for token in ids]
        return EngineResponse(ask.request, forced=collect_tokens(ids, places), prompt_tokens=response.prompt_tokens)

    def right(self, ask: EngineRequest) -> EngineResponse:
        doc = self.recorded[ask.request.id]
        if ask.request.kind == "choices":
            return EngineResponse(
                ask.request, choices=[(-nll, None) for nll in doc["recorded_negative_log_likelihoods"]]
            )
        text = cut_at_stop(doc["recorded_output"] or "x", ask.request.stop)
        return EngineResponse(ask.request, text=text, finish_reason="stop", completion_tokens=3)

    @staticmethod
    def bos(ask: EngineRequest) -> int:
        return sum(token == 0 for token in ask.prompt_ids or ())


def learn(pack: Path) -> None:
    """Read the recorded answers of a pack."""
    manifest = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    Meta.recorded = {
        f"{task}/{number}": doc for task in manifest["tasks"] for number, doc in enumerate(read_docs(pack, task))
    }
