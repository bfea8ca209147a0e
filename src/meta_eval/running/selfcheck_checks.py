"""The checks of selfcheck: what a backend said beside what the shipped model says, each with what to do if it fails."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from meta_eval.answers.requests import Request
from meta_eval.catalog.families import families
from meta_eval.running.client import EngineResponse

# Nats that a likelihood in float32 may be off: sums of a few tokens differ by some 1e-5 from engine to engine.
CLOSE = 1e-3

# Nats from which it is no longer rounding, and the values are those of other tokens or of another prompt. bfloat16 is
# off by some hundredths on this model.
ROUNDED = 0.25

MAX_MODEL_LEN = 4096
END = families()[0].end_of_turn


@dataclass(frozen=True, slots=True)
class Known:
    """One prompt and what the model says to it.

    Attributes:
        group: What it is asked for.
        request: What is asked.
        tokens: Of the prompt, without BOS.
        texts: Of ``generate``, by the number of BOS: the text and the reason of its end.
        choices: Of ``choices``, by the number of BOS: each log-likelihood, in nats, and whether it is the greedy one.
    """

    group: str
    request: Request
    tokens: int
    texts: Sequence[tuple[str, str]] = ()
    choices: Sequence[Sequence[tuple[float, bool]]] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis.

    Attributes:
        name: What was checked.
        passed: None where another fault hides it.
        found: What was seen.
        hint: What to do, of a check that failed.
    """

    name: str
    passed: bool | None
    found: str
    hint: str = ""


def judge(
    known: Sequence[Known], once: Mapping[str, EngineResponse], twice: Mapping[str, EngineResponse]
) -> list[Check]:
    """The checks, from what was said to each request the first and the second time."""
    seen = [Seen(one, once.get(one.request.id), twice.get(one.request.id)) for one in known]
    return _Judge([one for one in seen if one.known.group != "too_long"], seen[-1].said).checks()


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known, and what was said the first and the second time."""

    known: Known
    said: EngineResponse | None
    again: EngineResponse | None

    @property
    def text(self) -> str:
        """The answer of the first time."""
        return (self.said.text if self.said else None) or ""

    def is_answered(self) -> bool:
        """Whether there is one, of the right kind."""
        said = self.said
        return said is not None and said.error is None and len(said.choices) == len(self.known.request.continuations)

    def is_steady(self) -> bool:
        """Whether the second answer is the first."""
        if self.again is None or self.again.error is not None or self.said is None:
            return False
        if self.said.text != self.again.text:
            return False
        pairs = zip(self.said.choices, self.again.choices, strict=False)
        return all(abs(one - other) <= CLOSE for (one, _), (other, _) in pairs)

    def starts_with(self, bos: int) -> bool:
        """Whether the text begins as the known one."""
        return self.text.startswith(self.known.texts[bos][0])

    def has_text(self, bos: int) -> bool:
        """Whether text and end are the known ones; an engine may not say why an answer ended."""
        text, end = self.known.texts[bos]
        return self.text == text and self.said is not None and self.said.finish_reason in (None, end)

    def off(self, bos: int) -> float:
        """Nats by which the likelihoods differ from the known ones, at most."""
        pairs = zip(self.said.choices if self.said else (), self.known.choices[bos], strict=True)
        return max((float("inf") if math.isnan(value) else abs(value - right) for (value, _), (right, _) in pairs))

    def has_choices(self, bos: int) -> bool:
        """Whether likelihoods, and which of them are greedy, are the known ones."""
        pairs = zip(self.said.choices if self.said else (), self.known.choices[bos], strict=True)
        return self.off(bos) <= CLOSE and all(greedy in (None, right) for (_, greedy), (_, right) in pairs)


@dataclass(slots=True)
class _Judge:
    """The checks of what was seen. Each is judged for the number of BOS that there is, so that a wrong number is one
    fault and not ten."""

    seen: Sequence[Seen]
    too_long: EngineResponse | None
    bos_of_texts: int | None = field(init=False)
    bos_of_choices: int | None = field(init=False)
    steady: bool = field(init=False)

    def __post_init__(self) -> None:
        texts = [one for one in self._group("answers", "doubt") if one.is_answered()]
        right = {bos: sum(one.starts_with(bos) for one in texts) for bos in (1, 0, 2)}
        best = max(right, key=lambda bos: right[bos])
        self.bos_of_texts = best if right[best] * 2 > len(texts) else None
        choices = [one for one in self._group("one_pass", "likelihood") if one.is_answered()]
        off = {bos: sum(one.off(bos) for one in choices) / max(len(choices), 1) for bos in (1, 0, 2)}
        best = min(off, key=lambda bos: off[bos])
        self.bos_of_choices = best if choices and off[best] < ROUNDED else None
        self.steady = all(one.is_steady() for one in self.seen if one.is_answered())

    def checks(self) -> list[Check]:
        """All of what was asked, in the order in which one puts them right."""
        of_choices = [self._likelihoods(), self._one_pass()] if self._asked_choices else []
        return [
            self._requests(), self._bos(), self._answers(), self._end(), self._stop(), self._limit(), self._special(),
            self._long(), self._greedy(), *of_choices,
        ]  # fmt: skip

    @property
    def _asked_choices(self) -> bool:
        return any(one.known.choices for one in self.seen)

    def _group(self, *names: str) -> Iterator[Seen]:
        return (one for one in self.seen if one.known.group in names)

    def _texts(self, *names: str) -> list[Seen]:
        return [one for one in self._group(*names) if one.is_answered() and one.known.texts]

    def _choices(self, *names: str) -> list[Seen]:
        return [one for one in self._group(*names) if one.is_answered() and one.known.choices]

    def _requests(self) -> Check:
        failed = [one for one in self.seen if not one.is_answered()]
        if not failed:
            return Check("every request answered", True, f"{len(self.seen)} requests, twice")
        error = next((one.said.error for one in failed if one.said and one.said.error), "no answer came")
        hint = "Read the log of the engine"
        return Check("every request answered", False, f"{len(failed)} of {len(self.seen)} were not: {error:.200}", hint)

    def _bos(self) -> Check:
        name, said = "exactly one BOS", []
        for what, bos in (("texts", self.bos_of_texts), ("likelihoods", self.bos_of_choices)):
            said.append(f"{what} {'do not tell' if bos is None else f'are those of {bos}'}")
        counted = {
            one.said.prompt_tokens - one.known.tokens
            for one in self._texts("answers", "doubt")
            if one.said and one.said.prompt_tokens is not None
        }
        if len(counted) == 1:
            said.append(f"the engine counts {next(iter(counted))}")
        numbers = {self.bos_of_texts, self.bos_of_choices} - {None} | (counted if len(counted) == 1 else set())
        if not numbers:
            return Check(name, None, ", ".join(said))
        hint = (
            "Something strips the BOS: no engine may have add_bos_token=False or a tokenizer without BOS"
            if 0 in numbers
            else "Something adds a BOS to the one that is there: of a server turn add_special_tokens off"
        )
        passed = numbers == {1}
        return Check(name, passed, ", ".join(said), "" if passed else hint)

    def _share(self, name: str, seen: Sequence[Seen], right: Iterable[bool], hint: str, *, text: bool = True) -> Check:
        """A check of which every one must be right."""
        marks = list(right)
        found = f"{sum(marks)} of {len(marks)}"
        if not marks:
            return Check(name, None, "not answered")
        if all(marks):
            return Check(name, True, found)
        if text and not self.steady:
            return Check(name, None, f"{found}; hidden by answers that change")
        first = next(one for one, mark in zip(seen, marks, strict=True) if not mark)
        end = f" ({first.said.finish_reason})" if first.said and first.said.finish_reason else ""
        return Check(name, False, f"{found}; the first that is not: {first.text!r:.60}{end}" if text else found, hint)

    def _answers(self) -> Check:
        seen, bos = self._texts("answers"), self._text_bos
        hint = "Weights or prompts are not what they should be: quantisation, RoPE, a chat template around the prompt"
        return self._share("answers known by heart", seen, [one.starts_with(bos) for one in seen], hint)

    def _end(self) -> Check:
        bos = self._text_bos
        seen = [one for one in self._texts("answers") if one.starts_with(bos)]
        hint = f"It must end at {END} and say finish_reason 'stop': ignore_eos, or the stop texts are not passed on"
        return self._share("answers end at the end token", seen, [one.has_text(bos) for one in seen], hint)

    def _stop(self) -> Check:
        seen = self._texts("stop")
        hint = "It must end before a stop text and say finish_reason 'stop': the engine takes no `stop`"
        return self._share("answers end at stop texts", seen, [one.has_text(self._text_bos) for one in seen], hint)

    def _limit(self) -> Check:
        seen = self._texts("limit")
        hint = "After max_tokens it must end and say finish_reason 'length': a limit of the engine's own, or none"
        return self._share("max_tokens gives 'length'", seen, [one.has_text(self._text_bos) for one in seen], hint)

    def _special(self) -> Check:
        seen = self._texts("special")
        hint = "Special tokens within an answer must stay: skip_special_tokens=False"
        return self._share("special tokens are kept", seen, [one.starts_with(self._text_bos) for one in seen], hint)

    def _long(self) -> Check:
        name, hint = "a long prompt is not cut", "Something cuts prompts: truncate_prompt_tokens, max_length, a context"
        texts, choices = self._texts("long"), self._choices("long")
        wrong = []
        if self.too_long is not None and self.too_long.error is None:
            wrong.append(f"a prompt beyond max_model_len of {MAX_MODEL_LEN:,} was answered")
        tokens = max((one.known.tokens for one in (*texts, *choices)), default=0)
        if not all(one.starts_with(self._text_bos) for one in texts):
            wrong.append(f"after {tokens:,} tokens another answer")
        bos = self._choice_bos
        # A cut prompt is off by more than rounding; where short ones are too, it is not the length.
        short = self._choices("one_pass")
        if all(one.off(bos) <= ROUNDED for one in short) and any(one.off(bos) > ROUNDED for one in choices):
            wrong.append(f"after {tokens:,} tokens other likelihoods")
        counts = {one.said.prompt_tokens for one in texts if one.said and one.said.prompt_tokens is not None}
        if any(count < tokens for count in counts):
            wrong.append(f"the engine counts {min(counts):,} of {tokens:,} tokens")
        if not wrong:
            told = texts and (choices or not self._asked_choices)
            return Check(name, True if told else None, f"{tokens:,} tokens; one that is too long is refused")
        if len(wrong) == 1 and "another answer" in wrong[0] and not self.steady:
            return Check(name, None, "hidden by answers that change")
        return Check(name, False, "; ".join(wrong), hint)

    def _greedy(self) -> Check:
        name = "greedy, and twice the same"
        changed = [one for one in self.seen if one.is_answered() and not one.is_steady()]
        doubts = self._texts("doubt")
        right = sum(one.starts_with(self._text_bos) for one in doubts)
        found = f"{len(changed)} of {len(self.seen)} changed; {right} of {len(doubts)} where it is in doubt"
        if not doubts:
            return Check(name, None, found)
        hint = "Answers are sampled or penalised: temperature, repetition_penalty, a server's --generation-config"
        passed = not changed and right == len(doubts)
        return Check(name, passed, found, "" if passed else hint)

    def _likelihoods(self) -> Check:
        return self._close("likelihoods", self._choices("likelihood"))

    def _one_pass(self) -> Check:
        return self._close("likelihoods in one pass", self._choices("one_pass"))

    def _close(self, name: str, seen: Sequence[Seen]) -> Check:
        bos = self._choice_bos
        if not seen:
            return Check(name, None, "not answered")
        off = max(one.off(bos) for one in seen)
        found = f"off by at most {off:.1g} nats" if off < 100 else "far off"
        if all(one.has_choices(bos) for one in seen):
            return Check(name, True, found)
        if CLOSE < off < ROUNDED:
            return Check(name, False, f"{found}, as of rounding", "Is it in float32? --dtype float32; no quantisation")
        if off <= CLOSE:
            return Check(name, False, f"{found}, but is_greedy is wrong", "It is the client's: please report it")
        return Check(name, False, found, "They are of other tokens, of another base, or scaled: temperature, logprobs")

    @property
    def _text_bos(self) -> int:
        return 1 if self.bos_of_texts is None else self.bos_of_texts

    @property
    def _choice_bos(self) -> int:
        return 1 if self.bos_of_choices is None else self.bos_of_choices
