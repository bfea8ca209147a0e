"""A backend that gives Meta's recorded answers or those of a test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from packs import read_docs

from meta_eval.ask.client import Client
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import cut_at_stop
from meta_eval.harness.answer import Answer
from meta_eval.harness.token_logprobs import TokenPlace, collect_tokens

Respond = Callable[[Request, "Meta"], Answer]


class Meta(Client):
    """Gives Meta's recorded answers except for the fault in ``how``."""

    how: Respond
    asked: Counter[str]
    recorded: dict[str, dict[str, Any]]
    forces: bool
    likes: bool

    @classmethod
    def begin(cls, how: Respond, *, forces: bool = True, likes: bool = False) -> None:
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

    def answer(self, asks: Iterable[Request]) -> Iterator[Answer]:
        for ask in asks:
            if ask.kind == "force":
                yield self.finds(ask)
                continue
            type(self).asked[ask.id] += 1
            yield type(self).how(ask, self)

    def finds(self, ask: Request) -> Answer:
        """Return a likely recorded answer if its own answer would be the same, otherwise an unlikely one."""
        doc = self.recorded[ask.id]
        asked = replace(ask, kind="generate", continuations=(), continuation_ids=None)
        response = type(self).how(asked, self)
        if response.error is not None or not type(self).forces:
            return ask.answer(error=response.error or "forces nothing")
        likely = response.text == cut_at_stop(doc["recorded_output"] or "x", ()) or type(self).likes
        ids = list(ask.forced_ids)
        other: TokenPlace = {-1: (-0.01, None)}
        places: list[TokenPlace] = [{token: (-0.01, 1)} if likely else {token: (-9.0, 99), **other} for token in ids]
        return ask.answer(tokens=collect_tokens(ids, places), prompt_tokens=response.prompt_tokens)

    def right(self, ask: Request) -> Answer:
        doc = self.recorded[ask.id]
        if ask.kind == "choices":
            return ask.answer(choices=[(-nll, None) for nll in doc["recorded_negative_log_likelihoods"]])
        text = cut_at_stop(doc["recorded_output"] or "x", ask.stop)
        return ask.answer(text=text, finish_reason="stop", completion_tokens=3)

    @staticmethod
    def bos(ask: Request) -> int:
        return sum(token == 0 for token in ask.prompt_ids or ())


def learn(pack: Path) -> None:
    """Read the recorded answers of a pack."""
    manifest = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    Meta.recorded = {
        f"{task}/{number}": doc for task in manifest["tasks"] for number, doc in enumerate(read_docs(pack, task))
    }
