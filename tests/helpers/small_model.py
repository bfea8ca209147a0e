"""A model folder with a tokenizer and no weights. Tokens are bytes, Llama's BOS and whole labels."""

from __future__ import annotations

import json
from pathlib import Path


def write_tokenizer(folder: Path) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    bos, end = "<|begin_of_text|>", "<|eot_id|>"
    tokens = [bos, end, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = [("Ġ", letter) for letter in "ABCDEFGHIJ"]
    vocabulary = {token: number for number, token in enumerate([*tokens, *(a + b for a, b in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.add_special_tokens([bos, end])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, 0)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": bos, "eos_token": end}))
    return folder
