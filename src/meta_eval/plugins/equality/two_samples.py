"""Two samples of answers to the same prompts: are they draws of the same distributions?

Two statistics with each of two kernels of the characters of the answers, and one permutation test of the largest:

- the maximum mean discrepancy (MMD), with the Hamming kernel of Gao, Liang, Guestrin, "Model Equality Testing: Which
  Model Is This API Serving?" (arXiv 2410.20247, section 3), and with the spectrum kernel that the paper compares it
  with (runs of five characters). Of a mixture with a share e of another model it sees e squared. With the Hamming
  kernel it sees any difference of distributions; with the other one it needs fewer answers for most;
- how typical the answers of each side are (`compute_typicality`), by the same kernels. They see e itself, though not
  every difference.

Each counts in its standard deviations over permutations. Labels are permuted within each prompt, and not over all
prompts as in the paper, so a prompt with fewer answers of one side does no harm. The Hamming kernel weighs places by
how far they are from the beginning, because the same words are seldom at the same place far behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from meta_eval.base.hashing import hash_json
from meta_eval.plugins.equality.thresholds import (
    DIFFERENT,
    DRAWS,
    LONGEST,
    MOST_TIMES,
    OTHER,
    RUN,
    SCALE,
    SIMULATED_DRAWS,
    SIMULATIONS,
)

_Floats = NDArray[np.float32]
# The value of the standard normal distribution below which `POWER` of it lies.
_BEYOND = 0.8416
# Places of hashed runs, and the number whose powers weigh their characters, both prime; and cells drawn at once.
_HASHES, _PRIME, _CELLS = 4093, 1009, 2**24
# Statistics: the MMD of each kernel, and the typicality of each.
_STATISTICS = 4


class PromptSamples(NamedTuple):
    """The answers of both sides to one prompt, at least two each, in the order in which they were asked for."""

    a: Sequence[str]
    b: Sequence[str]


@dataclass(frozen=True, slots=True)
class TestResult:
    """What the permutation test says."""

    p: float
    """(1 + permutations with a statistic that is not smaller) / (1 + permutations), of the largest statistic."""

    discrepancy: float
    """The MMD squared with the Hamming kernel, the mean over prompts; unbiased, so it may be below 0."""

    discrepancy_p: float
    """The p value of the MMD alone, as the paper's test has it."""

    closeness_p: float
    """The share of permutations whose MMD is not larger, likewise: small where both sides have the same texts."""

    typicality: tuple[float, float]
    """How much more typical A's answers are than B's, by the Hamming and the spectrum kernel, in standard deviations
    over permutations; below 0 for less."""

    by_prompt: tuple[float, ...]
    """The same of each prompt."""


@dataclass(frozen=True, slots=True)
class PowerResult:
    """How well the test would have found a mixture, at this number of answers."""

    power: float
    """The share of simulated mixtures with a p value of at most `DIFFERENT`, against the harder of the two kinds."""

    times: float | None
    """How many times as many answers to each prompt would be found with the probability `POWER`; at least 1. None if
    that is more than `MOST_TIMES`."""


def compute_kernels(texts: Sequence[str]) -> _Floats:
    """Both kernels of all pairs of texts; 0 for a text with itself, which no statistic uses.

    Characters beyond `LONGEST` are left out. The Hamming kernel is the share of places at which two texts have the same
    character, or both have ended, up to the longest of the texts; the place i has the weight exp(-i / `SCALE`). The
    spectrum kernel is the cosine of the sets of runs of `RUN` characters, hashed into `_HASHES` places.

    Returns: Shape (2, texts, texts), from 0 to 1.
    """
    cut = [np.frombuffer(text[:LONGEST].encode("utf-32-le", "surrogatepass"), "<i4") for text in texts]
    codes = np.zeros((len(cut), max(RUN, *map(len, cut))), np.int64)
    for row, of in zip(codes, cut, strict=True):
        row[: len(of)] = of.astype(np.int64) + 1
    weights = np.exp(-np.arange(codes.shape[1]) / SCALE)
    weights = (weights / weights.sum()).astype(np.float32)
    windows = sliding_window_view(codes, RUN, axis=1)
    hashed = (windows @ (_PRIME ** np.arange(RUN)) % _HASHES).astype(np.intp)
    runs = np.zeros((len(cut), _HASHES), np.float32)
    rows, places = np.nonzero((windows > 0).all(axis=2))
    runs[rows, hashed[rows, places]] = 1
    runs /= np.maximum(1, np.linalg.norm(runs, axis=1, keepdims=True))
    kernels = np.stack([np.stack([(row == codes) @ weights for row in codes]), runs @ runs.T]).astype(np.float32)
    kernels[:, np.arange(len(cut)), np.arange(len(cut))] = 0
    return kernels


def compute_discrepancy(kernels: _Floats, labels: _Floats, a: int, b: int) -> NDArray[np.float64]:
    """The unbiased estimate of the squared MMD of two samples (Gretton et al., "A Kernel Two-Sample Test", JMLR 2012,
    lemma 6): mean k(a, a') - 2 mean k(a, b) + mean k(b, b'), without pairs of an answer with itself.

    Args:
        kernels: Shape (..., n, n), with zeros on the diagonal.
        labels: Shape (draws, n): 1 for an answer of A, else 0.
        a: Answers of A in each draw.
        b: Answers of B.

    Returns: Shape (..., draws).
    """
    within_a = ((labels @ kernels) * labels).sum(axis=-1, dtype=np.float64)
    beside_a = (labels @ kernels.sum(axis=-1)[..., None])[..., 0].astype(np.float64)
    across = beside_a - within_a
    within_b = kernels.sum(axis=(-2, -1), dtype=np.float64)[..., None] - 2 * beside_a + within_a
    found: NDArray[np.float64] = within_a / (a * (a - 1)) - 2 * across / (a * b) + within_b / (b * (b - 1))
    return found


def compute_typicality(kernels: _Floats, labels: _Floats, a: int, b: int) -> NDArray[np.float64]:
    """How much more typical the answers of A are than those of B: the difference of their mean scores.

    The score of an answer is its mean kernel with all other answers to the prompt, less the mean and divided by the
    standard deviation of these. In expectation the difference before that is <mu_A - mu_B, mu> in the space of the
    kernel, where mu is the mean of both: the witness function of the MMD (Gretton et al., section 2.3) at the mean.
    With mu_B = (1 - e) mu_A + e mu_O it is e <mu_A - mu_O, mu>.

    Arguments and result are as of `compute_discrepancy`.
    """
    means = kernels.sum(axis=-1, dtype=np.float64)
    means -= means.mean(axis=-1, keepdims=True)
    spread = means.std(axis=-1, keepdims=True)
    scores = np.where(spread > 1e-9, means / np.maximum(spread, 1e-9), 0.0)
    found: NDArray[np.float64] = scores @ (labels / a - (1 - labels) / b).T
    return found


def seed_from(samples: Sequence[PromptSamples], what: str) -> np.random.Generator:
    """Chance that depends on the answers alone: the same answers have the same p value."""
    return np.random.default_rng(int(hash_json([what, [[list(one.a), list(one.b)] for one in samples]])[:16], 16))


def permute(rng: np.random.Generator, a: int, b: int, draws: int) -> _Floats:
    """Labels: first those as they are, then permuted. Shape (1 + draws, a + b)."""
    labels = np.zeros((1 + draws, a + b), np.float32)
    labels[:, :a] = 1
    rng.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def run_test(samples: Sequence[PromptSamples], draws: int = DRAWS) -> TestResult:
    """Test whether the answers of both sides are draws of the same distribution, prompt by prompt.

    Under that hypothesis labels can be exchanged within a prompt, so the p value is exact: at most a share of p of
    identical pairs has a value up to p, whatever the distributions and numbers of answers.

    Args:
        samples: The answers to each prompt; at least one prompt.
        draws: Permutations.
    """
    rng = seed_from(samples, "test")
    sums, by_prompt = np.zeros((_STATISTICS, 1 + draws)), []
    for one in samples:
        labels = permute(rng, len(one.a), len(one.b), draws)
        found = _compute_all(compute_kernels([*one.a, *one.b]), labels, len(one.a), len(one.b))
        by_prompt.append(float(found[0, 0]))
        sums += found
    scaled = _scale(sums)
    return TestResult(
        p=float(_compute_p(_join(scaled))), discrepancy=float(sums[0, 0]) / len(samples),
        discrepancy_p=float(_compute_p(sums[0])), closeness_p=float(_compute_p(-sums[0])),
        typicality=(float(scaled[2, 0]), float(scaled[3, 0])),
        by_prompt=tuple(by_prompt),
    )  # fmt: skip


def _compute_all(kernels: _Floats, labels: _Floats, a: int, b: int) -> NDArray[np.float64]:
    """All statistics of kernels of the shape (2, ..., n, n); shape (4, ..., draws)."""
    return np.stack([
        compute(kernel, labels, a, b) for compute in (compute_discrepancy, compute_typicality) for kernel in kernels
    ])  # fmt: skip


def _scale(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Statistics less their mean over draws, in their standard deviations; 0 where they do not vary."""
    centred = sums - sums.mean(axis=-1, keepdims=True)
    spread = centred.std(axis=-1, keepdims=True)
    return np.where(spread > 1e-7, centred / np.maximum(spread, 1e-7), 0.0)


def _join(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest statistic. A side may be more typical or less."""
    joined: NDArray[np.float64] = np.maximum(scaled[:2].max(axis=0), np.abs(scaled[2:]).max(axis=0))
    return joined


def _compute_p(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """The p value of the first of each row beside the others. What differs by rounding alone counts as equal."""
    at_least = statistics[..., 1:] >= statistics[..., :1] - 1e-6
    p: NDArray[np.float64] = (1 + at_least.sum(axis=-1)) / statistics.shape[-1]
    return p


def simulate_power(samples: Sequence[PromptSamples], simulations: int = SIMULATIONS) -> PowerResult:
    """How often the test calls A different from a mixture of 90 % A and 10 % of another model.

    Where both sides give the same, their answers to a prompt are one sample of A. A simulation shares them out between
    two sides as they were shared out, at random and without putting any back: a resample with doubles would have texts
    in common that no model repeats. Then each answer of B is replaced, with the probability `OTHER`, by one of another
    model. Nobody has that model here, so two kinds stand for it, and the power is that against the kind that is harder
    to find:

    - the answer to another prompt, of either side. Language, style, form and length are A's, what is said is not;
    - the words of an answer to the same prompt, in a random order. Length, words and letters are A's, the order is not.
      An answer of a single word stays as it is: where answers are that short nothing is found, and nothing is *same*.

    Both keep much of A: its letters, words or form, and its lengths. A model of another style or length is further
    away. But they are no bound for a near relative of A. A tenth of the same weights in four bits behind another system
    prompt was found less often than simulated (`benchmarks/equality.py --real`), and *same* does not exclude it.

    The number of answers that would do: the distance of a statistic from its permutations, in their standard
    deviations, grows with the number of answers to a prompt for the MMD, whose deviation falls with it (Gretton et al.,
    section 5), and with its root for a difference of means. Needed are the 99 % point of the permutations and 0.84
    standard deviations over simulations. The statistic that needs fewer answers counts.

    Args:
        samples: The answers to each prompt.
        simulations: Simulated mixtures of each kind.
    """
    kinds = [_simulate(samples, kind, simulations) for kind in ("prompts", "words")]
    power = min(power for power, _ in kinds)
    times = None if any(times is None for _, times in kinds) else max(times or 1.0 for _, times in kinds)
    return PowerResult(power, times)


def _simulate(samples: Sequence[PromptSamples], kind: str, simulations: int) -> tuple[float, float | None]:
    rng = seed_from(samples, kind)
    texts = [[*one.a, *one.b] for one in samples]
    sums = np.zeros((_STATISTICS, simulations, 1 + SIMULATED_DRAWS))
    for number, one in enumerate(samples):
        a, b = len(one.a), len(one.b)
        others = _draw_others(rng, texts, number, kind)
        kernels = compute_kernels([*texts[number], *others])
        labels = permute(rng, a, b, SIMULATED_DRAWS)
        drawn = np.empty((simulations, a + b), np.intp)
        for simulation in range(simulations):
            rows = rng.permutation(a + b)
            is_other = rng.random(a + b) < OTHER
            is_other[:a] = False
            rows[is_other] = a + b + rng.choice(len(others), int(is_other.sum()), replace=False)
            drawn[simulation] = rows
        # The kernels of all simulations at once would take the memory of as many tests.
        for part in np.array_split(np.arange(simulations), 1 + simulations * (a + b) ** 2 // _CELLS):
            sums[:, part] += _compute_all(kernels[:, drawn[part, :, None], drawn[part, None]], labels, a, b)
    scaled = _scale(sums)
    joined = _join(scaled)
    highest = float(np.quantile(joined[:, 1:], 1 - DIFFERENT))
    times = [
        ((highest + _BEYOND * float(found.std())) / max(float(found.mean()), 1e-9)) ** power
        for found, power in zip(scaled[..., 0], (1, 1, 2, 2), strict=True)
    ]
    return float((_compute_p(joined) <= DIFFERENT).mean()), max(1.0, min(times)) if min(times) <= MOST_TIMES else None


def _draw_others(rng: np.random.Generator, texts: Sequence[Sequence[str]], number: int, kind: str) -> list[str]:
    """As many answers of another model to a prompt as there are answers."""
    own = texts[number]
    if kind == "prompts" and len(texts) > 1:
        places = rng.integers(len(texts) - 1, size=len(own))
        chosen = [texts[place + (place >= number)] for place in places]
        return [of[int(rng.integers(len(of)))] for of in chosen]
    return [" ".join(rng.permutation(text.split(" ")).tolist()) for text in own]


def find_coupling(samples: Sequence[PromptSamples], draws: int = DRAWS) -> float:
    """The p value of answers of the same number that are alike on both sides more often than others are: then they were
    drawn with the same seeds, or one side is a copy of the other, and the test knows nothing of their difference.

    Args:
        samples: The answers to each prompt.
        draws: Permutations of B within each prompt.
    """
    rng, sums = seed_from(samples, "coupling"), np.zeros(1 + draws)
    for one in samples:
        pairs = min(len(one.a), len(one.b))
        alike = np.array([[text == other for other in one.b[:pairs]] for text in one.a[:pairs]])
        orders = np.tile(np.arange(pairs), (1 + draws, 1))
        rng.permuted(orders[1:], axis=1, out=orders[1:])
        sums += alike[np.arange(pairs), orders].sum(axis=1)
    return float(_compute_p(sums))


def count_frozen(samples: Sequence[PromptSamples]) -> tuple[int, int]:
    """Prompts to which A gives a single text that is at most half of B's answers; and the same of B.

    A side that samples does so at less than 3 % of prompts with five answers, and 1 % with ten: the largest p^n
    P(X <= n/2) of a text of the probability p, X binomial (n, p).
    """

    def is_frozen(own: Sequence[str], other: Sequence[str]) -> bool:
        return len(own) > 2 and len(set(own)) == 1 and 2 * sum(text == own[0] for text in other) <= len(other)

    return sum(is_frozen(one.a, one.b) for one in samples), sum(is_frozen(one.b, one.a) for one in samples)


def scale_up(answers: float, times: float) -> int:
    """So many times as many answers, rounded up."""
    return math.ceil(round(answers * times, 6))
