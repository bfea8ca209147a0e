"""Write docs/examples from a simulated run of full size, or compare them with it (``--check``).

The dataset of `simulated_run` is prepared and verified. lm-eval's evaluator grades the answers of two copies of its
model, and the command line writes every kind of report. A is the same model on another engine, with flips in a
twentieth of its docs. B is a quantised copy that also lost three points. Dates and durations are fixed, so the same
input gives the same bytes, but for the last digits of numbers in JSON on another processor.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from simulated_run import DATASET, ORIGINALS, Copy, write_dataset

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
# A browser makes the pictures (tools/take_picture.py). Their bytes differ between machines.
PICTURES = ".png"

MODEL = "simulated/Llama-3.1-8B-Instruct"
TASKS = "meta_instruct"
TIME = "2026-01-02T03-04-05.000000"


def evaluate(model: Copy, name: str, output: Path) -> None:
    """Run the pack in ./work_dir as lm_eval would, and fix what depends on machine and time."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    results: dict[str, Any] = lm_eval.simple_evaluate(
        model=model, tasks=[TASKS], log_samples=True, bootstrap_iters=0, confirm_run_unsafe_code=False,
        task_manager=TaskManager(include_path="work_dir", include_defaults=False),
    )  # fmt: skip
    samples = results.pop("samples")
    results["date"] = 1767322800.0
    results["config"] |= {"model": "vllm", "model_args": {"pretrained": name}}
    tracker = EvaluationTracker(output_path=str(output))
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    for file in [path for path in output.rglob("*") if path.is_file()]:
        file.rename(file.with_name(re.sub(r"\d{4}-\d\d-\d\dT[-\d.]+(?=\.json)", TIME, file.name)))
    (file,) = output.rglob("results_*.json")
    tree = json.loads(file.read_text(encoding="utf-8"))
    tree["total_evaluation_time_seconds"] = "1800"
    file.write_text(json.dumps(tree), encoding="utf-8")


def meta_eval(*arguments: str) -> tuple[str, str]:
    """stdout, and stderr without names of files, of the command line on a terminal of 80 columns. The gate may fail."""
    done = subprocess.run(
        [sys.executable, "-m", "meta_eval", *arguments], capture_output=True, text=True, check=False,
        # An own home: with nltk's punkt_tab from the user's home, the pack would have other files.
        env={
            **os.environ, "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1",
            "HOME": str(Path.cwd()), "NLTK_DATA": "",
        },
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stderr)
    return done.stdout, "".join(line for line in done.stderr.splitlines(True) if not line.startswith("wrote "))


def make() -> dict[str, str]:
    """Make every example, by file name, in the current folder."""
    world = write_dataset(Path())
    originals = (f"originals.{join}.id={name}_originals.jsonl" for join, name in ORIGINALS.items())
    keys = (f"evals_dataset={DATASET}", f"tasks={TASKS}", f"model_name={MODEL}", *originals)
    meta_eval("prepare", "--config", str(ROOT / "eval_config.yaml"), *(word for key in keys for word in ("--set", key)))
    meta_eval("verify", "work_dir")
    with contextlib.redirect_stdout(sys.stderr):
        evaluate(Copy(world, flips=0.05, drop=0.0, seed=1), MODEL, Path("bf16"))
        evaluate(Copy(world, flips=0.08, drop=0.03, seed=2), f"{MODEL}-int4", Path("int4"))
    made = {}
    pack = ("--pack", "work_dir", "--json", "--max-drop", "1")
    files = ("--html", "report.html", "--markdown", "report.md", "--eval-results", "eval_results.yaml")
    made["report.json"], made["report.txt"] = meta_eval("report", "bf16", *pack, *files)
    made["compare.json"], made["compare.txt"] = meta_eval(
        "compare", "bf16", "int4", *pack, "--html", "compare.html", "--markdown", "compare.md"
    )
    for name in ("report.html", "report.md", "eval_results.yaml", "compare.html", "compare.md"):
        made[name] = Path(name).read_text(encoding="utf-8")
    for name in ("report.json", "compare.json"):
        made[name] = json.dumps(json.loads(made[name]), indent=2, ensure_ascii=False) + "\n"
    return made


def unpacked(text: str) -> str:
    """A page with its data as JSON. Versions of compressors write other bytes."""
    return re.sub(
        r'(<script type="text/plain"[^>]*>)([^<]+)',
        lambda match: match[1] + zlib.decompress(base64.b64decode(match[2]), wbits=31).decode(),
        text,
    )


def comparable(name: str, text: str) -> str:
    """What two machines write alike: processors add up numbers in another order, so that last digits differ."""
    if not name.endswith(".json") or not text:
        return unpacked(text)
    return json.dumps(json.loads(text, parse_float=lambda digits: f"{round(float(digits), 12):.9g}"))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        made = make()
    if "--check" in sys.argv[1:]:
        there = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(EXAMPLES.glob("*.*"))
            if path.suffix != PICTURES
        }
        stale = [
            name
            for name in sorted({*made, *there})
            if comparable(name, made.get(name, "")) != comparable(name, there.get(name, ""))
        ]
        for name in stale:
            print(f"docs/examples/{name} is stale; run: python tools/write_example_reports.py", file=sys.stderr)
        return 1 if stale else 0
    EXAMPLES.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        file = EXAMPLES / name
        if not file.exists() or comparable(name, text) != comparable(name, file.read_text(encoding="utf-8")):
            file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
