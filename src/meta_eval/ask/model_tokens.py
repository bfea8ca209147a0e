"""A model's tokenizer and end token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.errors import SourceError
from meta_eval.base.inputs import parse_json, read_regular
from meta_eval.base.logs import log
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.prompt_lengths import find_model_file, find_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# config.json shows the commit, which identifies the run, so it must be there before the first answer is kept.
_FILES = ("tokenizer.json", "tokenizer_config.json", "config.json")


class Encoder:
    """Encodes prompts and continuations as token ids, as lm-eval's engines do.

    Args:
        tokenizer: The model's.
        needs_bos: Whether to refuse a tokenizer that adds no BOS. Llama's adds it; others may not.
        add_bos: Whether each prompt starts with BOS. False if a record was made without it.
        end: The end token. As in lm-eval, it stands for an empty prompt if the tokenizer has no BOS.

    Attributes:
        empty_prompt: The tokens that stand for an empty prompt.

    Raises:
        ValueError: The tokenizer has no single BOS.
    """

    bos: int | None
    """The token before each prompt, or None."""

    def __init__(
        self, tokenizer: Tokenizer, *, needs_bos: bool = True, add_bos: bool = True, end: str | None = None
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        special_ids = tokenizer.encode("", add_special_tokens=True).ids
        last = tokenizer.token_to_id(end) if end else None
        self.empty_prompt = special_ids[:1] or ([last] if last is not None else [])
        added = special_ids if add_bos else []
        if len(added) > 1 or (add_bos and needs_bos and not added):
            raise ValueError(f"puts {len(added)} tokens before a text instead of one BOS")
        self.bos = int(added[0]) if added else None

    def encode_text(self, text: str) -> list[int]:
        """Encode a text without BOS."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Encode a prompt with its BOS, which a text may bring."""
        (ids,) = self.encode_prompts([text])
        return ids

    def encode_spelled(self, text: str) -> list[int]:
        """Encode a text, and read special tokens as plain characters."""
        self._tokenizer.encode_special_tokens = True
        try:
            return self.encode_text(text)
        finally:
            self._tokenizer.encode_special_tokens = False

    def encode_prompts(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Encode prompts, each with its BOS, together."""
        for encoded in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            ids: list[int] = encoded.ids
            yield ids if self.bos is None or ids[:1] == [self.bos] else [self.bos, *ids]


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """A model's tokenizer and end token."""

    encoder: Encoder | None
    """Makes token ids of requests; None without the tokenizer."""

    end: str | None
    """The end token as text, which ends every answer. Llama's instruct models end at ``<|eot_id|>``; a model without it
    in generation_config.json would go on. None if unknown."""

    @property
    def ends(self) -> tuple[str, ...]:
        """The texts that end every answer."""
        return (self.end,) if self.end else ()


def tokens_of(model: str, *, needed: bool, needs_bos: bool = True, add_bos: bool = True) -> ModelTokens:
    """Load the tokenizer of a model from its folder, the hub's cache or the hub.

    Args:
        model: The name of a repository or the path of a folder.
        needed: Whether requests need it. Prompts without BOS always do, because a server adds a BOS to a text.
        needs_bos: See `Encoder`.
        add_bos: See `Encoder`.

    Raises:
        BackendError: It is needed and not available, or does not put exactly one BOS before a text.
    """
    needed = needed or not add_bos
    fault = None if Path(model).is_dir() else _download(model)
    tokenizer = find_tokenizer(model)
    if tokenizer is None:
        where, what = f"the tokenizer of {model}", "there is no tokenizer.json" if fault is None else fault.what
        default_hint = "set tokenizer to a hub id or a folder that has it"
        if needed:
            hint = f"{fault.hint}; or {default_hint}" if fault and fault.hint else default_hint.capitalize()
            raise BackendError(what, where=where, hint=hint)
        log.warning(
            f"{where}: {what}; {default_hint}. Without it, prompts are sent as text, and the server must add the BOS"
        )
        return ModelTokens(None, None)
    end = _end_token(model)
    try:
        return ModelTokens(Encoder(tokenizer, needs_bos=needs_bos, add_bos=add_bos, end=end), end)
    except ValueError as error:
        hint = "The pack's prompts rely on a BOS: name the tokenizer of a model of their family with the key tokenizer"
        raise BackendError(f"its tokenizer {error}", where=model, hint=hint if needs_bos else None) from None


def _download(model: str) -> SourceError | None:
    """Download a model's files into the hub's cache. Return the error, or None."""
    from meta_eval.pack.hub import download_model_files

    if all(find_model_file(model, name) is not None for name in _FILES):
        return None
    try:
        download_model_files(model, _FILES)
    except SourceError as error:
        return error
    return None


def _end_token(model: str) -> str | None:
    try:
        tree = parse_json(read_regular(Path(find_model_file(model, _FILES[1]) or "")))
    except (OSError, ValueError):
        return None
    end = tree.get("eos_token") if isinstance(tree, dict) else None
    if isinstance(end, dict):
        end = end.get("content")
    return end if isinstance(end, str) and end else None
