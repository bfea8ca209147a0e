"""Samples: the docs of one or two runs with all their texts, read from the samples files one after the other.

In a page they are an index that is loaded at once, and chunks of whole texts that are unpacked on demand. Both are
JSON, compressed and in base64, which needs no escaping anywhere in HTML.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, Any

from meta_eval.base.inputs import parse_json
from meta_eval.base.secrets import redact_secrets
from meta_eval.harness import doc_results, sample_parser
from meta_eval.harness.doc_results import PerplexityParts, Sample
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.decision import TaskDecision
from meta_eval.judge.harness_alignment import read_prompt
from meta_eval.reports.document import ShownAnswer, ShownSample

Counter = Callable[[str], int | None]


def read_shown_samples(tasks: Iterable[TaskDecision], *, count_tokens: Counter | None = None) -> Iterator[ShownSample]:
    """Every doc that has a verdict, with the answer of the run, or of both runs, by task and doc id.

    Args:
        tasks: The tasks.
        count_tokens: Counts the tokens of an answer; without it they are not known.

    Raises:
        ResultsError: A samples file has changed since it was read.
    """
    for task in tasks:
        source = task.source
        if source is None or any(run.samples_file is None for run in source.runs):
            continue
        scores = [
            compute_scores([docs[which] for docs in source.docs], source.metric, run.lower_is_better)
            for which, run in enumerate(source.runs)
        ]
        if any(score is None or scores[0] is None or score.doc_indices != scores[0].doc_indices for score in scores):
            continue
        with ExitStack() as stack:
            read = [stack.enter_context(run.open_samples()) for run in source.runs]
            known_scores = [score for score in scores if score is not None]
            name = source.metric.partition(",")[2]
            for number, position in enumerate(known_scores[0].doc_indices):
                docs = source.docs[position]
                wholes = [sample(doc.filter_results[name]) for sample, doc in zip(read, docs, strict=True)]
                answers = tuple(
                    _answer(
                        doc,
                        doc.filter_results[name],
                        score.verdicts[number],
                        raw_sample,
                        count_tokens,
                        source.other_prompt_docs,
                    )
                    for doc, score, raw_sample in zip(docs, known_scores, wholes, strict=True)
                )
                yield _sample(
                    task.name,
                    docs[0],
                    wholes[0],
                    answers,
                    source.recorded[position],
                    count_tokens if len(docs) == 1 else None,
                    texts=source.texts,
                )


def _sample(
    task: str,
    doc: doc_results.DocResult,
    sample: Sample,
    answers: tuple[ShownAnswer, ...],
    recorded: float | None,
    count_tokens: Counter | None,
    *,
    texts: bool,
) -> ShownSample:
    recorded_text = _recorded(_columns(sample)) if texts else None
    return ShownSample(
        task=task,
        subtask=doc.subtask,
        doc=doc.doc_id,
        question_hash=doc.question_hash,
        question=_question(sample),
        prompt=_prompt(sample),
        gold=doc.gold,
        answers=answers,
        recorded_verdict=recorded,
        recorded_text=recorded_text,
        recorded_tokens=None
        if recorded_text is None or answers[0].likelihoods
        else _tokens(recorded_text, count_tokens),
    )


def _answer(
    doc: doc_results.DocResult,
    result: doc_results.FilterResult,
    verdict: float,
    sample: Sample,
    count_tokens: Counter | None,
    other_prompt_docs: Container[int],
) -> ShownAnswer:
    flagged = {
        "unextracted": result.is_unextracted is True,
        "limit hit": doc.limit_hit is True or doc.is_cut_thinking,
        "empty": doc.answer_empty,
        "ungraded": result.metrics.get("ungraded") == 1,
        "other prompt": doc.doc_id in other_prompt_docs,
    }
    flags = tuple(flag for flag, is_so in flagged.items() if is_so)
    text, likelihoods = _text(sample)
    tokens = None if likelihoods else _tokens(text, count_tokens)
    return ShownAnswer(
        verdict,
        text,
        result.extracted,
        flags,
        tokens,
        None if likelihoods else sample_parser.find_limit(sample_parser.read_settings(sample)),
        likelihoods,
        {
            f"{metric},{name}": [value.log_likelihood, value.weight] if isinstance(value, PerplexityParts) else value
            for name, answer in doc.filter_results.items()
            for metric, value in answer.metrics.items()
        },
    )


def _tokens(text: str, count_tokens: Counter | None) -> int | None:
    return count_tokens(text) if count_tokens else None


def _recorded(doc: Mapping[str, Any]) -> str | None:
    """Meta's recorded answer; of a choice the recorded log-likelihoods, as `_text` writes ours."""
    output = doc.get("recorded_output")
    if isinstance(output, str):
        return output
    costs, continuations = doc.get("recorded_negative_log_likelihoods"), doc.get("continuations")
    if not isinstance(costs, list) or not isinstance(continuations, list) or len(costs) != len(continuations):
        return None
    if not all(isinstance(cost, int | float) and not isinstance(cost, bool) for cost in costs):
        return None
    return "\n".join(f"{-cost}  {continuation}" for cost, continuation in zip(costs, continuations, strict=True))


def _question(sample: Sample) -> str:
    """The question; of a dialog, which some subsets write as JSON, its last turn. Of a doc without this column the
    last of its texts in the prompt, else the end of the prompt."""
    question = str(_columns(sample).get("question") or "")
    if not question and (prompt := read_prompt(sample)):
        return prompt.question if prompt.question != prompt.message else prompt.message.rpartition("\n\n")[2]
    if question.startswith('{"dialog"'):
        try:
            return str(parse_json(question)["dialog"][-1]["body"])
        except (ValueError, LookupError, TypeError):
            pass
    return question


def _columns(sample: Sample) -> Mapping[str, Any]:
    """The doc; empty if the task's docs have no columns."""
    doc = sample["doc"]
    return doc if isinstance(doc, dict) else {}


def _prompt(sample: Sample) -> str:
    """What the model was given; where each choice has a context of its own, all of them."""
    contexts = list(dict.fromkeys(str(request[0]) for request in sample_parser.read_arguments(sample)))
    if len(contexts) > 1:
        return "\n\n".join(f"[{number}]\n{context}" for number, context in enumerate(contexts, start=1))
    return contexts[0] if contexts else str(_columns(sample).get("prompt", ""))


def _text(sample: Sample) -> tuple[str, bool]:
    """The generated text. For a choice the log-likelihood of each continuation, a line each, marked as a choice."""
    responses = [response[0] if isinstance(response, list) and response else response for response in sample["resps"]]
    requests = sample_parser.read_arguments(sample)
    if responses and all(isinstance(response, list) and response for response in responses):
        lines = (
            f"{response[0]}  {requests[number][1] if number < len(requests) and len(requests[number]) > 1 else number}"
            for number, response in enumerate(responses)
        )
        return "\n".join(lines), True
    return "\n\n".join("" if response is None else str(response) for response in responses), False


# A chunk is closed at either: it should unpack in a few hundredths of a second, whatever the texts are.
CHUNK_SAMPLES = 200
CHUNK_CHARACTERS = 3_000_000

# Characters of a text that the index holds.
_EXCERPT = 160

# Lengths belong to the answers of the first and second verdicts: in characters, and in tokens if known.
_COLUMNS = (
    "task", "subtask", "doc", "first", "second", "flags", "question", "extracted", "gold", "hash", "first_characters",
    "second_characters", "first_tokens", "second_tokens",
)  # fmt: skip

_OF_ANSWER = ("verdict", "text", "extracted", "flags", "tokens", "limit")

# In the order of the bits of the index's flags; those of B's answer follow A's.
FLAGS = ("unextracted", "limit hit", "empty", "ungraded", "other prompt")


@dataclass(slots=True)
class CompressedSamples:
    """The index (base64) and the chunks. The chunks are in a temporary file, a line each."""

    index: str
    samples: int
    _chunks: IO[bytes]

    def chunks(self) -> Iterator[str]:
        """Each chunk in base64."""
        self._chunks.seek(0)
        for line in self._chunks:
            yield line.decode("ascii").rstrip("\n")

    def close(self) -> None:
        with suppress(OSError):  # of a full disk, which the page has told
            self._chunks.close()


class _Index:
    """Columns with a value per sample: small as JSON, smaller compressed."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.subtasks: list[str] = []
        self.starts: list[int] = []
        self.columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}

    def __len__(self) -> int:
        return len(self.columns["doc"])

    def add(self, sample: ShownSample) -> None:
        raised = [flag in answer.flags for answer in sample.answers for flag in FLAGS]
        extracted = sample.answers[-1].extracted
        characters, tokens = zip(*_lengths(sample), strict=True)
        row = (
            _number(self.tasks, redact_secrets(sample.task)),
            -1 if sample.subtask is None else _number(self.subtasks, redact_secrets(sample.subtask)),
            sample.doc,
            *_verdicts(sample),
            sum(1 << bit for bit, is_so in enumerate(raised) if is_so),
            _excerpt(sample.question),
            None if extracted is None else _excerpt(extracted),
            _excerpt(sample.gold),
            sample.question_hash[:12],
            *characters,
            *tokens,
        )
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)

    def to_json(self) -> dict[str, Any]:
        return {"tasks": self.tasks, "subtasks": self.subtasks, "starts": self.starts, **self.columns}


def pack_samples(samples: Iterable[ShownSample]) -> CompressedSamples:
    """Pack samples in their order. At most a chunk of them is in memory."""
    index = _Index()
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed with what is returned)
    waiting: list[dict[str, Any]] = []
    characters = 0
    for sample in samples:
        if not waiting:
            index.starts.append(len(index))
        index.add(sample)
        texts = _texts(sample)
        characters += sum(len(text) for text in (sample.prompt, *(answer.text for answer in sample.answers)))
        waiting.append(texts)
        if len(waiting) == CHUNK_SAMPLES or characters >= CHUNK_CHARACTERS:
            spool.write(_compressed(waiting) + b"\n")
            waiting, characters = [], 0
    if waiting:
        spool.write(_compressed(waiting) + b"\n")
    return CompressedSamples(_compressed(index.to_json()).decode("ascii"), len(index), spool)


def _verdicts(sample: ShownSample) -> tuple[float, float | None]:
    """Of a run ours and Meta's, of two that are compared A's and B's."""
    if len(sample.answers) > 1:
        return sample.answers[0].verdict, sample.answers[1].verdict
    return sample.answers[0].verdict, sample.recorded_verdict


def _lengths(sample: ShownSample) -> Iterator[tuple[int | None, int | None]]:
    """For a run: of its answer and the recorded answer. For a comparison: of A and B."""
    for answer in sample.answers:
        yield (None if answer.likelihoods else len(answer.text)), answer.tokens
    if len(sample.answers) == 1:
        recorded = None if sample.answers[0].likelihoods else sample.recorded_text
        yield (None if recorded is None else len(recorded)), sample.recorded_tokens


def _texts(sample: ShownSample) -> dict[str, Any]:
    return {
        "prompt": sample.prompt,
        "gold": sample.gold,
        "hash": sample.question_hash,
        "recorded_verdict": sample.recorded_verdict,
        "question": sample.question,
        "recorded_text": sample.recorded_text,
        "recorded_tokens": sample.recorded_tokens,
        "answers": [
            {
                **{name: getattr(answer, name) for name in _OF_ANSWER},
                "metrics": {name: json.dumps(value, default=str) for name, value in answer.metrics.items()},
            }
            for answer in sample.answers
        ],
    }


def _number(names: list[str], name: str) -> int:
    """The place of a name in the list, at its end if it is new; samples come sorted, so the search is short."""
    if names and names[-1] == name:
        return len(names) - 1
    if name not in names:
        names.append(name)
    return names.index(name)


def _excerpt(text: str) -> str:
    """One line of the beginning; only as much as that needs is looked at, since a text may be huge."""
    line = re.sub(r"\s+", " ", text[: 4 * _EXCERPT]).strip()
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"


def _compressed(data: Any) -> bytes:
    # As ASCII, so that half a surrogate pair survives; NaN is no JSON, and no verdict is one.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    packer = zlib.compressobj(level=6, wbits=31)  # gzip, without name and time
    return base64.b64encode(packer.compress(text.encode("ascii")) + packer.flush())
