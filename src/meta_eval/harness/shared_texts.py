"""Long texts that several docs of a task share, such as a passage with twenty questions.

A model that loses a passage loses its docs together, so they are a cluster though nobody names the field. Whether they
are follows from the docs alone, never from verdicts. A field makes clusters if

- its texts have `SHARED_TEXT_CHARS` characters or more, and stand in the prompt; those of a list count together,
- a text is in several docs, and none in more than `SHARED_TEXT_DOCS`,
- it leaves enough clusters for the margin: `SHARED_TEXT_CLUSTERS` at 1 point, and 6 / margin at others. With fewer,
  few identical copies are within the margin.

Of several such fields the one with the fewest clusters counts: a passage before one of its sections. Other fields whose
texts are shared by more than `SHARED_TEXT_NOTED` of the docs are noted. A text that most docs share, such as an
instruction, tells them not apart, and counts as none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meta_eval.base.thresholds import (
    SHARED_TEXT_CHARS,
    SHARED_TEXT_CLUSTERS,
    SHARED_TEXT_DOCS,
    SHARED_TEXT_MOST,
    SHARED_TEXT_NOTED,
)

# How deep in a doc a text may be, and in how many parts of a list.
_DEPTH, _PARTS = 4, 8


@dataclass(frozen=True, slots=True)
class TextCounts:
    """How many texts of a field so many docs share."""

    name: str
    texts: int
    docs: int


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """A field with long texts, some of which several docs share."""

    name: str
    """The field; ``context.text`` or ``messages.0.content`` where it is in another one."""

    texts: Mapping[int, int]
    """The number of the text of each doc, by doc id; without docs that have no long text of their own or others'."""

    in_prompt: bool
    """Whether each text stands in the prompt of its doc."""

    @property
    def counts(self) -> TextCounts:
        """The number of its texts, and of the docs that have one."""
        return TextCounts(self.name, len(set(self.texts.values())), len(self.texts))

    @property
    def largest(self) -> int:
        """The most docs that share a text."""
        return max(Counter(self.texts.values()).values())

    @property
    def saved(self) -> int:
        """How many clusters fewer than docs there are."""
        return len(self.texts) - len(set(self.texts.values()))

    @property
    def sharing(self) -> int:
        """The number of docs whose text another doc has too."""
        return sum(count for count in Counter(self.texts.values()).values() if count > 1)


@dataclass(slots=True)
class TextReading:
    """Collects the long texts of docs."""

    _hashes: dict[str, dict[int, int]] = field(default_factory=dict)
    _outside: set[str] = field(default_factory=set)

    def add(self, doc_id: int, doc: Mapping[str, Any], prompt: Any) -> None:
        """Add a doc with its prompt."""
        for name, texts in _list_texts(doc):
            self._hashes.setdefault(name, {})[doc_id] = hash(texts)
            if name not in self._outside and not all(_stands_in(text, prompt) for text in texts):
                self._outside.add(name)

    def collect(self, doc_ids: Iterable[int]) -> tuple[SharedTexts, ...]:
        """The fields, by name, in which several of these docs share a text.

        Args:
            doc_ids: The docs, in order.
        """
        ids = list(doc_ids)
        shared = []
        for name, hashes in sorted(self._hashes.items()):
            values = {doc_id: hashes[doc_id] for doc_id in ids if doc_id in hashes}
            # A text that most docs share.
            common = {value for value, count in Counter(values.values()).items() if count > SHARED_TEXT_MOST * len(ids)}
            numbers: dict[int, int] = {}
            texts = {
                doc_id: numbers.setdefault(value, len(numbers))
                for doc_id, value in values.items()
                if value not in common
            }
            if len(numbers) < len(texts):
                shared.append(SharedTexts(name, texts, name not in self._outside and not common))
        return tuple(shared)


def _list_texts(parts: Mapping[str, Any], within: str = "", depth: int = 1) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The fields of a doc with a long text, or with a list of texts that are long together."""
    for name, value in parts.items():
        if isinstance(value, str):
            if len(value) >= SHARED_TEXT_CHARS:
                yield f"{within}{name}", (value,)
        elif isinstance(value, dict) and depth < _DEPTH:
            yield from _list_texts(value, f"{within}{name}.", depth + 1)
        elif isinstance(value, list) and value and depth < _DEPTH:
            if all(isinstance(text, str) for text in value):
                if sum(map(len, value)) < SHARED_TEXT_CHARS:
                    continue
                yield f"{within}{name}", tuple(value)
            parts = {str(at): part for at, part in enumerate(value[:_PARTS])}
            yield from _list_texts(parts, f"{within}{name}.", depth + 1)


def _stands_in(text: str, prompt: Any) -> bool:
    """Whether a text stands in a prompt, also in one that is written as JSON, such as chat messages."""
    whole = prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False, default=str)
    if text in whole:
        return True
    text = text.strip()
    return text in whole or any(json.dumps(text, ensure_ascii=ascii)[1:-1] in whole for ascii in (False, True))


def choose_cluster_field(shared: Sequence[SharedTexts], docs: int, margin: float) -> SharedTexts | None:
    """The field whose texts are clusters; None if none makes enough of them.

    Args:
        shared: The fields with shared texts.
        docs: The number of docs of the task.
        margin: The largest drop that is allowed, from 0 to 1.
    """
    least = SHARED_TEXT_CLUSTERS / (100 * margin)
    fitting = [
        each for each in shared
        if each.in_prompt and each.largest <= SHARED_TEXT_DOCS and docs - each.saved >= least
    ]  # fmt: skip
    return max(fitting, key=lambda each: each.saved, default=None)


def list_uncounted(shared: Sequence[SharedTexts], clusters: Mapping[int, str | None]) -> list[SharedTexts]:
    """The fields whose texts many docs share, and whose docs are not in one cluster each.

    Args:
        shared: The fields with shared texts.
        clusters: The cluster of each doc, by doc id; None if it stands alone.
    """
    return [
        each
        for each in shared
        if each.sharing > SHARED_TEXT_NOTED * len(clusters) and not _is_covered(each.texts, clusters)
    ]


def _is_covered(texts: Mapping[int, int], clusters: Mapping[int, str | None]) -> bool:
    """Whether all docs with a common text are in the same cluster."""
    cluster_of_text: dict[int, object] = {}
    names = ((text, clusters[doc_id] or doc_id) for doc_id, text in texts.items())
    return all(cluster_of_text.setdefault(text, name) == name for text, name in names)
