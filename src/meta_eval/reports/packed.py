"""Samples in a page: an index that is loaded at once, and chunks of whole texts that are unpacked on demand.

Both are JSON, compressed and in base64, which needs no escaping anywhere in HTML.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from meta_eval.reports.model import ShownSample

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
            _number(self.tasks, sample.task),
            -1 if sample.subtask is None else _number(self.subtasks, sample.subtask),
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
        "metrics": {name: json.dumps(value, default=str) for name, value in sample.metrics.items()},
        "answers": [{name: getattr(answer, name) for name in _OF_ANSWER} for answer in sample.answers],
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
