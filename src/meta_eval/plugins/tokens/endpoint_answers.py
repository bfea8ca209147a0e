"""The answers of an endpoint in the place of recorded answers, so that a trusted copy can score them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_eval.plugins.tokens.thresholds import ENDPOINT_CUT_BEFORE, ENDPOINT_CUT_PILE, ENDPOINT_CUT_TOKENS
from meta_eval.sockets import (
    Answer,
    Answers,
    AnswersError,
    ChatTemplate,
    ConfigError,
    Evaluator,
    Manifest,
    Problems,
    Recorded,
    Recordings,
    Request,
    build_requests,
    find_kind,
    make_scoring_request,
    match_answers,
    note_unknown_answers,
    read_conversation,
    render_conversation,
)


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What an endpoint says of an answer, and what it was asked.

    Attributes:
        temperature: The temperature asked for; 0 for greedy.
        top_p: The share of probability that it was to sample from; 1 for all.
        max_tokens: The largest number of tokens that it was to generate.
        prompt_tokens: The endpoint's count of the prompt; None if it gives none.
        completion_tokens: Its count of the answer; likewise.
        finish_reason: Why the answer ended; likewise.
        cluster: The name of the cluster of docs that the doc is in; None for a doc of its own.
    """

    temperature: float
    top_p: float
    max_tokens: int
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    cluster: str | None = None

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def is_cut(self) -> bool:
        """Whether the answer ends at a limit below that of the request."""
        tokens = self.completion_tokens
        return self.finish_reason == "length" and tokens is not None and tokens < self.max_tokens


def count_cut(facts: Collection[AnswerFacts]) -> int:
    """Number of answers that end at a limit below that of their request, whatever the endpoint says of their end.

    If many answers end at the same largest count of tokens, and few just before, the count is a limit.
    """
    said = sum(fact.is_cut for fact in facts)
    counts = [
        fact.completion_tokens for fact in facts
        if fact.completion_tokens is not None and fact.completion_tokens < fact.max_tokens
    ]  # fmt: skip
    most = max(counts, default=0)
    at_most = counts.count(most)
    before = sum(most - ENDPOINT_CUT_BEFORE <= count < most for count in counts)
    is_limit = most >= ENDPOINT_CUT_TOKENS and at_most >= ENDPOINT_CUT_PILE * len(facts) and at_most > before
    return max(said, at_most if is_limit else 0)


class EndpointAnswers(Recordings):
    """The answers of an endpoint to the requests of a pack. Of several to a doc the first counts.

    Args:
        pack: The pack.
        manifest: Its manifest.
        answers: The endpoint's answers.
        template: The chat template of the trusted copy, for requests of kind ``chat``; None if it has none.

    Attributes:
        facts: By task and doc: what is known of each answer that was read.
    """

    missing = "no answer"

    def __init__(self, pack: Path, manifest: Manifest, answers: Answers, template: ChatTemplate | None) -> None:
        super().__init__(pack, manifest)
        self._answers, self._template = answers, template
        self.facts: dict[tuple[str, int], AnswerFacts] = {}
        self._texts: dict[str, dict[int, Recorded]] = {}
        for answer in answers.by_key.values():
            task, _, doc = answer.id.partition("/")
            doc, _, repeat = doc.partition("/")
            if doc.isdecimal() and repeat in ("", "0") and answer.text:
                self._texts.setdefault(task, {})[int(doc)] = Recorded(answer.text)
        problems = Problems()
        note_unknown_answers(answers, (), set(manifest.tasks), problems)
        problems.check(answers, partial=True)

    def read_task(self, task: str) -> tuple[list[Recorded | None], list[str | None]]:
        """See `Recordings.read_task`."""
        _, subtasks = super().read_task(task)
        texts = self._texts.get(task, {})
        docs = self._manifest.tasks[task].docs
        return [texts.get(doc) for doc in range(docs)], [*subtasks, *([None] * (docs - len(subtasks)))]

    def build_scoring_requests(
        self, evaluator: Evaluator, name: str, limit: float | None, docs: Sequence[int] | None = None
    ) -> Iterator[Request]:
        """See `Recordings.build_scoring_requests`.

        Raises:
            AnswersError: An answer is to another request.
            ConfigError: A request is a chat, and the trusted copy has no chat template.
        """
        problems, clusters = Problems(), self.read_clusters(name)
        for request in build_requests(evaluator, name, limit, docs):
            if request.repeat or not find_kind(request.kind).answered_by_text:
                continue
            matched = match_answers([request], self._answers, problems)
            for (answer,) in matched.docs.values():
                prompt, facts = self._render(request, answer)
                self.facts[name, request.doc] = replace(facts, cluster=clusters.get(request.doc))
                scoring = make_scoring_request(prompt, Recorded(answer.text)) if not _has_other_parts(answer) else None
                if scoring is not None:
                    yield scoring
        problems.check(self._answers, partial=True)

    def _render(self, request: Request, answer: Answer) -> tuple[Request, AnswerFacts]:
        """The request as the trusted copy gets it: the messages of a chat as text."""
        settings = dict(request.settings or {})
        if request.kind == "chat" or answer.is_chat:
            conversation = read_conversation(request, can_continue=True)
            settings |= conversation
            request = replace(request, kind="generate", prompt=self._render_chat(request, conversation))
            self.adds_bos = False
        return request, _read_facts(request, settings, answer)

    def _render_chat(self, request: Request, conversation: Mapping[str, Any]) -> str:
        if self._template is None:
            raise ConfigError(
                "its prompts are chats, and the trusted copy has no chat template here", where=request.task,
                hint="Set tokenizer to a folder that has it",
            )  # fmt: skip
        try:
            return render_conversation(conversation, self._template)
        except ValueError as error:
            raise AnswersError(f"{error}", where=request.id) from None


def _has_other_parts(answer: Answer) -> bool:
    return bool(answer.reasoning or answer.tool_calls)


def _read_facts(request: Request, settings: Mapping[str, Any], answer: Answer) -> AnswerFacts:
    temperature, top_p = settings.get("temperature"), settings.get("top_p")
    if temperature is None:
        temperature = 1.0 if settings.get("do_sample") else 0.0
    limit = settings.get("max_completion_tokens") or settings.get("max_tokens") or request.max_tokens
    return AnswerFacts(
        float(temperature), 1.0 if top_p is None else float(top_p), int(limit), answer.prompt_tokens,
        answer.completion_tokens, answer.finish_reason,
    )  # fmt: skip
