"""Orders docs by shared prompt prefix, for the engine's prefix cache.

Pure. A few-shot task has thousands of docs but few prefixes. If not all prefixes fit the cache, each is computed again
whenever it was evicted, unless docs are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Characters per compared block. A shorter prefix, some 128 tokens, is not worth ordering.
BLOCK = 512


class Beginnings:
    """The order of docs by prompt prefix."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._keys: dict[int, tuple[int, ...]] = {}

    def add(self, doc: int, prompt: str) -> None:
        """Add a doc; if it has several prompts, the first counts."""
        if doc in self._keys:
            return
        key, chain = [], 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            key.append(self._first.setdefault(chain, doc))
        # From the first unshared block on, no later block is shared.
        shared = next((place for place, first in enumerate(key) if first == doc), len(key))
        self._keys[doc] = (*key[:shared], doc)

    def order(self) -> list[int]:
        """The docs in their original order, except that docs with a shared prefix stay together, longer prefixes within
        shorter ones."""
        return sorted(self._keys, key=self._keys.__getitem__)


def count_shared_blocks(first: str, second: str) -> int:
    """Count the whole blocks that two prompts share at the start."""
    most = min(len(first), len(second)) // BLOCK
    for number in range(most):
        if first[number * BLOCK : (number + 1) * BLOCK] != second[number * BLOCK : (number + 1) * BLOCK]:
            return number
    return most


def interleave_docs(docs: Sequence[int], lanes: int) -> Iterator[int]:
    """Interleave ranges of docs, one per lane, so that each server can keep to its range."""
    size = -(-len(docs) // lanes)
    stretches = [docs[start : start + size] for start in range(0, len(docs), size or 1)]
    for place in range(size):
        yield from (stretch[place] for stretch in stretches if place < len(stretch))
