"""The scripts of `meta-eval slurm` under a real Slurm on this machine, with a stand-in for the engine.

Needs root and Debian's slurm-wlm and munge; .ci/run installs them.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import HELPERS, REPOSITORY
from small_model import write_tokenizer

pytestmark = pytest.mark.engine

# A limit, and no measure: a busy machine is slow.
SECONDS = 300
TASKS = "meta_gpqa,meta_mmlu_instruct,meta_mmlu_pretrain"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two nodes; what a command needs in its environment to speak with them."""
    folder = tmp_path_factory.mktemp("cluster")
    tool = str(REPOSITORY / "tools/slurm_here.sh")
    subprocess.run([tool, "start", str(folder), "2"], check=True, timeout=60)
    paths = [str(REPOSITORY / "src"), str(HELPERS / "stand_in"), os.environ.get("PYTHONPATH", "")]
    try:
        yield {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PYTHONPATH": ":".join(filter(None, paths))}
    finally:
        subprocess.run([tool, "stop", str(folder)], check=True, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "it's a $(run)"
    write_tokenizer(folder / "tiny")
    config = {"model_name": "tiny", "evals_dataset": "sample", "tasks": TASKS, "max_model_len": 65536}
    (folder / "eval_config.yaml").write_text(json.dumps(config))
    return folder


class Job:
    """What `meta-eval slurm` wrote, submitted."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str) -> None:
        self.folder, self.environment = folder, environment
        self.run(
            "-m",
            "meta_eval",
            "slurm",
            "--no-canary",
            "--shards",
            "2",
            "--gpus-per-task",
            "0",
            "--output",
            'my "jobs"',
            *options,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=self.environment, check=True, text=True, capture_output=True
        )

    def submit(self, seconds: float = 0.0) -> None:
        script = str(self.folder / 'my "jobs"' / "submit.sh")
        environment = {**self.environment, "STAND_IN_SECONDS": str(seconds)}
        done = subprocess.run(["bash", script], env=environment, check=True, text=True, capture_output=True)
        self.answer, self.grade = done.stdout.split()

    def slurm(self, *words: str) -> str:
        return subprocess.run(words, env=self.environment, check=True, text=True, capture_output=True).stdout

    def facts(self, job: str) -> dict[str, str]:
        """Of one job, by the names that scontrol gives them."""
        words = self.slurm("scontrol", "--oneliner", "show", "job", job).split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def until(self, true: Callable[[], Any]) -> None:
        end = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)

    def ended(self) -> dict[str, str]:
        """The grading job, when it has ended."""
        self.until(lambda: self.facts(self.grade)["JobState"] in ("COMPLETED", "FAILED", "CANCELLED"))
        return self.facts(self.grade)

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.folder / 'my "jobs"').glob("*.log")))

    def answered(self) -> list[list[str]]:
        """The ids that stand in each shard's file of answers."""
        files = sorted((self.folder / "eval_results/answers").glob("*-of-2.jsonl"))
        return [[json.loads(line)["id"] for line in file.read_text().splitlines()[1:]] for file in files]

    def verdicts(self, output: str = "eval_results") -> dict[str, list[Any]]:
        """By task what lm-eval made of each doc."""
        kept_verdicts = {}
        for path in sorted((self.folder / output).rglob("samples_*.jsonl")):
            samples = [json.loads(line) for line in path.read_text().splitlines()]
            kept = [
                {name: sample[name] for name in ("doc_id", "filter", "filtered_resps", *sample["metrics"])}
                for sample in samples
            ]
            kept_verdicts[path.name.removeprefix("samples_").rpartition("_")[0]] = kept
        return kept_verdicts


def test_shards_that_are_requeued_in_mid_run_go_on_and_the_whole_is_that_of_one_run(
    project: Path, cluster: dict[str, str]
) -> None:
    job = Job(project, cluster, "--time", "5", "--sbatch", '--comment="a b"')
    job.submit(seconds=0.5)
    job.until(lambda: len(job.answered()) == 2 and all(len(ids) >= 2 for ids in job.answered()))
    job.slurm("scontrol", "requeue", f"{job.answer}_0")
    job.slurm("scancel", "--batch", "--signal=USR1", f"{job.answer}_1")  # as Slurm does, two minutes before its time
    assert job.facts(job.grade)["JobState"] == "PENDING"
    assert job.ended()["ExitCode"] == "0:0", job.log()
    assert [job.facts(f"{job.answer}_{shard}")["Restarts"] for shard in (0, 1)] == ["1", "1"]
    assert job.log().count("back into the queue") == 1
    answered = [name for ids in job.answered() for name in ids]
    assert len(answered) == len(set(answered))
    job.run("-m", "meta_eval", "run", "--no-canary", "--set", "output_path=whole")
    assert sorted(job.verdicts()) == sorted(TASKS.split(","))
    assert job.verdicts() == job.verdicts("whole")
    assert (project / "eval_results/report.html").exists()


def test_what_a_cancelled_shard_left_open_is_named_and_asked_when_submitted_again(
    project: Path, cluster: dict[str, str]
) -> None:
    job = Job(project, cluster)
    job.submit(seconds=0.2)
    job.until(lambda: len(job.answered()) == 2 and job.answered()[1])
    job.slurm("scancel", f"{job.answer}_1")
    assert job.ended()["ExitCode"] == "1:0"
    assert "unanswered: " in job.log()
    before = job.answered()
    job.submit()
    assert job.ended()["ExitCode"] == "0:0"
    after = job.answered()
    assert before[0] == after[0]
    assert before[1] == after[1][: len(before[1])]
    assert len(after[1]) > len(before[1])


# In the place of `vllm serve`: writes down how it was started; the first node answers, the others wait.
SERVE = """#!{python}
import json, os, pathlib, sys, time
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
written = pathlib.Path(".rank." + value("--node-rank"))
written.write_text(json.dumps([os.getpid(), words]))
written.rename(written.name[1:])
if "--headless" in words:
    time.sleep(600)
time.sleep(1)
sys.path.insert(0, {helpers!r})
from fake_server import FakeServer
seconds, key = float(os.environ["STAND_IN_SECONDS"]), os.environ["VLLM_API_KEY"]
with FakeServer(port=int(value("--port")), model=words[1], seconds=seconds, key=key):
    time.sleep(600)
"""


@pytest.mark.parametrize("cancelled", [False, True], ids=["to its end", "cancelled"])
def test_a_model_over_two_nodes_is_served_asked_and_stopped(
    project: Path, tmp_path: Path, cluster: dict[str, str], cancelled: bool
) -> None:
    (tmp_path / "vllm").write_text(SERVE.format(python=sys.executable, helpers=str(HELPERS)))
    (tmp_path / "vllm").chmod(stat.S_IRWXU)
    environment = {**cluster, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    sizes = ("tensor_parallel_size=8", "model_args.pipeline_parallel_size=2")
    words = [word for size in sizes for word in ("--set", size)]
    job = Job(project, environment, "--shards", "1", "--nodes", "2", "--sbatch-answer=--cpus-per-task=2", *words)
    job.submit(seconds=60.0 if cancelled else 0.0)

    def served() -> list[tuple[int, list[str]]]:
        return [tuple(json.loads(path.read_text())) for path in sorted(project.glob("rank.*"))]

    if cancelled:
        job.until(lambda: len(served()) == 2 and any(project.glob("eval_results/answers/*.jsonl")))
        job.slurm("scancel", job.answer)
    assert job.ended()["ExitCode"] == ("2:0" if cancelled else "0:0"), job.log()
    assert [words[:2] for _, words in served()] == [["serve", "tiny"]] * 2
    assert [("--headless" in words) for _, words in served()] == [False, True]
    for _, words in served():
        assert ("--host", "127.0.0.1") in itertools.pairwise(words)
        for name, value in (("--pipeline-parallel-size", "2"), ("--tensor-parallel-size", "8"), ("--nnodes", "2")):
            assert words[words.index(name) + 1] == value
        assert words[words.index("--master-addr") + 1] == "127.0.0.1"
    job.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid, _ in served()))
    assert cancelled or sorted(job.verdicts()) == sorted(TASKS.split(","))
