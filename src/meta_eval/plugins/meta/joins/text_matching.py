"""Matches texts one to one: exactly first, then after normalisation of Unicode and white space. It never guesses.

``left`` are the rows of an evals dataset, ``right`` those of the original. Every left row needs exactly one right row
that no other left row needs. Right rows may be left over (MATH-hard uses only Level 5).

Other rows can still match: `match_shown` uses the original that a prompt shows, and `match_known` uses hashes of known
differences. These functions have no side effects beyond their arguments.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from meta_eval.base.hashing import hash_text

# Finding candidates compares with every right row, in quadratic time of a text: so it is done only for the first few,
# and by their beginnings.
_EXPLAINED, _COMPARED = 5, 500

# Lengths of what is looked up in a prompt: a longer one for rows of which more than so many share the shorter.
_ANCHORS, _CROWD = (16, 64, 256), 8


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
    if not matching.problems:
        return
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, texts in enumerate(evidence):
        needles = tuple(normalise_text(text) for text in texts)
        if needles and all(needles):
            rows[needles].append(index)
    equal = {needles: tuple(indices) for needles, indices in rows.items()}
    anchors = _find_anchors(list(equal))
    lengths = {len(anchor) for anchor in anchors}
    candidates_of: dict[int, tuple[int, ...]] = {}
    for problem in matching.problems:
        text = normalise_text(prompts[problem.left])
        windows = (text[at : at + length] for length in lengths for at in range(len(text) - length + 1))
        likely = [needles for window in {*filter(anchors.__contains__, windows)} for needles in anchors[window]]
        shown = _drop_parts([needles for needles in likely if all(part in text for part in needles)])
        alike = [equal[needles] for needles in shown]
        candidates_of[problem.left] = alike[0] if len(alike) == 1 else tuple(sorted(chain.from_iterable(alike)))
    taken = Counter(pair for pair in matching.pairs if pair is not None)
    taken.update(index for candidates in candidates_of.values() if len(candidates) == 1 for index in candidates)
    problems = []
    for problem in matching.problems:
        candidates = candidates_of[problem.left]
        if len(candidates) == 1 and taken[candidates[0]] == 1:
            matching.pairs[problem.left] = candidates[0]
            matching.shown.append(problem.left)
        elif candidates:
            problems.append(Problem(problem.left, "ambiguous", candidates))
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
    known = {digest for digests in known_differences for digest in digests}
    left_by = _by_hash(((index, left[index]) for index in waiting), known)
    right_by = _by_hash(enumerate(right), known)
    for number, digests in enumerate(known_differences):
        wanting = [index for digest in set(digests) for index in left_by[digest]]
        matches = [index for digest in set(digests) for index in right_by[digest]]
        if len(wanting) == len(matches) == 1 and matches[0] not in taken:
            matching.pairs[wanting[0]] = matches[0]
            matching.known_differences[wanting[0]] = number
    matching.problems = [problem for problem in matching.problems if problem.left not in matching.known_differences]


def _by_hash(texts: Iterable[tuple[int, str]], known: Collection[str]) -> dict[str, list[int]]:
    """The indices of texts by their hash, of those that are known."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, text in texts:
        if (digest := hash_text(text)) in known:
            indices[digest].append(index)
    return indices


def _find_anchors(evidence: Sequence[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """By a part of its texts that few others have, what to look for where a prompt holds that part.

    So a prompt is compared with few rows, though all begin alike.
    """
    anchors: dict[str, list[tuple[str, ...]]] = {}
    for length in _ANCHORS:
        windows = [_cut(needles, length) for needles in evidence]
        common = Counter(window for some in windows for window in some)
        found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        for needles, some in zip(evidence, windows, strict=True):
            found[min(some, key=common.__getitem__)].append(needles)
        crowded = {window for window, some in found.items() if len(some) > _CROWD} if length < _ANCHORS[-1] else set()
        anchors.update((window, some) for window, some in found.items() if window not in crowded)
        evidence = [needles for window in crowded for needles in found[window]]
    return anchors


def _cut(needles: tuple[str, ...], length: int) -> dict[str, None]:
    """Windows of a length, one behind the other and the last, of its texts; its short texts where that is too few."""
    starts = ((text, (*range(0, len(text) - length, length), len(text) - length)) for text in needles)
    cut = {text[at : at + length]: None for text, some in starts for at in some if at >= 0}
    if not cut or length > _ANCHORS[0]:
        cut.update((text[: _ANCHORS[0]], None) for text in needles if len(text) < length)
    return cut


def _drop_parts(shown: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without those whose first text is a part of another's first text."""
    whole: list[str] = []
    for first in sorted({needles[0] for needles in shown}, key=len, reverse=True):
        if not any(len(first) < len(other) and first in other for other in whole):
            whole.append(first)
    kept = set(whole)
    return [needles for needles in shown if needles[0] in kept]


def _by(texts: Sequence[str], indices: set[int], key: object) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for index in sorted(indices):
        groups[normalise_text(texts[index]) if key is normalise_text else texts[index]].append(index)
    return groups


def _nearest(text: str, right: Sequence[str]) -> tuple[int, ...]:
    import difflib  # only a failed join needs it

    unique = {other[:_COMPARED]: index for index, other in reversed(list(enumerate(right)))}
    return tuple(unique[near] for near in difflib.get_close_matches(text[:_COMPARED], list(unique), n=2, cutoff=0.6))
