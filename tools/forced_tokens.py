"""Make fidelity tables of a taught tiny Llama and of copies of it that are set up wrongly, each in one way.

    python tools/forced_tokens.py MODEL OUT [--docs N] [--chat CHAT_MODEL] [--only NAME…] [--small]

MODEL is what taught_llama.py wrote, and CHAT_MODEL a copy of it that was taught on in chat alone. The model answers
prompts of its own language first, most of them greedily, in bfloat16: these are the recorded answers. Then every copy
is asked how likely it finds them, by transformers and in one prefill a doc: ``OUT/NAME.parquet``, and the choices of
the base prompts beside it; ``--small`` writes neither choices nor the likeliest tokens (tests/data/fidelity is made so,
with ``--docs 48``). Needs torch and transformers, which meta-eval itself does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from taught_llama import ASSISTANT, TOPICS, USER, language
from tiny_llama import BOS, END_OF_TURN, SEED, build_tokenizer, word_list
from tokenizers import Tokenizer
from transformers import AttentionInterface, LlamaForCausalLM

from meta_eval.fidelity.table_file import Header
from meta_eval.fidelity.tokens import Choices, Forced, choices_path, write_choices, write_tokens

ANSWER = 48  # tokens at most
LONGEST = 9_500  # of a prompt
SHORTEST = 30
CHOICES = 4
KEPT = 8  # the likeliest tokens of each place
WINDOW = 2_048  # of a copy whose context is cut


@dataclass(frozen=True, slots=True)
class Doc:
    """One prompt with the answer that the reference gave."""

    task: str
    number: int
    topic: str
    prompt: str
    answer: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """One way of serving the model: what becomes of its weights, its settings, and of a prompt's token ids."""

    name: str
    weights: Callable[[LlamaForCausalLM], None] = lambda _: None
    config: Callable[[Any], None] = lambda _: None
    prompt: Callable[[Tokenizer, str], list[int]] | None = None
    attention: str = "sdpa"
    dtype: torch.dtype = torch.bfloat16
    tokenizer: Callable[[], Tokenizer] | None = None
    model: Path | None = None


def pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def with_bos(tokenizer: Tokenizer, text: str) -> list[int]:
    return [tokenizer.token_to_id(BOS), *pieces(tokenizer, text)]


# What happens to weights


def each_matrix(change: Callable[[torch.Tensor], torch.Tensor], layers: Sequence[int] = (0, 1)) -> Callable[..., None]:
    def apply(model: LlamaForCausalLM) -> None:
        for number in layers:
            for name, weight in model.model.layers[number].named_parameters():
                if weight.dim() == 2 and "norm" not in name:
                    weight.copy_(change(weight))

    return torch.no_grad()(apply)


def rounded(bits: int, group: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Symmetric round-to-nearest, a scale for each group of inputs of an output."""

    def change(weight: torch.Tensor) -> torch.Tensor:
        grouped = weight.float().reshape(weight.shape[0], -1, group)
        scale = grouped.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        return ((grouped / scale).round() * scale).reshape(weight.shape)

    return change


def noisy(share: float) -> Callable[[torch.Tensor], torch.Tensor]:
    chance = torch.Generator().manual_seed(SEED)
    return lambda weight: weight + share * weight.std() * torch.randn(weight.shape, generator=chance)


@torch.no_grad()
def heads_swapped(model: LlamaForCausalLM) -> None:
    """A layer whose output projection has the shards of two cards in the wrong order."""
    weight = model.model.layers[1].self_attn.o_proj.weight
    half = weight.shape[1] // 2
    weight.copy_(torch.cat((weight[:, half:], weight[:, :half]), dim=1))


# What happens to a context


def cut(tokenizer: Tokenizer, text: str) -> list[int]:
    ids = with_bos(tokenizer, text)
    return ids if len(ids) <= WINDOW else ids[-WINDOW:]


def untold(tokenizer: Tokenizer, text: str) -> list[int]:
    """The chat's headers left out."""
    return with_bos(tokenizer, text.replace(USER, "").replace(ASSISTANT, "").replace(END_OF_TURN, "\n"))


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """Special tokens as the text that they look like."""
    parts = text.replace("<|", "\0<\0|").split("\0")
    return [tokenizer.token_to_id(BOS), *(one for part in parts for one in pieces(tokenizer, part))]


def told_twice(tokenizer: Tokenizer, text: str) -> list[int]:
    """A server that puts its chat template around a prompt that has one."""
    return with_bos(tokenizer, f"{USER}{text}{END_OF_TURN}{ASSISTANT}")


def rope(**other: Any) -> Callable[[Any], None]:
    def change(config: Any) -> None:
        config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"], **other}

    return change


def quantised_cache(bits: int) -> str:
    """Attention over keys and values that are rounded to so many bits, a scale for each head and token."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    name = f"sdpa_kv{bits}"

    def rounded_to(x: torch.Tensor) -> torch.Tensor:
        scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-9) / (2 ** (bits - 1) - 1)
        return ((x.float() / scale).round() * scale).to(x.dtype)

    def attend(module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> Any:
        return sdpa_attention_forward(module, query, rounded_to(key), rounded_to(value), *rest, **more)

    AttentionInterface.register(name, attend)
    return name


def other_words() -> Tokenizer:
    """A tokenizer of the same kind whose merges were learned from half of the list: other ids for the same text."""
    return build_tokenizer(word_list()[::2])


def copies(chat: Path | None) -> list[Copy]:
    """All of them; the first is the reference."""
    found = [
        Copy("reference"),
        Copy("again", attention="eager"),
        Copy("float32", dtype=torch.float32),
        Copy("int8", weights=each_matrix(rounded(8, 128))),
        Copy("int4", weights=each_matrix(rounded(4, 32))),
        Copy("noise1", weights=each_matrix(noisy(0.01))),
        Copy("noise3", weights=each_matrix(noisy(0.03))),
        Copy("noise10", weights=each_matrix(noisy(0.10))),
        Copy("kv8", attention=quantised_cache(8)),
        Copy("kv4", attention=quantised_cache(4)),
        Copy("no_bos", prompt=pieces),
        Copy("two_bos", prompt=lambda tokenizer, text: [tokenizer.token_to_id(BOS), *with_bos(tokenizer, text)]),
        Copy("no_template", prompt=untold),
        Copy("spelled_template", prompt=spelled),
        Copy("template_twice", prompt=told_twice),
        Copy("truncated", prompt=cut),
        Copy("rope_off", config=rope()),
        Copy("rope_theta", config=rope(rope_theta=10_000.0)),
        Copy("shards", weights=heads_swapped),
        Copy("other_tokenizer", tokenizer=other_words),
    ]
    return [*found, *([Copy("chat_model", model=chat)] if chat else [])]


def load(path: Path, copy: Copy) -> LlamaForCausalLM:
    from transformers import LlamaConfig

    config = LlamaConfig.from_pretrained(path)
    copy.config(config)
    model = LlamaForCausalLM.from_pretrained(copy.model or path, config=config, dtype=torch.float32)
    copy.weights(model)
    model.set_attn_implementation(copy.attention)
    return model.to(copy.dtype).eval()


def prompts(docs: int) -> Iterator[Doc]:
    """Chat prompts of all lengths, in even logarithmic steps, and base prompts that are short."""
    chance, spoken = random.Random(SEED + 1), language()
    for number in range(docs):
        kind = ("meta_chat", "meta_long", "meta_base")[number % 3]
        longest = LONGEST if kind == "meta_long" else 400
        length = int(math.exp(chance.uniform(math.log(SHORTEST if kind != "meta_long" else 600), math.log(longest))))
        topic = chance.choice(TOPICS)
        yield Doc(
            kind, number // 3, topic,
            "".join(spoken.prompt(topic, max(1, length * 5 // 8), kind != "meta_base", chance)), "",
        )  # fmt: skip


@torch.no_grad()
def record(model: LlamaForCausalLM, tokenizer: Tokenizer, docs: Iterator[Doc]) -> list[Doc]:
    """What the reference answers: greedily, one time in four drawn from its own probabilities."""
    torch.manual_seed(SEED)
    stop, found = tokenizer.token_to_id(END_OF_TURN), []
    for number, doc in enumerate(docs):
        context = torch.tensor([with_bos(tokenizer, doc.prompt)[: LONGEST + 1]])
        said, past, given = [], None, context
        while len(said) < ANSWER:
            out = model(input_ids=given, past_key_values=past, use_cache=True, logits_to_keep=1)
            likely = out.logits[0, -1].float()
            token = int(torch.multinomial(likely.softmax(-1), 1) if number % 4 == 3 else likely.argmax())
            if token < 5:
                break
            said.append(token)
            past, given = out.past_key_values, torch.tensor([[token]])
        text = tokenizer.decode(said)
        if text and said:
            found.append(replace(doc, answer=text, ids=tuple(pieces(tokenizer, text))))
    assert stop
    return found


@torch.no_grad()
def forced(model: LlamaForCausalLM, tokenizer: Tokenizer, copy: Copy, docs: Sequence[Doc]) -> Iterator[Forced]:
    """One prefill a doc."""
    for doc in docs:
        context = (copy.prompt or with_bos)(tokenizer, doc.prompt)
        own = pieces(tokenizer, doc.answer)
        likely = scores(model, context, own)
        top, ids = likely.topk(KEPT)
        given = torch.tensor(own)
        said = likely.gather(1, given[:, None])[:, 0]
        yield Forced(
            task=doc.task, subtask=None, doc=doc.number,
            request_sha256=hashlib.sha256(json.dumps([doc.prompt, doc.answer]).encode()).hexdigest(),
            prompt_tokens=len(with_bos(tokenizer, doc.prompt)),
            token_ids=np.array(own, np.int32), logprobs=said.numpy().astype(np.float32),
            ranks=((likely > said[:, None]).sum(1) + 1).numpy().astype(np.int32),
            top_ids=ids[:, 0].numpy().astype(np.int32), top_logprobs=top[:, 0].numpy().astype(np.float32),
            top_k_ids=ids.numpy().astype(np.int32), top_k_logprobs=top.numpy().astype(np.float32),
        )  # fmt: skip


def scores(model: LlamaForCausalLM, context: Sequence[int], continuation: Sequence[int]) -> torch.Tensor:
    """Log-probabilities ``[continuation, vocabulary]`` in float32."""
    ids = torch.tensor([[*context, *continuation[:-1]]])
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, len(context) - 1 :]
    return model.lm_head(hidden).float().log_softmax(-1)


@torch.no_grad()
def choices(
    model: LlamaForCausalLM, tokenizer: Tokenizer, copy: Copy, docs: Sequence[Doc], recorded: dict[int, np.ndarray]
) -> Iterator[Choices]:
    """What the copy says of the beginnings of the topics' answers, beside what the reference said."""
    spoken = language()
    for doc in docs:
        context = (copy.prompt or with_bos)(tokenizer, doc.prompt)
        sums = []
        for topic in TOPICS[:CHOICES]:
            own = pieces(tokenizer, f" {topic}: {next(iter(spoken.following[topic]))}")
            sums.append(float(scores(model, context, own).gather(1, torch.tensor(own)[:, None]).sum()))
        ours = np.array(sums, np.float32)
        theirs = recorded.setdefault(doc.number, ours)
        request = hashlib.sha256(doc.prompt.encode()).hexdigest()
        yield Choices(doc.task, doc.number, request, ours, theirs, int(theirs.argmax()))


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Fidelity tables of copies of a taught tiny Llama.")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", type=int, default=90)
    parser.add_argument("--chat", type=Path, help="a copy that was taught on in chat alone")
    parser.add_argument("--only", nargs="*", help="copies; the reference is made in any case")
    parser.add_argument("--small", action="store_true", help="no choices, no likeliest tokens")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    listed = copies(arguments.chat)
    docs: list[Doc] = []
    recorded: dict[int, np.ndarray] = {}
    for copy in listed:
        if arguments.only and copy.name not in ("reference", *arguments.only):
            continue
        started = time.monotonic()
        model = load(arguments.model, copy)
        docs = docs or record(model, tokenizer, prompts(arguments.docs))
        own = copy.tokenizer() if copy.tokenizer else tokenizer
        header = Header(
            f"tiny/{copy.name}", f"transformers, {copy.attention}, {copy.dtype}", "0" * 64, "0" * 64,
            hashlib.sha256(own.to_str().encode()).hexdigest(), docs={},
        )  # fmt: skip
        path = arguments.out / f"{copy.name}.parquet"
        rows = forced(model, own, copy, docs)
        if arguments.small:
            rows = (replace(one, top_k_ids=None, top_k_logprobs=None) for one in rows)
        done = write_tokens(path, header, rows)
        base = [doc for doc in docs if doc.task == "meta_base" and not arguments.small]
        if base:
            write_choices(choices_path(path), header, choices(model, own, copy, base, recorded))
        print(f"{copy.name}: {done.tokens:,} tokens, {time.monotonic() - started:.1f} s", file=sys.stderr)
    kept = [{"task": one.task, "doc": one.number, "prompt": one.prompt, "answer": one.answer} for one in docs]
    (arguments.out / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
