"""Splits a samples file into samples: lines, or until May 2024 the elements of a JSON array.

It parses only enough to find the end of a sample. So a damaged sample stays a single piece, and the next is still
found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from meta_eval.base.inputs import describe_form, open_regular
from meta_eval.harness.doc_results import ResultsError

# More than any sample: four choices with contexts of 100,000 tokens take a tenth of it.
MAX_SAMPLE_BYTES = 64 * 2**20

_BUFFER = 2**20

# A whole string, a string that continues beyond the data read so far, or a bracket.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?P<open>")|[\[\]{}]', re.DOTALL)
_BETWEEN = b" \t\r\n,"


@dataclass(frozen=True, slots=True)
class RawSample:
    """The bytes of what should be a sample.

    Attributes:
        where: Its place, for messages.
        offset: Its start, in bytes.
        content: Its bytes.
        last: Whether it is at the end of the file.
    """

    where: str
    offset: int
    content: bytes
    last: bool


def read_raw_samples(path: Path, offset: int | None = None) -> Iterator[RawSample]:
    """Read the samples of a file in order. Blank lines are skipped.

    Args:
        path: The file.
        offset: The byte offset of the array of samples inside a results file; None for a samples file.

    Raises:
        ResultsError: The file cannot be read, or a sample is longer than `MAX_SAMPLE_BYTES`.
    """
    try:
        with open_regular(path, buffering=_BUFFER) as file:
            file.seek(offset or 0)
            start = file.read(_BUFFER)
            if offset is None and (form := describe_form(start)):
                raise ResultsError(f"cannot be read ({form})", where=str(path))
            file.seek(offset or 0)
            is_array = start.lstrip()[:1] == b"["
            yield from _array(path, file, is_file=offset is None) if is_array else _lines(path, file)
    except OSError as error:
        raise ResultsError(f"cannot be read ({error.strerror})", where=str(path)) from None


def _lines(path: Path, file: BinaryIO) -> Iterator[RawSample]:
    offset, number = 0, 1
    line = file.readline(MAX_SAMPLE_BYTES + 1)
    while line:
        where = f"{path}, line {number}"
        if len(line) > MAX_SAMPLE_BYTES:
            raise _too_long(where)
        following = file.readline(MAX_SAMPLE_BYTES + 1)
        if not line.isspace():
            yield RawSample(where, offset, line, not following)
        offset, number, line = offset + len(line), number + 1, following


def _array(path: Path, file: BinaryIO, *, is_file: bool) -> Iterator[RawSample]:
    """Yield the elements of an array. Anything but a comma between elements is yielded too, and so is a missing end.
    With ``is_file``, text after the array is yielded too.
    """
    text = bytearray(file.read(_BUFFER))
    text = text[text.index(b"[") + 1 :]
    base, number = file.tell() - len(text), 0  # base: offset of text in the file
    depth, begin, at = 1, 0, 0  # open brackets, start of the next sample, position in text
    while True:
        token = _TOKEN.search(text, at)
        if token is None or token["open"]:
            at = token.start() if token else len(text)
            more = file.read(_BUFFER)
            if len(text) > MAX_SAMPLE_BYTES:
                raise _too_long(f"{path}, sample {number + 1}")
            if more:
                text += more
                continue
            break
        at = token.end()
        opens, closes = token[0] in (b"[", b"{"), token[0] in (b"]", b"}")
        depth += opens - closes
        if opens and depth == 2 and text[begin : token.start()].strip(_BETWEEN):
            number += 1
            yield RawSample(f"{path}, sample {number}", base + begin, bytes(text[begin : token.start()]), False)
        if opens and depth == 2:
            begin = token.start()
        if closes and depth == 1:
            number += 1
            yield RawSample(f"{path}, sample {number}", base + begin, bytes(text[begin:at]), False)
            del text[:at]
            base, begin, at = base + at, 0, 0
        if depth == 0:
            break
    if depth == 0 and not is_file:
        return
    rest = bytes(text[begin : at - 1] + text[at:] if depth == 0 else text[begin:]) + file.read(MAX_SAMPLE_BYTES)
    if depth or rest.strip(_BETWEEN):
        yield RawSample(f"{path}, sample {number + 1}", base + begin, rest, True)


def _too_long(where: str) -> ResultsError:
    return ResultsError(f"is longer than {MAX_SAMPLE_BYTES // 2**20} MiB: not an lm_eval samples file", where=where)
