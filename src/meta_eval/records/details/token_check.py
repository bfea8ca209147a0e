"""Compares recorded token ids with the ids that the model's tokenizer gives for the recorded text.

The ids show whether the record was made with this tokenizer, and whether a BOS preceded its prompts. The harness of
2023 added no BOS; today every engine does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meta_eval.records.details.first_board import DetailsRow

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# All requests of the first docs are compared; of later docs only the first, as their requests share a prompt.
_WHOLE = 256


@dataclass(slots=True)
class TokenCheck:
    """The result of comparing the ids of a task.

    Attributes:
        tokenizer: The model's; None where it is not on this machine.
        docs: How many docs were compared.
        other: How many of them have different ids.
        without_bos: How many were asked without the BOS that this tokenizer puts in front.
        twice: How many were asked with more than one BOS.
        first: The first doc with different ids, and the difference.
    """

    tokenizer: Tokenizer | None
    docs: int = 0
    other: int = 0
    without_bos: int = 0
    twice: int = 0
    first: str | None = None
    _added: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            plain = self.tokenizer.encode("a", add_special_tokens=False).ids
            with_special = self.tokenizer.encode("a").ids
            self._added = (
                with_special[: max(0, len(with_special) - len(plain))] if with_special[-len(plain) :] == plain else []
            )

    def compare(self, number: int, sample: DetailsRow) -> None:
        """Compare the ids of a doc. A doc without ids, or with a truncated prompt, is skipped."""
        if self.tokenizer is None or sample.tokens is None or sample.truncated:
            return
        texts = sample.requests
        if len(texts) != len(sample.tokens):
            return
        some = slice(None if number < _WHOLE else 1)
        fronts, differs = Counter[int](), None
        for text, recorded in zip(texts[some], sample.tokens[some], strict=True):
            encoded = self.tokenizer.encode(text, add_special_tokens=False).ids
            front = 0
            while self._added and recorded[front : front + 1] == tuple(self._added[:1]):
                front += 1
            fronts[front] += 1
            recorded_ids = list(recorded[front:])
            # The last id is not an input of a likelihood; some writers omit it.
            if differs is None and recorded_ids not in (encoded, encoded[:-1]):
                differs = _difference(encoded, recorded_ids)
        self.docs += 1
        self.without_bos += bool(self._added) and 0 in fronts
        self.twice += any(front > 1 for front in fronts)
        if differs is not None:
            self.other += 1
            self.first = self.first or f"doc {number}: {differs}"

    @property
    def with_bos(self) -> bool | None:
        """Whether a BOS preceded the prompts; None if unknown, or if docs differ."""
        if not self._added or not self.docs or 0 < self.without_bos < self.docs:
            return None
        return not self.without_bos

    @property
    def warnings(self) -> dict[str, int]:
        """Warnings, by their names in a manifest."""
        counts = {
            "asked_without_bos": self.without_bos, "asked_with_two_bos": self.twice, "other_token_ids": self.other,
            "same_token_ids": self.docs - self.other,
        }  # fmt: skip
        return {name: count for name, count in counts.items() if count}


def _difference(encoded: list[int], recorded_ids: list[int]) -> str:
    place = next(
        (at for at, (token_id, other) in enumerate(zip(encoded, recorded_ids, strict=False)) if token_id != other), None
    )
    if place is None:
        return f"{len(encoded)} ids here and {len(recorded_ids)} then"
    return f"id {place} is {encoded[place]} here and was {recorded_ids[place]}"
