"""Reads what ``llama-perplexity`` printed: the likelihood of a text, chunk by chunk.

The program prints means over all chunks so far. After chunk k the mean m_k gives the value of the chunk alone as
k m_k - (k - 1) m_(k-1), since every chunk has as many scored tokens. The forms, of llama.cpp from 2023 to 2026 and of
ik_llama.cpp (``perplexity.cpp``):

- ``[1]5.0239,[2]5.6123,``: the perplexity, with four decimals;
- lines of ``--ppl-output-type 1``, with the log-likelihood to six decimals;
- the table of ``--kl-divergence``, which has both models: perplexity, its ratio to the base's, the divergence, and how
  often the likeliest token is the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.inputs import describe_error
from meta_eval.sockets import UserError, read_regular

Values = NDArray[np.float64]

_NUMBER = r"([-+]?(?:\d+(?:\.\d+)?|nan|inf)(?:\([a-z]+\))?)"
# The sign between a mean and its standard error, in whatever encoding it was saved.
_ERROR = rf"\s+[^\s\d]{{1,3}}\s+{_NUMBER}"
_ROW = re.compile(
    rf"(?<!\S)(\d+)\s+{_NUMBER}{_ERROR}" + rf"\s+{_NUMBER}{_ERROR}" * 2 + rf"\s+{_NUMBER}{_ERROR}\s+%" * 2
)
# January to April 2024: without the error of the perplexity, and the last column a share.
_OLD_ROW = re.compile(rf"(?<!\S)(\d+)\s+{_NUMBER}" + rf"\s+{_NUMBER}{_ERROR}" * 3 + r"\s*$")
_CHUNK = re.compile(r"\[(\d+)\](-?\d+\.\d{4}|-?nan(?:\([a-z]+\))?|-?inf),")
_LINE = re.compile(r"^\s*\d+\s+(?:\d+\.\d{4}|-?nan|inf)\s+(-?\d+\.\d{6}|-?nan|inf)\s+(?:-?\d+\.\d{6}|-?nan|inf)\s*$")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Of ``--log-timestamps`` and ``--log-prefix``.
_PREFIX = re.compile(r"^(?:\d+\.\d\d\.\d{3}\.\d{3} )?(?:[IWED] )?", re.MULTILINE)

_ANNOUNCED = re.compile(r"(?:calculating perplexity|computing) over (\d{1,9}) chunks(?:,? (?:with )?n_ctx=(\d{1,9}))?")
_VOCABULARY = re.compile(r"\bn_vocab\s*=\s*(\d{1,9})\b")
_MODEL = re.compile(r"loaded meta data with .{1,80} from (\S.{0,400}?\.gguf)\b")
_FINAL = re.compile(rf"Final estimate: PPL(?: over \d+ chunks for n_ctx=\d+)? = {_NUMBER} \+/- {_NUMBER}")
_FINAL_OF_TABLE = re.compile(rf"Mean PPL\(Q\)\s*: +{_NUMBER}")
# What else the program prints, by a word of it.
_OTHER = {
    "hellaswag_score": "--hellaswag", "Winogrande": "--winogrande", "winogrande_score": "--winogrande",
    "multiple_choice_score": "--multiple-choice", "compute_imatrix": "llama-imatrix",
}  # fmt: skip

_LONGEST_ROW = 500
# The largest size of a printed mean, in nats. Differences of two such have an exponential.
_LARGEST = 300.0


@dataclass(frozen=True, slots=True)
class PerplexityLog:
    """An output of ``llama-perplexity``. Each array has a value per chunk: means over the tokens of the chunk."""

    path: Path
    """The file."""

    model: str
    """The name of the model's file; else that of the log."""

    logprob: Values
    """The log-probability of a token, nats."""

    base_logprob: Values | None
    """That of the base model; None unless it is a table of ``--kl-divergence``, as for the other two."""

    divergence: Values | None
    """Kullback and Leibler's, of the model from its base, nats."""

    changed: Values | None
    """The share of tokens whose likeliest token is another than the base's."""

    errors: tuple[float, float, float] | None
    """The standard errors that the table prints: of the log ratio of perplexities, of the divergence, and of
    ``changed``.
    """

    rounding: float
    """The largest error of the mean ``logprob``, because of the printed decimals."""

    announced: int | None
    """The number of chunks that the log says it will have; None if it does not say."""

    context: int | None
    """Tokens of a chunk; None if unknown."""

    vocabulary: int | None
    """Tokens of the vocabulary; None if unknown."""

    has_end: bool
    """Whether the run came to its end."""

    parts: int = 1
    """How many parts of the file's path name it."""

    @property
    def name(self) -> str:
        """The name of the file, with as many of its folders as tell it from that of another log."""
        return "/".join(self.path.absolute().parts[-self.parts :])

    @property
    def chunks(self) -> int:
        return len(self.logprob)


def read_perplexity_log(path: Path) -> PerplexityLog:
    """Read an output of ``llama-perplexity``.

    Raises:
        UserError: The file cannot be read, is no such output, or its chunks are not whole.
    """
    try:
        content = read_regular(path)
    except (OSError, ValueError) as error:
        is_gone = isinstance(error, FileNotFoundError)
        hint = None if is_gone else "Save what llama-perplexity printed in a file, and name that"
        raise UserError(f"cannot be read: {describe_error(error)}", where=str(path), hint=hint) from None
    if b"\0" in content:
        hint = "Save it as UTF-8" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "Name the text that was printed"
        raise UserError("is no text in UTF-8", where=str(path), hint=hint)
    text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    text = _PREFIX.sub("", _ANSI.sub("", text))
    rows, chunks = list(_find_rows(text)), _CHUNK.findall(text)
    lines = [match[1] for line in text.split("\n") if len(line) < _LONGEST_ROW and (match := _LINE.match(line))]
    if not rows and not chunks and not lines:
        raise _refuse_other(path, text)
    if sum(map(bool, (rows, chunks, lines))) > 1:
        raise UserError("holds several runs", where=str(path), hint="Save each run in a file of its own")
    return _read_table(path, text, rows) if rows else _read_plain(path, text, chunks, lines)


def _find_rows(text: str) -> Iterator[tuple[str, ...]]:
    """The rows of a table: chunk, perplexity, log ratio and its error, divergence and its, same top and its."""
    for line in text.split("\n"):
        if len(line) > _LONGEST_ROW:
            continue
        if match := _ROW.search(line):
            yield match.group(1, 2, 4, 5, 6, 7, 10, 11)
        elif match := _OLD_ROW.search(line):
            same, error = (f"{100 * _number(value):.9f}" for value in match.group(7, 8))
            yield (*match.group(1, 2, 3, 4, 5, 6), same, error)


def _refuse_other(path: Path, text: str) -> UserError:
    other = next((name for word, name in _OTHER.items() if word in text), None)
    if other:
        return UserError(
            f"is an output of {other}, which has no likelihood of a text", where=str(path),
            hint="Run llama-perplexity with --file alone, or with --kl-divergence",
        )  # fmt: skip
    short = re.search(r"you need at least (\d+) tokens to evaluate perplexity", text)
    if short:
        return UserError(
            f"has no chunk: the text is shorter than {short[1]} tokens", where=str(path), hint="Use a longer text"
        )
    return UserError(
        "is a file, and neither a pack nor an output of llama-perplexity with a chunk", where=str(path),
        hint="Name a pack such as work_dir, or the text that llama-perplexity printed ([1]5.0239,[2]… or its table)",
    )  # fmt: skip


def _read_plain(path: Path, text: str, chunks: Sequence[tuple[str, str]], lines: Sequence[str]) -> PerplexityLog:
    final = _FINAL.search(text)
    if not chunks:
        means = _read_numbers(path, lines)
        return _make_log(path, text, means, final, 0.5e-6)
    _check_order(path, [number for number, _ in chunks])
    return _make_log(path, text, _read_numbers(path, [value for _, value in chunks], are_perplexities=True), final)


def _read_table(path: Path, text: str, rows: Sequence[tuple[str, ...]]) -> PerplexityLog:
    numbers, perplexities, ratios, _, divergences, _, same, _ = zip(*rows, strict=True)
    _check_order(path, numbers)
    means = _read_numbers(path, perplexities, are_perplexities=True)
    shares = _read_numbers(path, same) / 100
    wrong = np.flatnonzero(~((shares >= 0) & (shares <= 1)))
    if len(wrong):
        raise UserError(
            f"chunk {wrong[0] + 1} has a share of same likeliest tokens of {same[wrong[0]]} %", where=str(path),
            hint="It is from 0 to 100 %: save the run again",
        )  # fmt: skip
    return replace(
        _make_log(path, text, means, _FINAL_OF_TABLE.search(text)),
        base_logprob=-_each(means - _read_numbers(path, ratios)),
        divergence=_each(_read_numbers(path, divergences)),
        changed=1 - _each(shares),
        errors=(_number(rows[-1][3]), _number(rows[-1][5]), _number(rows[-1][7]) / 100),
    )


def _make_log(
    path: Path, text: str, means: Values, final: re.Match[str] | None, rounding: float | None = None
) -> PerplexityLog:
    """The log of a single model, from the negative log-likelihoods of a token up to each chunk."""
    announced, vocabulary, model = (pattern.search(text) for pattern in (_ANNOUNCED, _VOCABULARY, _MODEL))
    count = int(announced[1]) if announced else None
    if count is not None and len(means) > count:
        raise UserError(f"has {len(means)} chunks, and announces {count}", where=str(path), hint="Save the run again")
    last = math.exp(means[-1])
    if final is not None and not math.isclose(_number(final[1]), last, rel_tol=2e-6, abs_tol=1.01e-4):
        raise UserError(
            f"its last chunk has perplexity {last:.4f}, and its end says {final[1]}", where=str(path),
            hint="Chunks are missing, or it holds several runs: save one whole run in it",
        )  # fmt: skip
    return PerplexityLog(
        path=path,
        model=PureWindowsPath(model[1]).name if model else path.name,
        logprob=-_each(means),
        base_logprob=None,
        divergence=None,
        changed=None,
        errors=None,
        rounding=0.5e-4 / last if rounding is None else rounding,
        announced=count,
        context=int(announced[2]) if announced and announced[2] else None,
        vocabulary=int(vocabulary[1]) if vocabulary else None,
        has_end=final is not None or count == len(means),
    )


def _check_order(path: Path, numbers: Sequence[str]) -> None:
    for place, number in enumerate(numbers, 1):
        if number != str(place):
            what = "holds several runs" if number == "1" else f"chunk {number} follows chunk {place - 1}"
            hint = "Save each run in a file of its own" if number == "1" else "Lines are missing: save the run again"
            raise UserError(what, where=str(path), hint=hint)


def _number(text: str) -> float:
    return float(text.partition("(")[0])


def _read_numbers(path: Path, texts: Sequence[str], *, are_perplexities: bool = False) -> Values:
    """Of each chunk the number; of a perplexity its logarithm."""
    numbers = np.array([_number(text) for text in texts])
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(numbers) if are_perplexities else numbers
    wrong = np.flatnonzero(~(np.abs(values) < _LARGEST))
    if len(wrong):
        raise UserError(
            f"chunk {wrong[0] + 1} has {texts[wrong[0]]}", where=str(path),
            hint="No likelihood gives that: check the model's file, and save the run again",
        )  # fmt: skip
    return values


def _each(means: Values) -> Values:
    """The values of chunks alone, from the means over all so far."""
    return np.diff(means * np.arange(1, len(means) + 1), prepend=0.0)
