"""Reads and checks the samples of a task: requests, answers and recorded metrics.

`meta_eval.harness` parses samples; this module makes a record of them. Anything that would make a wrong number is an
error that names the doc. Anything merely odd is counted in the manifest.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from meta_eval.base.display import quoted
from meta_eval.base.errors import DataError, locating
from meta_eval.base.hashing import hash_json, hash_text
from meta_eval.base.inputs import format_json
from meta_eval.base.thresholds import ALARM_UNEXTRACTED, ALMOST_ALL, MAX_GEN_TOKS
from meta_eval.harness.answer import join_ends
from meta_eval.harness.chat_messages import check_chat_messages, parse_chat_messages, read_messages_text
from meta_eval.harness.doc_results import find_answer, to_plain_number
from meta_eval.harness.families import choose_bos, remove_bos
from meta_eval.harness.sample_parser import list_metrics, read_arguments, read_ends
from meta_eval.pack.task_choice import ROLLING

if TYPE_CHECKING:
    from meta_eval.harness.doc_results import DocResult
    from meta_eval.harness.lm_eval_run import TaskRun
    from meta_eval.harness.provenance import Provenance
    from meta_eval.harness.results_file import ResultsFile


@dataclass(slots=True)
class RecordedDoc:
    """One doc."""

    doc: dict[str, Any]
    """The task's own doc, after its ``process_docs``."""

    prompt: str
    """The model's input, without BOS; empty if unknown."""

    gold: str
    """The target, as text."""

    continuations: tuple[str, ...] = ()
    """The texts with requested likelihoods; empty if a text was generated."""

    question_hash: str = ""
    """lm-eval's hash of the doc, or the hash in the doc; else that of its JSON. Empty of an answer of a log."""

    prompts: tuple[str, ...] = ()
    """All prompts, if each choice has its own; empty if they share a prompt."""

    unconditional: bool = False
    """Whether each continuation was also requested after an empty prompt (acc_mutual_info)."""

    right: int | None = None
    """The index of the only right choice, if lm-eval provided it; else None."""

    responses: list[list[Any]] | None = None
    """The answers of each request: texts, pairs of log-likelihood and is-greedy, or numbers (rolling likelihoods). None
    if nothing was recorded."""

    metrics: dict[str, Any] = field(default_factory=dict)
    """The values by ``metric,filter``, as lm-eval wrote them; empty if nothing was recorded. Of an answer of a log by
    metric."""

    finish_reason: str | None = None
    """How the answer ended, as in samples; None if unknown."""

    completion_tokens: int | None = None
    """The tokens of the answer, with its reasoning; None if unknown. Of several answers, their sum."""

    extracted: tuple[str | None, ...] | None = None
    """What the record's grader took from each answer; None if unknown."""

    verdict_of_each: dict[str, list[float]] | None = None
    """For several answers, the verdicts by ``metric,filter``, each from 0 to 1; else None."""

    finish_reasons: tuple[str | None, ...] | None = None
    """For several answers, how each ended; else None."""

    is_chat: bool = False
    """Of a log: whether the prompt is the JSON of chat messages."""

    key: str = ""
    """Of a log: its id of the question. Those with one key are answers to one doc."""

    repeat: int = 0
    """Of a log: which of several answers to the question it is."""

    fault: str | None = None
    """Of a log: why there is no answer, a clause; None if there is one."""

    turns: str = field(default="", repr=False)  # a log's revision is a hash of all other fields
    """Of a log: the hash of all that the model did in several turns; empty for an answer in one."""

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of the prompt."""
        return hash_text(self.prompt)


def record_answer(
    prompt: str | Sequence[Mapping[str, Any]] | None,
    answer: str | None,
    gold: str,
    verdicts: Mapping[str, float] | None = None,
    subtask: str | None = None,
    *,
    key: str = "",
    question: Mapping[str, Any] | None = None,
    repeat: int = 0,
    extracted: str | None = None,
    finish_reason: str | None = None,
    completion_tokens: int | None = None,
    fault: str | None = None,
    other_golds: Sequence[str] = (),
    turns: Sequence[Any] = (),
) -> RecordedDoc:
    """Make the doc of a text, or chat messages, that a model answered with a text.

    Args:
        prompt: What the model was sent, as text without BOS or as chat messages; None if that is not known.
        answer: The model's output; None if that is not known.
        gold: The right answer; empty if there is none.
        verdicts: By metric; the first says whether the answer is right. From 0 to 1, or in the metric's own unit.
            None or empty if there is none.
        subtask: Its subtask; None or empty if the task has none.
        key: The log's id of the question. Answers with one key are answers to one doc.
        question: What the doc is, without what differs from run to run: docs of two logs with the same content are
            one doc.
        repeat: Which of several answers to the question it is.
        extracted: What the harness took from the answer; None if unknown.
        finish_reason: How it ended: ``stop``, ``length``, ``content_filter`` or ``tool_calls``; None if unknown.
        completion_tokens: Its tokens, with its reasoning; None if unknown.
        fault: Why there is no answer, a clause; None if there is one.
        other_golds: Further right answers.
        turns: All messages behind the prompt, where the model answered in several turns: answers are the same where
            these are.
    """
    doc = {**(question or {}), "gold": gold, **({"other_golds": list(other_golds)} if other_golds else {})}
    return RecordedDoc(
        doc={**doc, "subtask_name": subtask} if subtask else doc,
        prompt=_format_prompt(prompt),
        gold=gold,
        responses=None if answer is None else [[answer]],
        metrics=dict(verdicts or {}),
        finish_reason=finish_reason,
        completion_tokens=completion_tokens,
        extracted=None if extracted is None else (extracted,),
        is_chat=not isinstance(prompt, str | None),
        key=key,
        repeat=repeat,
        fault=fault,
        turns=hash_json(list(turns)) if turns else "",
    )


def _format_prompt(prompt: str | Sequence[Mapping[str, Any]] | None) -> str:
    """A prompt as text; messages as the body of a chat request, as far as they are one."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    messages = [dict(message) for message in prompt]
    try:
        return format_chat_body(messages)
    except DataError:
        return format_json({"messages": messages})


@dataclass(slots=True)
class RecordedDocs:
    """All rows of a task."""

    rows: list[RecordedDoc]
    """In the order of their doc ids."""

    generation: dict[str, Any] | None
    """The generation settings of all docs; None if no text was generated."""

    bos: str | None
    """The BOS that was removed from the prompts; None if they had none."""

    warnings: dict[str, int] = field(default_factory=dict)
    """How often each oddity was seen."""

    asked_as: Literal["text", "chat"] = "text"
    """``chat`` if the prompts are JSON texts of chat messages."""

    answer: Literal["text", "message"] = "text"
    """``message`` if a whole message with its tool calls is graded."""

    unread: int | None = None
    """Docs in whose answer the record's graders found nothing; None if ``extracted`` of each doc tells."""

    def __post_init__(self) -> None:
        self.warnings = {name: count for name, count in self.warnings.items() if count}


WARNING_TEXTS = {
    "asked_with_two_bos": "were asked with more than one BOS in front; every engine puts one",
    "asked_without_bos": "were asked without the BOS that this model's tokenizer, and so every engine, puts in front",
    "other_token_ids": "have other token ids than this model's tokenizer makes of them",
    "prompt_rebuilt": "came without their prompt as text: it is put together as lighteval does without a chat "
    "template, and no tokenizer of the model is here that could say whether it was so",
    "prompt_truncated": "had a prompt that was cut to the model's context; the pack has it whole",
    "doc_hash_differs_in_every_row": "have a doc whose hash is not the recorded one (not one is, so the hashes vouch "
    "for nothing)",
    "duplicate_prompts": "repeat the prompt of another doc",
    "partial_run": "of the task are missing: the record holds a part of it",
    "prompt_with_bos": "had a prompt that brings the BOS, which is taken off: every engine adds one",
    "prompt_hash_missing": "come without a prompt hash, as lm-eval before 0.4.3 wrote none",
    "stops_unknown": "come without stop texts, for which the schema has no field: an answer ends where the model "
    "ends it, or at the limit of tokens",
    "unanswered": "have no answer in the results, and are left out",
    "answers_no_request": "are in the results and not among the requests",
    "cut_lines": "have a truncated line in the results",
    "begun_answer": "end with the beginning of the answer, and most chat endpoints begin a new one; set "
    "model_args.continue_final_message to true for one that continues it (vLLM)",
    "repeated_samples": "are in the results twice, word for word; each counts once",
}


def count_repeated_prompts(rows: Sequence[RecordedDoc]) -> int:
    """How many docs ask what another before them does. Those without a prompt do not count."""
    asked = [(row.prompt, row.continuations) for row in rows if row.prompt or row.continuations]
    return len(asked) - len({*asked})


def describe_endings(rows: RecordedDocs) -> list[str]:
    """What is odd of the recorded answers of a task: how many were cut, and how many say nothing."""
    return [*filter(None, (describe_recorded_cuts(rows), _describe_unread_answers(rows)))]


def describe_recorded_cuts(rows: RecordedDocs) -> str | None:
    """How many recorded answers reached their limit of tokens, and how long the others are; None if none did."""
    cut = sum(row.finish_reason == "length" for row in rows.rows)
    limit = (rows.generation or {}).get("max_gen_toks", MAX_GEN_TOKS)
    if not cut:
        return None
    lengths = sorted(
        row.completion_tokens
        for row in rows.rows
        if row.completion_tokens is not None and row.finish_reason not in (None, "length")
    )
    others = f"; 99 % of the others have at most {lengths[math.ceil(0.99 * len(lengths)) - 1]:,}" if lengths else ""
    return f"{cut:,} of {len(rows.rows):,} recorded answers reached the limit of {limit:,} tokens{others}"


def _describe_unread_answers(rows: RecordedDocs) -> str | None:
    """How many recorded answers are empty, or gave the record's grader nothing; None if at most a twentieth."""
    unread = sum(map(_is_unread, rows.rows)) if rows.unread is None else rows.unread
    return describe_unread(unread, len(rows.rows))


def _is_unread(row: RecordedDoc) -> bool:
    texts = [text for request in row.responses or () for text in request if isinstance(text, str)]
    is_empty = bool(texts) and not any(text.strip() for text in texts)
    return is_empty or (row.extracted is not None and not any(row.extracted))


def describe_unread(count: int, docs: int) -> str | None:
    """So many of the recorded answers to docs are empty or were not read; None if at most a twentieth."""
    if count <= ALARM_UNEXTRACTED * docs:
        return None
    almost = ": almost nothing in this record can be read" if count >= ALMOST_ALL * docs else ""
    return f"{count:,} of {docs:,} recorded answers are empty, or nothing was found in them{almost}"


def find_bos(results: ResultsFile | None) -> str | None:
    """Find the BOS of the run's tokenizer in its results file."""
    bos = results.tree.get("tokenizer_bos_token") if results else None
    if isinstance(bos, list) and bos:
        bos = bos[0]
    return None if bos == "None" else choose_bos(bos)


def was_asked_with_bos(provenance: Provenance, rows: RecordedDocs) -> bool | None:
    """Whether a BOS preceded the prompts: the prompts contain it, or the arguments of the run add it."""
    brought = rows.warnings.get("prompt_with_bos", 0)
    setting = {"true": True, "false": False}.get(provenance.model_args.get("add_bos_token", "").lower())
    if brought and setting is not True:
        return True if brought == len(rows.rows) else None
    return setting


def read_rows(run: TaskRun, results: ResultsFile | None, output_type: str) -> RecordedDocs:
    """Read the rows of a task.

    Args:
        run: The task's output files.
        results: Its results file.
        output_type: The output type of the task's code.

    Raises:
        DataError: A doc cannot be asked again as recorded, or does not match its hash.
        ResultsError: A sample cannot be read.
    """
    bos = find_bos(results)
    reading = _SampleReading(output_type, bos, _read_token_limit(results, run.task))
    with run.open_samples() as read_whole:
        for doc in run.docs:
            samples = {name: read_whole(answer) for name, answer in doc.filter_results.items()}
            with locating(f"doc {doc.doc_id}", behind=", "):
                reading.add(doc, samples)
    warnings = reading.warnings
    warnings["duplicate_prompts"] = count_repeated_prompts(reading.rows)
    original = results.count(run.task, "original") if results else None
    if original is not None and original > len(reading.rows):
        warnings["partial_run"] = original - len(reading.rows)
    return RecordedDocs(
        reading.rows,
        reading.generation,
        bos if warnings["prompt_with_bos"] else None,
        dict(sorted(warnings.items())),
        asked_as="chat" if reading.is_chat else "text",
    )


def _read_token_limit(results: ResultsFile | None, task: str) -> int:
    """The token limit of lm-eval's clients of servers for tasks without one."""
    from meta_eval.harness.provenance import read_provenance

    limit = read_provenance(results, "", task).model_args.get("max_gen_toks", "")
    return int(limit) if limit.isdecimal() else MAX_GEN_TOKS


def split_unconditional(requests: Sequence[Sequence[Any]]) -> tuple[Sequence[Sequence[Any]], bool]:
    """Split off the requests that repeat each choice after an empty prompt, and say whether there are any.

    lm-eval builds these for ``acc_mutual_info``: first every choice after the prompt, then every choice alone.
    """
    half, odd = divmod(len(requests), 2)
    conditional, unconditional = requests[:half], requests[half:]
    pairs = zip(conditional, unconditional, strict=False)
    if not half or odd or not all(request[0] and not other[0] and request[1:] == other[1:] for request, other in pairs):
        return requests, False
    return conditional, True


@dataclass(slots=True)
class _SampleReading:
    output_type: str
    bos: str | None
    token_limit: int
    is_chat: bool = False
    rows: list[RecordedDoc] = field(default_factory=list)
    generation: dict[str, Any] | None = None
    warnings: Counter[str] = field(default_factory=Counter)

    def add(self, doc: DocResult, samples: Mapping[str, Mapping[str, Any]]) -> None:
        sample = next(iter(samples.values()))
        task_doc = sample["doc"]
        if not isinstance(task_doc, dict):
            raise DataError(f"is {type(task_doc).__name__} and no object with columns")
        requests, unconditional = split_unconditional(self._requests(sample))
        self._check_shape(requests)
        prompt, prompts = requests[0][0], tuple(remove_bos(request[0], self.bos) for request in requests)
        self._check_hash(read_messages_text(read_arguments(sample)[0][0]) or prompt, sample.get("prompt_hash"))
        bare = remove_bos(prompt, self.bos)
        if bare != prompt and self.output_type != ROLLING:
            self.warnings["prompt_with_bos"] += 1
            prompt = bare
        elif any(remove_bos(request[0], self.bos) != request[0] for request in requests):
            raise DataError(f"has the BOS text ({self.bos}) before the scored text")
        hashed = task_doc.get("input_question_hash")
        self.rows.append(
            RecordedDoc(
                doc=task_doc,
                prompt=prompt,
                continuations=self._continuations(requests),
                prompts=prompts if len(set(prompts)) > 1 else (),
                unconditional=unconditional,
                question_hash=hashed if isinstance(hashed, str) else doc.question_hash,
                gold=str(sample.get("target")),
                responses=self._responses(sample["resps"], len(requests) * (1 + unconditional)),
                metrics={
                    f"{metric},{name}": to_plain_number(sample[metric])
                    for name, sample in samples.items()
                    for metric in list_metrics(sample)
                },
                finish_reason=join_ends(read_ends(find_answer(sample))),
                completion_tokens=tokens
                if isinstance(tokens := find_answer(sample).get("completion_tokens"), int)
                else None,
            )
        )

    def _requests(self, sample: Mapping[str, Any]) -> list[list[Any]]:
        requests = read_arguments(sample)
        if not requests:
            raise DataError("does not say what was asked", hint="Use the file as lm_eval wrote it")
        if any(len(request) > 2 for request in requests):
            raise DataError("uses a picture or a sound, which a record cannot hold")
        self._read_chat(requests)
        if not requests[0][0] and self.output_type == "generate_until":
            raise DataError("has an empty prompt")
        if self.output_type == "generate_until":
            self._note_generation(requests[0])
        elif self.output_type != ROLLING and not all(
            len(request) == 2 and isinstance(request[1], str) for request in requests
        ):
            raise DataError(
                f"holds no likelihood request, but its task is {self.output_type} now",
                hint="Install the lm-eval version of the record",
            )
        if len(requests) > 1 and self.output_type != "multiple_choice":
            raise DataError(f"has {len(requests)} requests, and its task makes one")
        return requests

    def _read_chat(self, requests: Sequence[list[Any]]) -> None:
        """Replace the messages of chat requests by the body of a chat endpoint's request."""
        texts = [read_messages_text(request[0]) for request in requests]
        is_chat = None not in texts
        if (not is_chat and not all(isinstance(request[0], str) for request in requests)) or (
            is_chat and self.output_type != "generate_until"
        ):
            raise DataError(
                "was sent neither as text nor as chat messages that are answered with a text",
                hint="Use the file as lm_eval wrote it",
            )
        if is_chat != self.is_chat and self.rows:
            raise DataError("was sent in another way than the docs before it: as text, or as chat messages")
        self.is_chat = is_chat
        for request, text in zip(requests, texts, strict=True):
            if text is not None:
                request[0] = format_chat_body(text)
                self.warnings["begun_answer"] += begins_answer(request[0])

    def _check_shape(self, requests: Sequence[Sequence[Any]]) -> None:
        if len({request[0] for request in requests}) > 1 and len({request[1] for request in requests}) > 1:
            raise DataError(
                "changes both prompt and continuation for each choice, which a record cannot hold",
                hint="Leave the task out of tasks",
            )

    def _note_generation(self, request: Sequence[Any]) -> None:
        settings = request[1] if len(request) > 1 else None
        if not isinstance(settings, dict):
            raise DataError(
                "holds no generation request, but its task generates now",
                hint="Install the lm-eval version of the record",
            )
        settings = read_sent_settings(settings, self.token_limit) if self.is_chat else settings
        if self.generation is None:
            self.generation = settings
        elif settings != self.generation:
            raise DataError(f"was generated with {quoted(settings)}, and docs before it with {quoted(self.generation)}")

    def _check_hash(self, prompt: str, recorded: Any) -> None:
        if not isinstance(recorded, str):
            self.warnings["prompt_hash_missing"] += 1
        elif hash_text(prompt) != recorded:
            raise DataError(
                f"the prompt does not have its recorded SHA-256 {recorded:.80}",
                hint="The samples are edited or damaged: use the file as lm_eval wrote it",
            )

    def _continuations(self, requests: Sequence[Sequence[Any]]) -> tuple[str, ...]:
        if self.output_type in ("generate_until", ROLLING):
            return ()
        return tuple(request[1] for request in requests)

    def _responses(self, saved: Any, requests: int) -> list[list[Any]]:
        """Convert ``resps`` back to the model's values. lm-eval writes every part as text."""
        if not isinstance(saved, list) or len(saved) != requests:
            raise DataError(f"has {len(saved)} answers to {requests} requests")
        try:
            return [[self._response(response) for response in request] for request in saved]
        except (ValueError, TypeError, LookupError, OverflowError):
            raise DataError("holds answers that are neither text nor likelihoods") from None

    def _response(self, response: Any) -> Any:
        if self.output_type == "generate_until":
            if response is None and self.is_chat:  # a message without content: cut while thinking, or filtered
                return ""
            if not isinstance(response, str):
                raise TypeError
            return response
        if self.output_type == ROLLING:
            return float(response[0] if isinstance(response, list) else response)
        return [float(response[0]), str(response[1]) == "True"]


# lm-eval's client of chat endpoints sends no more stop sequences: OpenAI refuses more.
_STOPS = 4
# Its names of the token limit. Endpoints take the first that they are sent.
_LIMITS = ("max_completion_tokens", "max_tokens", "max_gen_toks")


def read_sent_settings(settings: Mapping[str, Any], token_limit: int) -> dict[str, Any]:
    """The generation settings that lm-eval's client of chat endpoints sends of a task's settings.

    Args:
        settings: The task's ``generation_kwargs``.
        token_limit: The client's limit for tasks without one.
    """
    stops = settings.get("until") or []
    limit = next((settings[name] for name in _LIMITS if name in settings), token_limit)
    others = {name: value for name, value in settings.items() if name not in (*_LIMITS, "until")}
    return {**others, "until": ([stops] if isinstance(stops, str) else list(stops))[:_STOPS], "max_gen_toks": limit}


def format_chat_body(messages: object) -> str:
    """Format messages as the body of a chat request.

    Args:
        messages: The messages, or their JSON text.

    Raises:
        DataError: They are no messages.
    """
    try:
        checked = parse_chat_messages(messages) if isinstance(messages, str) else check_chat_messages(messages)
    except ValueError as error:
        raise DataError(f"was sent as chat messages: the request {error}") from None
    return format_json({"messages": checked})


def begins_answer(body: str) -> bool:
    """Whether the last message of a chat request is the beginning of the answer."""
    return bool(json.loads(body)["messages"][-1]["role"] == "assistant")


def format_doc(doc: Mapping[str, Any]) -> str:
    """Format a doc as JSON text, which preserves all types."""
    return format_json(doc)
