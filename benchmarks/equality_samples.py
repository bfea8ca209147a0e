"""Draw answers of a real model, SmolLM2-135M-Instruct on llama.cpp, and of copies with a change each, for equality.py.

    pip install --no-deps -r .ci/requirements-llamacpp.txt
    python benchmarks/equality_samples.py OUT                # OUT/NAME.json; an hour of a core
    python benchmarks/equality_samples.py OUT --at vLLM=http://localhost:8000/v1     # of a server that you run

Each request has a seed of its own, temperature 1, top_p 1, top_k 40 and min_p 0.05 (what llama.cpp does by itself), and
at most 24 tokens. A file that exists is kept. The weights come from tools/real_model.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.append(str(REPOSITORY / "tools"))

TOKENS, AT_ONCE = 24, 16
TRAVEL = "You are the assistant of a travel agency. Be brief and friendly."
TEACHER = "You are a strict teacher. Answer in one sentence."
_THINGS = (
    "the moon", "a bicycle", "bread", "a lighthouse", "winter", "an old piano", "bees", "the sea", "a train station",
    "coffee", "a small garden", "the number seven", "a lost key", "clouds", "a library", "salt", "a mountain path",
    "paper", "the colour green", "a wooden boat", "silence", "a market", "glass", "a river", "time",
)  # fmt: skip
PROMPTS = tuple(
    form.format(thing)
    for thing in _THINGS
    for form in ("Write a sentence about {}.", "What is a good question about {}?")
)


@dataclass(frozen=True, slots=True)
class Source:
    """What gives answers: a file of weights, a temperature, a system prompt; None for that of the model's template."""

    weights: str = "F32"
    temperature: float = 1.0
    system: str | None = None
    answers: int = 20


SOURCES = {
    "F32": Source(),
    "F32 again": Source(),
    "Q4_0": Source("Q4_0"),
    "temperature 0.7": Source(temperature=0.7),
    "system prompt": Source(system=TRAVEL),
    "another": Source("Q4_0", system=TEACHER, answers=6),
    "Q8_0": Source("Q8_0"),
}


def ask(address: str, name: str, source: Source, prompt: str, number: int) -> str:
    """An answer to a prompt, drawn with a seed of its own."""
    system = [] if source.system is None else [{"role": "system", "content": source.system}]
    body = {
        "model": "m", "messages": [*system, {"role": "user", "content": prompt}], "temperature": source.temperature,
        "top_p": 1.0, "top_k": 40, "min_p": 0.05, "max_tokens": TOKENS,
        "seed": zlib.crc32(f"{name} {prompt} {number}".encode()) % 2**31,
    }  # fmt: skip
    request = urllib.request.Request(
        f"{address}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as reply:
        text: str = json.load(reply)["choices"][0]["message"]["content"]
    return text


def serve(source: Source) -> Any:
    """Start llama.cpp in this process."""
    import xllamacpp
    from real_model import find_cache, make_gguf, open_folder

    cache = find_cache()
    open_folder(cache)
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(make_gguf(cache, source.weights)), 512 * AT_ONCE, AT_ONCE
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib, params.verbosity = 0, 0
    return xllamacpp.Server(params)


def draw(out: Path, name: str, source: Source, prompts: int = len(PROMPTS), address: str = "") -> None:
    """Write the answers of a source to the first prompts: by prompt a list."""
    path = out / f"{name}.json"
    if path.exists():
        return
    server = None if address else serve(source)
    place = address or f"{server.listening_address}/v1"
    asked = [(prompt, number) for number in range(source.answers) for prompt in PROMPTS[:prompts]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        texts = list(pool.map(lambda one: ask(place, name, source, *one), asked))
    answers: dict[str, list[str]] = {}
    for (prompt, _), text in zip(asked, texts, strict=True):
        answers.setdefault(prompt, []).append(text)
    path.write_text(json.dumps(answers), encoding="utf-8")
    print(f"{name}: {len(texts)} answers", flush=True)


def main() -> None:
    """Draw all that are not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="the first of 50")
    parser.add_argument("--at", metavar="NAME=URL", help="a server that you run, instead of the sources")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.at:
        name, _, address = chosen.at.partition("=")
        draw(chosen.out, name, Source(), chosen.prompts, address)
        return
    for name, source in SOURCES.items():
        draw(chosen.out, name, source, chosen.prompts)


if __name__ == "__main__":
    main()
