"""Time and memory of making a pack of a recorded run of lm-eval, over samples that are made up here.

``python benchmarks/records.py [FOLDER] [--board] [--prompt CHARACTERS]``: 21,000 samples (10,000 of ``hellaswag``;
11,000 of ``gsm8k``, which has two filters), some 200 MB, in the layout that lm-eval 0.4.13 writes. With ``--board`` as
many of the Open LLM Leaderboard 2 (``leaderboard_mmlu_pro``, the 24 tasks of ``leaderboard_bbh``,
``leaderboard_ifeval``) in that of its details, where each of ten choices repeats a prompt of so many characters.

Then ``meta-eval prepare`` and ``meta-eval verify`` on them, each in a process of its own, with its seconds (wall; user
and system) and its largest memory.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from meta_eval.pack.records.task_code import find_code
from meta_eval.plugins.boards.boards import list_boards

STAMP = "2026-11-01T12-00-00.000000"
# Name, docs, version, shots, samples.
Task = tuple[str, int, float, int, Iterator[dict[str, Any]]]
WORDS = ["rain", "moss", "stone", "paper", "lantern", "river", "copper", "seven", "window", "harbour", "salt"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--board", action="store_true")
    parser.add_argument("--prompt", type=int, default=1_000)
    parser.add_argument("--small", action="store_true", help="a hundredth of the docs: CI")
    options = parser.parse_args()
    given = options.folder
    with tempfile.TemporaryDirectory() as scratch:
        folder = given or Path(scratch)
        out = folder / "eval_results" / "org__Made-Up"
        if not out.exists():
            out.mkdir(parents=True)
            write(
                out,
                partial(board, size=options.prompt)
                if options.board
                else partial(plain, parts=100 if options.small else 1),
            )
        size = sum(path.stat().st_size for path in out.iterdir())
        samples = sum(path.read_bytes().count(b"\n") for path in out.glob("*.jsonl"))
        print(f"{samples:,} samples, {size / 1e6:.0f} MB")
        config = folder / "config.yaml"
        config.write_text(
            f"model_name: my/model\nevals_dataset: {out.parent}\ntasks: recorded\nwork_dir: {folder / 'work_dir'}\n"
        )
        measure("prepare", "--config", str(config))
        measure("verify", str(folder / "work_dir"))


def plain(draw: random.Random, parts: int) -> Iterator[Task]:
    for name, docs, version, shots, make in (
        ("hellaswag", 10_000, 1.0, 10, hellaswag),
        ("gsm8k", 5_500, 3.0, 5, gsm8k),
    ):
        yield name, docs // parts, version, shots, make(draw, docs // parts)


def board(draw: random.Random, size: int) -> Iterator[Task]:
    """As many docs as the board had of the three: 12,032, some 5,761 and 541; and of MMLU-Pro more, to be 21,000."""
    yield "leaderboard_mmlu_pro", 14_700, 0.1, 5, mmlu_pro(draw, 14_700, size)
    tasks = next(part.choices for part in list_boards()["leaderboard_v2"].parts if part.name == "BBH")
    assert isinstance(tasks, Mapping)
    for name in tasks:
        choices = find_code(name, Path("nowhere")).settings["doc_to_choice"]
        yield name, 240, 1.0, 3, bbh(draw, 240, choices)
    yield "leaderboard_ifeval", 540, 3.0, 0, ifeval(draw, 540)


def write(out: Path, tasks: Callable[[random.Random], Iterator[Task]]) -> None:
    """Results and samples, as lm-eval writes them."""
    results: dict[str, Any] = {"results": {}, "configs": {}, "versions": {}, "n-shot": {}, "n-samples": {}}
    for task, count, version, shots, rows in tasks(random.Random(0)):
        sums: dict[str, list[float]] = {}
        with (out / f"samples_{task}_{STAMP}.jsonl").open("w") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
                for metric in row["metrics"]:
                    values = row[metric] if isinstance(row[metric], list) else [row[metric]]
                    sums.setdefault(f"{metric},{row['filter']}", []).extend(map(float, values))
        results["results"][task] = {"alias": task, **{key: sum(total) / len(total) for key, total in sums.items()}}
        results["configs"][task] = {"task": task}
        results["versions"][task], results["n-shot"][task] = version, shots
        results["n-samples"][task] = {"original": count, "effective": count}
    results |= {"config": {"model": "vllm", "model_args": {"pretrained": "org/CandidateTask-Up"}}, "date": 1793534400.0}
    (out / f"results_{STAMP}.json").write_text(json.dumps({"results": results.pop("results"), **results}))


def mmlu_pro(draw: random.Random, count: int, size: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        options, answer = [text(draw, 40) for _ in range(10)], "ABCDEFGHIJ"[number % 10]
        doc = {"question_id": number, "question": text(draw, 300), "options": options, "answer": answer}
        yield choices(draw, number, doc, text(draw, size), "ABCDEFGHIJ", number % 10, "acc") | {"target": answer}


def bbh(draw: random.Random, count: int, options: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number in range(count):
        gold = number % len(options)
        doc = {"input": text(draw, 400), "target": options[gold]}
        yield choices(draw, number, doc, text(draw, 1_800), options, gold, "acc_norm") | {"target": options[gold]}


def choices(
    draw: random.Random, number: int, doc: Any, prompt: str, options: Sequence[str], gold: int, metric: str
) -> dict[str, Any]:
    costs = [-draw.uniform(1, 9) for _ in options]
    lengths = [len(option) if metric == "acc_norm" else 1 for option in options]
    best = max(range(len(options)), key=lambda at: costs[at] / lengths[at])
    asked = {f"gen_args_{at}": {"arg_0": prompt, "arg_1": f" {option}"} for at, option in enumerate(options)}
    row = sample(number, doc, str(gold), asked, [[[str(cost), "False"]] for cost in costs], "none")
    row["filtered_resps"] = [[str(cost), "False"] for cost in costs]
    return row | {"metrics": [metric], metric: float(best == gold)}


def ifeval(draw: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        right, answer = number % 2 == 0, text(draw, 900)
        doc = {
            "key": number, "prompt": text(draw, 200), "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}],
        }  # fmt: skip
        settings = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 1280}
        row = sample(number, doc, "0", {"gen_args_0": {"arg_0": doc["prompt"], "arg_1": settings}}, [[
            answer if right else f"{answer}, {answer}"]], "none")  # fmt: skip
        row["filtered_resps"] = row["resps"][0]
        metrics = {f"{level}_level_{how}_acc": right for level in ("prompt", "inst") for how in ("strict", "loose")}
        yield row | {"metrics": list(metrics)} | {
            name: [right] if name.startswith("inst") else right for name in metrics
        }  # fmt: skip


def hellaswag(draw: random.Random, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        prompt, endings = text(draw, 1900), [text(draw, 60) for _ in range(4)]
        costs = [-draw.uniform(20, 60) for _ in range(4)]
        gold = number % 4
        doc = {"ind": number, "query": prompt[-200:], "choices": endings, "gold": gold, "label": str(gold)}
        best = max(range(4), key=lambda at: costs[at])
        normal = max(range(4), key=lambda at: costs[at] / len(endings[at]))
        asked = {f"gen_args_{at}": {"arg_0": prompt, "arg_1": f" {ending}"} for at, ending in enumerate(endings)}
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
    if status:
        sys.exit(f"{arguments[0]} failed")


if __name__ == "__main__":
    main()
