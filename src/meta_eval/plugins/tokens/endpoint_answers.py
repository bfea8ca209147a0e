"""audit: measures how likely each token of an endpoint's answers is under a trusted copy, as fidelity does.

The answers of the endpoint take the place of recorded answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import Answers, read_bound_answers
from meta_eval.ask.grading import Problems, match_answers, note_unknown_answers
from meta_eval.ask.recorded_answers import Recordings, make_scoring_request
from meta_eval.ask.request import read_conversation
from meta_eval.ask.request_kinds import build_requests, find_request_kind
from meta_eval.base.pack_names import join_names
from meta_eval.harness.answer import AnswersError
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.chat_rendering import ChatTemplate, fetch_chat_template, render_conversation
from meta_eval.plugins.tokens.options import FidelityOptions
from meta_eval.plugins.tokens.thresholds import ENDPOINT_CUT_BEFORE, ENDPOINT_CUT_PILE, ENDPOINT_CUT_TOKENS
from meta_eval.plugins.tokens.token_scoring import FidelityResult, Source, score_recorded_answers
from meta_eval.sockets import Answer, ConfigError, Manifest, Request, RunSettings, SourceError, UserError, read_manifest


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What an endpoint says of an answer, and what it was asked."""

    temperature: float
    """The temperature asked for; 0 for greedy."""

    top_p: float
    """The share of probability that it was to sample from; 1 for all."""

    max_tokens: int
    """The largest number of tokens that it was to generate."""

    prompt_tokens: int | None
    """The endpoint's count of the prompt; None if it gives none."""

    completion_tokens: int | None
    """Its count of the answer; likewise."""

    finish_reason: str | None
    """Why the answer ended; likewise."""

    cluster: str | None = None
    """The name of the cluster of docs that the doc is in; None for a doc of its own."""

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
        self._texts: dict[str, dict[int, Answer]] = {}
        for answer in answers.by_key.values():
            task, _, doc = answer.id.partition("/")
            doc, _, repeat = doc.partition("/")
            if doc.isdecimal() and repeat in ("", "0") and answer.text:
                self._texts.setdefault(task, {})[int(doc)] = answer
        problems = Problems()
        note_unknown_answers(answers, (), set(manifest.tasks), problems)
        problems.check(answers, partial=True)

    def read_task(self, task: str) -> tuple[list[Answer | None], list[str | None]]:
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
            if request.repeat or not find_request_kind(request.kind).answered_by_text:
                continue
            matched = match_answers([request], self._answers, problems)
            for (answer,) in matched.docs.values():
                prompt, facts = self._render(request, answer)
                self.facts[name, request.doc] = replace(facts, cluster=clusters.get(request.doc))
                scoring = make_scoring_request(prompt, answer) if not _has_other_parts(answer) else None
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


_FOLDER = "audit"


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """The scored answers of an endpoint."""

    measured: FidelityResult
    """The result of scoring."""

    table: Path
    """The trusted copy's table."""

    facts: Mapping[tuple[str, int], AnswerFacts]
    """What the endpoint says of each answer, by task and doc."""

    endpoint: str
    """The model that it names."""


def score_endpoint_answers(
    files: Sequence[Path], pack: Path, settings: RunSettings, options: FidelityOptions
) -> ScoredAnswers:
    """Score the answers of an endpoint under the model of some settings, the trusted copy.

    Args:
        files: Files of answers to the requests of the pack, and of the requests of batches. The name of the first names
            the folder of the table. Without files: the recorded answers of the pack.
        pack: The pack.
        settings: The trusted copy and its engine.
        options: As of `fidelity`.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    if settings.tokenizer is None and settings.model_name.endswith(".gguf"):
        raise ConfigError(
            "is not set, and a GGUF file has no tokenizer and chat template that can be read", where="tokenizer",
            hint="Name the model's folder or hub id: --set tokenizer=org/model",
        )  # fmt: skip
    answers = read_bound_answers(files, partial(_build_requests, pack)) if files else _read_record(pack)
    if not answers.by_key:
        raise AnswersError(
            "no line is an answer", where=join_names([str(file) for file in files], 3),
            hint="Name the file of answers that `run` wrote, or results of a batch",
        )  # fmt: skip
    models = sorted({answer.model for answer in answers.by_key.values() if answer.model})
    if len(models) > 1:
        raise AnswersError(f"are of {', '.join(models)}", where="ANSWERS", hint="Audit the answers of one model")
    read: list[EndpointAnswers] = []

    def read_endpoint(pack: Path, manifest: Manifest) -> EndpointAnswers:
        template = _fetch_template(settings)
        read.append(EndpointAnswers(pack, manifest, answers, template))
        return read[0]

    name = files[0].stem if files else "recorded"
    folder = Path(_FOLDER) / name
    measured = score_recorded_answers(pack, settings, options, Source(folder, read_endpoint))
    if measured.tables is None or measured.tables.texts is None:
        raise UserError("hold no text to score", where="ANSWERS", hint="Audit answers that were generated")
    return ScoredAnswers(measured, measured.tables.texts, read[0].facts, models[0] if models else name)


def _fetch_template(settings: RunSettings) -> ChatTemplate | None:
    """Fetch the chat template of the trusted copy.

    Raises:
        SourceError: The hub does not give it.
    """
    try:
        return fetch_chat_template(settings.tokenizer_of(settings.model_name))
    except SourceError as error:
        if settings.tokenizer is not None:
            raise
        hint = f"{error.hint + '; or set' if error.hint else 'Set'} tokenizer to a hub id or a folder that has it"
        where = f"the tokenizer of {settings.model_name}"
        raise SourceError(error.what, where=where, hint=hint) from None


def _build_requests(pack: Path) -> Iterator[Request]:
    """All requests of a pack."""
    manifest, evaluator = read_manifest(pack), Evaluator(pack)
    for name in manifest.tasks:
        yield from build_requests(evaluator, name, manifest.run_settings.limit)


def _read_record(pack: Path) -> Answers:
    """The recorded answers of a pack in the place of an endpoint's."""
    manifest, answers = read_manifest(pack), Answers()
    recordings = Recordings(pack, manifest)
    texts = {name: recordings.read_task(name)[0] for name in manifest.tasks}
    for request in _build_requests(pack):
        recorded = texts[request.task][request.doc] if request.doc < len(texts[request.task]) else None
        if (
            recorded is None
            or recorded.text is None
            or request.repeat
            or not find_request_kind(request.kind).answered_by_text
        ):
            continue
        record = manifest.tasks[request.task].record
        answers.by_key[request.key] = request.answer(
            text=recorded.text, model=record.model if record else None, where=str(pack)
        )
    if not answers.by_key:
        raise UserError("holds no recorded answers", where=str(pack), hint="Name files of an endpoint's answers")
    return answers
