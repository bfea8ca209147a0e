"""Counts the tokens of each choice, for tasks that compare likelihoods per token.

lm-eval passes only the likelihoods to a task's scorer, so the docs carry the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meta_eval.pack.config import Config
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.templates.spec import Template
from meta_eval.sockets import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

_METRIC = "acc_token"
_COLUMN = "choice_tokens"

_BATCH = 64


def needs_choice_tokens(template: Template) -> bool:
    """Whether a metric of the task divides by tokens."""
    listed = template.settings.get("metric_list") or ()
    return template.output_type == "multiple_choice" and any(metric.get("metric") == _METRIC for metric in listed)


def add_choice_tokens(template: Template, docs: pa.Table, config: Config) -> pa.Table:
    """Add the column of token counts: for each choice the tokens after those of the prompt, split as lm-eval does.

    Raises:
        ConfigError: A model's tokenizer is not on this machine, or the models of a sweep have different counts.
    """
    import pyarrow as pa

    models = dict.fromkeys(config.tokenizer_of(model) for model in (config.model_name, *config.other_models))
    known_counts: list[list[int]] | None = None
    for model in models:
        tokenizer = find_tokenizer(model)
        hint = f"Download it, or leave {_METRIC} out of the task's metric_list"
        if tokenizer is None:
            raise ConfigError(
                f"{_METRIC} counts tokens, and the tokenizer of {model} is not on this machine",
                where=f"task {template.name}",
                hint=hint,
            )
        counts = _counts(docs, tokenizer)
        if known_counts is not None and counts != known_counts:
            raise ConfigError(
                f"{model} counts tokens differently from {next(iter(models))}", where=f"task {template.name}", hint=hint
            )
        known_counts = counts
    return docs.append_column(_COLUMN, pa.array(known_counts, pa.list_(pa.int64())))


def _counts(docs: pa.Table, tokenizer: Tokenizer) -> list[list[int]]:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lengths = []
    for batch in docs.select(["prompt", "continuations"]).to_batches(_BATCH):
        for prompt, ends in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            texts = [prompt.rstrip(), *(prompt + end for end in ends)]
            context, *choice_counts = (
                len(encoding.ids) for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            )
            # A choice that is merged into the context's last token still counts as one token.
            lengths.append([max(length - context, 1) for length in choice_counts])
    return lengths
