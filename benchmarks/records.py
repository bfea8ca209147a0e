"""Time and memory of making a pack of a recorded run of lm-eval, over samples that are made up here.

``python benchmarks/records.py [FOLDER]``: 21,000 samples (10,000 of ``hellaswag``; 11,000 of ``gsm8k``, which has two
filters), some 200 MB, in the layout that lm-eval 0.4.13 writes; then ``meta-eval prepare`` and ``meta-eval verify`` on
them, each in a process of its own, with its seconds (wall; user and system) and its largest memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAMP = "2026-11-01T12-00-00.000000"
WORDS = ["rain", "moss", "stone", "paper", "lantern", "river", "copper", "seven", "window", "harbour", "salt"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        folder = given or Path(scratch)
        out = folder / "eval_results" / "org__Made-Up"
        if not out.exists():
            out.mkdir(parents=True)
            write(out)
        size = sum(path.stat().st_size for path in out.iterdir())
        samples = sum(path.read_bytes().count(b"\n") for path in out.glob("*.jsonl"))
        print(f"{samples:,} samples, {size / 1e6:.0f} MB")
        config = folder / "config.yaml"
        config.write_text(
            f"model_name: my/model\nevals_dataset: {out.parent}\ntasks: recorded\nwork_dir: {folder / 'work_dir'}\n"
        )
        measure("prepare", "--config", str(config))
        measure("verify", str(folder / "work_dir"))


def write(out: Path) -> None:
    """Results and samples, as lm-eval writes them."""
    draw = random.Random(0)
    results: dict[str, Any] = {"results": {}, "configs": {}, "versions": {}, "n-shot": {}, "n-samples": {}}
    for task, count, version, shots, rows in (
        ("hellaswag", 10_000, 1.0, 10, hellaswag(draw, 10_000)),
        ("gsm8k", 5_500, 3.0, 5, gsm8k(draw, 5_500)),
    ):
        sums: dict[str, float] = {}
        with (out / f"samples_{task}_{STAMP}.jsonl").open("w") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
                for metric in row["metrics"]:
                    key = f"{metric},{row['filter']}"
                    sums[key] = sums.get(key, 0.0) + row[metric] / count
        results["results"][task] = {"alias": task, **sums}
        results["configs"][task] = {"task": task}
        results["versions"][task], results["n-shot"][task] = version, shots
        results["n-samples"][task] = {"original": count, "effective": count}
    results |= {"config": {"model": "vllm", "model_args": {"pretrained": "org/Made-Up"}}, "date": 1793534400.0}
    (out / f"results_{STAMP}.json").write_text(json.dumps({"results": results.pop("results"), **results}))


def hellaswag(draw: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        prompt, endings = text(draw, 1900), [text(draw, 60) for _ in range(4)]
        costs = [-draw.uniform(20, 60) for _ in range(4)]
        gold = number % 4
        doc = {"ind": number, "query": prompt[-200:], "choices": endings, "gold": gold, "label": str(gold)}
        best = max(range(4), key=lambda at: costs[at])
        normal = max(range(4), key=lambda at: costs[at] / len(endings[at]))
        asked = {f"gen_args_{at}": {"arg_0": prompt, "arg_1": f" {one}"} for at, one in enumerate(endings)}
        row = sample(number, doc, str(gold), asked, [[[str(cost), "False"]] for cost in costs], "none")
        row["filtered_resps"] = [[str(cost), "False"] for cost in costs]
        yield row | {"metrics": ["acc", "acc_norm"], "acc": float(best == gold), "acc_norm": float(normal == gold)}


def gsm8k(draw: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        prompt, right = text(draw, 9000), number % 3 == 0
        doc = {"question": prompt[-300:], "answer": f"{text(draw, 100)}\n#### {number}"}
        answer = f"{text(draw, 300)}\n#### {number if right else number + 1}"
        settings = {"until": ["Question:", "</s>", "<|im_end|>"], "do_sample": False, "temperature": 0.0}
        asked = {"gen_args_0": {"arg_0": prompt, "arg_1": settings}}
        for name in ("strict-match", "flexible-extract"):
            row = sample(number, doc, doc["answer"], asked, [[answer]], name)
            row["filtered_resps"] = [answer.rpartition(" ")[2]]
            yield row | {"metrics": ["exact_match"], "exact_match": float(right)}


def sample(number: int, doc: Any, target: str, asked: Any, resps: Any, name: str) -> dict[str, Any]:
    return {
        "doc_id": number, "doc": doc, "target": target, "arguments": asked, "resps": resps, "filter": name,
        "doc_hash": digest(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": digest(asked["gen_args_0"]["arg_0"]), "target_hash": digest(target),
    }  # fmt: skip


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def text(draw: random.Random, size: int) -> str:
    words = " ".join(draw.choices(WORDS, k=size // 6 + 1))
    return words[:size].strip() or "rain"


def measure(*arguments: str) -> None:
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "meta_eval", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    print(
        f"{arguments[0]}: exit {os.waitstatus_to_exitcode(status)}, {wall:.1f} s wall, "
        f"{usage.ru_utime + usage.ru_stime:.1f} s of CPU, {usage.ru_maxrss / 2**20:.2f} GiB"
    )


if __name__ == "__main__":
    main()
