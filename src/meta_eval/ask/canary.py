"""The canary: the first docs are compared with the recorded answers, to stop a broken set-up early.

These observations stop a run. The limits are reasoned, not measured on real models:

* **The engine counts another number of tokens** in a prompt than were sent: a BOS was added or removed, or the prompt
  was cut. There is no threshold. It is checked for every request, if the engine counts.
* **All texts are degenerate** and the recorded texts are not: empty, only special tokens, or a repeated word or sign.
  No working Llama does that on every doc. At least `FEWEST` docs are needed.
* **Hardly any text has the recorded first token.** A model that agrees on a third of the docs would have so few with a
  probability below `CHANCE`: 0 of 12, 2 of 24, 4 of 32. (Requiring none would be too strict: doctor's tiny Llama
  without BOS is wrong on every doc and has 1 of 24 by chance.) A model may open all answers in another way
  (``<think>``). It passes if it can be forced and predicts most tokens of the recorded answers. Otherwise it is stopped
  by mistake, which costs a minute instead of hours.
* **The recorded answers are likelier with another number of BOS**, where the engine can be forced
  (`measure_evidence`). The share of likeliest tokens also suggests causes for the other observations.
* **Likelihoods are useless**: not a number, or equal for all continuations of every doc, within `ALIKE` nats.
* **The likeliest continuation is the recorded one on too few docs.** A model that agrees on half of them would have so
  few with a probability below `CHANCE`. With four choices a broken model agrees on a quarter.

A chat endpoint renders prompts itself. There first tokens stop a run only if the record is of the model that is asked.

With too few docs nothing stops the run; the figures are shown. If the backend takes token ids, suspect docs are asked
again with a BOS less and a BOS more. If that gives the recorded answer, the cause is known. No other cause is named:
the message says what was seen, and what to check.

For a sound model most recorded tokens are the likeliest, however it would open its own answers. With scrambled weights
or tokens hardly any are. The share does not reveal a wrong prompt: after the first words of an answer any language
model goes on well. Doctor's tiny Llama without BOS has 79 %. So a good share excuses only a model that opens every
answer in another way.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_eval.ask.client import Client
from meta_eval.ask.pending_requests import PendingRequests
from meta_eval.ask.recorded_answers import Recordings, make_scoring_request
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import Force, cut_at_stop, find_request_kind
from meta_eval.base.logs import log
from meta_eval.base.thresholds import BOS_CHANCE, BOS_DOCS, BOS_NATS, SOUND
from meta_eval.harness.answer import Answer
from meta_eval.harness.chat_completion import ToolCall
from meta_eval.harness.families import find_family, list_families
from meta_eval.pack.backends.base import BackendError


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of another number of BOS: on how many docs answers are likelier, and by how much per token."""

    better: int
    of: int
    nats: float

    def __str__(self) -> str:
        return f"on {self.better} of {self.of} docs and by {self.nats:.2f} nats a token"


def measure_gain(plain: Mapping[Any, float], changed: Mapping[Any, float], top: float) -> Gain | None:
    """Measure the gain; None if it is not certain.

    It counts only if the copy then predicts most tokens. A broken copy predicts few, and another BOS changes all its
    docs alike, right or wrong.

    Args:
        plain: The mean log-probability of a token by doc, nats.
        changed: The same with the other number of BOS, for some of these docs.
        top: The share of tokens that are the likeliest with the other number, 0 to 1.
    """
    gains = [value - plain[doc] for doc, value in changed.items() if doc in plain]
    better, mean = sum(value > 0 for value in gains), sum(gains) / max(len(gains), 1)
    if top < SOUND or mean <= BOS_NATS or _sign_test(better, len(gains)) >= BOS_CHANCE:
        return None
    return Gain(better, len(gains), mean)


def _sign_test(hits: int, of: int) -> float:
    """The probability of at least so many heads in fair coin tosses."""
    return float(sum(math.comb(of, k) for k in range(hits, of + 1)) / 2**of)


def change_bos(ids: Sequence[int], bos: int, *, fewer: bool) -> list[int]:
    """Remove a BOS, or add another."""
    return list(ids[1:]) if fewer else [bos, *ids]


# Number of docs in all.
DOCS = 32


def choose_first_requests(pending: PendingRequests, recordings: Recordings) -> dict[str, tuple[Request, Answer]]:
    """Choose the first requests among the pending ones, by id, with their recorded answers."""
    recorded, eligible = {}, {}
    for task, left in pending.left.items():
        if left:
            recorded[task], subtasks = recordings.read_task(task)
            docs = pending.docs_left(task)
            eligible[task] = [
                (name or "") if answer is not None and doc in docs else None
                for doc, (answer, name) in enumerate(zip(recorded[task], subtasks, strict=True))
            ]
    first = {}
    for request in pending.of_docs(spread_docs(eligible)):
        answer = recorded[request.task][request.doc]
        if (
            answer is not None
            and request.repeat == 0
            and find_request_kind(request.kind).is_comparable(request, answer)
        ):
            first[request.id] = request, _flatten_message(answer)
    return first


def join_calls(text: str, tool_calls: Iterable[ToolCall]) -> str:
    """The text of a message and its tool calls as one text, to compare messages word for word."""
    return "\n".join(filter(None, [text, *(f"{call.name} {call.arguments}" for call in tool_calls)]))


def _flatten_message(recorded: Answer) -> Answer:
    """A recorded answer as `join_calls` writes it, if it is a whole message (`ChatChoice.format_message`)."""
    if not recorded.text or not recorded.text.startswith('{"content": '):
        return recorded
    try:
        message = json.loads(recorded.text)
        return replace(
            recorded, text=join_calls(message["content"], (ToolCall(**call) for call in message["tool_calls"]))
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return recorded


def spread_docs(tasks: Mapping[str, Sequence[str | None]], docs: int = DOCS) -> dict[str, list[int]]:
    """Docs spread over tasks, and in each over its subtasks; the same for the same input.

    Args:
        tasks: By task, the subtask of each doc; None for a doc that cannot be compared.
        docs: Number of docs in all.
    """
    turns = {task: iter(_in_turns(subtasks)) for task, subtasks in tasks.items()}
    names = list(turns)
    if len(names) > docs:  # every k-th, because similar tasks are next to each other
        names = [names[number * len(names) // docs] for number in range(docs)]
    docs_by_task: dict[str, list[int]] = {}
    taken = 0
    while names and taken < docs:
        for name in list(names):
            doc = next(turns[name], None)
            if doc is None:
                names.remove(name)
            elif taken < docs:
                docs_by_task.setdefault(name, []).append(doc)
                taken += 1
    return {name: sorted(numbers) for name, numbers in docs_by_task.items()}


def _in_turns(subtasks: Sequence[str | None]) -> Iterator[int]:
    """Take a doc of each subtask in turn."""
    by_name: dict[str, list[int]] = {}
    for doc, name in enumerate(subtasks):
        if name is not None:
            by_name.setdefault(name, []).append(doc)
    for row in itertools.zip_longest(*by_name.values()):
        yield from (doc for doc in row if doc is not None)


# Forced tokens of an answer: enough for a decision, and a bound on the canary's cost.
_MOST_TOKENS = 256

# Shares of likeliest tokens: below BROKEN hardly anything works, from SOUND on most does. Minimum tokens and docs.
BROKEN = 0.25
ENOUGH_TOKENS, ENOUGH_DOCS = 64, 6


@dataclass(frozen=True, slots=True)
class CanaryEvidence:
    """Log-probabilities of some recorded answers."""

    docs: Mapping[str, float]
    """The mean log-probability of a token by request, in nats."""

    tokens: int
    """Number of all tokens."""

    top: float
    """The share of likeliest tokens, 0 to 1."""

    logprob: float
    """The mean log-probability of a token, in nats."""

    @property
    def _is_enough(self) -> bool:
        return len(self.docs) >= ENOUGH_DOCS and self.tokens >= ENOUGH_TOKENS

    @property
    def is_broken(self) -> bool:
        """Whether hardly any token is the likeliest."""
        return self._is_enough and self.top < BROKEN

    @property
    def is_sound(self) -> bool:
        """Whether most tokens are the likeliest."""
        return self._is_enough and self.top >= SOUND

    def __str__(self) -> str:
        return f"of {self.tokens:,} tokens of recorded answers {self.top:.0%} are the likeliest ones"


def make_forced_requests(
    requests: Sequence[Request], recorded: Mapping[str, Answer], split_text: Callable[[str], Sequence[Any]]
) -> list[Request]:
    """Make requests that force the recorded answers of text requests.

    Args:
        requests: Requests with token ids; others cannot be forced.
        recorded: The recorded answers by id of the request.
        split_text: Splits a text into tokens.
    """
    forced = []
    for request in requests:
        scoring = make_scoring_request(request, recorded[request.id])
        if scoring is not None and scoring.kind == Force.name and scoring.prompt_ids is not None:
            ids = list(split_text(scoring.continuations[0]))[:_MOST_TOKENS]
            forced.append(replace(scoring, continuation_ids=[ids]))
    return forced


def measure_evidence(client: Client, requests: Sequence[Request]) -> CanaryEvidence | None:
    """Measure the evidence; None if the engine cannot force, or would load the model again for it."""
    docs, tokens, top, total = {}, 0, 0, 0.0
    if client.backend.reloads_model or Force.name not in client.backend.kinds or not requests:
        return None
    for answer in client.answer(requests):
        forced = answer.tokens
        if answer.error is None and forced is not None:
            docs[answer.id] = math.fsum(forced.logprobs) / len(forced.logprobs)
            tokens += len(forced.ids)
            # Ties, which are common in bfloat16, count as likeliest.
            top += sum(logprob >= best for logprob, best in zip(forced.logprobs, forced.top_logprobs, strict=True))
            total += math.fsum(forced.logprobs)
    return CanaryEvidence(docs, tokens, top / tokens, total / tokens) if tokens else None


def find_other_bos(client: Client, requests: Sequence[Request], evidence: CanaryEvidence, bos: int) -> str | None:
    """Explain another number of BOS, if it makes the recorded answers likelier; else None.

    `meta_eval.ask.canary` has the rule.
    """
    some = sorted(
        (request for request in requests if request.id in evidence.docs),
        key=lambda request: len(request.prompt_ids or ()),
    )
    some = some[:BOS_DOCS]
    likelier = []
    for fewer, name, cause in (
        (True, "no BOS", "something adds a BOS to the one that is sent"),
        (False, "two BOS", "something strips one"),
    ):
        changed_evidence = measure_evidence(client, [change_bos_number(request, bos, fewer=fewer) for request in some])
        gained = (
            measure_gain(evidence.docs, changed_evidence.docs, changed_evidence.top)
            if changed_evidence is not None and changed_evidence.is_sound
            else None
        )
        if gained is not None:
            words = f"the recorded answers are likelier with {name}, {gained}. With {name} it answers as recorded"
            likelier.append((gained.nats, f"{words}: {cause}"))
    return max(likelier)[1] if likelier else None  # an engine that strips a BOS takes a word of a prompt without BOS


def change_bos_number(request: Request, bos: int, *, fewer: bool) -> Request:
    """Remove a BOS from a request, or add another."""
    return replace(request, prompt_ids=change_bos(request.prompt_ids or (), bos, fewer=fewer))


# Number of docs that are asked again with another BOS count.
VARIANTS = 8

# The probability of a false stop of each statistical rule, for a fine-tuned or quantised model that agrees on the
# assumed share of docs.
CHANCE = 0.01
BEGINS_ALIKE = 1 / 3
CHOOSES_ALIKE = 1 / 2

# Minimum number of texts, all degenerate; with only 4, a model may have reasons to leave each empty.
FEWEST = 6

# Nats within which likelihoods of all continuations count as the same.
ALIKE = 1e-4

# The share of texts with the same first token if a model opens its answers in another way.
OPENS_ALIKE = 0.8

_GO_ON = "Fix it, or continue with --no-canary. These answers were not kept"


# A chat endpoint renders prompts itself: what may be wrong is on its side, or in the record.
_OF_ENDPOINT = (
    "Check that the endpoint serves the model that model_name names, that it adds no system prompt (with the key "
    "tokenizer its prompts are counted), and that the recorded answers are this model's"
)


class CanaryError(BackendError):
    """The first answers show that the set-up is broken."""


@dataclass(frozen=True, slots=True)
class AnswerComparison:
    """An answer compared with the recorded answer."""

    id: str
    """The id of the request."""

    tokens: int | None
    """Tokens of the prompt; None if unknown."""

    alike: int = 0
    """Texts: tokens of the common prefix, or characters without a tokenizer."""

    of: int = 0
    """Texts: tokens of the recorded text."""

    identical: bool = False
    """Texts: whether they are exactly equal."""

    empty: str = ""
    """Texts: how the text is degenerate; ``""`` if it is not."""

    header: bool = False
    """Texts: whether it begins with the header of a turn, which a chat template adds."""

    opening: Any = None
    """Texts: the first token."""

    same: bool | None = None
    """Choices: whether the likeliest choice is the same."""

    off: float = 0.0
    """Choices: the largest difference of two probabilities, normalised over the continuations."""

    flat: bool = False
    """Choices: whether all are equal or not a number."""


# A text as its tokens, or as its characters.
SplitText = Callable[[str], Sequence[Any]]


def check_token_counts(
    client: Client, requests: Iterable[Request], *, check: bool = True
) -> Iterator[tuple[Request, Answer]]:
    """Send requests, and compare the engine's count of prompt tokens with what was sent, if ``check`` is set.

    Raises:
        CanaryError: They differ.
    """
    open_: dict[str, Request] = {}

    def noted() -> Iterator[Request]:
        for request in requests:
            open_[request.id] = request
            yield request

    for answer in client.answer(noted()):
        request = open_.pop(answer.id)
        sent = None if request.prompt_ids is None else len(request.prompt_ids)
        if check and answer.error is None and None not in (sent, answer.prompt_tokens) and sent != answer.prompt_tokens:
            raise CanaryError(
                f"the engine counts {answer.prompt_tokens:,} tokens in a prompt of {sent:,}, one BOS included. Check "
                "what it adds (a BOS, a template) or cuts, and its tokenizer",
                where=answer.id, hint=_GO_ON,
            )  # fmt: skip
        yield request, answer


def compare_answer(request: Request, answer: Answer, recorded: Answer, split_text: SplitText) -> AnswerComparison:
    """Compare an answer with the recorded answer."""
    tokens = None if request.prompt_ids is None else len(request.prompt_ids)
    if answer.choices:
        logprobs = [value for value, _ in answer.choices]
        if not all(math.isfinite(value) for value in logprobs):
            return AnswerComparison(request.id, tokens, same=False, off=1.0, flat=True)
        recorded_logprobs = [value for value, _ in recorded.choices]
        pairs = zip(_shares(logprobs), _shares(recorded_logprobs), strict=True)
        return AnswerComparison(
            request.id, tokens, same=logprobs.index(max(logprobs)) == recorded_logprobs.index(max(recorded_logprobs)),
            off=max(abs(logprob - right) for logprob, right in pairs), flat=max(logprobs) - min(logprobs) < ALIKE,
        )  # fmt: skip
    text = join_calls(answer.text or "", answer.tool_calls)
    right = cut_at_stop(recorded.text or "", request.stop)
    said_tokens, right_tokens = split_text(text), split_text(right)
    alike = next(
        (number for number, (a, b) in enumerate(zip(said_tokens, right_tokens, strict=False)) if a != b),
        min(len(said_tokens), len(right_tokens)),
    )
    heads = (token for family in list_families() for token in family.openings)
    return AnswerComparison(
        request.id, tokens, alike=alike, of=len(right_tokens), identical=text.strip() == right.strip(),
        empty=_degenerate(text) if right.strip() else "",
        header=text.lstrip().startswith((*heads, "assistant\n", "assistant<|")),
        opening=said_tokens[0] if said_tokens else None,
    )  # fmt: skip


def _degenerate(text: str) -> str:
    bare = text.strip()
    if not bare:
        return "empty"
    pieces = [piece for piece in bare.replace("|>", "|>\n").split() if piece]
    if all(piece.startswith("<|") and piece.endswith("|>") for piece in pieces):
        return "special tokens alone"
    if (len(pieces) >= 8 and len(set(pieces)) == 1) or (len(bare) >= 16 and len(set(bare)) == 1):
        return "one token over and over"
    return ""


def _shares(values: Sequence[float]) -> list[float]:
    """Probabilities normalised over the continuations."""
    top = max(values)
    grown = [math.exp(value - top) for value in values]
    return [value / sum(grown) for value in grown]


@dataclass(frozen=True, slots=True)
class Summary:
    """The findings of a canary."""

    texts: int
    """Number of texts that were compared."""

    begin: int
    """Number of these with the recorded first token."""

    prefix: float
    """The mean share of the recorded text's tokens in the common prefix, 0 to 1."""

    identical: int
    """Number of exactly equal texts."""

    choices: int
    """Number of choice docs that were compared."""

    same: int
    """Number of these with the recorded likeliest continuation."""

    off: float
    """The median difference of two normalised probabilities, the largest of each doc."""

    forced: int = 0
    """Number of forced tokens of recorded answers; 0 if the engine cannot force."""

    top: float | None = None
    """The share of these that are the likeliest at their place, 0 to 1; None without."""

    logprob: float | None = None
    """Their mean log-probability, in nats; None without."""

    @classmethod
    def of(cls, seen: Sequence[AnswerComparison], evidence: CanaryEvidence | None = None) -> Summary:
        texts = [comparison for comparison in seen if comparison.same is None]
        choices = [comparison for comparison in seen if comparison.same is not None]
        shares = [comparison.alike / max(comparison.of, 1) for comparison in texts]
        return cls(
            texts=len(texts), begin=sum(comparison.alike > 0 for comparison in texts),
            prefix=sum(shares) / max(len(shares), 1),
            identical=sum(comparison.identical for comparison in texts), choices=len(choices),
            same=sum(bool(comparison.same) for comparison in choices),
            off=sorted(comparison.off for comparison in choices)[len(choices) // 2] if choices else 0.0,
            forced=evidence.tokens if evidence else 0, top=evidence.top if evidence else None,
            logprob=evidence.logprob if evidence else None,
        )  # fmt: skip

    def __str__(self) -> str:
        words = []
        if self.texts:
            words.append(
                f"of {self.texts} texts {self.begin} begin as the recorded ones and {self.identical} are equal word "
                f"for word (common prefix {self.prefix:.0%})"
            )
        if self.choices:
            words.append(
                f"of {self.choices} docs of choices {self.same} have the same answer "
                f"(probabilities differ by {self.off:.2f})"
            )
        if self.top is not None:
            words.append(f"of {self.forced:,} tokens of recorded answers {self.top:.0%} are the likeliest ones")
        return ", ".join(words) or "nothing to compare"


def find_suspicion(seen: Sequence[AnswerComparison], *, own_opening: bool = False) -> str | None:
    """Find what is certainly wrong with some answers; None if nothing is.

    Args:
        seen: The answers.
        own_opening: Whether the model is known to open its answers in another way; first tokens may then differ.
    """
    texts = [comparison for comparison in seen if comparison.same is None]
    choices = [comparison for comparison in seen if comparison.same is not None]
    ways = {comparison.empty for comparison in texts}
    if len(texts) >= FEWEST and "" not in ways:
        return f"every answer is degenerate ({', '.join(sorted(ways))})"
    begin = sum(comparison.alike > 0 for comparison in texts)
    if texts and not own_opening and compute_binomial_cdf(begin, len(texts), BEGINS_ALIKE) < CHANCE:
        return f"{begin} of {len(texts)} answers begin as the recorded one"
    if len(choices) >= FEWEST and all(comparison.flat for comparison in choices):
        return "the likelihoods of the continuations are all alike, or no numbers"
    same = sum(bool(comparison.same) for comparison in choices)
    if choices and compute_binomial_cdf(same, len(choices), CHOOSES_ALIKE) < CHANCE:
        return f"the likeliest of the choices is the recorded one on {same} of {len(choices)} docs"
    return None


def compute_binomial_cdf(hits: int, of: int, share: float) -> float:
    """The binomial probability of at most so many hits."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits + 1))


@dataclass(frozen=True, slots=True)
class Canary:
    """Judges the first answers.

    Args:
        client: Gets further requests if something is suspect.
        recorded: The recorded answers, by id of the request.
        split_text: Splits a text into tokens.
        bos: The BOS token; None if the backend takes no token ids.
        known_cause: What the check of the endpoint found to be wrong with prompts.
        other_model: Why the recorded answers may be of another model; None if they are of this one.
    """

    client: Client
    recorded: Mapping[str, Answer]
    split_text: SplitText
    bos: int | None
    known_cause: str | None = None
    other_model: str | None = None

    def check(self, responses: Sequence[tuple[Request, Answer]]) -> Summary:
        """Summarise the answers.

        Raises:
            CanaryError: The set-up is broken.
        """
        answered = [(request, answer) for request, answer in responses if answer.error is None]
        if responses and not answered:
            raise CanaryError(
                f"none of the first {len(responses)} requests was answered: {responses[0][1].error}", hint=_GO_ON
            )
        seen = self._compared(answered)
        long_from = find_family(self.client.model.rpartition("/")[2]).rope_scaled_from
        long = [comparison for comparison in seen if long_from is not None and (comparison.tokens or 0) > long_from]
        forced = (
            make_forced_requests([request for request, _ in answered], self.recorded, self.split_text)
            if self.bos is not None
            else []
        )
        evidence = measure_evidence(self.client, forced)
        other = find_other_bos(self.client, forced, evidence, self.bos or 0) if evidence is not None else None
        if other is not None:
            raise CanaryError(other, where="canary", hint=_GO_ON)
        opens_alike = evidence is not None and evidence.is_sound and _opens_alike(seen)
        why = find_suspicion(seen, own_opening=opens_alike)
        if why is not None and self._may_begin_otherwise and find_suspicion(seen, own_opening=True) is None:
            log.warning(f"canary: {why}. This stops nothing, because {self.other_model}")
            why, opens_alike = None, True
        if why is not None:
            of_endpoint = _OF_ENDPOINT if self.client.backend.renders_messages else None
            cause = self.known_cause or of_endpoint or self._cause([request for request, _ in answered], seen, evidence)
            raise CanaryError(f"{why}. {cause}", where="canary", hint=_GO_ON)
        why = find_suspicion(long, own_opening=opens_alike)
        if why is not None:
            what = f"for prompts over {long_from:,} tokens, {why}, and short ones are well"
            raise CanaryError(f"{what}. Check rope_scaling, and that it cuts none", where="canary", hint=_GO_ON)
        return Summary.of(seen, evidence)

    @property
    def _may_begin_otherwise(self) -> bool:
        """Whether another model may have other first words. An endpoint of messages has no BOS or template of ours to
        get wrong, so that they say nothing of the set-up either."""
        renders = self.client.backend.renders_messages
        return renders and self.other_model is not None and self.known_cause is None

    def _compared(self, answered: Iterable[tuple[Request, Answer]]) -> list[AnswerComparison]:
        return [
            compare_answer(request, answer, self.recorded[request.id], self.split_text) for request, answer in answered
        ]

    def _cause(
        self, requests: Sequence[Request], seen: Sequence[AnswerComparison], evidence: CanaryEvidence | None
    ) -> str:
        """Whether it is the number of BOS, by asking a few docs with another; else what to check."""
        ids = self.bos is not None and all(request.prompt_ids for request in requests)
        if ids:
            some = sorted(requests, key=lambda request: len(request.prompt_ids or ()))[:VARIANTS]
            base = _agreement([comparison for comparison in seen if comparison.id in {request.id for request in some}])
            for fewer, cause in (
                (True, "With no BOS it answers as recorded: something adds a BOS to the one that is sent"),
                (False, "With two BOS it answers as recorded: something strips one"),
            ):
                changed = [change_bos_number(request, self.bos or 0, fewer=fewer) for request in some]
                answered = [
                    (request, answer)
                    for request, answer in check_token_counts(self.client, changed, check=False)
                    if answer.error is None
                ]
                repeated = _agreement(self._compared(answered))
                if repeated >= 0.5 and repeated > base + 0.25:
                    return cause
        tried = "Another number of BOS does not help" if ids else "Which BOS the server adds is not known"
        names = "model_name is the model of the dataset (instruct or base)"
        template, weights = "no chat template is applied by the server", "rope_scaling in config.json, dtype"
        if evidence is not None and evidence.is_sound:
            tried += f", and {evidence}: most of the model is there"
            return f"{tried}. Check that {names}, that {template}, and rope_scaling in config.json"
        if evidence is not None and evidence.is_broken:
            tried += f", and {evidence}, of which any model that reads them finds half"
            return f"{tried}. Check {weights}, quantisation, that the weights are whole, and that {names}"
        return f"{tried}: check that {names}, that {template}, {weights}, and that the weights are whole"


def _opens_alike(seen: Sequence[AnswerComparison]) -> bool:
    """Whether nearly all texts begin with the same token, such as ``<think>``, and not with the header of a turn."""
    texts = [comparison for comparison in seen if comparison.same is None and not comparison.empty]
    if not texts or any(comparison.header for comparison in texts):
        return False
    (_, most), *_ = Counter(comparison.opening for comparison in texts).most_common(1)
    return most >= OPENS_ALIKE * len(texts)


def _agreement(seen: Sequence[AnswerComparison]) -> float:
    """The share of docs with the recorded first token or choice."""
    return sum(comparison.alike > 0 if comparison.same is None else bool(comparison.same) for comparison in seen) / max(
        len(seen), 1
    )
