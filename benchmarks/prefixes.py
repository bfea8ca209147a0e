"""Few-shot prompts on the real engine: what their order saves, and what it saves that continuations read the cache.

    PYTHONPATH=src VENV/bin/python benchmarks/prefixes.py            all
    PYTHONPATH=src VENV/bin/python benchmarks/prefixes.py tight      some: ample, tight, endings, letters

VENV is a virtual environment with vLLM, lm-eval and what meta-eval imports, such as `.ci/engine-venv` makes. The
prompts are shaped as MMLU-Pro's: 168 questions of 14 subjects in mixed order, each behind the shots of its subject
(1,000 tokens), with answers of 8 tokens. The backend vllm of `meta-eval run` is asked in the order of the rows and in
that of run, in turn and with an empty cache each time; once with a cache that holds all beginnings, and once with one
that holds a few prompts. ``endings`` is 56 questions with four endings of about 30 tokens each, whose log-likelihoods
are asked for with contexts from the cache, and as vLLM does it by itself. ``letters`` is 56 questions with four
letters, asked for a likelihood each as stock lm_eval does, for one of the four tokens as it does of ``choice_scoring:
next_token``, and for the log-probabilities of the four as run does. The model is doctor's.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer
from verify_full_size import prose

from meta_eval.ask.pending_requests import Beginnings
from meta_eval.ask.request import Request
from meta_eval.harness.settings import RunSettings
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient

MODEL = Path(__file__).resolve().parents[1] / "src/meta_eval/base/assets/known_answers/model"
SUBJECTS, QUESTIONS, TIMES = 14, 168, 3
# Blocks of 128 tokens; a prompt takes nine, 14 beginnings 112.
CACHES = {"ample": 400, "tight": 48, "endings": 400, "letters": 400}


def asks() -> list[Request]:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    chance = random.Random(0)
    shots = [prose(chance, 3000) for _ in range(SUBJECTS)]
    result = []
    for doc in range(QUESTIONS):
        prompt = f"{chance.choice(shots)}\nQuestion {doc}: {prose(chance, 200)}?\nAnswer:"
        request = Request(f"some/{doc}", "some", doc, 0, "generate", prompt, max_tokens=8)
        result.append(replace(request, prompt_ids=tokenizer.encode(prompt).ids))
    return result


def questions(choices: Callable[[random.Random], Sequence[str]]) -> list[Request]:
    """Four questions of each subject, and what may follow them."""
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    chance = random.Random(0)
    shots = [prose(chance, 3000) for _ in range(SUBJECTS)]
    result = []
    for doc in range(SUBJECTS * 4):
        prompt = f"{shots[doc // 4]}\nQuestion {doc}: {prose(chance, 200)}?\nAnswer:"
        texts = tuple(choices(chance))
        request = Request(f"some/{doc}", "some", doc, 0, "choices", prompt, continuations=texts)
        ids = tokenizer.encode(prompt).ids
        endings = [tokenizer.encode(prompt + text).ids[len(ids) :] for text in texts]
        result.append(replace(request, prompt_ids=ids, continuation_ids=endings))
    return result


def measure_letters(client: VllmClient) -> None:
    """The three ways in turn: seconds, and whether they choose alike."""
    asked, reading = questions(lambda _: [f" {letter}" for letter in "ABCD"]), client._reading_cache
    ids = [continuation_id[0] for continuation_id in asked[0].continuation_ids or ()]
    settings = {"allowed_token_ids": ids, "logit_bias": {token: -1e-5 * place for place, token in enumerate(ids)}}
    one_of_four = [
        replace(ask, kind="generate", max_tokens=1, settings=settings, continuation_ids=None) for ask in asked
    ]
    ways = {"a likelihood each": asked, "one of the four": one_of_four, "log-probabilities of the four": asked}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    chosen: dict[str, dict[str, int]] = {}
    for _ in range(TIMES):
        for name, some in ways.items():
            client._llm.reset_prefix_cache()
            each = name == "a likelihood each"
            client._can_ask_ids, client._reading_cache = not each, {} if each else reading
            started = time.perf_counter()
            said = list(client.answer(some))
            seconds[name].append(time.perf_counter() - started)
            chosen[name] = {
                response.id: _best(response.choices)
                if response.text is None
                else ids.index((response.token_ids or ())[0])
                for response in said
            }
    first = chosen["a likelihood each"]
    for name, result in chosen.items():
        sys.stdout.write(
            f"letters: {name}: {statistics.median(seconds[name]):.1f} s, the same choice on "
            f"{sum(result[doc] == first[doc] for doc in first)} of {len(first)}\n"
        )


def measure_endings(client: VllmClient) -> None:
    """Both ways in turn: seconds, and how far apart they are."""
    asked = questions(lambda chance: [f" {prose(chance, 100)}" for _ in range(4)])
    reading = client._reading_cache
    seconds: dict[str, list[float]] = {"computed whole": [], "contexts from the cache": []}
    result: dict[str, dict[str, Sequence[tuple[float, bool | None]]]] = {}
    for _ in range(TIMES):
        for name, parameters in zip(seconds, ({}, reading), strict=True):
            client._llm.reset_prefix_cache()
            client._reading_cache = parameters
            started = time.perf_counter()
            result[name] = {response.id: response.choices for response in client.answer(asked)}
            seconds[name].append(time.perf_counter() - started)
    whole, cached = result.values()
    apart = max(abs(a - b) for doc in whole for (a, _), (b, _) in zip(whole[doc], cached[doc], strict=True))
    same = sum(_best(whole[doc]) == _best(cached[doc]) for doc in whole)
    said = ", ".join(f"{name} {statistics.median(response):.1f} s" for name, response in seconds.items())
    sys.stdout.write(f"endings: {said}; at most {apart:.1e} nats apart, the same choice on {same} of {len(whole)}\n")


def _best(choices: Sequence[tuple[float, bool | None]]) -> int:
    return max(range(len(choices)), key=lambda place: choices[place][0])


def measure(client: VllmClient, some: Sequence[Request]) -> tuple[float, int, int]:
    """Seconds, tokens from the cache, and tokens of all prompts."""
    client._llm.reset_prefix_cache()
    started = time.perf_counter()
    said = list(client.answer(some))
    seconds = time.perf_counter() - started
    return (
        seconds,
        sum(response.cached_tokens or 0 for response in said),
        sum(response.prompt_tokens or 0 for response in said),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("caches", nargs="*", choices=[*CACHES, []], default=[], metavar="|".join(CACHES))
    arguments = parser.parse_args()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    rows = asks()
    beginnings = Beginnings()
    for ask in rows:
        beginnings.add(ask.doc, ask.prompt)
    orders = {"of the rows": rows, "run's": [rows[doc] for doc in beginnings.order()]}
    for cache in arguments.caches or CACHES:
        model_args = {"enforce_eager": True, "num_gpu_blocks_override": CACHES[cache]}
        settings = RunSettings(
            model_name=str(MODEL), tasks=("some",), include_path="none", dtype="float32", max_model_len=2048,
            gpu_memory_utilization=0.3, model_args=model_args,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as logs, VllmClient(settings, model=str(MODEL), logs=Path(logs)) as client:
            if cache == "endings":
                measure_endings(client)
                continue
            if cache == "letters":
                measure_letters(client)
                continue
            result = {name: [] for name in orders}  # type: dict[str, list[tuple[float, int, int]]]
            for _ in range(TIMES):
                for name, some in orders.items():
                    result[name].append(measure(client, some))
            for name, runs in result.items():
                seconds, (_, cached, prompts) = statistics.median(run[0] for run in runs), runs[-1]
                sys.stdout.write(
                    f"{cache:6} {name:12} {cached:,} of {prompts:,} tokens of prompts from the cache "
                    f"({cached / prompts:.0%}), {seconds:.1f} s\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
