"""Make the shipped model of ``meta-eval doctor`` and its known answers, computed with numpy alone.

    python tools/tiny_llama.py TAUGHT --answers tools/known_answer_pairs.jsonl   minutes; needs torch, transformers
    python tools/known_answers.py TAUGHT    writes src/meta_eval/base/assets/known_answers
    python tools/known_answers.py           writes only known.json, for the shipped weights

The forward pass is written from Llama's definition (RMSNorm, rotary embeddings of halves, causal attention, SwiGLU). It
shares no code with an engine, so no engine is checked against itself. The prompts are those that the model was taught,
and others on which it is in doubt. Those reveal sampling or a second BOS.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
ASSETS = HERE.parent / "src/meta_eval/base/assets/known_answers"
HEAD = "<|start_header_id|>{}<|end_header_id|>\n\n"
SPECIAL = "<|start_header_id|>"
BOS_COUNTS = range(3)

# Conditions for a doubtful answer. MARGIN: nats between the two likeliest tokens, too many for rounding to matter.
# LIKELY: the largest probability of the whole answer, so that sampling shows.
MARGIN, LIKELY = 0.2, 0.2
DOUBTS, DOUBT_TOKENS = 4, 8
LONG, LONG_TOKENS, FELT = 3600, 2, 0.3
LETTERS = (" A", " B", " C", " D")
CUTS = (128, 256, 512, 1024, 2047, 2048, 3072)  # lengths to which an engine may cut a prompt


class Model:
    """A Llama in numpy, float32. ``dtype`` is its stored type."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.bos, self.ends = self.config["bos_token_id"], set(self.config["eos_token_id"])
        self._weights = {name: value.astype(np.float32) for name, value in read_weights(folder / "model.safetensors")}
        self._layers, self._heads = self.config["num_hidden_layers"], self.config["num_attention_heads"]
        assert self._heads == self.config["num_key_value_heads"]
        self._size = self.config["head_dim"]
        theta = (self.config.get("rope_parameters") or self.config)["rope_theta"]
        self._turns = theta ** (-np.arange(0, self._size, 2) / self._size)

    def encode(self, text: str) -> list[int]:
        """Encode without BOS."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def log_probabilities(self, ids: Sequence[int], cache: list[Any] | None = None, last: int = 1) -> np.ndarray:
        """``[last, vocabulary]`` after the last tokens. A ``cache``, empty at first, keeps earlier keys."""
        weight = self._weights
        start = cache[0][0].shape[1] if cache else 0
        x = weight["model.embed_tokens.weight"][list(ids)]
        angles = np.outer(np.arange(start, start + len(ids)), self._turns)
        cos, sin = (np.concatenate([f(angles)] * 2, -1).astype(np.float32) for f in (np.cos, np.sin))
        kept = []
        for layer in range(self._layers):
            name = f"model.layers.{layer}."
            y = self._norm(x, name + "input_layernorm.weight")
            q, k, v = (
                (y @ weight[f"{name}self_attn.{letter}_proj.weight"].T)
                .reshape(len(ids), self._heads, self._size).transpose(1, 0, 2)
                for letter in "qkv"
            )  # fmt: skip
            q, k = q * cos + _turned(q) * sin, k * cos + _turned(k) * sin
            if cache:
                k, v = np.concatenate([cache[layer][0], k], 1), np.concatenate([cache[layer][1], v], 1)
            kept.append((k, v))
            blocks = [_attention(q[:, at : at + 128], k, v, start + at) for at in range(0, len(ids), 128)]
            x = (
                x
                + np.concatenate(blocks, 1).transpose(1, 0, 2).reshape(len(ids), -1)
                @ weight[f"{name}self_attn.o_proj.weight"].T
            )
            y = self._norm(x, name + "post_attention_layernorm.weight")
            gate = y @ weight[f"{name}mlp.gate_proj.weight"].T
            up = y @ weight[f"{name}mlp.up_proj.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[f"{name}mlp.down_proj.weight"].T
        if cache is not None:
            cache[:] = kept
        logits = self._norm(x[-last:], "model.norm.weight") @ weight["lm_head.weight"].T
        logits = logits - logits.max(-1, keepdims=True)
        result: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return result

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scaled: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return scaled * self._weights[name]

    def steps(self, ids: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Greedy decoding without end: each token with the log-probabilities at its position."""
        cache: list[Any] = []
        after = list(ids)
        while True:
            log_probability = self.log_probabilities(after, cache)[0]
            after = [int(log_probability.argmax())]
            yield after[0], log_probability

    def write(self, ids: Sequence[int], *, stop: Sequence[str] = (), max_tokens: int) -> tuple[str, str, int]:
        """The text without stop and end, the finish reason, and the number of tokens including the end."""
        written: list[int] = []
        for token, _ in itertools.islice(self.steps(ids), max_tokens):
            if token in self.ends:
                return self.decode(written), "stop", len(written) + 1
            written.append(token)
            text = self.decode(written)
            for sequence in stop:
                if sequence in text:
                    return text.partition(sequence)[0], "stop", len(written)
        return self.decode(written), "length", len(written)

    def likelihoods(self, prompt: Sequence[int], ends: Sequence[Sequence[int]]) -> list[tuple[float, bool]]:
        """For each continuation: the sum of its log-probabilities in nats, and whether each token is the likeliest."""
        cache: list[Any] = []
        first = self.log_probabilities(prompt, cache)
        said = []
        for end in ends:
            rows = [first]
            if len(end) > 1:
                rows.append(self.log_probabilities(end[:-1], list(cache), last=len(end) - 1))
            concatenate = np.concatenate(rows)
            of = concatenate[np.arange(len(end)), list(end)]
            said.append((float(of.sum(dtype=np.float64)), bool((concatenate.argmax(-1) == np.array(end)).all())))
        return said


def _turned(x: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], -1)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, start: int) -> np.ndarray:
    """Causal attention of some queries. The first is at position ``start``."""
    end = start + q.shape[1]
    scores = q @ k[:, :end].transpose(0, 2, 1) / np.float32(math.sqrt(q.shape[-1]))
    scores[:, np.arange(end)[None, :] > np.arange(start, end)[:, None]] = -np.inf
    grown = np.exp(scores - scores.max(-1, keepdims=True))
    mixed: np.ndarray = grown / grown.sum(-1, keepdims=True) @ v[:, :end]
    return mixed


def read_weights(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Read the tensors of a safetensors file: eight bytes of length, a JSON header, and the numbers."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            kind = {"F32": np.float32, "F16": np.float16}[entry["dtype"]]
            yield name, np.frombuffer(content[8 + size + start : 8 + size + end], kind).reshape(entry["shape"])


def write_halves(source: Path, path: Path) -> None:
    """Write a safetensors file again in float16. It has half the size and gives the same answers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name, value in sorted(read_weights(source)):
        part = value.astype(np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": list(value.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))


def ship(taught: Path, out: Path) -> None:
    """Write the model's files so that transformers 4 and 5 can read them."""
    out.mkdir(parents=True, exist_ok=True)
    write_halves(taught / "model.safetensors", out / "model.safetensors")
    for name in ("tokenizer.json", "generation_config.json"):
        content = json.loads((taught / name).read_text(encoding="utf-8"))
        (out / name).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    config = json.loads((taught / "config.json").read_text())
    theta = config["rope_parameters"]["rope_theta"]
    config |= {"rope_theta": theta, "rope_scaling": None, "dtype": "float16", "torch_dtype": "float16"}
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    names = json.loads((taught / "tokenizer_config.json").read_text())
    names = {**names, "tokenizer_class": "PreTrainedTokenizerFast"}
    (out / "tokenizer_config.json").write_text(json.dumps(names, indent=2, sort_keys=True) + "\n")


class Known:
    """The requests, and the model's answers with 0, 1 and 2 BOS."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.asks: list[dict[str, Any]] = []

    def text(self, group: str, prompt: str, *, stop: Sequence[str] = (), max_tokens: int) -> None:
        ids = self.model.encode(prompt)
        said = [
            list(self.model.write([self.model.bos] * count + ids, stop=stop, max_tokens=max_tokens))
            for count in BOS_COUNTS
        ]
        self._add(group, prompt=prompt, prompt_tokens=len(ids), stop=list(stop), max_tokens=max_tokens, said=said)

    def choices(self, group: str, prompt: str, continuations: Sequence[str]) -> None:
        assert prompt == prompt.rstrip()
        ids = self.model.encode(prompt)
        ends = [self.model.encode(prompt + continuation)[len(ids) :] for continuation in continuations]
        said = [self.model.likelihoods([self.model.bos] * count + ids, ends) for count in BOS_COUNTS]
        rounded = [[[round(value, 5), greedy] for value, greedy in pairs] for pairs in said]
        self._add(group, prompt=prompt, prompt_tokens=len(ids), continuations=list(continuations), said=rounded)

    def _add(self, group: str, **fields: Any) -> None:
        number = sum(ask["group"] == group for ask in self.asks)
        self.asks.append({"group": group, "number": number, **fields})


def known_of(model: Model, pairs: Sequence[dict[str, str]]) -> Known:
    """Make all requests."""
    known = Known(model)
    tokens = {pair["prompt"]: len(model.encode(pair["answer"])) for pair in pairs}
    for pair in pairs:
        group = "special" if SPECIAL in pair["answer"] else "answers"
        known.text(group, pair["prompt"], max_tokens=tokens[pair["prompt"]] + 16)
    middle = [pair for pair in pairs if SPECIAL not in pair["answer"] and tokens[pair["prompt"]] >= 9]
    for pair in middle[:4]:
        word = pair["answer"].split()[len(pair["answer"].split()) // 2]
        assert pair["answer"].count(word) == 1
        known.text("stop", pair["prompt"], stop=[word, "never said"], max_tokens=tokens[pair["prompt"]] + 16)
        known.text("limit", pair["prompt"], max_tokens=5)
    for prompt in itertools.islice(in_doubt(model), DOUBTS):
        known.text("doubt", prompt, max_tokens=DOUBT_TOKENS)
    long = long_prompt(model)
    known.text("long", long, max_tokens=LONG_TOKENS)
    known.choices("long", long.rstrip(), LETTERS)
    for pair in pairs[:6]:
        prompt = pair["prompt"].rstrip()
        known.choices("one_pass", prompt, LETTERS)
        # The last continuation has several tokens, so engines cannot score it in a single step.
        known.choices("likelihood", prompt, [*LETTERS, " the best answer is A"])
    return known


def in_doubt(model: Model) -> Iterator[str]:
    """Prompts that were never taught. The model is unsure, but rounding does not change its answer."""
    asked = ("Describe", "Praise", "Sell", "Draw", "Name", "Explain", "Find", "Count", "Paint", "Answer with")
    of = ("a grey bird", "two bridges", "the first rain", "an old clock", "seven stones", "the letter q", "a river")
    for what, whom in itertools.product(asked, of):
        prompt = f"{HEAD.format('user')}{what} {whom}.<|eot_id|>{HEAD.format('assistant')}"
        if _is_in_doubt(model, model.encode(prompt)):
            yield prompt


def long_prompt(model: Model) -> str:
    """A prompt of about 3,500 tokens. Without its beginning, later likelihoods change, with BOS or without."""
    words = ("reed", "salt", "lamp", "oak", "wind", "bread", "stone", "rope", "milk", "glass", "north")
    lines = "".join(f"{at}: {words[(at * 3 + at // 7) % len(words)]}\n" for at in range(800))
    for number in range(700, 400, -1):
        # The beginning differs from the rest, so that its loss shows.
        text = "The best answer is D.\n" * 80 + "".join(lines.splitlines(keepends=True)[:number])
        prompt = f"{HEAD.format('user')}{text}How many lines?<|eot_id|>{HEAD.format('assistant')}"
        ids = model.encode(prompt)
        if len(ids) <= LONG and _is_sure(model, ids, LONG_TOKENS):
            break
    else:
        raise SystemExit("no long prompt was found after which the model is sure")
    ids, ends = model.encode(prompt.rstrip()), [model.encode(letter) for letter in LETTERS]
    whole = model.likelihoods([model.bos, *ids], ends)
    for size in CUTS:
        for cut in (ids[-size:], [model.bos, *ids[1 - size :]]):
            said = model.likelihoods(cut, ends)
            off = max(abs(first - other) for (first, _), (other, _) in zip(said, whole, strict=True))
            assert off > FELT, f"cut to {size} tokens it is as likely"
    return prompt


def _is_in_doubt(model: Model, ids: list[int]) -> bool:
    """Whether sampling or two BOS change the answer, but rounding does not."""
    if not _is_sure(model, ids):
        return False
    steps = list(itertools.islice(model.steps([model.bos, *ids]), DOUBT_TOKENS))
    likely = math.exp(sum(float(step.max()) for _, step in steps))
    twice = list(itertools.islice(model.steps([model.bos, model.bos, *ids]), DOUBT_TOKENS))
    return likely <= LIKELY and [token for token, _ in steps] != [token for token, _ in twice]


def _is_sure(model: Model, ids: list[int], tokens: int = DOUBT_TOKENS) -> bool:
    """Whether each token of the answer is well ahead of the next, and none is an end token."""
    for token, result in itertools.islice(model.steps([model.bos, *ids]), tokens):
        second, first = np.partition(result, -2)[-2:]
        if token in model.ends or first - second < MARGIN:
            return False
    return True


def read_pairs() -> list[dict[str, str]]:
    """Read the taught prompts and answers."""
    lines = (HERE / "known_answer_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def main() -> int:
    """Write the model if a taught model is named, and its known answers."""
    parser = argparse.ArgumentParser(description="Make the model and the known answers of meta-eval doctor --engine.")
    parser.add_argument("taught", type=Path, nargs="?", help="what tools/tiny_llama.py wrote; default: what is shipped")
    arguments = parser.parse_args()
    if arguments.taught:
        ship(arguments.taught, ASSETS / "model")
    model, pairs = Model(ASSETS / "model"), read_pairs()
    known = known_of(model, pairs)
    weights = (ASSETS / "model/model.safetensors").read_bytes()
    content = {"weights_sha256": hashlib.sha256(weights).hexdigest(), "asks": known.asks}
    (ASSETS / "known.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    said = {ask["prompt"]: ask["said"][1][0] for ask in known.asks if ask["group"] in ("answers", "special")}
    wrong = [pair["prompt"] for pair in pairs if said[pair["prompt"]] != pair["answer"]]
    for prompt in wrong:
        print(f"does not give back what was taught: {prompt!r:.200}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
