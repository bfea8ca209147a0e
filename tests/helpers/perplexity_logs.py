"""Outputs in the shape of llama-perplexity's, of made-up likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOKENS = 255


@dataclass(frozen=True)
class Text:
    """Negative log-likelihoods of a token, chunk by chunk, under a base and a copy."""

    base: NDArray[np.float64]
    copy: NDArray[np.float64]
    divergence: NDArray[np.float64]
    same: NDArray[np.float64]


def draw_text(chunks: int = 200, shift: float = 0.02, seed: int = 1) -> Text:
    """A text whose neighbouring chunks are alike."""
    rng = np.random.default_rng(seed)
    base = 1.7 + 0.3 * _smooth(rng.normal(size=chunks))
    copy = base + shift + 0.02 * _smooth(rng.normal(size=chunks))
    return Text(base, copy, 0.03 + 0.01 * np.abs(_smooth(rng.normal(size=chunks))), 0.95 - 0.02 * rng.random(chunks))


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.convolve(values, np.full(6, 6**-0.5), mode="same")


def accumulate(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means up to each chunk, as the program prints them."""
    return np.asarray(values.cumsum() / np.arange(1, len(values) + 1))


HEADER = """\
build: 4242 (abcdef12) with cc (GCC) 13.2.0 for x86_64-linux-gnu
llama_model_loader: loaded meta data with 30 key-value pairs and 291 tensors from /models/{model} (version GGUF V3 (latest))
print_info: n_vocab               = 32000
perplexity: tokenizing the input ..
perplexity: tokenization took 12.5 ms
"""


def write_plain(
    values: NDArray[np.float64], *, model: str = "f16.gguf", context: int = 512, header: bool = True, end: bool = True
) -> str:
    """The output without ``--kl-divergence``."""
    start = HEADER.format(model=model) if header else ""
    if header:
        start += (
            f"perplexity: calculating perplexity over {len(values)} chunks, n_ctx={context}, batch_size=512, n_seq=1\n"
        )
        start += "perplexity: 0.52 seconds per pass - ETA 0.10 minutes\n"
    perplexities = np.exp(accumulate(values))
    line = "".join(f"[{number}]{value:.4f}," for number, value in enumerate(perplexities, 1))
    return f"{start}{line}\n" + (f"Final estimate: PPL = {perplexities[-1]:.4f} +/- 0.03772\n" if end else "")


def write_lines(values: NDArray[np.float64]) -> str:
    """The output with ``--ppl-output-type 1``."""
    means = accumulate(values)
    lines = [f"{512 * number:8d}  {np.exp(mean):.4f}  {mean:4f}  0.031234\n" for number, mean in enumerate(means)]
    return "".join(lines) + f"Final estimate: PPL = {np.exp(means[-1]):.4f} +/- 0.03772\n"


HEADING = "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p"


def write_table(text: Text, *, every: bool = False, end: bool = True, sign: str = "±") -> str:
    """The output with ``--kl-divergence``; ``every`` row has a heading of its own, as since 2024."""
    rows = [
        f"{number:4d}    {np.exp(copy):9.4f} {sign} {0.5:9.4f}    {copy - base:10.5f} {sign} {0.00123:10.5f}    "
        f"{divergence:10.5f} {sign} {0.00045:10.5f}    {4.5:6.3f} {sign} {0.123:6.3f} %    {100 * same:6.3f} {sign} {0.09:6.3f} %\n"
        for number, copy, base, divergence, same in _rows(text)
    ]
    gap = f"\n{HEADING}\n"
    table = HEADER.format(model="q4.gguf") + gap + (gap if every else "").join(rows)
    return table + ("\n" + _write_end(text) if end else "")


def write_old_table(text: Text) -> str:
    """The table of the first months of 2024."""
    rows = [
        f"{number:4d}    {np.exp(copy):10.4f}    {copy - base:10.5f} ± {0.00123:10.5f}    {divergence:10.5f} ± "
        f"{0.00045:10.5f}    {same:.5f} ± {0.0009:.5f}\n"
        for number, copy, base, divergence, same in _rows(text)
    ]
    heading = "chunk        PPL          ln(PPL(Q)/PPL(base))          KL-Divergence           Same top\n"
    return f"\n{heading}{''.join(rows)}\n===== KL-divergence statistics\nAverage:   0.030000 ±  0.000450\n"


def _rows(text: Text) -> Sequence[tuple[int, float, float, float, float]]:
    means = [accumulate(values).tolist() for values in (text.copy, text.base, text.divergence, text.same)]
    return list(zip(range(1, len(text.base) + 1), *means, strict=True))


def _write_end(text: Text) -> str:
    copy, base = (float(np.exp(values.mean())) for values in (text.copy, text.base))
    return (
        f"====== Perplexity statistics ======\nMean PPL(Q)                   : {copy:10.6f} ±   0.039119\n"
        f"Mean PPL(base)                : {base:10.6f} ±   0.037716\n"
        f"\n====== KL divergence statistics ======\nMean    KLD: {text.divergence.mean():10.6f} ±   0.000450\n"
        f"Maximum KLD:   5.911021\n\n====== Token probability statistics ======\n"
        f"Same top p: {100 * text.same.mean():6.3f} ± 0.090 %\n"
    )
