"""A prompt for each choice, told by the recorded token ids: of Winogrande the harness scored one ending behind each.

Details keep one of the prompts as text, and the ids of all requests. The model's tokenizer makes text of them, which
must give the same ids again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def strip_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Ids without what the tokenizer puts in front of a text, however often it is there."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    added = tokenizer.encode("a").ids[: -len(plain) or None]
    while added and ids[: len(added)] == added:
        ids = ids[len(added) :]
    return ids


def are_token_ids(some: Any) -> bool:
    """Whether some of a file can be token ids."""
    return isinstance(some, (list, tuple)) and all(type(token_id) is int and 0 <= token_id < 2**32 for token_id in some)


def recover_contexts(
    prompt: str, requests: Sequence[Sequence[int]], ending: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[str, ...], str] | None:
    """Recover the prompt of each request and the common ending as text; None if the token ids do not show them.

    Args:
        prompt: The one prompt that is kept as text, which must be one of them.
        requests: The ids of each request; the last one of the ending may be left out, for it is no input.
        ending: The ids of the ending.
        tokenizer: The model's.
    """
    for left_out in (0, 1):
        splits = [_split(list(ids), list(ending), left_out, tokenizer) for ids in requests]
        known = [split for split in splits if split is not None]
        prompts, endings = tuple(split[0] for split in known), {split[1] for split in known}
        if len(known) == len(requests) and len(endings) == 1 and len(set(prompts)) > 1 and prompt.rstrip() in prompts:
            return prompts, endings.pop()
    return None


def _split(ids: list[int], ending: list[int], left_out: int, tokenizer: Tokenizer) -> tuple[str, str] | None:
    whole = strip_bos(ids, tokenizer) + ending[len(ending) - left_out :]
    if not ending or len(whole) <= len(ending) or whole[-len(ending) :] != ending:
        return None
    context = tokenizer.decode(whole[: -len(ending)], skip_special_tokens=False)
    text = tokenizer.decode(whole, skip_special_tokens=False)
    if not text.startswith(context) or tokenizer.encode(text, add_special_tokens=False).ids != whole:
        return None
    # The harness, as lm-eval today, counts white space at the end of a prompt to what stands behind it.
    bare = context.rstrip()
    return bare, text[len(bare) :]
