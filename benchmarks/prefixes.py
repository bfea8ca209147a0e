"""Few-shot prompts on the real engine: what their order saves, by tokens from the prefix cache and by time.

    python benchmarks/prefixes.py VENV      ten minutes on two cores

VENV is a virtual environment with vLLM, lm-eval and what meta-eval imports, such as `.ci/engine-venv` makes. The task
is shaped as MMLU-Pro: 168 questions of 14 subjects in mixed order, each behind the shots of its subject (1,000 tokens),
answers of 8 tokens. `meta-eval run` asks it in its order and in that of the rows, with a cache that holds all
beginnings and with one that holds a few prompts. The model is selfcheck's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import adopt_orphans, used_by_all
from verify_full_size import ASSISTANT, END, USER, prose, row, write

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src/meta_eval/assets/selfcheck/model"
SUBJECTS, QUESTIONS = 14, 168
LONGEST = 2048
CACHES = {"ample": None, "tight": 48}  # blocks; a prompt takes nine

ORDERS = {
    "of the rows": (
        "from meta_eval.running.prefixes import Beginnings; Beginnings.order = lambda self: list(self._keys); "
    ),
    "run's": "",
}


def write_task(folder: Path) -> None:
    chance = random.Random(0)
    shots = [prose(chance, 3000) for _ in range(SUBJECTS)]
    rows = []
    for number in range(QUESTIONS):
        question = f"Question {number}: {prose(chance, 200)}?"
        subject = chance.randrange(SUBJECTS)
        rows.append(
            row(
                question, [f"{USER}{shots[subject]}\n{question}{END}{ASSISTANT}"], gold="A", correct=False,
                subtask=f"mmlu_pro_chat.subject_{subject}", output_prediction_text=["The best answer is B."],
            )
        )  # fmt: skip
    data = folder / "Llama-3.1-8B-Instruct-evals" / "mmlu_pro.jsonl"
    data.parent.mkdir(parents=True)
    write(data, rows)
    shutil.copytree(ROOT / "meta_template", folder / "meta_template")
    template = folder / "meta_template/mmlu_pro/mmlu_pro_5shot_cot_instruct.yaml"
    text = template.read_text(encoding="utf-8")
    template.write_text(text.replace("max_gen_toks: 1024", "max_gen_toks: 8"), encoding="utf-8")


def measure(venv: Path, folder: Path, order: str, cache: str) -> str:
    blocks = CACHES[cache]
    output = folder / f"{cache}-{order}"
    settings: dict[str, Any] = {
        "model_name": str(MODEL), "dtype": "float32", "gpu_memory_utilization": 0.3, "max_model_len": LONGEST,
        "evals_dataset": "Llama-3.1-8B-Instruct-evals", "tasks": "meta_mmlu_pro_instruct", "output_path": str(output),
        "model_args": {"enforce_eager": True, **({"num_gpu_blocks_override": blocks} if blocks else {})},
    }  # fmt: skip
    (folder / "eval_config.yaml").write_text(json.dumps(settings))
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
    }  # fmt: skip
    program = f"{ORDERS[order]}from meta_eval.cli import main; main()"
    before = used_by_all()
    command = [str(venv / "bin/python"), "-c", program, "run", "--no-canary", "--no-report", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    cpu = used_by_all() - before
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    (journal,) = (output / "answers").glob("*.jsonl")
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()[1:]]
    prompts, cached = (sum(line[name] for line in lines) for name in ("prompt_tokens", "cached_tokens"))
    seconds = json.loads(done.stdout)["speed"]["seconds"]
    return (
        f"{cache:6} {order:12} {cached:8,} of {prompts:,} tokens from the cache ({cached / prompts:.0%}), first to "
        f"last answer {seconds:.1f} s, CPU with the engine's start {cpu:.1f} s\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venv", type=Path)
    arguments = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_task(folder)
        for cache in CACHES:
            for order in ORDERS:
                sys.stdout.write(measure(arguments.venv.absolute(), folder, order, cache))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
