"""What a run costs on the real engine, beside the stock command: the sample, and an MMLU-shaped choice task.

    python benchmarks/engine.py VENV            both; some ten minutes on two cores
    python benchmarks/engine.py VENV choices    one of them: sample, choices

VENV is a virtual environment with vLLM, lm-eval and what meta-eval imports, such as `.ci/engine-venv` makes. The model
is doctor's tiny Llama: what is measured is everything around a model, and how many prompts it is given. ``choices``
is 200 questions in four subjects, each behind the five shots of its subject: stock lm_eval asks each choice by itself
with prompt_logprobs, run asks each question once. Both are asked of the same pack, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from verify_full_size import prose, row, write

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src/meta_eval/base/assets/known_answers/model"
SHAPE = {"dtype": "float32", "gpu_memory_utilization": 0.3, "model_args": {"enforce_eager": True}}
QUESTIONS, SUBJECTS = 200, 4


def choices(folder: Path) -> dict[str, Any]:
    """The configuration of the choice task, whose rows are written first."""
    chance = random.Random(0)
    shots = [prose(chance, 3000) for _ in range(SUBJECTS)]
    rows = []
    for number in range(QUESTIONS):
        subject = number * SUBJECTS // QUESTIONS
        question = f"Question {number}: {prose(chance, 200)}?"
        losses = [chance.random() * 5 for _ in "ABCD"]
        recorded = {"raw": losses, "text": losses, "token": losses}
        rows.append(
            row(
                question, [f"{shots[subject]}\n{question}\nAnswer: {letter}" for letter in "ABCD"],
                subtask=f"mmlu.subject_{subject}", gold=[f"Answer: {chance.choice('ABCD')}"], is_correct=False,
                task_type="Choice", output_prediction_text=None, output_choice_negative_log_likelihoods=recorded,
            )
        )  # fmt: skip
    data = folder / "Llama-3.1-8B-evals" / "mmlu.jsonl"
    write(data, rows)
    return {"evals_dataset": str(data.parent), "tasks": "meta_mmlu_pretrain"}


def sample(_: Path) -> dict[str, Any]:
    return {"evals_dataset": "sample", "tasks": "meta_instruct,meta_pretrain"}


def measure(venv: Path, folder: Path, config: dict[str, Any]) -> None:
    """The stock command, run in this process and run through a server, each from nothing."""
    (folder / "eval_config.yaml").write_text(json.dumps({"model_name": str(MODEL), **SHAPE, **config}))
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip

    def timed(name: str, command: list[str]) -> tuple[float, str]:
        started = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-3000:]}")
        return time.perf_counter() - started, done.stdout

    ours = [str(venv / "bin/python"), "-m", "meta_eval"]
    _, printed = timed("prepare", [*ours, "prepare"])
    stock, _ = timed("stock", shlex.split(printed))
    print(f"{'lm_eval --model vllm':28} {stock:7.1f} s")
    run = [*ours, "run", "--no-canary", "--no-report", "--json"]
    for name, more in (
        ("meta-eval run, vllm", ["--set", "output_path=here"]),
        ("meta-eval run, serve", ["--set", "output_path=served", "--set", "backend=server", "--set", "serve=true"]),
    ):
        seconds, out = timed(name, [*run, *more])
        asked = json.loads(out)["speed"]["seconds"]
        print(f"{name:28} {seconds:7.1f} s ({seconds / stock:.2f}), of which {asked:.1f} s from first to last answer")
    compare(folder)


def compare(folder: Path) -> None:
    """How far the likelihoods of run are from those of stock lm_eval, and whether the same choice is the likeliest."""
    theirs, ours = (likelihoods(folder / name) for name in ("eval_results", "here"))
    if not theirs:
        return
    apart = max(abs(a - b) for key, values in theirs.items() for a, b in zip(values, ours[key], strict=True))
    best = [
        (max(range(len(a)), key=a.__getitem__), max(range(len(ours[key])), key=ours[key].__getitem__))
        for key, a in theirs.items()
    ]
    same = sum(a == b for a, b in best)
    print(f"{len(theirs)} choice docs: log-likelihoods at most {apart:.1e} nats apart, the same choice in {same}; "
          f"chosen: {dict(sorted(Counter(a for a, _ in best).items()))}")  # fmt: skip


def likelihoods(output: Path) -> dict[tuple[str, int], list[float]]:
    result = {}
    for path in output.rglob("samples_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            content = json.loads(line)
            if not isinstance(content["resps"][0][0], str):
                result[path.name.rpartition("_")[0], content["doc_id"]] = [
                    float(resp[0][0]) for resp in content["resps"]
                ]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venv", type=Path)
    parser.add_argument("which", nargs="*", choices=["sample", "choices", []], default=[], metavar="sample|choices")
    arguments = parser.parse_args()
    for which in arguments.which or ("sample", "choices"):
        print(which)
        with tempfile.TemporaryDirectory() as folder:
            measure(arguments.venv.absolute(), Path(folder), globals()[which](Path(folder)))


if __name__ == "__main__":
    main()
