"""Reads the parts of samples files that a report needs, and the position of each sample in the file.

lm_eval writes a line for each doc and filter, with doc, prompt and answer: 20 KB and more. A `Doc` keeps some hundred
bytes and the position of each sample, so any benchmark fits in memory. Until May 2024 samples were a JSON array
(`meta_eval.harness.raw_samples`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.base.errors import locating
from meta_eval.base.inputs import is_deep, open_regular
from meta_eval.harness.answer_endings import add_endings
from meta_eval.harness.clusters import make_content_keys, make_given_key, make_missing_field_error, name_clusters
from meta_eval.harness.doc_results import DocResult, FilterResult, ResultsError, make_not_a_sample_error
from meta_eval.harness.raw_samples import read_raw_samples
from meta_eval.harness.sample_parser import parse_sample, read_arguments, read_doc_number, read_sample

_BUFFER = 2**17

# The parts of a sample in lm-eval's task hash.
_HASHES = ("doc_hash", "prompt_hash", "target_hash")


@dataclass(slots=True)
class SamplesFile:
    """The docs of a samples file by doc id, and notes about the file.

    Attributes:
        path: The file.
        docs: Docs with an answer under every filter.
        filters: The filters in the file's order.
        repeated: Number of exact duplicates of samples.
        skipped: Number of damaged samples and docs that were left out.
        task_hash: lm-eval's task hash, from the hashes of all samples in order; None if a sample has no hash.
        notes: Notes about the file.
    """

    path: Path
    docs: tuple[DocResult, ...]
    filters: tuple[str, ...]
    repeated: int
    skipped: int
    task_hash: str | None
    notes: tuple[str, ...]


def read_samples(
    path: Path,
    *,
    offset: int | None = None,
    skip_damaged: bool = False,
    filters: Sequence[str] = (),
    may_be_nan: Container[str] = (),
    count_tokens: Callable[[str], int] | None = None,
    cluster_field: str | None = None,
) -> SamplesFile:
    """Read a samples file.

    Args:
        path: The file.
        offset: See `read_raw_samples`.
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
    reading = _SampleFileReading(path, tuple(filters))
    samples = 0
    for raw_sample in read_raw_samples(path, offset):
        samples += 1
        try:
            with locating(raw_sample.where):
                sample = parse_sample(
                    raw_sample.content, cut=raw_sample.last and not raw_sample.content.endswith(b"\n")
                )
                name = None if "filter" in sample else reading.next_filter(sample)
                doc, name, answer = read_sample(
                    sample, offset=raw_sample.offset, length=len(raw_sample.content), filter_name=name,
                    may_be_nan=may_be_nan, cluster_field=cluster_field,
                )  # fmt: skip
                if doc.doc_id not in reading.docs:
                    add_endings(doc, sample, count_tokens)
                reading.add(sample, doc, name, answer)
        except ResultsError as error:
            if not skip_damaged:
                raise
            reading.damaged.append(str(error))
    if not samples:
        raise ResultsError("is empty", where=str(path), hint="Use the file of a finished run")
    if cluster_field is not None and all(doc.cluster is None for doc in reading.docs.values()):
        raise make_missing_field_error(cluster_field, sorted(reading.columns), str(path))
    return reading.collect(skip_damaged)


@contextmanager
def open_samples(path: Path) -> Iterator[Callable[[FilterResult], dict[str, Any]]]:
    """Give a function that reads the whole sample of an answer.

    Raises:
        ResultsError: The file cannot be read, or has changed.
    """
    try:
        with open_regular(path, buffering=_BUFFER) as file:

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
        raise ResultsError(f"cannot be read ({error.strerror})", where=str(path)) from None


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
    keys: dict[int, tuple[str, ...]] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    task_digest: Any = field(default_factory=hashlib.sha256)
    all_hashed: bool = True

    def add(self, sample: Mapping[str, Any], doc: DocResult, filter_name: str, answer: FilterResult) -> None:
        digests = [sample.get(name) for name in _HASHES]
        self.all_hashed = self.all_hashed and all(isinstance(digest, str) for digest in digests)
        self.task_digest.update("".join(map(str, digests)).encode("utf-8", "surrogatepass"))
        first = self.docs.get(doc.doc_id)
        if first is None:
            doc.filter_results[filter_name] = answer
            self.docs[doc.doc_id] = doc
            self.keys[doc.doc_id] = _cluster_keys(sample, doc)
            self.columns.update(sample["doc"] if isinstance(sample["doc"], dict) else ())
        elif not doc.has_same_question_and_answer(first) or not _agree(first.filter_results.get(filter_name), answer):
            self.conflicting_ids.add(doc.doc_id)
            raise ResultsError(
                f"doc {doc.doc_id} is here twice with a different question, answer or score",
                hint="Use the file of one run; this one may mix two runs",
            )
        elif filter_name in first.filter_results:
            self.repeated += 1  # several ranks ran the same doc
        else:
            first.filter_results[filter_name] = answer

    def next_filter(self, sample: Mapping[str, Any]) -> str | None:
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
        for doc, cluster in zip(complete, name_clusters([self.keys[doc.doc_id] for doc in complete]), strict=True):
            doc.cluster = cluster
        notes = []
        if self.repeated:
            notes.append(f"{self.path}: {self.repeated} lines stand there twice, word for word; each counts once")
        skipped = len(self.damaged) + len(incomplete)
        if skipped:
            first = self.damaged[0] if self.damaged else f"doc {incomplete[0]} is not there under every filter"
            notes.append(f"{self.path}: {skipped} damaged lines or docs are left out; the first: {first}")
        task_hash = self.task_digest.hexdigest() if self.all_hashed and not skipped else None
        return SamplesFile(self.path, complete, filters, self.repeated, skipped, task_hash, tuple(notes))


def _cluster_keys(sample: Mapping[str, Any], doc: DocResult) -> tuple[str, ...]:
    keys = make_content_keys(
        doc.question_hash if sample["doc"] else "", doc.prompt_hashes, doc.gold, read_arguments(sample)
    )
    return keys if doc.cluster is None else (make_given_key(doc.cluster), *keys)


def _agree(first: FilterResult | None, answer: FilterResult) -> bool:
    return first is None or (first.metrics == answer.metrics and first.extracted == answer.extracted)
