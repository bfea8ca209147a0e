"""Make a tiny Llama prefer different choices, to compare ways of asking for choices.

    python tools/choosing_llama.py OUT --start MODEL --questions questions.jsonl

Each line of the questions is ``{"prompt": …, "choices": [" A", " B", …]}``. Every choice is a single token. MODEL is a
tiny Llama from tools/tiny_llama.py. Only the rows of its last layer that belong to the choices are trained. Each
question gets a random soft preference. Ridge regression fits it to the model's state after the whole prompt, so shots
and question both count. Each choice is then preferred about equally often, mostly by about a nat, sometimes by almost
nothing. The model is saved in the format of transformers. The same input gives the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

SEED = 42
SPREAD = 4.0  # spread of the drawn preferences in nats; ridge regression keeps a part of it
RIDGE = 1e-3  # relative to the mean square of a question's own features
LEVEL = 4.0  # nats of an average choice above zero, so that other tokens are sometimes the likeliest
ROUNDS = 200  # until all choices are preferred equally often


def read_questions(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@torch.no_grad()
def features(model: Any, prompts: Sequence[list[int]]) -> torch.Tensor:
    """The model's state after the last token of each prompt, ``[prompts, hidden]``. Computes a shared prefix once."""
    result, cache, before = [], DynamicCache(), list[int]()
    for ids in prompts:
        shared = next((place for place, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b), len(before))
        shared = min(shared, len(ids) - 1)
        if shared < len(before):
            cache.crop(shared - len(before))
        out = model.model(input_ids=torch.tensor([ids[shared:]]), past_key_values=cache, use_cache=True)
        result.append(out.last_hidden_state[0, -1])
        before = ids
    return torch.stack(result).double()


def rows_for(hidden: torch.Tensor, choices: int) -> torch.Tensor:
    """Rows of the last layer, ``[choices, hidden]``, that give questions their preferences."""
    mean = hidden.mean(0)
    own = hidden - mean
    drawn = torch.randn(len(own), choices, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64) * SPREAD
    square = own.T @ own
    rows = torch.linalg.solve(square + RIDGE * square.trace() / len(square) * torch.eye(len(square)), own.T @ drawn).T
    level = torch.full((choices,), LEVEL, dtype=torch.float64)
    for _ in range(ROUNDS):
        shares = torch.bincount((own @ rows.T + level).argmax(1), minlength=choices) / len(own)
        level += 0.1 * (1 / choices - shares)
    # Set the part along the mean to the choice's level, so that its own features decide.
    return rows + (level - rows @ mean)[:, None] * mean / mean.square().sum()


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a tiny Llama prefer different choices.")
    parser.add_argument("out", type=Path, help="folder to write the model to")
    parser.add_argument("--start", type=Path, required=True, help="the model to go on from")
    parser.add_argument("--questions", type=Path, required=True, help='JSON lines of {"prompt": …, "choices": […]}')
    arguments = parser.parse_args()

    questions = read_questions(arguments.questions)
    tokenizer = AutoTokenizer.from_pretrained(arguments.start)
    model = AutoModelForCausalLM.from_pretrained(arguments.start).float().eval()
    tokens = [tokenizer(text, add_special_tokens=False).input_ids for text in questions[0]["choices"]]
    if any(len(token) != 1 for token in tokens) or any(
        question["choices"] != questions[0]["choices"] for question in questions
    ):
        sys.exit("every question must have the same choices, each of one token")
    hidden = features(model, [tokenizer(question["prompt"]).input_ids for question in questions])
    rows = rows_for(hidden, len(tokens))
    model.lm_head.weight.data[[token[0] for token in tokens]] = rows.float()
    model.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)
    best = (hidden @ rows.T).topk(2)
    margins = (best.values[:, 0] - best.values[:, 1]).sort().values
    places = [int(share * (len(margins) - 1)) for share in (0, 0.05, 0.25, 0.5, 0.75, 1)]
    said = {
        "questions": len(questions),
        "chosen": torch.bincount(best.indices[:, 0], minlength=len(tokens)).tolist(),
        "margin_quantiles": [round(float(margins[place]), 4) for place in places],
    }
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
