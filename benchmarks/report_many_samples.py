"""Time and memory of ``meta-eval report`` over many samples, against the way a notebook would read them.

    python benchmarks/report_many_samples.py                  100,000 samples of 20 KB
    python benchmarks/report_many_samples.py --samples 20000

A samples file and its results file are generated as lm_eval 0.4.13 writes them. The other way is
``pandas.read_json(…, lines=True)`` and the mean of one column: one number, without any check. Both run as processes of
their own, one after the other, and the ratios are of that run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import measured, meta_eval
from verify_full_size import WORDS

TIME = "2026-01-02T03-04-05.000000"
TASK = "meta_some"
NOTEBOOK = "import pandas, sys; print(pandas.read_json(sys.argv[1], lines=True)['exact_match'].mean())"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sample(index: int, size: int, chance: random.Random, *, is_other: bool = False) -> dict[str, Any]:
    """One line; half of its text is the prompt, which lm-eval writes twice. Another model flips one verdict in 25, and
    gives every second answer in other words."""
    prompt = f"Question {index}? " + " ".join(chance.choices(WORDS, k=size // 3 // 7))
    answer = " ".join(chance.choices(WORDS, k=size // 3 // 14)) + "."
    said = f"It is so: {answer}" if is_other and index % 2 else answer
    verdict = float((index % 3 == 0) != (is_other and index % 25 == 0))
    return {
        "doc_id": index,
        "doc": {
            "question": f"{index}?", "prompt": prompt, "gold": "A", "subtask_name": f"s{index % 14}", "choices": None,
            "input_question_hash": digest(f"{index}?"), "input_final_prompts_hash": [digest(prompt)],
            "recorded_output": answer, "recorded_is_correct": index % 3 == 0 or index % 50 == 1,
        },
        "target": "A",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": [], "max_gen_toks": 1024}}},
        "resps": [[said]],
        "filtered_resps": ["A" if verdict else "B"],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": digest(f"doc {index}"),
        "prompt_hash": digest(prompt),
        "target_hash": digest("A"),
        "exact_match": verdict,
    }  # fmt: skip


def generate(folder: Path, count: int, size: int, *, is_other: bool = False) -> Path:
    chance = random.Random(7)
    path, right = folder / f"samples_{TASK}_{TIME}.jsonl", 0.0
    with path.open("w", encoding="utf-8") as file:
        for index in range(count):
            line = sample(index, size, chance, is_other=is_other)
            right += line["exact_match"]
            file.write(json.dumps(line) + "\n")
    average = right / count
    model = "org/other" if is_other else "org/model"
    results = {
        "results": {TASK: {"name": TASK, "alias": TASK, "sample_len": count, "exact_match,strict-match": average}},
        "configs": {TASK: {"task": TASK}},
        "n-samples": {TASK: {"original": count, "effective": count}},
        "config": {"model": "vllm", "model_args": {"pretrained": model}, "limit": None, "gen_kwargs": {}},
        "date": 1767322800.0,
        "lm_eval_version": "0.4.13",
        "model_name": model,
        "total_evaluation_time_seconds": "12.5",
    }
    (folder / f"results_{TIME}.json").write_text(json.dumps(results), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=20_000, help="bytes of one sample")
    parser.add_argument("--small", action="store_true", help="a thousandth of them, without pandas: CI")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.samples //= 1000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = generate(folder, arguments.samples, arguments.size)
        print(f"{arguments.samples:,} samples, {path.stat().st_size / 1e9:.2f} GB")
        ours = meta_eval("report", str(folder))
        page = meta_eval("report", str(folder), "--html", str(folder / "r.html"))
        theirs = ours if arguments.small else measured(sys.executable, "-c", NOTEBOOK, str(path))
    for name, (seconds, _, memory, *_) in (("report", ours), ("report --html", page), ("pandas.read_json", theirs))[
        : 2 if arguments.small else 3
    ]:
        ratio = f"{seconds / theirs.seconds:6.2f} of its time {memory / theirs.memory:6.2f} of its memory"
        print(f"{name:<18}{seconds:7.1f} s {memory:7.2f} GB {ratio}")


if __name__ == "__main__":
    main()
