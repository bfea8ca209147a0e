"""Prompts that begin alike, asked together: an engine reads the tokens that it has in its prefix cache only once.

Pure. A few-shot task asks thousands of docs behind a handful of beginnings. While all of them fit the cache the order
is nothing to the engine; where they do not, each beginning is computed anew whenever it has been forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Characters that are compared at a time; a shorter beginning, some 128 tokens, is not worth an order.
BLOCK = 512


class Beginnings:
    """The order of some docs by how their prompts begin."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._keys: dict[int, tuple[int, ...]] = {}

    def add(self, doc: int, prompt: str) -> None:
        """Note a doc; of one that asks several prompts the first counts."""
        if doc in self._keys:
            return
        key, chain = [], 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            key.append(self._first.setdefault(chain, doc))
        # From where it is the first to go on as it does, it is so to its end.
        shared = next((place for place, first in enumerate(key) if first == doc), len(key))
        self._keys[doc] = (*key[:shared], doc)

    def order(self) -> list[int]:
        """The docs, in the order in which they came but for this: each beginning that several have is gone through
        whole, longer ones within shorter ones."""
        return sorted(self._keys, key=self._keys.__getitem__)


def count_shared_blocks(first: str, second: str) -> int:
    """Count the whole blocks at the start that two prompts share."""
    most = min(len(first), len(second)) // BLOCK
    for number in range(most):
        if first[number * BLOCK : (number + 1) * BLOCK] != second[number * BLOCK : (number + 1) * BLOCK]:
            return number
    return most


def interleave_docs(docs: Sequence[int], lanes: int) -> Iterator[int]:
    """Interleave so many stretches of docs, so that each of several servers can keep to its own."""
    size = -(-len(docs) // lanes)
    stretches = [docs[start : start + size] for start in range(0, len(docs), size or 1)]
    for place in range(size):
        yield from (stretch[place] for stretch in stretches if place < len(stretch))
