"""Checks before a run that every prompt fits the context, with room for its answer.

lm-eval cuts longer prompts from the left, almost silently. The prompt then loses its BOS and first shots, and the score
means something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from meta_eval.base.inputs import InputError, describe_error, open_data

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

# English has about 4.4 bytes per token of Llama 3; 4 overestimates the length.
BYTES_PER_TOKEN = 4

# The BOS that the engine adds.
_ADDED = 1

PROMPT_COLUMNS = ("prompt", "continuations")
PROMPTS_AT_ONCE = 1024  # docs


@dataclass(frozen=True, slots=True)
class Length:
    """The longest prompt of a task."""

    doc: int
    """Its index."""

    tokens: int
    """Its tokens, BOS included."""

    how: Literal["counted", "bound", "estimated"]
    """``counted`` with the model's tokenizer; ``bound`` if even a token per byte would fit, so that counting was not
    needed; ``estimated`` from its bytes without a tokenizer."""


def find_tokenizer(model_name: str) -> Tokenizer | None:
    """Load the model's tokenizer from a local model folder or the hub's cache; None if it is not on this machine.

    Nothing is downloaded: the model may be gated, private or not trained yet.
    """
    path = find_tokenizer_file(model_name)
    if path is None:
        return None
    file = Path(path).absolute()
    status = file.stat()
    return _load(file, (status.st_mtime_ns, status.st_size, status.st_ino), path)


def find_tokenizer_file(model_name: str) -> str | None:
    """The path of the model's tokenizer; None if it is not on this machine."""
    return find_model_file(model_name, "tokenizer.json")


def find_model_file(model_name: str, name: str) -> str | None:
    """The path of a small file in a local model folder or the hub's cache; None if it is not on this machine."""
    from huggingface_hub import constants

    local = Path(model_name) / name
    if local.is_file():
        return str(local)
    if not (Path(constants.HF_HUB_CACHE) / f"models--{model_name.replace('/', '--')}").is_dir():
        return None  # told without what follows, which takes a quarter of a second
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(model_name, name)
    except HFValidationError:  # a path, not the name of a repository
        return None
    return file if isinstance(file, str) else None


@lru_cache(maxsize=1)
def _load(path: Path, stamp: Hashable, where: str) -> Tokenizer:  # noqa: ARG001 (of the cache)
    """Load a tokenizer once: a Llama tokenizer takes most of a second, and every step that counts needs it.

    Raises:
        InputError: It is not a tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        open_data(path).close()  # a pipe, a pointer
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare ones
        raise InputError(
            f"is not a readable tokenizer: {describe_error(error)}",
            where=where,
            hint="Fetch the model's files again",
        ) from None


def make_token_counter(model_name: str) -> Callable[[str], int | None]:
    """Make a function that counts the tokens of a text; None if the model's tokenizer is not on this machine. It is
    loaded when it is first needed."""
    find = cache(lambda: find_tokenizer(model_name))

    def count(text: str) -> int | None:
        tokenizer = find()
        return None if tokenizer is None else len(tokenizer.encode(_encodable(text), add_special_tokens=False).ids)

    return count


def _encodable(text: str) -> str:
    """Replace lone surrogates, which lm-eval writes for broken answers, by the replacement character."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


class Prompts:
    """The prompt of every doc; in a choice task with its longest continuation. Each iteration reads them again in
    batches.

    Args:
        batches: Gives those of the `PROMPT_COLUMNS` that the docs have.
    """

    def __init__(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self._batches = batches

    @classmethod
    def of_table(cls, docs: pa.Table) -> Prompts:
        """The prompts of a table of docs."""
        columns = docs.select([name for name in PROMPT_COLUMNS if name in docs.column_names])
        return cls(lambda: columns.to_batches(PROMPTS_AT_ONCE))

    def __iter__(self) -> Iterator[str]:
        for batch in self._batches():
            yield from _list_texts(batch)

    def measure(self) -> list[int]:
        """The length of each in bytes of UTF-8. Arrow knows it of a text that it holds."""
        sizes: list[int] = []
        for batch in self._batches():
            if "continuations" in batch.schema.names or str(batch.schema.field("prompt").type) != "string":
                sizes += [len(text.encode("utf-8", "surrogatepass")) for text in _list_texts(batch)]
            else:
                sizes += _measure_texts(batch.column("prompt"))
        return sizes


def _list_texts(batch: pa.RecordBatch) -> Iterator[str]:
    prompts = batch.column("prompt").to_pylist()
    if "continuations" not in batch.schema.names:
        yield from prompts
        return
    for prompt, texts in zip(prompts, batch.column("continuations").to_pylist(), strict=True):
        yield prompt + max(texts, key=len)


def _measure_texts(texts: pa.Array) -> list[int]:
    import numpy as np

    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    sizes: list[int] = np.diff(ends).tolist()
    return sizes


def measure_longest_prompt(prompts: Prompts, room: int, find: Callable[[], Tokenizer | None]) -> Length:
    """Find the longest prompt of a task.

    Args:
        prompts: At least one.
        room: Tokens that a prompt may have: the context less the tokens of an answer.
        find: Gives the model's tokenizer or None; called only if counting is needed.
    """
    sizes = prompts.measure()
    biggest = max(range(len(sizes)), key=sizes.__getitem__)
    # A byte-level BPE never makes more tokens than there are bytes.
    if sizes[biggest] + _ADDED <= room:
        return Length(biggest, sizes[biggest] + _ADDED, "bound")
    tokenizer = find()
    if tokenizer is None:
        return Length(biggest, -(-sizes[biggest] // BYTES_PER_TOKEN) + _ADDED, "estimated")
    best = Length(biggest, 0, "counted")
    doubtful = ((index, text) for index, text in enumerate(prompts) if sizes[index] + _ADDED > room)
    while batch := list(itertools.islice(doubtful, 512)):  # bounded memory: an encoding is far larger than its text
        encoded = tokenizer.encode_batch([text for _, text in batch], add_special_tokens=False)
        for (index, _), encoding in zip(batch, encoded, strict=True):
            if len(encoding.ids) + _ADDED > best.tokens:
                best = Length(index, len(encoding.ids) + _ADDED, "counted")
    return best
