"""Make fidelity tables of a real model and of copies with a single change each.

    python tools/real_tables.py COPIES OUT [--docs N] [--only NAME…] [--tasks NAME…] [--no-probes] [--dtype bfloat16]

COPIES is the output of ``real_model.py folders``. Docs are of three tasks: the model's greedy answers to the questions
of the example ``smollm2``, answers sampled at temperature 1, and pages of this repository, which people wrote. The
distance of two tables grows with the entropy of the text, which is lowest in the first and highest in the last. The
answers are the reference's. It is in bfloat16, and so are all copies whose name says no other dtype. Tables are those
of ``forced_tokens.py``. ``OUT/docs.jsonl`` keeps the docs: a folder that has it gets further tables of the same docs.
Needs torch and transformers, which meta-eval does not. A CPU without AVX512-BF16 or AMX is slow at bfloat16.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from forced_tokens import (
    Copy,
    Doc,
    as_text,
    halves_swapped,
    heads_swapped,
    load,
    noisy,
    of_projections,
    pieces,
    quantised_cache,
    rescaled_attention,
    rope,
    rounded,
    set_config,
    sliding_attention,
    spelled,
    without_a_layer,
    write_copy,
)
from real_model import HIDDEN, NAME, SYSTEM, rounded_to_fp8
from tiny_llama import SEED
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from meta_eval.base import assets

ANSWER = 40  # tokens
SHORTEST = 8  # tokens of an answer
TASKS = ("greedy", "sampled", "human")
START, END = "<|im_start|>", "<|im_end|>"
SPECIAL = 3  # tokens with a lower id end an answer
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
REPOSITORY = Path(__file__).resolve().parents[1]


# Changes of what the model receives


def behind_another_system(tokenizer: Tokenizer, text: str) -> list[int]:
    """A server with a system prompt of its own."""
    return pieces(tokenizer, text.replace(SYSTEM, HIDDEN))


def in_another_template(tokenizer: Tokenizer, text: str) -> list[int]:
    """A chat template with one more line break after each turn."""
    return pieces(tokenizer, text.replace(END, f"\n{END}"))


def asked_twice(tokenizer: Tokenizer, text: str) -> list[int]:
    """A server that applies its chat template to a prompt that already has it."""
    return pieces(tokenizer, f"{START}system\n{SYSTEM}{END}\n{START}user\n{text}{END}\n{START}assistant\n")


def without_template(tokenizer: Tokenizer, text: str) -> list[int]:
    """Leave out the chat headers."""
    for header in (f"{START}system\n", f"{START}user\n", f"{START}assistant\n", END):
        text = text.replace(header, "")
    return pieces(tokenizer, text)


def cut_to(size: int) -> Callable[[Tokenizer, list[int]], list[int]]:
    """A server that keeps the last tokens only."""
    return lambda _, ids: ids[-size:]


@torch.no_grad()
def rounded_activations(model: LlamaForCausalLM) -> None:
    """Weights in FP8, and the inputs of each layer's matrices, with a scale for each token."""

    def before(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (rounded_to_fp8(inputs[0].float()).to(inputs[0].dtype),)

    of_projections(PROJECTIONS, rounded_to_fp8)(model)
    for module in model.model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(before)


def copies(folders: Path) -> list[Copy]:
    """All copies. The first is the reference. Noise comes first, then quantisation, then faults."""
    quantised = ("int8", "q8", "fp8w", "q5", "int4", "q4", "lora")
    return [
        Copy("reference"),
        Copy("eager", attention="eager"),
        Copy("batch", batch=4),
        Copy("float32", dtype=torch.float32),
        *(Copy(name, model=folders / name) for name in quantised[:3]),
        Copy("fp8wa", weights=rounded_activations),
        *(Copy(name, model=folders / name) for name in quantised[3:]),
        Copy("eager_float32", dtype=torch.float32, attention="eager"),
        Copy("batch_float32", dtype=torch.float32, batch=4),
        Copy("eager_batch", attention="eager", batch=4),
        Copy("rope", config=rope(rope_theta=10_000.0)),
        Copy("system", fed=as_text(behind_another_system)),
        Copy("template", fed=as_text(in_another_template)),
        Copy("int6", weights=of_projections(PROJECTIONS, rounded(6, 32))),
        Copy("kv8", attention=quantised_cache(8)),
        Copy("kv4", attention=quantised_cache(4)),
        Copy("noise1", weights=of_projections(PROJECTIONS, noisy(0.01))),
        Copy("template_twice", fed=as_text(asked_twice)),
        Copy("no_template", fed=as_text(without_template)),
        Copy("spelled_template", fed=as_text(spelled)),
        Copy("truncated", fed=cut_to(48)),
        Copy("rope_linear", config=rope(rope_type="linear", factor=2.0)),
        Copy("shards", weights=heads_swapped),
        Copy("qk_int3", weights=of_projections(("q_proj", "k_proj"), rounded(3, 32))),
        Copy("qk_shards", weights=of_projections(("k_proj",), halves_swapped)),
        Copy("v_int3", weights=of_projections(("v_proj",), rounded(3, 32))),
        Copy("attention_scale", attention=rescaled_attention(1.4)),
        Copy("window", attention=sliding_attention(48)),
        Copy("gelu", config=set_config(hidden_act="gelu")),
        Copy("norm_eps", config=set_config(rms_norm_eps=1e-3)),
        Copy("half_layer", weights=without_a_layer),
        Copy("float16", dtype=torch.float16),
    ]


# Docs


def read_questions() -> list[str]:
    """The prompts of the example ``smollm2``, in its own chat template."""
    folder = assets.asset_path("smollm2") / "recorded_run"
    lines = (line for path in sorted(folder.glob("samples_*.jsonl")) for line in path.read_text("utf-8").splitlines())
    return list(dict.fromkeys(json.loads(line)["arguments"]["gen_args_0"]["arg_0"] for line in lines))


def read_pages() -> list[str]:
    """Paragraphs of this repository's pages."""
    paths = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    texts = [part for path in paths for part in path.read_text(encoding="utf-8").split("\n\n")]
    prose = (text for text in texts if len(text) > 200 and text[0].isupper() and not set(text) & set("|@{"))
    return [" ".join(text.split()) for text in prose]


def choose_docs(tokenizer: Tokenizer) -> Iterator[Doc]:
    """Docs of the tasks in turn; those of pages have their answer."""
    chance = random.Random(SEED)
    questions, pages = read_questions(), read_pages()
    chance.shuffle(questions)
    chance.shuffle(pages)
    for number, (question, page) in enumerate(zip(questions, pages * len(questions), strict=False)):
        yield Doc("greedy", number, "", question, "")
        yield Doc("sampled", number, "", question, "")
        ids = pieces(tokenizer, page)[: 2 * ANSWER]
        yield Doc("human", number, "", tokenizer.decode(ids[:ANSWER]), tokenizer.decode(ids[ANSWER:]))


@torch.no_grad()
def answer(model: LlamaForCausalLM, tokenizer: Tokenizer, doc: Doc) -> Doc:
    """A doc with the model's answer, greedy or sampled at temperature 1."""
    said: list[int] = []
    past, given = None, torch.tensor([pieces(tokenizer, doc.prompt)])
    while len(said) < ANSWER:
        out = model(input_ids=given, past_key_values=past, use_cache=True, logits_to_keep=1)
        logits = out.logits[0, -1].float()
        token = int(torch.multinomial(logits.softmax(-1), 1) if doc.task == "sampled" else logits.argmax())
        if token < SPECIAL:
            break
        said.append(token)
        past, given = out.past_key_values, torch.tensor([[token]])
    return replace(doc, answer=tokenizer.decode(said))


def record(model: LlamaForCausalLM, tokenizer: Tokenizer, count: int) -> Iterator[Doc]:
    """``count`` docs of each task, with answers that are not short."""
    torch.manual_seed(SEED)
    wanted = dict.fromkeys(TASKS, count)
    for doc in choose_docs(tokenizer):
        if not any(wanted.values()):
            return
        if wanted[doc.task]:
            full = doc if doc.answer else answer(model, tokenizer, doc)
            ids = pieces(tokenizer, full.answer)
            if len(ids) >= SHORTEST:
                wanted[doc.task] -= 1
                yield replace(full, ids=tuple(ids))


def keep_docs(path: Path, model: LlamaForCausalLM, tokenizer: Tokenizer, count: int) -> list[Doc]:
    """The docs of ``path``, recorded if it does not exist."""
    if not path.exists():
        docs: Sequence[Doc] = list(record(model, tokenizer, count))
        path.write_text("".join(json.dumps(asdict(doc)) + "\n" for doc in docs), encoding="utf-8")
    return [Doc(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Write the tables that are missing."""
    parser = argparse.ArgumentParser(description=f"Fidelity tables of {NAME} and of copies of it.")
    parser.add_argument("copies", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", type=int, default=30, help="of each of the three tasks")
    parser.add_argument("--only", nargs="*", help="copies")
    parser.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS, help="the docs of these in the tables")
    parser.add_argument("--no-probes", action="store_true", help="tables alone, which take half as long")
    parser.add_argument("--dtype", default="bfloat16", help="of copies whose name says none")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    true = arguments.copies / "float32"
    tokenizer = Tokenizer.from_file(str(true / "tokenizer.json"))
    for copy in copies(arguments.copies):
        if (arguments.only and copy.name not in arguments.only) or (arguments.out / f"{copy.name}.parquet").exists():
            continue
        own = replace(copy, dtype=getattr(torch, arguments.dtype)) if copy.dtype == torch.bfloat16 else copy
        model = load(true, own)
        docs = keep_docs(arguments.out / "docs.jsonl", model, tokenizer, arguments.docs)
        some = [doc for doc in docs if doc.task in arguments.tasks]
        write_copy(arguments.out, own, model, tokenizer, some, f"{NAME}/{copy.name}", probes=not arguments.no_probes)


if __name__ == "__main__":
    main()
