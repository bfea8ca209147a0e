"""Time and memory of the contract of requests and answers: export, append, grade.

    python benchmarks/answers.py                 all of them; about two minutes
    python benchmarks/answers.py simulated       one: simulated, mmlu_pro or mmlu

``simulated`` is the made-up dataset of tools/simulated_run.py (meta_instruct of Llama 3.1 8B, 14,345 requests); the
others are those of verify_full_size.py, with prompts as long as Meta's. What answers is the example script, filled with
the recorded answers: all that is measured is overhead. The numbers in README.md were made with this script.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from measuring import meta_eval
from verify_full_size import SIZES, SMALL, generate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))


def simulated(folder: Path) -> dict[str, Any]:
    """The configuration of the made-up dataset, which is written first."""
    from simulated_run import DATASET, ORIGINALS, write_dataset

    write_dataset(folder)
    return {
        "model_name": "none",
        "evals_dataset": str(folder / DATASET),
        "tasks": "meta_instruct",
        "work_dir": str(folder / "pack"),
        "output_path": str(folder / "out"),
        "originals": {name: {"id": str(folder / f"{subset}_originals.jsonl")} for name, subset in ORIGINALS.items()},
    }


def answer(pack: Path, requests: Path, answers: Path) -> tuple[float, float]:
    """Answer with what was recorded; the seconds it took, and those of CPU."""
    spec = importlib.util.spec_from_file_location("answer_requests", ROOT / "examples" / "answer_requests.py")
    assert spec is not None and spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    columns = ["recorded_output", "recorded_negative_log_likelihoods"]
    docs: dict[str, list[dict[str, Any]]] = {}
    for name, entry in json.loads((pack / "manifest.json").read_text(encoding="utf-8"))["tasks"].items():
        file = pq.ParquetFile(pack / entry["docs_file"])
        docs[name] = file.read([column for column in columns if column in file.schema_arrow.names]).to_pylist()

    def generated(request: dict[str, Any]) -> tuple[str, str, int]:
        text = docs[request["task"]][request["doc"]]["recorded_output"]
        return text, "stop", len(text.split())

    def likelihoods(request: dict[str, Any]) -> list[float]:
        return [-doc for doc in docs[request["task"]][request["doc"]]["recorded_negative_log_likelihoods"]]

    script.generate, script.logprobs = generated, likelihoods
    started, cpu = time.perf_counter(), time.process_time()
    script.main(requests, answers)
    return time.perf_counter() - started, time.process_time() - cpu


def main() -> None:
    names = ("simulated", "mmlu_pro", "mmlu")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*names, []], default=[], metavar="|".join(names))
    print(f"{'requests':<11}{'step':<8}{'seconds':>8}{'of CPU':>8}{'peak GB':>9}{'MB':>7}")
    parser.add_argument("--small", action="store_true", help="a hundredth of the rows, without the simulated ones: CI")
    arguments = parser.parse_args()
    scale = SMALL if arguments.small else 1.0
    for name in arguments.names or names[arguments.small :]:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            keys = simulated(folder) if name == "simulated" else generate(folder, SIZES[name], scale)
            (folder / "c.yaml").write_text(json.dumps(keys), encoding="utf-8")
            meta_eval("prepare", "-c", str(folder / "c.yaml"))
            pack, requests, answers = folder / "pack", folder / "requests.jsonl", folder / "answers.jsonl"
            show(name, "export", *meta_eval("export", str(pack), "--output", str(requests))[:3], requests)
            show(name, "append", *answer(pack, requests, answers), None, answers)
            graded = meta_eval("grade", str(answers), "--pack", str(pack))
            show(name, "grade", *graded[:3], *(folder / "out").rglob("*.json*"))


def show(name: str, step: str, seconds: float, cpu: float, memory: float | None, *files: Path) -> None:
    size = sum(path.stat().st_size for path in files) / 1e6
    gigabytes = "-" if memory is None else f"{memory:.2f}"
    print(f"{name:<11}{step:<8}{seconds:>8.1f}{cpu:>8.1f}{gigabytes:>9}{size:>7.0f}", flush=True)


if __name__ == "__main__":
    main()
