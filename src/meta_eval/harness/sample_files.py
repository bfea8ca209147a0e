"""Reads the parts of samples files that a report needs, and the position of each sample in the file.

lm_eval writes a line for each doc and filter, with doc, prompt and answer: 20 KB and more. A `Doc` keeps some hundred
bytes and the position of each sample, so any benchmark fits in memory.

A file is first split into samples: lines, or until May 2024 the elements of a JSON array. Only enough is parsed to find
the end of a sample. So a damaged sample stays a single piece, and the next is still found.

A thinking model that reaches the limit before it answers is told from a wrong one: its answer is empty, or a text in
which the tags of the reasoning are still open. The open tag alone is enough, without a token count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from meta_eval.base.errors import locating
from meta_eval.base.inputs import describe_form, is_deep, open_regular
from meta_eval.harness.chat_completion import has_open_reasoning, split_reasoning
from meta_eval.harness.clusters import (
    hash_parts,
    list_content_parts,
    make_given_key,
    make_missing_field_error,
    name_clusters,
    share_any,
)
from meta_eval.harness.doc_results import (
    MAX_SAMPLE_BYTES,
    DocResult,
    FilterResult,
    ResultsError,
    Sample,
    average_answers,
    make_not_a_sample_error,
    make_unreadable_error,
)
from meta_eval.harness.sample_parser import (
    FILTERED,
    SampleParts,
    find_limit,
    parse_sample,
    read_doc_number,
    read_ends,
    read_sample,
)
from meta_eval.harness.shared_texts import SharedTexts, TextReading

_BUFFER = 2**20

# Counts the tokens of a text; None where nobody can.
CountTokens = Callable[[str], int | None]

# A whole string, a string that continues beyond the data read so far, or a bracket.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?P<open>")|[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"


class RawSample(NamedTuple):
    """The bytes of what should be a sample."""

    where: str
    """Its place, for messages."""

    offset: int
    """Its start, in bytes."""

    content: bytes
    """Its bytes."""

    last: bool
    """Whether it is at the end of the file."""


def read_raw_samples(path: Path, offset: int | None = None) -> Iterator[RawSample]:
    """Read the samples of a file in order. Blank lines are skipped.

    Args:
        path: The file.
        offset: The byte offset of the array of samples inside a results file; None for a samples file.

    Raises:
        ResultsError: The file cannot be read, or a sample is longer than `MAX_SAMPLE_BYTES`.
    """
    try:
        with open_regular(path, buffering=_BUFFER) as file:
            file.seek(offset or 0)
            start = file.read(_BUFFER)
            if offset is None and (form := describe_form(start)):
                raise ResultsError(f"cannot be read ({form})", where=str(path))
            file.seek(offset or 0)
            is_array = start.lstrip()[:1] == b"["
            yield from _array(path, file, is_file=offset is None) if is_array else _lines(path, file)
    except OSError as error:
        raise make_unreadable_error(path, error) from None


# The place of a sample for messages, its start and length in bytes, and what gives it.
_Sample = tuple[str, int, int, Callable[[], Mapping[str, Any]]]


def _iterate_file(path: Path, offset: int | None) -> Iterator[_Sample]:
    for raw in read_raw_samples(path, offset):
        parse = partial(parse_sample, raw.content, cut=raw.last and not raw.content.endswith(b"\n"))
        yield raw.where, raw.offset, len(raw.content), parse


def _iterate_log(path: Path, samples: Sequence[Mapping[str, Any]]) -> Iterator[_Sample]:
    """Samples in memory. The offset of each is its number."""
    for number in range(len(samples)):
        yield f"{path}, sample {number + 1}", number, 0, partial(samples.__getitem__, number)


def _lines(path: Path, file: BinaryIO) -> Iterator[RawSample]:
    offset, number = 0, 1
    line = file.readline(MAX_SAMPLE_BYTES + 1)
    while line:
        where = f"{path}, line {number}"
        if len(line) > MAX_SAMPLE_BYTES:
            raise _too_long(where)
        following = file.readline(MAX_SAMPLE_BYTES + 1)
        if not line.isspace():
            yield RawSample(where, offset, line, not following)
        offset, number, line = offset + len(line), number + 1, following


def _array(path: Path, file: BinaryIO, *, is_file: bool) -> Iterator[RawSample]:
    """Yield the elements of an array. Anything but a comma between elements is yielded too, and so is a missing end.
    With ``is_file``, text after the array is yielded too.
    """
    text = bytearray(file.read(_BUFFER))
    text = text[text.index(b"[") + 1 :]
    base, number = file.tell() - len(text), 0  # base: offset of text in the file
    depth, begin, at = 1, 0, 0  # open brackets, start of the next sample, position in text
    while True:
        token = _TOKEN.search(text, at)
        if token is None or token["open"]:
            at = token.start() if token else len(text)
            more = file.read(max(_BUFFER, len(text)))  # doubled: it is searched again from the start of the string
            if len(text) > MAX_SAMPLE_BYTES:
                raise _too_long(f"{path}, sample {number + 1}")
            if more:
                text += more
                continue
            break
        at = token.end()
        opens, closes = token[0] in (b"[", b"{"), token[0] in (b"]", b"}")
        depth += opens - closes
        if opens and depth == 2 and text[begin : token.start()].strip(_BETWEEN):
            number += 1
            yield RawSample(f"{path}, sample {number}", base + begin, bytes(text[begin : token.start()]), False)
        if opens and depth == 2:
            begin = token.start()
        if closes and depth == 1:
            number += 1
            yield RawSample(f"{path}, sample {number}", base + begin, bytes(text[begin:at]), False)
            del text[:at]
            base, begin, at = base + at, 0, 0
        if depth == 0:
            break
    if depth == 0 and not is_file:
        return
    rest = bytes(text[begin : at - 1] + text[at:] if depth == 0 else text[begin:]) + file.read(MAX_SAMPLE_BYTES)
    if depth or rest.strip(_BETWEEN):
        yield RawSample(f"{path}, sample {number + 1}", base + begin, rest, True)


def _too_long(where: str) -> ResultsError:
    return ResultsError(f"is longer than {MAX_SAMPLE_BYTES // 2**20} MiB: not an lm_eval samples file", where=where)


# The column of a record's docs that says how the recorded answer ended, as the finish reason of samples.
RECORDED_FINISH_REASON = "recorded_finish_reason"

_MESSAGE_FIELDS = {"content", "tool_calls", "finish_reason"}


class _Ending(NamedTuple):
    """How an answer ended."""

    is_empty: bool
    """Whether it has neither text nor tool call."""

    hits_limit: bool | None
    """Whether it reached its limit of tokens; None if unknown."""

    is_cut: bool | None
    """Whether it was cut; None if unknown."""

    is_thinking: bool
    """Whether its reasoning was cut: at the limit, or its closing tag is missing and no engine says that it stopped by
    itself."""


def add_endings(
    doc: DocResult, parts: SampleParts, count_tokens: CountTokens | None, *, of_record: bool = True
) -> None:
    """Record how each answer to a doc ended. The engine's finish reason is used, or else the token count.

    Args:
        doc: The doc of the sample.
        parts: Those of the sample from lm_eval or `meta-eval grade`.
        count_tokens: Counts the tokens of an answer; without it, it is unknown whether long answers were cut.
        of_record: Whether to record the same of the recorded answer in the doc.
    """
    texts, settings, limit = parts.outputs, parts.settings, find_limit(parts.settings)
    if not texts or "allowed_token_ids" in settings:  # choices are never cut
        doc.limit_hit, doc.cuts, doc.recorded_cut = False, (False,), False
        doc.answer_empty = bool(texts) and not any(map(str.strip, texts))
        return
    ends = reasons if len(reasons := read_ends(parts.answer)) == len(texts) else [None] * len(texts)
    endings = [_find_ending(text, end, limit, count_tokens) for text, end in zip(texts, ends, strict=True)]
    empty, hits, doc.cuts, thinking = zip(*endings, strict=True)
    doc.limit_hit = True if True in hits else None if None in hits else False
    doc.answer_empty, doc.is_cut_thinking = all(empty), any(thinking)
    task_doc = parts.doc if of_record else {}
    if isinstance(recorded := task_doc.get("recorded_output"), str):
        ending = _find_ending(recorded, task_doc.get(RECORDED_FINISH_REASON), limit, count_tokens)
        doc.recorded_cut, doc.is_recorded_cut_thinking = ending.is_cut, ending.is_thinking
        doc.recorded_empty, doc.recorded_length = ending.is_empty, len(recorded)


def is_empty_answer(text: str) -> bool:
    """Whether an answer says nothing: a text of white space, or the JSON text of a chat message without text and
    calls."""
    return not (text.strip() and not text.startswith("{")) and _find_ending(text, None, None, None).is_empty


def _find_ending(text: str, end: object, limit: int | None, count_tokens: CountTokens | None) -> _Ending:
    """How an answer ended: a text, or the JSON text of a chat message."""
    has_calls = False
    if text.startswith("{") and (message := _parse_message(text)) is not None:
        text, has_calls = str(message["content"] or ""), bool(message["tool_calls"])
        end = message["finish_reason"] if end is None else end
    hits_limit = _hits_limit(text, end, limit, count_tokens)
    is_empty = not text.strip() and not has_calls
    is_open = not has_calls and end in (None, "length") and has_open_reasoning(text)
    is_cut = True if end == FILTERED or is_empty or is_open else hits_limit
    is_thinking = is_open or (hits_limit is True and not has_calls and not split_reasoning(text, cut=True)[1].strip())
    return _Ending(is_empty, hits_limit, is_cut, is_thinking)


def _parse_message(text: str) -> dict[str, Any] | None:
    """A chat message whose tool calls are graded; None of any other text."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.keys() == _MESSAGE_FIELDS else None


def _hits_limit(text: str, end: object, limit: int | None, count_tokens: CountTokens | None) -> bool | None:
    """Whether an answer reached its token limit. A token has at least a byte, so an answer with fewer bytes cannot have
    reached it; tokens of longer answers must be counted.
    """
    if isinstance(end, str):
        return end == "length"
    if limit is None:
        return None
    if len(text) < limit and (text.isascii() or len(text.encode("utf-8", "surrogatepass")) < limit):
        return False
    tokens = count_tokens(text) if count_tokens else None
    return None if tokens is None else tokens >= limit


_BUFFER_OF_ONE = 2**17

# The parts of a sample in lm-eval's task hash.
_HASHES = ("doc_hash", "prompt_hash", "target_hash")


@dataclass(slots=True)
class SamplesFile:
    """The docs of a samples file by doc id, and notes about the file."""

    path: Path
    """The file."""

    docs: tuple[DocResult, ...]
    """Docs with an answer under every filter."""

    filters: tuple[str, ...]
    """The filters in the file's order."""

    repeated: int
    """Number of exact duplicates of samples."""

    skipped: int
    """Number of damaged samples and docs that were left out."""

    task_hash: str | None
    """lm-eval's task hash, from the hashes of all samples in order; None if a sample has no hash."""

    notes: tuple[str, ...]
    """Notes about the file."""

    shared_texts: tuple[SharedTexts, ...] = ()
    """The fields with texts that several docs share; none where the clusters are given."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The generation settings of the first doc; none of a likelihood."""


def read_samples(
    path: Path,
    *,
    offset: int | None = None,
    logged: Sequence[Mapping[str, Any]] | None = None,
    skip_damaged: bool = False,
    filters: Sequence[str] = (),
    may_be_nan: Container[str] = (),
    count_tokens: CountTokens | None = None,
    cluster_field: str | None = None,
) -> SamplesFile:
    """Read a samples file.

    Args:
        path: The file.
        offset: See `read_raw_samples`.
        logged: The samples themselves, if the file is another harness's; ``path`` then only names their place.
        skip_damaged: Leave damaged samples out, with a note, instead of refusing the file.
        filters: The task's filters in order, for samples without a filter name (lm-eval before 0.4.7). The first sample
            of a doc belongs to the first filter, and so on.
        may_be_nan: Metrics with an average that leaves out values that are not numbers.
        count_tokens: Counts the tokens of long answers, which may have hit the limit. Without it only short answers are
            known to be complete.
        cluster_field: The field of a doc with its cluster; None for a pack's own column.

    Raises:
        ResultsError: The file is empty, truncated, not a samples file, or contradicts itself about a doc.
        ConfigError: No doc has the cluster field.
    """
    reading = _SampleFileReading(path, tuple(filters), texts=None if cluster_field else TextReading())
    samples = 0
    for where, start, length, parse in _iterate_file(path, offset) if logged is None else _iterate_log(path, logged):
        samples += 1
        try:
            with locating(where):
                reading.read(
                    parse(), count_tokens, offset=start, length=length, may_be_nan=may_be_nan,
                    cluster_field=cluster_field,
                )  # fmt: skip
        except ResultsError as error:
            if not skip_damaged:
                raise
            reading.damaged.append(str(error))
    if not samples:
        raise ResultsError("is empty", where=str(path), hint="Use the file of a finished run")
    if cluster_field is not None and all(doc.cluster is None for doc in reading.docs.values()):
        raise make_missing_field_error(cluster_field, sorted(reading.columns), str(path))
    return reading.collect(skip_damaged)


def read_graded(samples: Iterable[Mapping[str, Any]], count_tokens: CountTokens | None = None) -> tuple[DocResult, ...]:
    """Read samples that lm-eval's evaluator just made, as those of a file are read.

    Args:
        samples: The samples of a task of a pack, for each doc and filter.
        count_tokens: As in `read_samples`.

    Raises:
        ResultsError: A score is not a number.
    """
    reading = _SampleFileReading(Path(), (), is_of_file=False)
    for sample in samples:
        try:
            reading.read(sample, count_tokens, may_be_nan=sample)
        except ResultsError:
            with locating(f"doc {sample['doc_id']}"):
                raise
    docs = reading.collect(skip_damaged=False).docs if reading.docs else ()
    average_answers(docs)
    return docs


@contextmanager
def open_samples(
    path: Path, logged: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[Callable[[FilterResult], Mapping[str, Any]]]:
    """Give a function that reads the whole sample of an answer.

    Args:
        path: The samples file.
        logged: See `read_samples`.

    Raises:
        ResultsError: The file cannot be read, or has changed.
    """
    if logged is not None:
        yield lambda answer: logged[answer.offset]
        return
    try:
        with open_regular(path, buffering=_BUFFER_OF_ONE) as file:

            def at(answer: FilterResult) -> dict[str, Any]:
                file.seek(answer.offset)
                try:
                    sample = parse_sample(file.read(answer.length), cut=False)
                except ResultsError:
                    sample = {}
                with locating(f"{path}, byte {answer.offset}"):
                    if is_deep(sample):
                        raise make_not_a_sample_error("is nested too deeply")
                    if "doc" not in sample or not isinstance(sample.get("resps"), list):
                        raise ResultsError("has changed since it was read", hint="Wait until the run has ended")
                return sample

            yield at
    except OSError as error:
        raise make_unreadable_error(path, error) from None


# What tells which docs are the same problem: parts of the doc, or the hash of some.
_Problem = list[tuple[str, ...] | str]


@dataclass(slots=True)
class _SampleFileReading:
    """The state of reading a file."""

    path: Path
    filter_names: tuple[str, ...]
    docs: dict[int, DocResult] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    conflicting_ids: set[int] = field(default_factory=set)
    repeated: int = 0
    samples_seen: dict[int, int] = field(default_factory=dict)
    problems: dict[int, _Problem] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    texts: TextReading | None = None
    task_digest: Any = field(default_factory=hashlib.sha256)
    all_hashed: bool = True
    is_of_file: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def read(
        self, sample: Sample, count_tokens: CountTokens | None, *, offset: int = 0, length: int = 0,
        may_be_nan: Container[str] = (), cluster_field: str | None = None,
    ) -> None:  # fmt: skip
        """Read a sample, and add it to its doc. Arguments as of `read_sample` and `add_endings`."""
        name = None if "filter" in sample else self.next_filter(sample)
        parts, doc, name, answer = read_sample(
            sample, offset=offset, length=length, filter_name=name, known=self.docs, may_be_nan=may_be_nan,
            cluster_field=cluster_field,
        )  # fmt: skip
        if doc.doc_id not in self.docs:
            add_endings(doc, parts, count_tokens, of_record=self.is_of_file)
        self.add(sample, parts, doc, name, answer)

    def add(self, sample: Sample, parts: SampleParts, doc: DocResult, filter_name: str, answer: FilterResult) -> None:
        if self.is_of_file:
            try:
                self.task_digest.update("".join([sample[name] for name in _HASHES]).encode("utf-8", "surrogatepass"))
            except (KeyError, TypeError):
                self.all_hashed = False
        first = self.docs.get(doc.doc_id)
        if first is None:
            doc.filter_results[filter_name] = answer
            self.settings = self.settings if self.docs else parts.settings
            self.docs[doc.doc_id] = doc
            self.problems[doc.doc_id] = _read_problem(sample, parts, doc)
            if not self.texts:  # the user names a field
                self.columns.update(parts.doc)
            elif "input_question_hash" not in parts.doc:  # a pack says itself what its docs share
                self.texts.add(doc.doc_id, parts.doc, parts.requests[0][0] if parts.requests else "")
        elif doc is not first or not _agree(first.filter_results.get(filter_name), answer):
            self.conflicting_ids.add(doc.doc_id)
            raise ResultsError(
                f"doc {doc.doc_id} is here twice with a different question, answer or score",
                hint="Use the file of one run; this one may mix two runs",
            )
        elif filter_name in first.filter_results:
            self.repeated += 1  # several ranks ran the same doc
        else:
            first.filter_results[filter_name] = answer

    def next_filter(self, sample: Sample) -> str | None:
        """Find the filter of a sample without a filter name. lm-eval logs all docs under the first filter, then all
        under the second, separately for each rank."""
        number = read_doc_number(sample)
        if not self.filter_names or number is None:
            return None
        seen = self.samples_seen.get(number, 0)
        self.samples_seen[number] = seen + 1
        return self.filter_names[seen % len(self.filter_names)]

    def collect(self, skip_damaged: bool) -> SamplesFile:
        """Collect the docs with an answer under every filter. A truncated file also has incomplete docs."""
        hint = "Use the file of a finished run"
        if self.damaged and self.samples_seen and len(self.filter_names) > 1:
            raise ResultsError(f"{self.damaged[0]}; the rest does not name its filter", where=str(self.path), hint=hint)
        docs = {key: doc for key, doc in self.docs.items() if key not in self.conflicting_ids}
        filters = tuple(dict.fromkeys(name for doc in docs.values() for name in doc.filter_results))
        incomplete = [doc_id for doc_id, doc in docs.items() if len(doc.filter_results) < len(filters)]
        if incomplete and not skip_damaged:
            counts = ", ".join(
                f"{name}: {sum(name in doc.filter_results for doc in docs.values())}" for name in filters
            )
            raise ResultsError(
                f"is truncated: docs are missing under a filter ({counts})", where=str(self.path), hint=hint
            )
        complete = tuple(docs[doc_id] for doc_id in sorted(docs) if len(docs[doc_id].filter_results) == len(filters))
        if not complete:
            raise ResultsError("holds no complete doc", where=str(self.path), hint=hint)
        for doc, cluster in zip(complete, self._name_clusters(complete), strict=True):
            doc.cluster = cluster
        notes = []
        if self.repeated:
            notes.append(f"{self.path}: {self.repeated} lines stand there twice, word for word; each counts once")
        skipped = len(self.damaged) + len(incomplete)
        if skipped:
            first = self.damaged[0] if self.damaged else f"doc {incomplete[0]} is not there under every filter"
            notes.append(f"{self.path}: {skipped} damaged lines or docs are left out; the first: {first}")
        task_hash = self.task_digest.hexdigest() if self.all_hashed and not skipped else None
        shared = self.texts.collect(doc.doc_id for doc in complete) if self.texts else ()
        return SamplesFile(
            self.path, complete, filters, self.repeated, skipped, task_hash, tuple(notes), shared, self.settings
        )

    def _name_clusters(self, docs: Sequence[DocResult]) -> list[str | None]:
        """Name the cluster of each doc. In most tasks none is given and no two docs are alike: no keys are needed."""
        problems = [self.problems[doc.doc_id] for doc in docs]
        if all(doc.cluster is None for doc in docs) and not share_any(problems):
            return [None] * len(docs)
        keys: list[list[str]] = []
        for doc, problem in zip(docs, problems, strict=True):
            given = [] if doc.cluster is None else [make_given_key(doc.cluster)]
            keys.append(given + [part if isinstance(part, str) else hash_parts(*part) for part in problem])
        return name_clusters(keys)


def _read_problem(sample: Sample, parts: SampleParts, doc: DocResult) -> _Problem:
    """What the keys of a doc are hashes of. Parts with more than a hash and the answer may be long."""
    question_hash = doc.question_hash if sample["doc"] else ""
    keys = list_content_parts(question_hash, doc.prompt_hashes, doc.gold, parts.requests)
    return [key if len(key) <= 2 else hash_parts(*key) for key in keys]


def _agree(first: FilterResult | None, answer: FilterResult) -> bool:
    return first is None or (first.metrics == answer.metrics and first.extracted == answer.extracted)
