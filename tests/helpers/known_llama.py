"""A backend without an engine: the shipped tiny Llama in numpy with a chosen fault."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from places import REPOSITORY

from meta_eval.ask.client import Client, explain_too_long
from meta_eval.ask.request import Request
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.doctor.known_answers import END, find_model_folder, make_settings
from meta_eval.harness.answer import Answer

_SPEC = importlib.util.spec_from_file_location("known_answers_tool", REPOSITORY / "tools/known_answers.py")
assert _SPEC and _SPEC.loader
tool: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["known_answers_tool"] = tool
_SPEC.loader.exec_module(tool)


class Remembered(tool.Model):  # type: ignore[misc]
    """The model with a cache of prompts and greedy steps, also across different ends of an answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._first: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}
        self._greedy: dict[tuple[int, ...], tuple[list[Any], Iterator[Any]]] = {}

    def log_probabilities(self, ids: Sequence[int], cache: list[Any] | None = None, last: int = 1) -> Any:
        if cache != [] or last != 1:
            return super().log_probabilities(ids, cache, last)
        if tuple(ids) not in self._first:
            cache[:], shared = self._begun(tuple(ids))
            self._first[tuple(ids)] = super().log_probabilities(ids[shared:], cache, last), list(cache)
        result, cache[:] = self._first[tuple(ids)]  # callers replace the items and do not modify them
        return result

    def _begun(self, ids: tuple[int, ...]) -> tuple[list[Any], int]:
        """The keys and values of what a long prompt has in common with one before it, and how many tokens that is."""
        for other, (_, kept) in self._first.items():
            if len(ids) > 1000 and ids[:1000] == other[:1000]:
                pairs = zip(ids[:-1], other, strict=False)
                shared = next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(ids) - 1, len(other)))
                return [(keys[:, :shared], values[:, :shared]) for keys, values in kept], shared
        return [], 0

    def steps(self, ids: Sequence[int]) -> Iterator[tuple[int, Any]]:
        taken, more = self._greedy.setdefault(tuple(ids), ([], super().steps(ids)))
        for number in itertools.count():
            if number == len(taken):
                taken.append(next(more))
            yield taken[number]


@functools.cache
def model() -> Remembered:
    return Remembered(find_model_folder())


@functools.cache
def write(ids: tuple[int, ...], stop: tuple[str, ...], max_tokens: int) -> tuple[str, str, int]:
    written: tuple[str, str, int] = model().write(ids, stop=stop, max_tokens=max_tokens)
    return written


@functools.cache
def likelihoods(ids: tuple[int, ...], ends: tuple[tuple[int, ...], ...]) -> list[tuple[float, bool]]:
    pairs: list[tuple[float, bool]] = model().likelihoods(ids, ends)
    return pairs


class NumpyClient(Client):
    """Answers as the model with a single fault."""

    def __init__(self, fault: str = "", *, counts: bool = True) -> None:
        super().__init__(make_settings(EngineOptions()), model="tiny", logs=Path(), end=(END,))
        self.fault, self.counts = fault, counts
        self.asked: list[Request] = []
        self._chance = random.Random(42)

    @property
    def engine(self) -> str:
        return "numpy"

    def answer(self, asks: Iterable[Request]) -> Iterator[Answer]:
        for ask in asks:
            self.asked.append(ask)
            why = explain_too_long(ask, self.settings.max_model_len)
            if self.fault == "one fails" and ask.id == "doctor/answers/3":
                yield ask.answer(error="refused", retry=False)
            elif why is not None and self.fault != "cuts prompts":
                yield ask.answer(error=why, retry=False)
            else:
                yield self._make_response(ask, self._fed(list(ask.prompt_ids or ())))

    def _fed(self, ids: list[int]) -> tuple[int, ...]:
        bos = model().bos
        match self.fault:
            case "strips BOS":
                ids = ids[1:]
            case "adds BOS":
                ids = [bos, *ids]
            case "cuts prompts":
                ids = ids[-2048:]
        return tuple(ids)

    def _make_response(self, ask: Request, ids: tuple[int, ...]) -> Answer:
        response = ask.answer(prompt_tokens=len(ids) if self.counts else None)
        if ask.kind == "choices":
            return replace(response, choices=self._choices(ask, ids))
        stop = () if self.fault == "ignores stop texts" else tuple(ask.stop)
        most = ask.max_tokens + (8 if self.fault == "ignores max_tokens" else 0)
        if self.fault == "samples":
            text, end, tokens = self._sampled(ids, stop, most)
        elif self.fault == "ignores the end":
            text, end, tokens = self._endless(ids, stop, most)
        else:
            text, end, tokens = write(ids, stop, most)
        if self.fault == "drops special tokens":
            for token in ("<|start_header_id|>", "<|end_header_id|>"):
                text = text.replace(token, "")
        if self.fault == "says stop at the limit":
            end = "stop"
        return replace(response, text=text, finish_reason=end, completion_tokens=tokens)

    def _choices(self, ask: Request, ids: tuple[int, ...]) -> list[tuple[float, bool]]:
        ends = tuple(map(tuple, ask.continuation_ids or ()))
        if self.fault == "likelihood of the token beside" or (self.fault == "one pass is wrong" and ask.one_token_each):
            ends = tuple(tuple(token + 1 for token in end) for end in ends)
        pairs = likelihoods(ids, ends)
        return [(value + 0.03, greedy) for value, greedy in pairs] if self.fault == "rounds" else pairs

    def _endless(self, ids: tuple[int, ...], stop: Sequence[str], most: int) -> tuple[str, str, int]:
        written: list[int] = []
        for token, _ in model().steps(ids):
            written.append(token)
            text = model().decode(written)
            for sequence in stop:
                if sequence in text:
                    return text.partition(sequence)[0], "stop", len(written)
            if len(written) == most:
                return text, "length", most
        raise AssertionError

    def _sampled(self, ids: tuple[int, ...], stop: Sequence[str], most: int) -> tuple[str, str, int]:
        cache: list[Any] = []
        after, written = list(ids), []
        while True:
            exp = np.exp(model().log_probabilities(after, cache)[0].astype(np.float64))
            after = self._chance.choices(range(len(exp)), exp.tolist())
            if after[0] in model().ends:
                return model().decode(written), "stop", len(written) + 1
            written.append(after[0])
            text = model().decode(written)
            for sequence in stop:
                if sequence in text:
                    return text.partition(sequence)[0], "stop", len(written)
            if len(written) == most:
                return text, "length", most
