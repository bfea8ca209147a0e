"""A model's tokenizer and end token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meta_eval.ask.answers.requests import Encoder
from meta_eval.base.errors import SourceError
from meta_eval.base.inputs import parse_json, read_regular
from meta_eval.base.logs import log
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.prompt_lengths import find_model_file, find_tokenizer

# config.json shows the commit, which identifies the run, so it must be there before the first answer is kept.
_FILES = ("tokenizer.json", "tokenizer_config.json", "config.json")


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """A model's tokenizer and end token.

    Attributes:
        encoder: Makes token ids of requests; None without the tokenizer.
        end: The end token as text, which ends every answer. Llama's instruct models end at ``<|eot_id|>``; a model
            without it in generation_config.json would go on. None if unknown.
    """

    encoder: Encoder | None
    end: str | None

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
        raise BackendError(f"its tokenizer {error}", where=model) from None


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
