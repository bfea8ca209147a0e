"""What it costs to force recorded answers, beside writing as many tokens: one engine, the same prompts, one run.

    python benchmarks/fidelity.py            where vLLM is, such as the environment of `.ci/engine-venv`

The model is a Llama of random weights with the tokenizer of doctor's; what it says is nonsense, and takes as long as
sense. The engine works in this process, so that its CPU seconds can be told: wall seconds would be those of whatever
else the machine does. Each way is measured three times in turn, after one round that is not counted.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

from tokenizers import Tokenizer

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import encode_requests
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.doctor.known_answers import find_model_folder, make_settings
from meta_eval.plugins.engines.vllm.vllm_client import VllmClient

DOCS, PROMPT, ANSWER, ROUNDS = 8, 300, 100, 3
WIDTH, LAYERS = 512, 8


def write_model(folder: Path) -> Path:
    """A Llama of some 30 million random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shutil.copytree(find_model_folder(), folder)
    (folder / "model.safetensors").unlink()
    config = LlamaConfig.from_pretrained(find_model_folder())
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = WIDTH, 3 * WIDTH, LAYERS
    config.num_attention_heads = config.num_key_value_heads = WIDTH // config.head_dim
    model = LlamaForCausalLM(config).to(torch.float32)
    model.save_pretrained(folder)
    print(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.0f} million weights")
    return folder


def asks(encoder: Encoder) -> tuple[list[Request], list[Request]]:
    """The same docs to write on, and to force."""
    chance = random.Random(0)
    words = [chr(chance.randrange(97, 123)) * chance.randrange(1, 4) for _ in range(500)]
    text = lambda: " ".join(chance.choices(words, k=PROMPT))  # noqa: E731
    settings = {"ignore_eos": True, "do_sample": False}
    write, force = [], []
    for number in range(DOCS):
        request = Request(f"t/{number}", "t", number, 0, "generate", text(), (), ANSWER, settings)
        (encoded,) = encode_requests([request], encoder)
        ids = list(encoded.prompt_ids or ())[:PROMPT]
        answer = [chance.randrange(300, 2000) for _ in range(ANSWER)]
        forced = Request(f"t/{number}", "t", number, 0, "force", request.prompt, continuations=("…",))
        write.append(replace(request, prompt_ids=ids))
        force.append(replace(forced, prompt_ids=ids, continuation_ids=[answer]))
    return write, force


def timed(client: VllmClient, some: list[Request]) -> tuple[float, float]:
    """CPU and wall seconds."""
    client._llm.reset_prefix_cache()
    cpu, wall = time.process_time(), time.perf_counter()
    said = list(client.answer(some))
    assert all(response.error is None and response.completion_tokens == ANSWER for response in said), said[0].error
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    encoder = Encoder(Tokenizer.from_file(str(find_model_folder() / "tokenizer.json")))
    with tempfile.TemporaryDirectory() as made:
        model = write_model(Path(made) / "model")
        settings = make_settings(EngineOptions(model_args="enforce_eager=True")).model_copy(
            update={"model_name": str(model)}
        )
        with VllmClient(settings, model=str(model), logs=Path(made) / "logs") as client:
            write, force = asks(encoder)
            seconds: dict[str, list[tuple[float, float]]] = {"written": [], "forced": []}
            for number in range(ROUNDS + 1):
                for name, some in (("written", write), ("forced", force)):
                    result = timed(client, some)
                    if number:
                        seconds[name].append(result)
    medians = {
        name: [statistics.median(times) for times in zip(*second, strict=True)] for name, second in seconds.items()
    }
    for name, (cpu, wall) in medians.items():
        print(f"{DOCS} prompts of {PROMPT} tokens, {ANSWER} {name} behind each: {cpu:.1f} CPU s, {wall:.1f} s")
    print(f"forced / written: {medians['forced'][0] / medians['written'][0]:.2f}")


if __name__ == "__main__":
    main()
