"""What a distance is compared with: the noise of the same weights, or a margin that the user names.

Another batch, kernel, dtype or engine rounds differently, so a model has a distance from itself. It depends on the
model and on the text. It is measured with an **A/A pair**: the baseline's table, and a second table of the same
weights, measured in another way. The distance of a copy is divided by that of the A/A pair over the same docs, task by
task. The ratio has a 99 % interval over docs (`meta_eval.stats.ratio.ratio_of_means`).

Another batch rounds less than another kernel. So a pair that differs in its batches alone says nothing about a copy on
another engine: `Noise.covers` is False then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meta_eval.judge.token_table import Header, read_any_header, read_whole_tables
from meta_eval.plugins.tokens.table_pairing import Pair
from meta_eval.plugins.tokens.thresholds import FIDELITY_LONGEST, FIDELITY_NOISE_FLOOR
from meta_eval.plugins.tokens.token_columns import find_copies
from meta_eval.sockets import UserError
from meta_eval.stats.ratio import Mean, mean_of_tokens, ratio_of_means

# Folder of second tables, beside the first.
AGAIN = "again"


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """An A/A pair."""

    distances: Mapping[tuple[str, int], float]
    """The mean absolute difference of each doc by task and number, nats a token."""

    varied: tuple[str, ...] = ()
    """What differs in how its two tables were measured, such as ``dtype``; empty for batches alone."""

    covers: bool = True
    """Whether the pair says anything about the copy: it varies a setting, or the copy was measured as the baseline was.
    """


# An A/A pair, a margin in nats per token, or nothing.
Yardstick = Noise | float | None


@dataclass(frozen=True, slots=True, eq=False)
class DocDistances:
    """The docs of a pair."""

    values: NDArray[np.float64]
    """n: the mean absolute difference of a doc's tokens, nats."""

    shifts: NDArray[np.float64]
    """n: the same with its sign."""

    weights: NDArray[np.float64]
    """n: tokens, at most `FIDELITY_LONGEST` times the median."""

    tokens: NDArray[np.int64]
    """n."""

    tasks: NDArray[np.str_]
    """n."""

    docs: tuple[int, ...]
    """n: lm-eval's numbers."""

    clusters: NDArray[np.int64] | None
    """n: the same for copies of a doc; None if there are none."""

    def mean(self, values: NDArray[np.float64], rows: NDArray[np.bool_]) -> Mean:
        """The weighted mean of some docs; ``tokens`` counts all their tokens."""
        weights = self.weights[rows]
        mean = mean_of_tokens(values[rows] * weights, weights, self._clusters(rows))
        return Mean(mean.value, mean.variance, mean.freedom, mean.docs, int(self.tokens[rows].sum()))

    def compare_with_noise(self, noise: Noise, rows: NDArray[np.bool_]) -> tuple[Mean, Mean] | None:
        """The noise of some docs and the ratio to it; None if the A/A pair has none of them."""
        reference = np.array(
            [noise.distances.get((str(task), doc), np.nan) for task, doc in zip(self.tasks, self.docs, strict=True)]
        )
        rows = rows & np.isfinite(reference)
        if not rows.any():
            return None
        ratio = ratio_of_means(
            self.values[rows], reference[rows], self.weights[rows], self.tasks[rows].tolist(), self._clusters(rows),
            FIDELITY_NOISE_FLOOR,
        )  # fmt: skip
        return self.mean(reference, rows), ratio

    def _clusters(self, rows: NDArray[np.bool_]) -> list[int] | None:
        return None if self.clusters is None else self.clusters[rows].tolist()


def measure_docs(pair: Pair) -> DocDistances:
    """The distance of each doc that has a token."""
    table = pair.baseline
    sums, tokens = table.sums(np.abs(pair.difference))
    shifts, _ = table.sums(pair.difference)
    answers = table.answers
    copies = find_copies(answers)
    codes = {copy: code for code, copy in enumerate(dict.fromkeys(copies or ()))}
    counts = np.maximum(tokens, 1)
    return DocDistances(
        values=sums / counts,
        shifts=shifts / counts,
        weights=np.minimum(tokens, FIDELITY_LONGEST * np.median(tokens)).astype(float),
        tokens=tokens,
        tasks=np.array([answer.task for answer in answers], np.str_),
        docs=tuple(answer.doc for answer in answers),
        clusters=np.array([codes[copy] for copy in copies]) if copies else None,
    )


def make_noise(pair: Pair, baseline: Header, again: Header, candidate: Header) -> Noise:
    """The noise of an A/A pair for a copy.

    Args:
        pair: The baseline and its second table.
        baseline, again: Their headers.
        candidate: The header of the copy.
    """
    docs = measure_docs(pair)
    names = zip(docs.tasks.tolist(), docs.docs, strict=True)
    varied = list_differences(baseline, again)
    distances = dict(zip(names, docs.values.tolist(), strict=True))
    return Noise(distances, varied, bool(varied) or not list_differences(baseline, candidate))


def list_differences(first: Header, second: Header) -> tuple[str, ...]:
    """What differs in how two tables were measured: ``engine``, and settings that change rounding."""
    measured = [{"engine": header.engine, **header.measured} for header in (first, second)]
    return tuple(name for name in sorted(set.union(*map(set, measured))) if len({m.get(name) for m in measured}) > 1)


def find_noise(baseline: Path) -> Path | None:
    """The second table of a baseline, in the folder ``again`` beside it; None if there is none.

    Raises:
        UserError: There are several.
    """
    return _find_same_model(baseline, baseline.parent / AGAIN)


def find_first_table(again: Path) -> Path | None:
    """The first table of a model, for a table in the folder ``again``.

    Raises:
        UserError: There are several.
    """
    return _find_same_model(again, again.parent.parent)


def _find_same_model(table: Path, folder: Path) -> Path | None:
    """The table of the same model and pack in a folder."""
    header = read_any_header(table)
    key = (header.model, header.manifest_sha256)
    headers = [(place, read_any_header(place)) for place in read_whole_tables(folder)]
    tables = [place for place, other in headers if (other.model, other.manifest_sha256) == key]
    if len(tables) > 1:
        raise UserError(
            f"holds {len(tables)} tables of {header.model} ({', '.join(other.name for other in tables)})",
            where=str(folder), hint="Name one of them with --baseline or --noise",
        )  # fmt: skip
    return tables[0] if tables else None
