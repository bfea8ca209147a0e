"""Matches texts one to one: exactly first, then after normalisation of Unicode and white space. It never guesses.

``left`` are the rows of an evals dataset, ``right`` those of the original. Every left row needs exactly one right row
that no other left row needs. Right rows may be left over (MATH-hard uses only Level 5).

Other rows can still match: `match_shown` uses the original that a prompt shows, and `match_known` uses hashes of known
differences. These functions have no side effects beyond their arguments.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from meta_eval.base.hashing import hash_text

# Finding candidates compares with every right row, in quadratic time of a text: so it is done only for the first few,
# and by their beginnings.
_EXPLAINED, _COMPARED = 5, 500


@dataclass(frozen=True, slots=True)
class Problem:
    """A left row without exactly one matching right row."""

    left: int
    """Its index."""

    kind: Literal["unmatched", "ambiguous"]
    """``unmatched``, or ``ambiguous`` if several rows of either side have its text."""

    candidates: tuple[int, ...] = ()
    """Indices of the nearest right rows, best first. Empty beyond the first few problems."""


@dataclass(slots=True)
class Matching:
    """The result: ``pairs[i]`` is the right row of left row i, or None.

    ``normalised`` lists left rows that matched only after normalisation, ``shown`` those that matched only by their
    prompts. ``known_differences`` lists those that matched by a known difference, with its index.
    """

    pairs: list[int | None]
    normalised: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    known_differences: dict[int, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def normalise_text(text: str) -> str:
    """Normalise a text: NFC, single spaces, no white space at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def match_one_to_one(left: Sequence[str], right: Sequence[str]) -> Matching:
    """Match texts one to one by the rule above."""
    result = Matching([None] * len(left))
    ambiguous: dict[int, tuple[int, ...]] = {}
    free_left = set(range(len(left)))
    free_right = set(range(len(right)))
    for key in (str, normalise_text):
        left_by, right_by = _by(left, free_left, key), _by(right, free_right, key)
        for text, wanting in left_by.items():
            candidates = right_by.get(text, [])
            if len(wanting) == 1 and len(candidates) == 1:
                result.pairs[wanting[0]] = candidates[0]
                if key is normalise_text:
                    result.normalised.append(wanting[0])
            elif candidates:
                ambiguous.update(dict.fromkeys(wanting, tuple(candidates)))
        free_left -= {index for index, pair in enumerate(result.pairs) if pair is not None} | set(ambiguous)
        free_right -= {pair for pair in result.pairs if pair is not None}
        free_right -= {index for indices in ambiguous.values() for index in indices}
    for index in sorted(free_left | set(ambiguous)):
        if index in ambiguous:
            result.problems.append(Problem(index, "ambiguous", ambiguous[index]))
        else:
            near = _nearest(left[index], right) if len(result.problems) < _EXPLAINED else ()
            result.problems.append(Problem(index, "unmatched", near))
    return result


def match_shown(matching: Matching, prompts: Sequence[str], evidence: Sequence[tuple[str, ...]]) -> None:
    """Match unmatched left rows to the only right row that their prompt shows.

    A prompt shows a right row if it contains all texts of its evidence, after normalisation. If it shows several, a row
    whose first text is a part of another's first text is dropped. The rest must be a single unmatched row that no other
    prompt shows. Otherwise the problem stays.

    Args:
        matching: The result of `match_one_to_one`. It is changed.
        prompts: The text to search, by left row.
        evidence: The texts to find, by right row.
    """
    needles = [tuple(normalise_text(text) for text in texts) for texts in evidence]
    candidates_of: dict[int, list[int]] = {}
    for problem in matching.problems:
        text = normalise_text(prompts[problem.left])
        shown = [index for index, texts in enumerate(needles) if texts and all(part and part in text for part in texts)]
        firsts = {needles[index][0] for index in shown}
        parts = {first for first in firsts if any(first != other and first in other for other in firsts)}
        candidates_of[problem.left] = [index for index in shown if needles[index][0] not in parts]
    taken = Counter(pair for pair in matching.pairs if pair is not None)
    taken.update(index for candidates in candidates_of.values() if len(candidates) == 1 for index in candidates)
    problems = []
    for problem in matching.problems:
        candidates = candidates_of[problem.left]
        if len(candidates) == 1 and taken[candidates[0]] == 1:
            matching.pairs[problem.left] = candidates[0]
            matching.shown.append(problem.left)
        elif candidates:
            problems.append(Problem(problem.left, "ambiguous", tuple(candidates)))
        else:
            problems.append(problem)
    matching.problems = problems


def match_known(
    matching: Matching, left: Sequence[str], right: Sequence[str], known_differences: Sequence[Collection[str]]
) -> None:
    """Match unmatched rows by hashes of texts that are known to belong to the same row.

    Args:
        matching: The result of `match_one_to_one`. It is changed.
        left: The texts of the left rows.
        right: The texts of the right rows.
        known_differences: For each known difference, the SHA-256 (hex, of UTF-8) of every known text of its row. It
            matches only if exactly one unmatched row on each side has such a text.
    """
    taken = {pair for pair in matching.pairs if pair is not None}
    waiting = [problem.left for problem in matching.problems if problem.kind == "unmatched"]
    for number, digests in enumerate(known_differences):
        wanting = [index for index in waiting if hash_text(left[index]) in digests]
        if len(wanting) != 1:
            continue
        matches = [index for index, text in enumerate(right) if hash_text(text) in digests]
        if len(matches) == 1 and matches[0] not in taken:
            matching.pairs[wanting[0]] = matches[0]
            matching.known_differences[wanting[0]] = number
    matching.problems = [problem for problem in matching.problems if problem.left not in matching.known_differences]


def _by(texts: Sequence[str], indices: set[int], key: object) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for index in sorted(indices):
        groups[normalise_text(texts[index]) if key is normalise_text else texts[index]].append(index)
    return groups


def _nearest(text: str, right: Sequence[str]) -> tuple[int, ...]:
    import difflib  # only a failed join needs it

    unique = {other[:_COMPARED]: index for index, other in reversed(list(enumerate(right)))}
    return tuple(unique[near] for near in difflib.get_close_matches(text[:_COMPARED], list(unique), n=2, cutoff=0.6))
