"""Checks a chat endpoint before any doc is asked: which prompt it makes, and which parameters it obeys.

A dozen short requests. Nothing here stops a run: the user may want to measure just this endpoint. What a few requests
cannot show is not said: whether a temperature is clamped. Which model answers is counted over all answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meta_eval.ask.request import read_conversation
from meta_eval.harness.chat_completion import ChatCompletion
from meta_eval.harness.provenance import TOOLS_LOST
from meta_eval.pack.chat_rendering import ChatTemplate
from meta_eval.plugins.chat.chat_prompts import compare_prompt, encode_conversation, leave_out_tools, loses_tools
from meta_eval.sockets import Encoder, Request

# Sends a body, and gives the answer or the reason why there is none.
Ask = Callable[[Mapping[str, Any]], Awaitable[ChatCompletion | str]]

_LIST = [{"role": "user", "content": "List the months of the year, separated by commas."}]
_FREE = [{"role": "user", "content": "Write a sentence about anything you like."}]
_WITH_SYSTEM = [{"role": "system", "content": "Answer briefly."}, *_LIST]
_LONGEST = 48
_SHORT = 16


@dataclass(frozen=True, slots=True)
class EndpointFinding:
    """What a check showed."""

    name: str
    """What was checked."""

    passed: bool | None
    """None if it could not be checked."""

    what: str
    """What was seen."""

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, for the journal."""
        return asdict(self)


class EndpointCheck:
    """The checks of an endpoint.

    Args:
        ask: Asks it.
        fields: The fields that all requests of the run have.
        template: The model's chat template; None if it is not on this machine.
        encoder: The model's tokenizer, likewise.
        with_tools: The conversation of a doc with tools; None if no task has them.
    """

    def __init__(
        self,
        ask: Ask,
        fields: Mapping[str, Any],
        template: ChatTemplate | None,
        encoder: Encoder | None,
        with_tools: Mapping[str, Any] | None,
    ) -> None:
        self._ask, self._template, self._encoder, self._with_tools = ask, template, encoder, with_tools
        greedy = {"temperature": 0.0, "max_tokens": _LONGEST}
        limits = ("max_tokens", "max_completion_tokens")
        self._fields = {**{name: value for name, value in fields.items() if name not in limits}, **greedy}

    async def run(self) -> list[EndpointFinding]:
        """Ask, and judge the answers."""
        sampled = {"messages": _FREE, "temperature": 1.0}
        bodies: list[dict[str, Any]] = [
            {"messages": _LIST},
            {"messages": _LIST},
            {"messages": _LIST, "stream": True, "stream_options": {"include_usage": True}},
            {"messages": _WITH_SYSTEM, "max_tokens": _SHORT},
            *({**sampled, "seed": seed} for seed in (1, 1, 2)),
        ]
        if self._with_tools is not None:
            bodies += [{**some, "max_tokens": _SHORT} for some in (self._with_tools, leave_out_tools(self._with_tools))]
        whole, again, streamed, with_system, *others = await asyncio.gather(*map(self._send, bodies))
        if isinstance(whole, str):
            return [EndpointFinding("a first question", False, f"was not answered: {whole}")]
        return [
            self._check_prompt(whole, with_system),
            await self._check_limit(whole),
            await self._check_stop(whole),
            _check_equal("greedy", whole, again, "the same question twice gives the same answer"),
            _check_samples(others[:3]),
            _check_equal("streamed", whole, streamed, "a streamed answer is the same"),
            *self._check_tools(others[3:]),
        ]

    def _send(self, body: Mapping[str, Any]) -> Awaitable[ChatCompletion | str]:
        return self._ask({**self._fields, **body})

    def _check_prompt(self, plain: ChatCompletion, with_system: ChatCompletion | str) -> EndpointFinding:
        """Compare the endpoint's count of tokens with the model's template: with a system message, and without."""
        name, counted = "prompt", plain.prompt_tokens
        if counted is None:
            return EndpointFinding(name, None, "the endpoint does not count its tokens")
        try:
            more = [self._count_more({"messages": _LIST}, plain)]
            if not isinstance(with_system, str):
                more.append(self._count_more({"messages": _WITH_SYSTEM}, with_system))
        except ValueError as error:
            return EndpointFinding(name, None, str(error))
        if None in more:
            return EndpointFinding(
                name, None, f"a question of ten words counts {counted:,} tokens; the model's tokenizer and template "
                "are not on this machine: set tokenizer",
            )  # fmt: skip
        if not any(more):
            return EndpointFinding(name, True, "as many tokens as the model's chat template makes")
        meaning = "a hidden system prompt, or another template" if all(more) else "its default system prompt is another"
        places = zip(more, ("without a system message", "with one"), strict=False)
        counts = ", ".join(f"{number:+,} tokens {place}" for number, place in places)
        return EndpointFinding(name, False, f"{counts}, beside the model's chat template: {meaning}")

    def _count_more(self, conversation: Mapping[str, Any], answer: ChatCompletion) -> int | None:
        if self._template is None or self._encoder is None or answer.prompt_tokens is None:
            return None
        variables = {name: self._fields[name] for name in ("chat_template_kwargs",) if name in self._fields}
        own = encode_conversation({**variables, **conversation}, self._template, self._encoder)
        return answer.prompt_tokens - len(own)

    async def _check_limit(self, whole: ChatCompletion) -> EndpointFinding:
        name, written = "max_tokens", whole.completion_tokens
        limit = 4 if written is None else written // 2
        if limit < 2:
            return EndpointFinding(name, None, "the answers are too short")
        answer = await self._send({"messages": _LIST, "max_tokens": limit})
        if isinstance(answer, str):
            return EndpointFinding(name, None, answer)
        wrote = answer.completion_tokens
        if (wrote is None or wrote <= limit) and answer.finish_reason == "length":
            return EndpointFinding(name, True, f"an answer ends at {limit} tokens, with length")
        tokens = "" if wrote is None else f" after {wrote} tokens"
        return EndpointFinding(name, False, f"{limit} tokens were allowed; it ends{tokens} with {answer.finish_reason}")

    async def _check_stop(self, whole: ChatCompletion) -> EndpointFinding:
        """Ask again with a word from the middle of the first answer as the stop text."""
        name = "stop"
        words = whole.content.split()
        stop = next((word for word in words[len(words) // 3 :] if whole.content.find(word) > 0), None)
        if stop is None:
            return EndpointFinding(name, None, "the first answer has no words")
        answer = await self._send({"messages": _LIST, "stop": [stop]})
        if isinstance(answer, str):
            return EndpointFinding(name, None, answer)
        if stop in answer.content:
            return EndpointFinding(name, False, f"it writes on after the stop text {stop!r:.40}")
        if answer.finish_reason != "stop":
            return EndpointFinding(name, False, f"at a stop text it ends with {answer.finish_reason}, not stop")
        return EndpointFinding(name, True, "an answer ends before its stop text, with stop")

    def _check_tools(self, answers: Sequence[ChatCompletion | str]) -> Iterator[EndpointFinding]:
        """Check that a doc with tools is accepted, and that its prompt holds them."""
        if self._with_tools is None:
            yield EndpointFinding("tools", None, "no doc of the pack offers any")
            return
        answer, plain = answers
        if isinstance(answer, str):
            yield EndpointFinding("tools", False, f"a doc with tools is refused: {answer}")
            return
        try:
            more, template_loses = self._count_more(self._with_tools, answer), self._template_loses_tools()
        except ValueError:
            more = template_loses = None
        reached = bool(answer.tool_calls)
        counts = (answer.prompt_tokens, None if isinstance(plain, str) else plain.prompt_tokens)
        if not reached and None not in counts and counts[0] == counts[1]:
            what = f"the prompt of a doc has {counts[0]:,} tokens with its tools and without: the endpoint drops them"
            yield EndpointFinding(TOOLS_LOST, False, what)
        elif not reached and None in counts and template_loses:
            what = "the model's chat template is the same with tools and without, and the endpoint counts no tokens"
            yield EndpointFinding(TOOLS_LOST, False, what)
        elif not reached and None in counts and template_loses is None:
            yield EndpointFinding("tools", None, "accepted; whether the prompt holds them is not known without counts")
        else:
            seen = f"; {more:+,} tokens beside the model's chat template" if more else ""
            yield EndpointFinding("tools", not more, f"accepted{seen}")

    def _template_loses_tools(self) -> bool | None:
        return None if self._template is None else loses_tools(self._with_tools or {}, self._template)


def compare_recorded_prompts(
    requests: Iterable[Request], template: ChatTemplate | None, encoder: Encoder | None, fields: Mapping[str, Any]
) -> EndpointFinding | None:
    """Compare recorded text prompts with what the model's template makes of their messages; None without any.

    Args:
        requests: Some of each task.
        template: The model's chat template; None if it is not on this machine.
        encoder: The model's tokenizer, likewise.
        fields: The fields that all requests of the run have.
    """
    name, texts = "recorded prompts", [request for request in requests if request.kind == "generate"]
    if not texts:
        return None
    if template is None or encoder is None:
        what = "asked through chat; the model's tokenizer and template are not on this machine: set tokenizer"
        return EndpointFinding(name, None, what)
    try:
        variables = {name: fields[name] for name in ("chat_template_kwargs",) if name in fields}
        conversations = [{**variables, **read_conversation(request, can_continue=True)} for request in texts]
        pairs = zip(texts, conversations, strict=True)
        counts = [compare_prompt(request.prompt, said, template, encoder).total for request, said in pairs]
    except ValueError as error:
        return EndpointFinding(name, None, str(error))
    if not any(counts):
        return EndpointFinding(name, True, "the model's chat template makes the recorded prompts")
    span = f"{max(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    return EndpointFinding(name, False, f"asked through chat, prompts differ by {span} tokens, by the model's template")


def _text(answer: ChatCompletion) -> tuple[str | None, str]:
    return answer.reasoning, answer.content


_DIFFERENT = {
    "greedy": "the same question twice gives two answers at temperature 0",
    "streamed": "a streamed answer is another than the same answer in a piece",
}


def _check_equal(name: str, whole: ChatCompletion, other: ChatCompletion | str, what: str) -> EndpointFinding:
    if isinstance(other, str):
        return EndpointFinding(name, None, other)
    if _text(whole) != _text(other):
        return EndpointFinding(name, False, _DIFFERENT[name])
    if whole.prompt_tokens != other.prompt_tokens:
        return EndpointFinding(name, False, f"prompts of {whole.prompt_tokens} and of {other.prompt_tokens} tokens")
    return EndpointFinding(name, True, what)


def _check_samples(answers: Sequence[ChatCompletion | str]) -> EndpointFinding:
    name = "temperature and seed"
    refused = next((answer for answer in answers if isinstance(answer, str)), None)
    if refused is not None:
        return EndpointFinding(name, None, refused)
    first, again, other = (_text(answer) for answer in answers if not isinstance(answer, str))
    if first == again == other:
        return EndpointFinding(name, False, "three samples at temperature 1 are alike: temperature or seed is ignored")
    if first != again:
        return EndpointFinding(name, False, "the same seed gives another sample: ignored, or kernels differ by batch")
    return EndpointFinding(name, True, "the same seed gives the same sample, and another seed another")
