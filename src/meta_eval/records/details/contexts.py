"""Recovers the prompt of each choice from recorded token ids. Winogrande has a prompt per choice and a shared ending.

Details keep only the first prompt as text, and the ids of all requests. The model's tokenizer decodes them, and the
text must encode to the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def strip_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Remove the tokens that the tokenizer puts in front of a text, as often as they occur."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    added = tokenizer.encode("a").ids[: -len(plain) or None]
    while added and ids[: len(added)] == added:
        ids = ids[len(added) :]
    return ids


def are_token_ids(some: Any) -> bool:
    """Whether a value can be token ids."""
    return isinstance(some, (list, tuple)) and all(type(token_id) is int and 0 <= token_id < 2**32 for token_id in some)


def recover_contexts(
    prompt: str, requests: Sequence[Sequence[int]], ending: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[str, ...], str] | None:
    """Recover the prompt of each request and the common ending as text; None if the token ids do not show them.

    Args:
        prompt: The prompt that is kept as text; it must be among the recovered prompts.
        requests: The ids of each request. The last id of the ending may be missing, because it is not an input.
        ending: The ids of the ending.
        tokenizer: The model's.
    """
    for left_out in (0, 1):
        splits = [_split(list(ids), list(ending), left_out, tokenizer) for ids in requests]
        found_splits = [split for split in splits if split is not None]
        prompts, endings = tuple(split[0] for split in found_splits), {split[1] for split in found_splits}
        if (
            len(found_splits) == len(requests)
            and len(endings) == 1
            and len(set(prompts)) > 1
            and prompt.rstrip() in prompts
        ):
            return prompts, endings.pop()
    return None


def _split(ids: list[int], ending: list[int], left_out: int, tokenizer: Tokenizer) -> tuple[str, str] | None:
    all_ids = strip_bos(ids, tokenizer) + ending[len(ending) - left_out :]
    if not ending or len(all_ids) <= len(ending) or all_ids[-len(ending) :] != ending:
        return None
    context = tokenizer.decode(all_ids[: -len(ending)], skip_special_tokens=False)
    text = tokenizer.decode(all_ids, skip_special_tokens=False)
    if not text.startswith(context) or tokenizer.encode(text, add_special_tokens=False).ids != all_ids:
        return None
    # The harness, like lm-eval today, moves trailing white space of a prompt to the continuation.
    bare = context.rstrip()
    return bare, text[len(bare) :]
