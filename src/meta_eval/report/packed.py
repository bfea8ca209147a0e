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
from dataclasses import dataclass, field
from typing import IO, Any

from meta_eval.report.model import Sample

# A chunk is closed at either: it should unpack in a few hundredths of a second, whatever the texts are.
CHUNK_SAMPLES = 200
CHUNK_CHARACTERS = 3_000_000

# Characters of a text that the index holds.
_EXCERPT = 160

# In the order of the bits of the index's flags; those of B's answer follow A's.
FLAGS = ("unextracted", "limit hit", "empty", "ungraded")


@dataclass(slots=True)
class Packed:
    """The index (base64) and the chunks, which wait in a temporary file, one a line."""

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


@dataclass(slots=True)
class _Index:
    """Columns, one value a sample: small as JSON, smaller compressed."""

    tasks: list[str] = field(default_factory=list)
    subtasks: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    subtask: list[int] = field(default_factory=list)
    doc: list[int] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float | None] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    question: list[str] = field(default_factory=list)
    extracted: list[str | None] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    hash: list[str] = field(default_factory=list)
    # Lengths of the answers whose verdicts are first and second: in characters, and in tokens where they are known.
    first_characters: list[int | None] = field(default_factory=list)
    second_characters: list[int | None] = field(default_factory=list)
    first_tokens: list[int | None] = field(default_factory=list)
    second_tokens: list[int | None] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        first, second = _verdicts(sample)
        self.task.append(_number(self.tasks, sample.task))
        self.subtask.append(-1 if sample.subtask is None else _number(self.subtasks, sample.subtask))
        self.doc.append(sample.doc)
        self.first.append(first)
        self.second.append(second)
        raised = [flag in answer.flags for answer in sample.answers for flag in FLAGS]
        self.flags.append(sum(1 << bit for bit, is_so in enumerate(raised) if is_so))
        self.question.append(_excerpt(sample.question))
        extracted = sample.answers[-1].extracted
        self.extracted.append(None if extracted is None else _excerpt(extracted))
        self.gold.append(_excerpt(sample.gold))
        self.hash.append(sample.question_hash[:12])
        for one, (characters, tokens) in zip(("first", "second"), _lengths(sample), strict=True):
            getattr(self, f"{one}_characters").append(characters)
            getattr(self, f"{one}_tokens").append(tokens)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def pack(samples: Iterable[Sample]) -> Packed:
    """Pack samples in their order, holding no more than one chunk of them in memory."""
    index = _Index()
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed with what is returned)
    waiting: list[dict[str, Any]] = []
    characters = 0
    for sample in samples:
        if not waiting:
            index.starts.append(len(index.doc))
        index.add(sample)
        texts = _texts(sample)
        characters += sum(len(text) for text in (sample.prompt, *(answer.text for answer in sample.answers)))
        waiting.append(texts)
        if len(waiting) == CHUNK_SAMPLES or characters >= CHUNK_CHARACTERS:
            spool.write(_compressed(waiting) + b"\n")
            waiting, characters = [], 0
    if waiting:
        spool.write(_compressed(waiting) + b"\n")
    return Packed(_compressed(index.to_json()).decode("ascii"), len(index.doc), spool)


def _verdicts(sample: Sample) -> tuple[float, float | None]:
    """Of a run ours and Meta's, of two that are compared A's and B's."""
    if len(sample.answers) > 1:
        return sample.answers[0].verdict, sample.answers[1].verdict
    return sample.answers[0].verdict, sample.meta


def _lengths(sample: Sample) -> Iterator[tuple[int | None, int | None]]:
    """Of a run our answer's and the recorded one's, of two that are compared A's and B's."""
    for answer in sample.answers:
        yield (None if answer.likelihoods else len(answer.text)), answer.tokens
    if len(sample.answers) == 1:
        recorded = None if sample.answers[0].likelihoods else sample.meta_text
        yield (None if recorded is None else len(recorded)), sample.meta_tokens


def _texts(sample: Sample) -> dict[str, Any]:
    return {
        "prompt": sample.prompt,
        "gold": sample.gold,
        "hash": sample.question_hash,
        "meta": sample.meta,
        "question": sample.question,
        "recorded": sample.meta_text,
        "recorded_tokens": sample.meta_tokens,
        "metrics": {name: json.dumps(value, default=str) for name, value in sample.metrics.items()},
        "answers": [
            {
                "verdict": a.verdict,
                "text": a.text,
                "extracted": a.extracted,
                "flags": a.flags,
                "tokens": a.tokens,
                "limit": a.limit,
            }
            for a in sample.answers
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
