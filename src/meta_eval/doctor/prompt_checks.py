"""Checks prompts as the engine will read them: special tokens, exactly one BOS, room for the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.display import plural
from meta_eval.base.inputs import open_parquet
from meta_eval.doctor.check import CheckedPack, Finding, failed, not_checked, passed
from meta_eval.harness.families import find_family
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.pack.prompt_lengths import (
    PROMPT_COLUMNS,
    PROMPTS_AT_ONCE,
    Prompts,
    find_tokenizer,
    measure_longest_prompt,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer


def check_prompts(pack: CheckedPack) -> Iterator[Finding]:
    """Check prompts with the model's tokenizer, if it is on this machine. Other checks need no tokenizer."""
    manifest, prompts = pack.manifest, pack.prompts
    model = manifest.run_settings.tokenizer_of()
    try:
        tokenizer = find_tokenizer(model)
    except Exception as error:  # tokenizers raises bare Exceptions
        tokenizer = None
        yield failed("tokenizer", f"the tokenizer of {model} cannot be read ({error})", "Fetch the model's files again")
    special = _special_of(manifest)
    yield _check_special_tokens(tokenizer, model, prompts, special)
    yield from _check_bos(manifest, tokenizer, model, prompts, _find_bos(manifest, special))
    lengths = [_check_length(name, entry, prompts[name], tokenizer, manifest) for name, entry in manifest.tasks.items()]
    yield from (check for check in lengths if check.status != "passed")
    if fitting := [check for check in lengths if check.status == "passed"]:
        limit = manifest.run_settings.max_model_len
        yield passed(
            "length", f"the longest prompt and answer of {plural(len(fitting), 'task')} fit max_model_len {limit:,}"
        )


def read_prompts(pack: Path, entry: TaskEntry) -> Prompts:
    """All prompts of a task. None if the docs are missing or damaged."""

    def batches() -> Iterator[pa.RecordBatch]:
        if entry.docs_file is None or "prompt" not in entry.columns:
            return
        with contextlib.suppress(Exception):  # the file check reports damage
            columns = [column for column in PROMPT_COLUMNS if column in entry.columns]
            with open_parquet(pack / entry.docs_file) as parquet:
                yield from parquet.iter_batches(PROMPTS_AT_ONCE, columns=columns)

    return Prompts(batches)


def _special_of(manifest: Manifest) -> tuple[str, ...]:
    """Special tokens that prompts may contain, BOS first. For a record, only its tokenizer's BOS, if any."""
    if any(entry.record is None for entry in manifest.tasks.values()):
        return find_family(next(iter(manifest.tasks.values())).model).special
    recorded = (
        entry.record.bos_text for entry in manifest.tasks.values() if entry.record is not None and entry.record.bos_text
    )
    return tuple(dict.fromkeys(recorded))[:1]


def _find_bos(manifest: Manifest, special: tuple[str, ...]) -> str | None:
    """The BOS as text. None if the family has none, or if it is unknown."""
    for entry in manifest.tasks.values():
        if entry.record is None:
            return find_family(entry.model).bos
    return special[0] if special else None


def _check_special_tokens(
    tokenizer: Tokenizer | None, model: str, prompts: Mapping[str, Prompts], special: tuple[str, ...]
) -> Finding:
    """Check that each special token in the prompts, and BOS, is a single id. Otherwise the model reads its letters."""
    name = "special tokens"
    if tokenizer is None:
        return not_checked(name, f"no tokenizer of {model} on this machine")
    if not special:
        return not_checked(name, "the record does not say which BOS its tokenizer has")
    used = [
        token
        for token in special
        if token == special[0] or any(token in text for texts in prompts.values() for text in texts)
    ]
    for token in used:
        ids = tokenizer.encode(token, add_special_tokens=False).ids
        if len(ids) != 1:
            return failed(
                name,
                f"{token} is {len(ids)} tokens to {model}, and should be one",
                "Take the tokenizer of the model that it was made from: the prompts are written in its tokens",
            )
    return passed(name, f"{', '.join(used)}: one id each")


def _check_bos(
    manifest: Manifest, tokenizer: Tokenizer | None, model: str, prompts: Mapping[str, Prompts], bos: str | None
) -> Iterator[Finding]:
    """Check for exactly one BOS: the engine adds it (add_bos_token), and no prompt contains it. ``bos`` is its text.

    With add_bos_token=True every backend of lm-eval lets the tokenizer add its special tokens. Encoding a prompt in
    this way shows what the engine will see.
    """
    name = "BOS"
    backend = manifest.run_settings.backend
    for task, texts in prompts.items():
        number = next((index for index, text in enumerate(texts) if bos and text.startswith(bos)), None)
        if number is not None:
            yield failed(
                name,
                f"{task}: the prompt of doc {number} brings {bos}, and the engine adds another",
                "Take it off in the template's process_docs, and run `meta-eval prepare` again",
            )
            return
    added = manifest.run_settings.add_bos_token
    if manifest.command and not manifest.backend.says_bos(manifest.command, added=added):
        yield failed(
            name,
            f"the command must pass add_bos_token={added} to {backend}, and no chat template",
            "Run `meta-eval prepare` again, and paste the command that it prints",
        )
        return
    if not added:
        yield passed(name, f"none under {backend} with add_bos_token=False, as the record was asked")
        return
    if tokenizer is None:
        yield not_checked(
            name, f"no prompt contains one; no tokenizer of {model} on this machine to check that one is added"
        )
        return
    bos_id = tokenizer.token_to_id(bos) if bos else None
    if bos_id is None:  # the check above reports it
        return
    for task, texts in prompts.items():
        first = next(iter(texts), None)
        if first is None:
            continue
        ids = tokenizer.encode(first).ids
        if not ids.count(bos_id) and not manifest.needs_bos:
            continue  # the prompts of the record had none either
        if ids.count(bos_id) != 1 or ids[0] != bos_id:
            yield failed(
                name,
                f"{task}: {backend} would see {ids.count(bos_id)} of them in front of the first prompt",
                f"The tokenizer.json of {model} must put exactly one {bos} in front, as that of Llama 3 does",
            )
            return
    yield passed(name, f"exactly one under {backend} with add_bos_token=True")


def _check_length(
    name: str, entry: TaskEntry, prompts: Prompts, tokenizer: Tokenizer | None, manifest: Manifest
) -> Finding:
    """Check that the longest prompt and the longest answer fit the context. lm-eval would silently cut the prompt."""
    length, limit = entry.longest_prompt, manifest.run_settings.max_model_len
    tokens, how = length.tokens, length.method
    if how == "estimated" and tokenizer is not None and next(iter(prompts), None) is not None:
        counted = measure_longest_prompt(prompts, limit - length.max_gen_toks, lambda: tokenizer)
        tokens, how = counted.tokens, counted.how
    what = f"{name}: {tokens:,} tokens and an answer of {length.max_gen_toks:,}"
    if tokens + length.max_gen_toks > limit:
        hint = f"Set max_model_len to {tokens + length.max_gen_toks} or more, and run `meta-eval prepare` again"
        return failed("length", f"{what} do not fit max_model_len {limit:,}", hint)
    if how == "estimated":
        return not_checked("length", f"{what} fit {limit:,} by an estimate; no tokenizer on this machine to count")
    return passed("length", f"{what} fit {limit:,}")
