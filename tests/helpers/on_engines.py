"""`meta-eval run` of the sample on real engines: a project with a taught model, and the files of its run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from forked import Forked, parent
from golden import verdicts
from places import REPOSITORY

# Only a limit: an engine starts in 40 seconds on two idle cores and in minutes on busy ones.
SECONDS = 1200

CONFIG: Mapping[str, Any] = {
    "model_name": "tiny",
    "evals_dataset": "sample",
    "tasks": "meta_instruct,meta_pretrain",
    "dtype": "float32",
    "gpu_memory_utilization": 0.3,
}


# Of the CPU time of an engine's start three seconds are its own, and these imports take eight in each process.
_IMPORTED = (
    "lm_eval.evaluator", "lm_eval.models.huggingface", "lm_eval.models.vllm_causallms", "lm_eval.tasks",
    "transformers.models.llama.modeling_llama", "vllm.model_executor.models.llama", "vllm.v1.engine.llm_engine",
    "vllm.v1.executor.uniproc_executor", "vllm.v1.worker.cpu_worker", "meta_eval.ask.grading",
    "meta_eval.plugins.tokens.fidelity_verb", "meta_eval.cli.prepare", "meta_eval.cli.run", "meta_eval.plugins.meta.record_format",
    "meta_eval.plugins.tokens.token_scoring", "meta_eval.ask.pipeline", "meta_eval.doctor.engine_checks",
)  # fmt: skip


# Saves a process and a fourth of the start, for tests that do not need the engine's processes.
FEWER = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def environment() -> dict[str, str]:
    """Return the environment variables for the engine's environment, with the meta-eval of this checkout.

    It is not installed there, so its entry points are those of this environment.
    """
    paths = os.pathsep.join((str(REPOSITORY / "src"), str(_entry_points())))
    return {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


@cache
def _entry_points() -> Path:
    """A folder with the metadata of this environment's meta-eval alone."""
    installed = distribution("meta-eval")
    name = f"meta_eval-{installed.version}.dist-info"
    folder = Path(tempfile.mkdtemp(prefix="entry-points-"))
    (folder / name).symlink_to(Path(str(installed.locate_file(name))), target_is_directory=True)
    return folder


def ready(*words: str | Path, folder: Path) -> str:
    """Return the output of ``python WORDS``, forked off a Python with vLLM imported. It must succeed.

    META_EVAL_RUNS names the virtual environment. The engine runs in the same process, so tests that start it as users
    do are not forked.
    """
    ours = {**environment(), **FEWER}
    # vLLM chooses the stream of its log at import. On stdout it would mix with the answer.
    python = parent(
        Path(os.environ["META_EVAL_RUNS"], "bin/python"), *_IMPORTED, PYTHONPATH=ours["PYTHONPATH"],
        VLLM_LOGGING_STREAM="ext://sys.stderr",
    )  # fmt: skip
    running = Forked([str(word) for word in words], folder, subprocess.PIPE, ours, parent=python)
    out, error = running.communicate(SECONDS)
    assert running.wait() == 0, f"{running.returncode}: {error[-3000:]}"
    return out


def project(folder: Path, model: Path, **changes: Any) -> Path:
    """Make a folder with a configuration and a copy of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval_config.yaml").write_text(json.dumps({**CONFIG, **changes}))
    shutil.copytree(model, folder / "tiny")
    return folder


def start(folder: Path) -> subprocess.Popen[str]:
    """Start ``meta-eval run`` in the engine's virtual environment, META_EVAL_RUNS."""
    python = Path(os.environ["META_EVAL_RUNS"], "bin/python")
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(
            [python, "-m", "meta_eval", "run", "--json"],
            cwd=folder,
            env=environment(),
            stdout=log,
            stderr=log,
            text=True,
        )


def run(folder: Path) -> None:
    code = start(folder).wait(timeout=SECONDS)
    assert code == 0, (folder / "log.txt").read_text()[-3000:]


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the journal after the first, without a half line of a crash."""
    result = []
    for path in (folder / "eval_results/answers").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]:
            if line.endswith("\n"):
                result.append(json.loads(line))
    return result


def answers(folder: Path, *fields: str) -> dict[str, tuple[Any, ...]]:
    """Return some fields of each request's answer. Each request must have a single answer."""
    kept = lines(folder)
    assert len({text["id"] for text in kept}) == len(kept)
    return {text["id"]: tuple(text.get(field) for field in fields) for text in kept}


def likelihoods(folder: Path) -> dict[str, list[float]]:
    return {
        line["id"]: [choice["logprob"] for choice in line["choices"]] for line in lines(folder) if "choices" in line
    }


def scores(folder: Path, output: str = "eval_results") -> Any:
    (path,) = (folder / output / "tiny").glob("results_*.json")
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def verdicts_of(folder: Path) -> dict[str, list[str]]:
    """Return the verdicts of the docs by task."""
    return {
        path.name.removeprefix("samples_").rpartition("_")[0]: verdicts(
            [json.loads(line) for line in path.open(encoding="utf-8")]
        )
        for path in (folder / "eval_results/tiny").glob("samples_*.jsonl")
    }


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of all processes below a process, by id."""
    parents, words = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            words[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:  # it has ended
            continue
    result = {pid}
    while new := {child for child, parent in parents.items() if parent in result} - result:
        result |= new
    return {child: words.get(child, "") for child in result - {pid}}


def runs_still(pid: int) -> bool:
    """Whether a process runs. A zombie does not, which can remain without a process that adopts orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(true: Callable[[], Any], seconds: float = SECONDS) -> None:
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
