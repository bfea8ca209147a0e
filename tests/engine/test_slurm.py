"""The scripts of `meta-eval slurm` under a real Slurm on this machine, with a stand-in for the engine.

Needs root and Debian's slurm-wlm and munge; .ci/run installs them.
"""

from __future__ import annotations

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
from stand_in_model import write_model

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
    write_model(folder / "tiny")
    config = {"model_name": "tiny", "evals_dataset": "sample", "tasks": TASKS, "max_model_len": 65536}
    (folder / "eval_config.yaml").write_text(json.dumps(config))
    return folder


class Job:
    """What `meta-eval slurm` wrote, submitted."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str) -> None:
        self.folder, self.environment = folder, environment
        self.run("-m", "meta_eval", "slurm", "--shards", "2", "--gpus-per-task", "0", "--output", 'my "jobs"', *options)

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
        found = {}
        for path in sorted((self.folder / output).rglob("samples_*.jsonl")):
            samples = [json.loads(line) for line in path.read_text().splitlines()]
            kept = [
                {name: one[name] for name in ("doc_id", "filter", "filtered_resps", *one["metrics"])} for one in samples
            ]
            found[path.name.removeprefix("samples_").rpartition("_")[0]] = kept
        return found


def test_a_shard_that_is_requeued_in_mid_run_goes_on_and_the_whole_is_that_of_one_run(
    project: Path, cluster: dict[str, str]
) -> None:
    job = Job(project, cluster, "--time", "5", "--sbatch", '--comment="a b"')
    job.submit(seconds=0.3)
    job.until(lambda: len(job.answered()) == 2 and all(len(ids) >= 2 for ids in job.answered()))
    job.slurm("scontrol", "requeue", f"{job.answer}_0")
    assert job.facts(job.grade)["JobState"] == "PENDING"
    assert job.ended()["ExitCode"] == "0:0", job.log()
    assert [job.facts(f"{job.answer}_{shard}")["Restarts"] for shard in (0, 1)] == ["1", "0"]
    answered = [name for ids in job.answered() for name in ids]
    assert len(answered) == len(set(answered))
    job.run("-m", "meta_eval", "run", "--set", "output_path=whole")
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
    assert "not answered: " in job.log()
    before = job.answered()
    job.submit()
    assert job.ended()["ExitCode"] == "0:0"
    after = job.answered()
    assert before[0] == after[0]
    assert before[1] == after[1][: len(before[1])]
    assert len(after[1]) > len(before[1])


def test_a_shard_whose_time_is_nearly_up_goes_back_into_the_queue(project: Path, cluster: dict[str, str]) -> None:
    job = Job(project, cluster)
    job.submit(seconds=0.3)
    job.until(lambda: len(job.answered()) == 2 and all(job.answered()))
    job.slurm("scancel", "--batch", "--signal=USR1", f"{job.answer}_0")  # as Slurm itself does, two minutes before
    assert job.ended()["ExitCode"] == "0:0", job.log()
    assert job.facts(f"{job.answer}_0")["Restarts"] == "1"
    assert "back into the queue" in job.log()


FAKE = """#!{python}
import http.server, json, os, pathlib, sys, time
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
pathlib.Path(__file__).with_name("rank." + value("--node-rank")).write_text(json.dumps([os.getpid(), words]))
if "--headless" in words:
    time.sleep(600)
time.sleep(1)
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
http.server.HTTPServer((value("--host"), int(value("--port"))), Health).serve_forever()
"""

# In the place of the interpreter: writes down what is run, and how the server answers then.
PYTHON = """#!/usr/bin/env bash
[[ $1 == -m ]] || exec {python} "$@"
url=${{@: -1}} url=${{url#base_url=}}
printf '%s\\n' "$@" "$({python} -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status)' \\
  "${{url%%/v1*}}/health")" >{folder}/asked
exec sleep "$SECONDS_OF_RUN"
"""


@pytest.mark.parametrize("cancelled", [False, True], ids=["to its end", "cancelled"])
def test_a_model_over_two_nodes_is_served_asked_and_stopped(
    tmp_path: Path, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    from meta_eval.engines.settings import RunSettings
    from meta_eval.running.slurm import Jobs, scripts

    folder = tmp_path / "a b"
    folder.mkdir()
    for name, text in (("vllm", FAKE), ("python3", PYTHON)):
        (folder / name).write_text(text.format(python=sys.executable, folder=f"'{folder}'"))
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setattr(sys, "executable", str(folder / "python3"))
    monkeypatch.chdir(folder)
    settings = RunSettings(
        model_name="org/it's", tensor_parallel_size=8, model_args={"pipeline_parallel_size": 2, "enforce_eager": True},
        tasks=("meta_gpqa",), include_path="work_dir",
    )  # fmt: skip
    jobs = Jobs(nodes=2, gpus="0", answer_lines=("--cpus-per-task=2",))
    written = scripts(settings, jobs, folder, ["--config", "c.yaml"], pack=Path("work_dir"))
    (folder / "answer.sbatch").write_text(written["answer.sbatch"])
    environment = {**cluster, "SECONDS_OF_RUN": "60" if cancelled else "1"}
    job = subprocess.run(
        ["sbatch", "--parsable", "answer.sbatch"], env=environment, check=True, text=True, capture_output=True
    ).stdout.strip()

    def state() -> str:
        shown = subprocess.run(["scontrol", "--oneliner", "show", "job", job], env=environment, check=True,
                               text=True, capture_output=True).stdout  # fmt: skip
        return shown.partition("JobState=")[2].split()[0]

    def log() -> str:
        return "\n".join(path.read_text() for path in folder.glob("*.log"))

    def until(true: Callable[[], Any]) -> None:
        end = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < end, log()
            time.sleep(0.2)

    until(lambda: (folder / "asked").exists() or state() == "FAILED")
    assert (folder / "asked").exists(), log()
    if cancelled:
        subprocess.run(["scancel", job], env=environment, check=True)
    until(lambda: state() in ("COMPLETED", "FAILED", "CANCELLED"))
    assert state() == ("CANCELLED" if cancelled else "COMPLETED"), log()
    asked = (folder / "asked").read_text().splitlines()
    assert asked[:7] == ["-m", "meta_eval", "run", "--config", "c.yaml", "--shard", "0/1"]
    assert asked[7:9] == ["--set", "backend=server"]
    assert asked[-1] == "200"
    served = [json.loads((folder / f"rank.{rank}").read_text()) for rank in (0, 1)]
    assert [words[:2] for _, words in served] == [["serve", "org/it's"]] * 2
    assert [("--headless" in words) for _, words in served] == [False, True]
    for _, words in served:
        assert {"--nnodes", "--pipeline-parallel-size=2", "--tensor-parallel-size=8", "--enforce-eager"} <= {*words}
        assert words[words.index("--master-addr") + 1] == "127.0.0.1"
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid, _ in served))
