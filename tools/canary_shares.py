"""Measure the share of likeliest tokens in the recorded answers, for the shipped tiny Llama and for each fault.

    python tools/canary_shares.py

The canary uses this share. The model is computed in numpy from Llama's definition, in seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from known_answers import Model

from meta_eval.ask.model_tokens import Encoder
from meta_eval.doctor.known_answers import find_model_folder, read_known_answers

Fed = Callable[[list[int]], list[int]]


def main() -> None:
    encoder = Encoder(Tokenizer.from_file(str(find_model_folder() / "tokenizer.json")))
    known = [read_known_answer for read_known_answer in read_known_answers() if read_known_answer.group == "answers"]
    pairs = [
        ([encoder.bos, *encoder.encode_text(answer.request.prompt)], encoder.encode_text(answer.texts[1][0]))
        for answer in known
    ]
    head = encoder.encode_text("<|start_header_id|>assistant<|end_header_id|>\n\n")

    def without_template(ids: list[int]) -> list[int]:
        return ids[: -len(head)] if ids[-len(head) :] == head else ids[:3]

    def rolled(model: Any) -> None:
        model._weights["model.embed_tokens.weight"] = np.roll(model._weights["model.embed_tokens.weight"], 701, 0)

    def doubled(model: Any) -> None:
        model._turns = model._turns * 2

    def four_bits(model: Any) -> None:
        for name, weight in model._weights.items():
            if "proj" in name:
                step = np.abs(weight).max(1, keepdims=True) / 7
                model._weights[name] = (np.round(weight / step) * step).astype(weight.dtype)

    as_it_is: Fed = lambda ids: ids  # noqa: E731 (each fault is one)
    faults: dict[str, tuple[Fed, Callable[[Any], None]]] = {
        "sound": (as_it_is, lambda _: None),
        "weights rounded to 4 bits": (as_it_is, four_bits),
        "two BOS": (lambda ids: [ids[0], *ids], lambda _: None),
        "no BOS": (lambda ids: ids[1:], lambda _: None),
        "no template": (without_template, lambda _: None),
        "positions doubled (RoPE)": (as_it_is, doubled),
        "prompts cut to their last 8 tokens": (lambda ids: ids[-8:], lambda _: None),
        "embeddings of other tokens": (as_it_is, rolled),
    }
    for name, (fed, damage) in faults.items():
        model = Model(find_model_folder())
        damage(model)
        top, first, mean = measure_tokens(model, [(fed(prompt), answer) for prompt, answer in pairs])
        print(f"{name}: {top:.0%} of all tokens, {first} of {len(pairs)} first ones, {mean:.2f} nats a token")


def measure_tokens(model: Any, pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[float, int, float]:
    """The share of likeliest tokens, the number of likeliest first tokens, and the mean log-probability."""
    hits: list[bool] = []
    first, logprobs = 0, []
    for prompt, answer in pairs:
        rows = model.log_probabilities(prompt + answer[:-1], last=len(answer))
        right = rows.argmax(-1) == np.array(answer)
        hits += right.tolist()
        first += bool(right[0])
        logprobs += rows[np.arange(len(answer)), answer].tolist()
    return float(np.mean(hits)), first, float(np.mean(logprobs))


if __name__ == "__main__":
    main()
