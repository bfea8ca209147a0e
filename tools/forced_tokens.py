"""Make fidelity tables of a taught tiny Llama and of copies with a single fault each.

    python tools/forced_tokens.py MODEL OUT [--docs N] [--longest N] [--chat CHAT_MODEL] [--only NAME…] [--float32]
        [--small]

MODEL comes from taught_llama.py. CHAT_MODEL is a copy that was trained further on chat only. First the model answers
prompts of its own language in bfloat16, mostly greedily. These are the recorded answers. Then transformers computes
their log-probabilities for every copy, a prefill per doc. ``OUT/NAME.parquet`` has the result. The probes of fidelity
and the choices of the base prompts are beside it. ``--small`` leaves out choices and likeliest tokens, and writes fewer
digits (tests/data/fidelity is made so, with ``--docs 48``). Needs torch and transformers, which meta-eval does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from taught_llama import ASSISTANT, TOPICS, USER, language
from tiny_llama import BOS, END_OF_TURN, SEED, build_tokenizer, word_list
from tokenizers import Tokenizer
from transformers import AttentionInterface, LlamaForCausalLM

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.client import Client
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.doctor.known_answers import make_settings
from meta_eval.harness.answer import Answer
from meta_eval.harness.token_logprobs import TokenLogprobs
from meta_eval.judge.token_table import Choices, Forced, Header, find_choices_path, write_choices, write_tokens
from meta_eval.plugins.tokens.forced_requests import ProbeRequests, choose_probed_docs
from meta_eval.plugins.tokens.probe_table import Probed, find_probes_path, write_probes

ANSWER = 48  # maximum number of tokens
LONGEST = 9_500  # tokens of a prompt
SHORTEST = 30
CHOICES = 4
KEPT = 8  # likeliest tokens per position
DIGITS = 4  # digits of log-probabilities in small tables
LONGER = 37  # tokens by which the others of a batch are longer
WINDOW = 2_048  # context of the copy that cuts it


@dataclass(frozen=True, slots=True)
class Doc:
    """A prompt with the reference's answer."""

    task: str
    number: int
    topic: str
    prompt: str
    answer: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """A way to serve the model: changes of its weights, its settings, and the token ids that it receives."""

    name: str
    weights: Callable[[LlamaForCausalLM], None] = lambda _: None
    config: Callable[[Any], None] = lambda _: None
    fed: Callable[[Tokenizer, list[int]], list[int]] = lambda _, ids: ids
    attention: str = "sdpa"
    dtype: torch.dtype = torch.bfloat16
    tokenizer: Callable[[], Tokenizer] | None = None
    model: Path | None = None
    batch: int = 1


def pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def with_bos(tokenizer: Tokenizer, text: str) -> list[int]:
    return [tokenizer.token_to_id(BOS), *pieces(tokenizer, text)]


# Changes of weights


def each_matrix(change: Callable[[torch.Tensor], torch.Tensor], layers: Sequence[int] = (0, 1)) -> Callable[..., None]:
    def apply(model: LlamaForCausalLM) -> None:
        for number in layers:
            for name, weight in model.model.layers[number].named_parameters():
                if weight.dim() == 2 and "norm" not in name:
                    weight.copy_(change(weight))

    return torch.no_grad()(apply)


def rounded(bits: int, group: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Symmetric round-to-nearest, with a scale for each group of inputs of an output."""

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
    """A layer whose output projection has the shards of two GPUs in the wrong order."""
    weight = model.model.layers[1].self_attn.o_proj.weight
    half = weight.shape[1] // 2
    weight.copy_(torch.cat((weight[:, half:], weight[:, :half]), dim=1))


def of_projections(names: Sequence[str], change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., None]:
    """Change some projections of every layer, such as only queries and keys."""

    def apply(model: LlamaForCausalLM) -> None:
        for layer in model.model.layers:
            for name, weight in layer.named_parameters():
                if name.split(".")[-2] in names and weight.dim() == 2:
                    weight.copy_(change(weight))

    return torch.no_grad()(apply)


def halves_swapped(weight: torch.Tensor) -> torch.Tensor:
    """The outputs of a projection with the shards of two GPUs in the wrong order."""
    half = weight.shape[0] // 2
    return torch.cat((weight[half:], weight[:half]), dim=0)


def low_rank(weight: torch.Tensor) -> torch.Tensor:
    """A weight after training with an adapter of rank 2."""
    chance = torch.Generator().manual_seed(SEED)
    left, right = (torch.randn(shape, generator=chance) for shape in ((weight.shape[0], 2), (2, weight.shape[1])))
    change = left @ right
    return weight + 0.1 * weight.norm() * change / change.norm()


@torch.no_grad()
def louder(model: LlamaForCausalLM) -> None:
    """Logits times 1.15: a forgotten or doubled scale."""
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone() * 1.15)


@torch.no_grad()
def without_a_layer(model: LlamaForCausalLM) -> None:
    """The second half of the last layer has no effect."""
    model.model.layers[-1].mlp.down_proj.weight.zero_()


# Changes of the context


def stripped(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    return ids[1:] if len(ids) > 1 and ids[0] == tokenizer.token_to_id(BOS) else ids


def cut(_: Tokenizer, ids: list[int]) -> list[int]:
    return ids[-WINDOW:]


def as_text(change: Callable[[Tokenizer, str], list[int]]) -> Callable[[Tokenizer, list[int]], list[int]]:
    """An engine that converts token ids to text, except a BOS at their start."""

    def feed(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
        bare = stripped(tokenizer, ids)
        return [*ids[: len(ids) - len(bare)], *change(tokenizer, tokenizer.decode(bare, skip_special_tokens=False))]

    return feed


def untold(tokenizer: Tokenizer, text: str) -> list[int]:
    """Leave out the chat headers."""
    return pieces(tokenizer, text.replace(USER, "").replace(ASSISTANT, "").replace(END_OF_TURN, "\n"))


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """Read special tokens as the text that they look like."""
    return Encoder(tokenizer, needs_bos=False).encode_spelled(text)


def told_twice(tokenizer: Tokenizer, text: str) -> list[int]:
    """A server that applies its chat template to a prompt that already has it."""
    return pieces(tokenizer, f"{USER}{text}{END_OF_TURN}{ASSISTANT}")


def rope(**other: Any) -> Callable[[Any], None]:
    def change(config: Any) -> None:
        config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"], **other}

    return change


def quantised_cache(bits: int) -> str:
    """Attention over keys and values in ``bits`` bits, with a scale for each head and token."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    name = f"sdpa_kv{bits}"

    def rounded_to(x: torch.Tensor) -> torch.Tensor:
        scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-9) / (2 ** (bits - 1) - 1)
        return ((x.float() / scale).round() * scale).to(x.dtype)

    def attend(module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> Any:
        return sdpa_attention_forward(module, query, rounded_to(key), rounded_to(value), *rest, **more)

    AttentionInterface.register(name, attend)
    return name


def rescaled_attention(factor: float) -> str:
    """Attention with scores times ``factor``."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    name = f"sdpa_times{factor:g}"

    def attend(module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> Any:
        return sdpa_attention_forward(module, query * factor, key, value, *rest, **more)

    AttentionInterface.register(name, attend)
    return name


def sliding_attention(width: int) -> str:
    """Attention that sees only ``width`` tokens back."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    name = f"sdpa_window{width}"

    def attend(module: Any, query: Any, key: Any, value: Any, _mask: Any, *rest: Any, **more: Any) -> Any:
        size = query.shape[2]
        seen = torch.ones(size, size, dtype=torch.bool).tril().triu(1 - width)[None, None]
        return sdpa_attention_forward(module, query, key, value, seen, *rest, **{**more, "is_causal": False})

    AttentionInterface.register(name, attend)
    return name


def set_config(**values: Any) -> Callable[[Any], None]:
    def change(config: Any) -> None:
        for name, value in values.items():
            setattr(config, name, value)

    return change


def other_words() -> Tokenizer:
    """A tokenizer of the same kind with merges from half of the list: other ids for the same text."""
    return build_tokenizer(word_list()[::2])


def unnamed() -> list[Copy]:
    """Faults without a signature, and scaled logits, for the model that meta-eval ships."""
    return [
        Copy("qk_int4", weights=of_projections(("q_proj", "k_proj"), rounded(3, 32))),
        Copy("qk_shards", weights=of_projections(("k_proj",), halves_swapped)),
        Copy("attention_scale", attention=rescaled_attention(1.4)),
        Copy("window", attention=sliding_attention(512)),
        Copy("window64", attention=sliding_attention(64)),
        Copy("logit_scale", weights=louder),
        Copy("gelu", config=set_config(hidden_act="gelu")),
        Copy("norm_eps", config=set_config(rms_norm_eps=0.1)),
        Copy("half_layer", weights=without_a_layer),
        Copy("adapter", weights=each_matrix(low_rank)),
        Copy("v_int3", weights=of_projections(("v_proj",), rounded(3, 32))),
        Copy("rope_linear", config=rope(rope_type="linear", factor=2.0)),
    ]


def copies(chat: Path | None) -> list[Copy]:
    """All copies. The first is the reference."""
    result = [
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
        Copy("no_bos", fed=stripped),
        Copy("two_bos", fed=lambda tokenizer, ids: [tokenizer.token_to_id(BOS), *ids]),
        Copy("no_template", fed=as_text(untold)),
        Copy("spelled_template", fed=as_text(spelled)),
        Copy("template_twice", fed=as_text(told_twice)),
        Copy("truncated", fed=cut),
        Copy("rope_off", config=rope()),
        Copy("rope_theta", config=rope(rope_theta=10_000.0)),
        Copy("shards", weights=heads_swapped),
        Copy("other_tokenizer", tokenizer=other_words),
    ]
    return [*result, *unnamed(), *([Copy("chat_model", model=chat)] if chat else [])]


def load(path: Path, copy: Copy) -> LlamaForCausalLM:
    from transformers import LlamaConfig

    config = LlamaConfig.from_pretrained(path)
    copy.config(config)
    model = LlamaForCausalLM.from_pretrained(copy.model or path, config=config, dtype=torch.float32)
    copy.weights(model)
    model.set_attn_implementation(copy.attention)
    return model.to(copy.dtype).eval()


def prompts(docs: int, most: int = LONGEST) -> Iterator[Doc]:
    """Chat prompts of all lengths, in even logarithmic steps, and short base prompts."""
    chance, spoken = random.Random(SEED + 1), language()
    for number in range(docs):
        kind = ("meta_chat", "meta_long", "meta_base")[number % 3]
        longest = most if kind == "meta_long" else 400
        length = int(math.exp(chance.uniform(math.log(SHORTEST if kind != "meta_long" else 600), math.log(longest))))
        topic = chance.choice(TOPICS)
        yield Doc(
            kind, number // 3, topic,
            "".join(spoken.prompt(topic, max(1, length * 5 // 8), kind != "meta_base", chance)), "",
        )  # fmt: skip


@torch.no_grad()
def record(model: LlamaForCausalLM, tokenizer: Tokenizer, docs: Iterator[Doc]) -> list[Doc]:
    """The reference's answers: three in four greedy, the others sampled from its own probabilities."""
    torch.manual_seed(SEED)
    stop, result = tokenizer.token_to_id(END_OF_TURN), []
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
            result.append(replace(doc, answer=text, ids=tuple(pieces(tokenizer, text))))
    assert stop
    return result


class CopyClient(Client):
    """A copy with the interface of fidelity's engines."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: Tokenizer, copy: Copy) -> None:
        super().__init__(make_settings(EngineOptions()), model=copy.name, logs=Path())
        self._llama, self._tokenizer, self._copy = model, tokenizer, copy

    @property
    def engine(self) -> str:
        return f"transformers, {self._copy.attention}, {self._copy.dtype}"

    @torch.no_grad()
    def answer(self, asks: Iterable[Request]) -> Iterator[Answer]:
        for ask in asks:
            own = list(ask.forced_ids)
            context = self._copy.fed(self._tokenizer, list(ask.prompt_ids or ()))
            likely = scores(self._llama, context, own, self._copy.batch)
            top, ids = likely.topk(KEPT)
            said = likely.gather(1, torch.tensor(own)[:, None])
            ranks = (likely > said).sum(1) + 1
            yield ask.answer(
                prompt_tokens=len(ask.prompt_ids or ()),
                tokens=TokenLogprobs(
                    own, said[:, 0].tolist(), ranks.tolist(), ids[:, 0].tolist(), top[:, 0].tolist(), ids.tolist(),
                    top.tolist(),
                ),
            )  # fmt: skip


def request(doc: Doc) -> Request:
    return Request(
        f"{doc.task}/{doc.number}", doc.task, doc.number, 0, "force", doc.prompt, continuations=(doc.answer,)
    )


def forced(client: CopyClient, encoder: Encoder, docs: Sequence[Doc]) -> Iterator[Forced]:
    """Compute a prefill per doc."""
    for said in client.answer(encode_requests(map(request, docs), encoder)):
        tokens = said.tokens
        assert tokens is not None
        yield Forced(
            said.task, None, said.doc, said.request_sha256 or "", said.prompt_tokens or 0,
            np.array(tokens.ids, np.int32), np.array(tokens.logprobs, np.float32), np.array(tokens.ranks, np.int32),
            np.array(tokens.top_ids, np.int32), np.array(tokens.top_logprobs, np.float32),
            np.array(tokens.top_k_ids, np.int32), np.array(tokens.top_k_logprobs, np.float32),
        )  # fmt: skip


def probed(client: CopyClient, encoder: Encoder, docs: Sequence[Doc]) -> Iterator[Probed]:
    """The probes of fidelity."""
    by_doc = {(doc.task, doc.number): doc for doc in docs}
    lengths: dict[str, dict[int, int]] = {}
    for doc in docs:
        lengths.setdefault(doc.task, {})[doc.number] = len(doc.prompt)
    probed_docs = choose_probed_docs(lengths).items()
    requests = [request(by_doc[task, number]) for task, numbers in probed_docs for number in numbers]
    given, probing = Answers(), ProbeRequests(requests)
    asks = [*encode_requests(requests, encoder), *probing.build_requests(encoder)]
    for said in client.answer(asks):
        given.by_key[said.key] = said
    return probing.build_table(given)


def shortened(table_row: Probed) -> Probed:
    """Keep only the digits that tests need. It halves the file."""
    return replace(
        table_row, logprobs=table_row.logprobs.round(DIGITS), top_logprobs=table_row.top_logprobs.round(DIGITS)
    )


def scores(
    model: LlamaForCausalLM, context: Sequence[int], continuation: Sequence[int], batch: int = 1
) -> torch.Tensor:
    """Log-probabilities ``[continuation, vocabulary]`` in float32. The others of a batch are longer: it reversed."""
    own = [*context, *continuation[:-1]]
    padded = [*own, *[0] * (LONGER if batch > 1 else 0)]
    ids = torch.tensor([padded, *([padded[::-1]] * (batch - 1))])
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, len(context) - 1 : len(own)]
    return model.lm_head(hidden).float().log_softmax(-1)


@torch.no_grad()
def choices(
    model: LlamaForCausalLM, tokenizer: Tokenizer, copy: Copy, docs: Sequence[Doc], recorded: dict[int, np.ndarray]
) -> Iterator[Choices]:
    """The copy's and the reference's log-likelihoods of the beginnings of the topics' answers."""
    spoken = language()
    for doc in docs:
        context = copy.fed(tokenizer, with_bos(tokenizer, doc.prompt))
        sums = []
        for topic in TOPICS[:CHOICES]:
            own = pieces(tokenizer, f" {topic}: {next(iter(spoken.following[topic]))}")
            sums.append(float(scores(model, context, own).gather(1, torch.tensor(own)[:, None]).sum()))
        ours = np.array(sums, np.float32)
        theirs = recorded.setdefault(doc.number, ours)
        request = hashlib.sha256(doc.prompt.encode()).hexdigest()
        yield Choices(doc.task, doc.number, request, ours, theirs, int(theirs.argmax()))


def write_copy(
    out: Path, copy: Copy, model: LlamaForCausalLM, tokenizer: Tokenizer, docs: Sequence[Doc], name: str,
    *, small: bool = False, probes: bool = True,
) -> Header:  # fmt: skip
    """Write the table of a copy, and its probes beside it."""
    started = time.monotonic()
    header = Header(
        name, f"transformers, {copy.attention}, {copy.dtype}", "0" * 64, "0" * 64,
        hashlib.sha256(tokenizer.to_str().encode()).hexdigest(), docs={},
    )  # fmt: skip
    path = out / f"{copy.name}.parquet"
    client, encoder = CopyClient(model, tokenizer, copy), Encoder(tokenizer, needs_bos=False)
    rows = forced(client, encoder, docs)
    if small:
        rows = (
            replace(row, top_k_ids=None, top_k_logprobs=None, logprobs=row.logprobs.round(DIGITS),
                    top_logprobs=row.top_logprobs.round(DIGITS))
            for row in rows
        )  # fmt: skip
    done = write_tokens(path, header, rows)
    if probes:
        made = probed(client, encoder, docs)
        write_probes(find_probes_path(path), header, map(shortened, made) if small else made)
    print(f"{copy.name}: {done.tokens:,} tokens, {time.monotonic() - started:.1f} s", file=sys.stderr)
    return header


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Fidelity tables of copies of a taught tiny Llama.")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", type=int, default=90)
    parser.add_argument("--longest", type=int, default=LONGEST, help="tokens of the longest prompt, roughly")
    parser.add_argument("--chat", type=Path, help="a copy that was taught on in chat alone")
    parser.add_argument("--only", nargs="*", help="copies; the reference is made in any case")
    parser.add_argument("--float32", action="store_true", help="every copy in float32, which a CPU is faster at")
    parser.add_argument("--small", action="store_true", help="no choices, no likeliest tokens")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    listed = copies(arguments.chat)
    if arguments.float32:
        listed = [replace(name, dtype=torch.float32) for name in listed]
    docs: list[Doc] = []
    recorded: dict[int, np.ndarray] = {}
    for copy in listed:
        if arguments.only and copy.name not in ("reference", *arguments.only):
            continue
        model = load(arguments.model, copy)
        docs = docs or record(model, tokenizer, prompts(arguments.docs, arguments.longest))
        own = copy.tokenizer() if copy.tokenizer else tokenizer
        header = write_copy(arguments.out, copy, model, own, docs, f"tiny/{copy.name}", small=arguments.small)
        base = [doc for doc in docs if doc.task == "meta_base" and not arguments.small]
        if base:
            path = find_choices_path(arguments.out / f"{copy.name}.parquet")
            write_choices(path, header, choices(model, own, copy, base, recorded))
    kept = [{"task": doc.task, "doc": doc.number, "prompt": doc.prompt, "answer": doc.answer} for doc in docs]
    (arguments.out / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
