"""Checks an engine with the shipped model, through the client of a backend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from meta_eval.ask.client import Client
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.base.display import plural
from meta_eval.base.thresholds import KNOWN_LIKELIHOOD_CLOSE, KNOWN_LIKELIHOOD_ROUNDED
from meta_eval.doctor.check import Finding, failed, not_checked, passed
from meta_eval.doctor.known_answers import END, MAX_MODEL_LEN, KnownAnswer, find_model_folder, read_known_answers
from meta_eval.harness.answer import Answer

Responses = Mapping[str, Answer]


def check_answers(known_answers: Sequence[KnownAnswer], first: Responses, second: Responses) -> list[Finding]:
    """Make the checks from two rounds of responses. The last known answer is the prompt that is too long."""
    pairs = [
        AnswerPair(answer, first.get(answer.request.id), second.get(answer.request.id)) for answer in known_answers
    ]
    within = [pair for pair in pairs if pair.known_answer.group != "too_long"]
    return _AnswerChecks(within, pairs[-1].first).make_checks()


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """A known answer with the responses of both rounds."""

    known_answer: KnownAnswer
    first: Answer | None
    second: Answer | None

    @property
    def text(self) -> str:
        """The text of the first round."""
        return (self.first.text if self.first else None) or ""

    def is_answered(self) -> bool:
        """Whether there is an answer of the right kind."""
        first = self.first
        return (
            first is not None
            and first.error is None
            and len(first.choices) == len(self.known_answer.request.continuations)
        )

    def is_steady(self) -> bool:
        """Whether both rounds gave the same answer."""
        if self.second is None or self.second.error is not None or self.first is None:
            return False
        if self.first.text != self.second.text:
            return False
        pairs = zip(self.first.choices, self.second.choices, strict=False)
        return all(abs(value - other) <= KNOWN_LIKELIHOOD_CLOSE for (value, _), (other, _) in pairs)

    def starts_with(self, bos: int) -> bool:
        """Whether the text begins like the known text."""
        return self.text.startswith(self.known_answer.texts[bos][0])

    def has_text(self, bos: int) -> bool:
        """Whether the text and its end are the known ones. An engine may omit why an answer ended."""
        text, end = self.known_answer.texts[bos]
        return self.text == text and self.first is not None and self.first.finish_reason in (None, end)

    def measure_error(self, bos: int) -> float:
        """Largest difference from the known log-likelihoods, in nats."""
        pairs = zip(self.first.choices if self.first else (), self.known_answer.choices[bos], strict=True)
        return max((float("inf") if math.isnan(value) else abs(value - right) for (value, _), (right, _) in pairs))

    def has_choices(self, bos: int) -> bool:
        """Whether the log-likelihoods and their greedy flags are the known ones."""
        pairs = zip(self.first.choices if self.first else (), self.known_answer.choices[bos], strict=True)
        greedy_right = all(greedy in (None, right) for (_, greedy), (_, right) in pairs)
        return self.measure_error(bos) <= KNOWN_LIKELIHOOD_CLOSE and greedy_right


@dataclass(slots=True)
class _AnswerChecks:
    """Checks for the number of BOS that the engine really uses. A wrong number is then a single fault, not ten."""

    pairs: Sequence[AnswerPair]
    too_long: Answer | None
    bos_of_texts: int | None = field(init=False)
    bos_of_choices: int | None = field(init=False)
    steady: bool = field(init=False)

    def __post_init__(self) -> None:
        texts = [pair for pair in self._of_groups("answers", "doubt") if pair.is_answered()]
        right = {bos: sum(pair.starts_with(bos) for pair in texts) for bos in (1, 0, 2)}
        best = max(right, key=lambda bos: right[bos])
        self.bos_of_texts = best if right[best] * 2 > len(texts) else None
        choices = [pair for pair in self._of_groups("one_pass", "likelihood") if pair.is_answered()]
        errors = {bos: sum(pair.measure_error(bos) for pair in choices) / max(len(choices), 1) for bos in (1, 0, 2)}
        best = min(errors, key=lambda bos: errors[bos])
        self.bos_of_choices = best if choices and errors[best] < KNOWN_LIKELIHOOD_ROUNDED else None
        self.steady = all(pair.is_steady() for pair in self.pairs if pair.is_answered())

    def make_checks(self) -> list[Finding]:
        """Make all checks, in the order in which to fix failures."""
        kinds = {"likelihoods": "likelihood", "likelihoods in one pass": "one_pass"} if self._asked_choices else {}
        of_choices = [self._check_close(name, self._choices(kind)) for name, kind in kinds.items()]
        return [
            self._check_requests(), self._check_bos(), self._check_answers(), self._check_end(), self._check_stop(),
            self._check_limit(), self._check_special(), self._check_long(), self._check_greedy(), *of_choices,
        ]  # fmt: skip

    @property
    def _asked_choices(self) -> bool:
        return any(pair.known_answer.choices for pair in self.pairs)

    def _of_groups(self, *names: str) -> Iterator[AnswerPair]:
        return (pair for pair in self.pairs if pair.known_answer.group in names)

    def _texts(self, *names: str) -> list[AnswerPair]:
        return [pair for pair in self._of_groups(*names) if pair.is_answered() and pair.known_answer.texts]

    def _choices(self, *names: str) -> list[AnswerPair]:
        return [pair for pair in self._of_groups(*names) if pair.is_answered() and pair.known_answer.choices]

    def _check_requests(self) -> Finding:
        name, lost = "every request answered", [pair for pair in self.pairs if not pair.is_answered()]
        if not lost:
            return passed(name, f"{plural(len(self.pairs), 'request')}, twice")
        error = next((pair.first.error for pair in lost if pair.first and pair.first.error), "no answer came")
        return failed(name, f"{len(lost)} of {len(self.pairs)} were not: {error:.200}", "Read the log of the engine")

    def _check_bos(self) -> Finding:
        name, seen = "exactly one BOS", []
        for what, bos in (("texts", self.bos_of_texts), ("likelihoods", self.bos_of_choices)):
            seen.append(f"{what} {'do not tell' if bos is None else f'are those of {bos}'}")
        counted = {
            pair.first.prompt_tokens - pair.known_answer.tokens
            for pair in self._texts("answers", "doubt")
            if pair.first and pair.first.prompt_tokens is not None
        }
        if len(counted) == 1:
            seen.append(f"the engine counts {next(iter(counted))}")
        numbers = {self.bos_of_texts, self.bos_of_choices} - {None} | (counted if len(counted) == 1 else set())
        if not numbers:
            return not_checked(name, ", ".join(seen))
        if numbers == {1}:
            return passed(name, ", ".join(seen))
        hint = (
            "The BOS is missing: remove add_bos_token=False, or use a tokenizer that has a BOS"
            if 0 in numbers
            else "A second BOS is added: on a server, turn add_special_tokens off"
        )
        return failed(name, ", ".join(seen), hint)

    def _check_share(self, name: str, pairs: Sequence[AnswerPair], right: Iterable[bool], hint: str) -> Finding:
        """Check texts that must all be right."""
        marks = list(right)
        share = f"{sum(marks)} of {len(marks)}"
        if not marks:
            return not_checked(name, "not answered")
        if all(marks):
            return passed(name, share)
        if not self.steady:
            return not_checked(name, f"{share}; hidden by answers that change")
        wrong = next(pair for pair, mark in zip(pairs, marks, strict=True) if not mark)
        end = f" ({wrong.first.finish_reason})" if wrong.first and wrong.first.finish_reason else ""
        return failed(name, f"{share}; the first that is not: {wrong.text!r:.60}{end}", hint)

    def _check_answers(self) -> Finding:
        pairs, bos = self._texts("answers"), self._text_bos
        hint = "Weights or prompts differ: check quantisation, RoPE, and a chat template around the prompt"
        return self._check_share("answers known by heart", pairs, [pair.starts_with(bos) for pair in pairs], hint)

    def _check_end(self) -> Finding:
        bos = self._text_bos
        pairs = [pair for pair in self._texts("answers") if pair.starts_with(bos)]
        hint = f"It must end at {END} with finish_reason 'stop': check ignore_eos and the stop strings of the request"
        return self._check_share("answers end at the end token", pairs, [pair.has_text(bos) for pair in pairs], hint)

    def _check_stop(self) -> Finding:
        pairs, bos = self._texts("stop"), self._text_bos
        hint = "It must end before a stop string with finish_reason 'stop': the engine may ignore `stop`"
        return self._check_share("answers end at stop texts", pairs, [pair.has_text(bos) for pair in pairs], hint)

    def _check_limit(self) -> Finding:
        pairs, bos = self._texts("limit"), self._text_bos
        hint = "It must end after max_tokens with finish_reason 'length': the engine may have another limit, or none"
        return self._check_share("max_tokens gives 'length'", pairs, [pair.has_text(bos) for pair in pairs], hint)

    def _check_special(self) -> Finding:
        pairs, bos = self._texts("special"), self._text_bos
        hint = "Answers must keep special tokens: set skip_special_tokens=False"
        return self._check_share("special tokens are kept", pairs, [pair.starts_with(bos) for pair in pairs], hint)

    def _check_long(self) -> Finding:
        name, hint = (
            "a long prompt is not cut",
            "Prompts are cut: check truncate_prompt_tokens, max_length, context size",
        )
        texts, choices = self._texts("long"), self._choices("long")
        wrong = []
        if self.too_long is not None and self.too_long.error is None:
            wrong.append(f"a prompt beyond max_model_len of {MAX_MODEL_LEN:,} was answered")
        tokens = max((pair.known_answer.tokens for pair in (*texts, *choices)), default=0)
        if not all(pair.starts_with(self._text_bos) for pair in texts):
            wrong.append(f"after {tokens:,} tokens another answer")
        # A cut prompt causes errors above rounding. If short prompts have them too, length is not the cause.
        if not self._is_off(self._choices("one_pass")) and self._is_off(choices):
            wrong.append(f"after {tokens:,} tokens other likelihoods")
        counts = {pair.first.prompt_tokens for pair in texts if pair.first and pair.first.prompt_tokens is not None}
        if any(count < tokens for count in counts):
            wrong.append(f"the engine counts {min(counts):,} of {tokens:,} tokens")
        if not wrong:
            make = passed if texts and (choices or not self._asked_choices) else not_checked
            return make(name, f"{tokens:,} tokens; one that is too long is refused")
        if len(wrong) == 1 and "another answer" in wrong[0] and not self.steady:
            return not_checked(name, "hidden by answers that change")
        return failed(name, "; ".join(wrong), hint)

    def _is_off(self, pairs: Iterable[AnswerPair]) -> bool:
        """Whether log-likelihoods differ by more than rounding."""
        return any(pair.measure_error(self._choice_bos) > KNOWN_LIKELIHOOD_ROUNDED for pair in pairs)

    def _check_greedy(self) -> Finding:
        name = "greedy, and twice the same"
        changed = [pair for pair in self.pairs if pair.is_answered() and not pair.is_steady()]
        doubts = self._texts("doubt")
        right = sum(pair.starts_with(self._text_bos) for pair in doubts)
        what = f"{len(changed)} of {len(self.pairs)} changed; {right} of {len(doubts)} where it is in doubt"
        if not doubts:
            return not_checked(name, what)
        if not changed and right == len(doubts):
            return passed(name, what)
        hint = "Answers are sampled or penalised: check temperature, repetition_penalty, a server's --generation-config"
        return failed(name, what, hint)

    def _check_close(self, name: str, pairs: Sequence[AnswerPair]) -> Finding:
        bos = self._choice_bos
        if not pairs:
            return not_checked(name, "not answered")
        error = max(pair.measure_error(bos) for pair in pairs)
        what = f"off by at most {error:.1g} nats" if error < 100 else "far off"
        if all(pair.has_choices(bos) for pair in pairs):
            return passed(name, what)
        if KNOWN_LIKELIHOOD_CLOSE < error < KNOWN_LIKELIHOOD_ROUNDED:
            return failed(name, f"{what}, as of rounding", "Use float32 (--dtype float32) without quantisation")
        if error <= KNOWN_LIKELIHOOD_CLOSE:
            return failed(name, f"{what}, but is_greedy is wrong", "This is a bug of the client: please report it")
        return failed(name, what, "Check temperature and the engine's logprobs: other tokens, base or scale")

    @property
    def _text_bos(self) -> int:
        return 1 if self.bos_of_texts is None else self.bos_of_texts

    @property
    def _choice_bos(self) -> int:
        return 1 if self.bos_of_choices is None else self.bos_of_choices


@dataclass(frozen=True, slots=True)
class EngineChecks:
    """The checks of an engine."""

    engine: str
    """The engine that answered."""

    seconds: float
    """Time to answer, without the start."""

    checks: Sequence[Finding]
    """In the order in which to fix failures."""

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
