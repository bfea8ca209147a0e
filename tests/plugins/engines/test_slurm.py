"""The job scripts of `meta-eval slurm`, checked and run without a Slurm; tests/plugins/engines/real/test_slurm.py runs them under one."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import cli
from forked import forked, passed, python, started
from marks import few, thorough
from places import HELPERS, REPOSITORY, THOROUGH
from shared import shared_templates
from small_model import write_tokenizer

from meta_eval.base.errors import ConfigError
from meta_eval.harness.settings import RunSettings
from meta_eval.plugins.engines.slurm.slurm_jobs import SCRIPTS, Jobs, count_gpus, render_scripts

TASKS = "meta_gpqa,meta_mmlu_pretrain"
STAND_IN = f"{REPOSITORY / 'src'}:{HELPERS / 'stand_in'}"


def settings(**keys: object) -> RunSettings:
    return RunSettings.model_validate({"model_name": "tiny", "tasks": ("x",), "include_path": "work_dir", **keys})


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration, and a model that no engine is needed for, in a folder that a shell would trip over."""
    folder = tmp_path / "it's a $(run) \"\\ of\nmine"
    write_tokenizer(folder / "tiny")
    templates = shared_templates(tmp_path_factory, "gpqa", "mmlu", "code")
    config = {"model_name": "tiny", "evals_dataset": "sample", "tasks": TASKS, "max_model_len": 65536,
              "template_dir": str(templates)}  # fmt: skip
    (folder / "eval_config.yaml").write_text(json.dumps(config))
    return folder


def answered(project: Path) -> list[str]:
    """The ids in all files of answers, but for a line that is being written."""
    lines = [
        line
        for file in (project / "eval_results/answers").glob("*.jsonl")
        for line in file.read_text().splitlines(True)
    ]
    return [json.loads(line)["id"] for line in lines if "request_sha256" in line and line.endswith("\n")]


@pytest.fixture
def forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts start the Python that runs `meta-eval slurm`: one that forks, but in CI."""
    if not THOROUGH:
        monkeypatch.setattr(sys, "executable", str(python(tmp_path / "bin")))


def start(script: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **passed({**os.environ, "PYTHONPATH": STAND_IN, **environment}),
    )  # fmt: skip


def bash(script: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    running = start(script, **environment)
    out, error = running.communicate()
    return subprocess.CompletedProcess([str(script)], running.returncode, out, error)


# What a shell must be kept from, with a line for GPUs and without one. The line is a comment to a shell, whatever the
# model is called: in CI each comes with each.
MODELS = "meta-llama/Llama-3.1-405B-Instruct-FP8", '/scratch/it\'s "my" $(model) #SBATCH -N9'
GPUS = "0", "h100:8", None
# Each of the shards with each of the nodes, and each of both with each model and with a line for GPUs and without.
EACH_WITH_EACH = [(1, 1, MODELS[0], GPUS[0]), (1, 2, MODELS[1], GPUS[1]), (64, 1, MODELS[1], GPUS[2]),
                  (64, 2, MODELS[0], GPUS[2])]  # fmt: skip


def test_shellcheck_finds_nothing_in_any_script(tmp_path: Path) -> None:
    cases = [*itertools.product((1, 64), (1, 2), MODELS, GPUS)] if THOROUGH else EACH_WITH_EACH
    folders = [write_scripts(tmp_path / f"{number}", *case) for number, case in enumerate(cases)]
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck, "the dependency group dev brings it"
    # 2016: what looks like an expansion in single quotes is a name of ours that must not be expanded.
    process = subprocess.run(
        [shellcheck, "--exclude=SC2016", *(folder / name for folder in folders for name in SCRIPTS)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (0, "")


def write_scripts(place: Path, shards: int, nodes: int, model: str, gpus: str | None) -> Path:
    place.mkdir()
    run = settings(
        model_name=model,
        tensor_parallel_size=8,
        output_path="out put/'s",
        model_args={"quantization": "a'b c", "x": True},
    )
    jobs = Jobs(
        shards=shards, nodes=nodes, gpus=gpus, partition="gpu,long", time="2-00:00:00", lines=('--comment="a b"',),
        answer_lines=("--mem=0",), grade_lines=("--mem=8G",),
    )  # fmt: skip
    written = render_scripts(
        run, jobs, place / "a 'b'", ["--config", "my 'c'.yaml", "--set", "a=$(b)\nc"], pack=Path("work dir")
    )
    assert tuple(written) == SCRIPTS
    for name, text in written.items():
        (place / name).write_text(text)
        head = [line for line in text.partition("set -euo")[0].splitlines() if line]
        assert all(line.startswith("#") for line in head)  # sbatch stops reading at the first that does not
        assert not any(line.startswith("#SBATCH -N9") for line in head)
    return place


@thorough
def test_the_scripts_name_what_is_missing_and_in_the_end_give_what_one_run_gives(project: Path, forks: None) -> None:
    done = cli("slurm", "--no-canary", "--shards", "2", "--output", "my jobs", "--gpus-per-task", "0", cwd=project)
    assert done.returncode == 0
    answer, grade = project / "my jobs/answer.sbatch", project / "my jobs/grade.sbatch"
    assert bash(answer, SLURM_ARRAY_TASK_ID="0", SLURM_JOB_ID="7").returncode == 0
    half = bash(grade)
    assert half.returncode == 1
    assert "unanswered: meta_gpqa 7, meta_mmlu_pretrain 8. " in half.stderr
    assert "! not all docs: " in half.stdout
    assert bash(answer, SLURM_ARRAY_TASK_ID="1", SLURM_JOB_ID="8").returncode == 0
    whole = bash(grade)
    assert (whole.returncode, "! not all docs: " in whole.stdout) == (0, False)
    logs = sorted((project / "eval_results/answers/logs").rglob("vllm.log"))
    assert [log.parent.name for log in logs] == ["0-of-2", "1-of-2"]
    command = "run", "--no-canary", "--set", "output_path=whole", "--json"
    content = json.loads(forked(*command, cwd=project, PYTHONPATH=STAND_IN).stdout)
    graded = json.loads(max(project.glob("eval_results/tiny/results_*.json")).read_text())["results"]
    assert content["tasks"] == {
        task: {name: scores[name] for name in content["tasks"][task]} for task, scores in graded.items()
    }


@thorough
def test_a_job_whose_grading_fails_ends_as_that_does_and_reports_nothing(project: Path, forks: None) -> None:
    cli("slurm", "--no-canary", cwd=project)
    config = project / "eval_config.yaml"
    config.write_text(config.read_text().replace('"tasks"', '"tsaks"'))
    done = bash(project / "slurm/grade.sbatch")
    assert done.returncode == 2
    assert "did you mean 'tasks'" in done.stderr
    assert "Traceback" not in done.stderr


def test_scripts_that_were_edited_stay_and_stop_the_command_before_it_works(project: Path) -> None:
    folder = project / "slurm"
    assert cli("slurm", cwd=project).returncode == 0
    (folder / "answer.1_0.log").write_text("a job's")
    assert cli("slurm", "--shards", "2", cwd=project).returncode == 0
    for name in SCRIPTS:
        text = (folder / name).read_text()
        (folder / name).write_text(text + "# mine\n")
        shutil.rmtree(project / "work_dir", ignore_errors=True)
        done = cli("slurm", "--shards", "4", cwd=project)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{name} would be replaced" in " ".join(done.stderr.split())
        assert (folder / name).read_text() == text + "# mine\n"
        assert not (project / "work_dir").exists()
        (folder / name).write_text(text)
    assert "--array=0-1" in (folder / "answer.sbatch").read_text()
    assert (folder / "answer.1_0.log").read_text() == "a job's"


@thorough
def test_no_job_imports_a_module_of_the_folder_that_it_runs_in(project: Path) -> None:
    cli("slurm", "--no-canary", cwd=project)
    for name in ("typer", "queue", "json", "socket", "sitecustomize"):
        (project / f"{name}.py").write_text(f"open({str(project / 'imported')!r}, 'a').write('{name}')")
    done = bash(project / "slurm/grade.sbatch")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert not (project / "imported").exists()
    for name in SCRIPTS:
        assert "python3 -c" not in (project / "slurm" / name).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tasks", "meta_gpqq"], "unknown task or group 'meta_gpqq'; did you mean 'meta_gpqa'?"),
        (["--set", "tasks=meta_human_eval", "--set", "allow_code=true"], "scoring runs model-written code"),
    ],
)
def test_tasks_that_a_job_would_refuse_are_refused_before_anything_is_written(
    project: Path, words: list[str], message: str
) -> None:
    done = cli("slurm", *words, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert not (project / "slurm").exists()


def test_a_number_of_shards_that_is_none_is_refused(tmp_path: Path) -> None:
    done = cli("slurm", "--shards", "0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: --shards: 0 is not a number of shards. Write 1 or more" in done.stderr


def test_the_jobs_are_given_the_tasks_and_flags(project: Path) -> None:
    assert cli("slurm", "--tasks", "meta_gpqa, meta_mmlu_pretrain", "--allow-code", cwd=project).returncode == 0
    text = (project / "slurm/answer.sbatch").read_text()
    assert " -P -m meta_eval run " in text
    assert " --tasks=meta_gpqa --tasks=meta_mmlu_pretrain --allow-code --shard" in text


def test_grade_only_starts_no_engine_and_grades_no_shard(project: Path) -> None:
    assert cli("run", "--grade-only", cwd=project).returncode == 2  # there is no answer at all
    assert not (project / "eval_results/answers/logs").exists()
    done = cli("run", "--grade-only", "--shard", "0/2", cwd=project)
    assert (done.returncode, "--grade-only" in done.stderr) == (2, True)


def test_answers_that_cannot_be_graded_make_the_exit_code_one(project: Path) -> None:
    words = ("run", "--no-canary", "--no-report")
    assert forked(*words, cwd=project, PYTHONPATH=STAND_IN).returncode == 0
    for file in (project / "eval_results/answers").glob("*.jsonl"):
        file.write_text(re.sub(r'"logprob": -[0-9.e-]+', '"logprob": 2.5', file.read_text()))
    done = forked(*words, "--grade-only", cwd=project, PYTHONPATH=STAND_IN)
    assert (done.returncode, "a log-probability of a choice is above 0" in done.stderr) == (1, True), done.stderr


SBATCH = """#!/bin/sh
printf '%s\\n' "$*" >>calls
case $* in *grade*) exit $GRADE_FAILS ;; esac
echo '41;cluster'
"""


@pytest.mark.parametrize("fails", [0, 1])
def test_submit_chains_the_grade_behind_all_shards_however_they_end(project: Path, tmp_path: Path, fails: int) -> None:
    cli("slurm", "--no-canary", "--shards", "2", cwd=project)
    for name, text in (("sbatch", SBATCH), ("scancel", "#!/bin/sh\necho scancel $* >>calls\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    done = bash(project / "slurm/submit.sh", PATH=f"{tmp_path}:{os.environ['PATH']}", GRADE_FAILS=str(fails))
    calls = (project / "slurm/calls").read_text().splitlines()
    assert calls[:2] == ["--parsable answer.sbatch", "--parsable --dependency=afterany:41 grade.sbatch"]
    assert calls[2:] == (["scancel 41"] if fails else [])
    assert done.returncode == fails


@pytest.mark.parametrize(("shards", "seconds", "called"), few([(2, 0.2, True), (1, 0.2, True), (2, 60.0, False)], 2))
def test_a_job_whose_time_is_nearly_up_asks_for_the_queue_only_if_it_got_on(
    project: Path, forks: None, tmp_path: Path, shards: int, seconds: float, called: bool
) -> None:
    cli("slurm", "--no-canary", "--shards", str(shards), cwd=project)
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\nprintf '%s' \"$*\" >'{tmp_path}/called'\nkill $PPID\n")
    (tmp_path / "scontrol").chmod(stat.S_IRWXU)
    job = start(
        project / "slurm/answer.sbatch", PATH=f"{tmp_path}:{os.environ['PATH']}", STAND_IN_SECONDS=str(seconds),
        SLURM_ARRAY_TASK_ID="0", SLURM_JOB_ID="41",
    )  # fmt: skip
    logs, end = project / "eval_results/answers/logs", time.monotonic() + 120
    while not (any(project.glob("eval_results/answers/*.jsonl")) and len(answered(project)) >= 2 * called
               and any(logs.rglob("vllm.log"))):  # fmt: skip
        assert job.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    job.send_signal(signal.SIGUSR1)
    _, words = job.communicate(timeout=60)
    if called:
        assert (tmp_path / "called").read_text() == "requeue 41"
        assert "back into the queue" in words
    else:
        assert (job.returncode, (tmp_path / "called").exists()) == (1, False)
        assert "raise --time" in words


@pytest.mark.parametrize(
    "wrong",
    [
        {"lines": ("--account=a\n#SBATCH --uid=0",)}, {"lines": ("rm -rf /",)}, {"answer_lines": ("--array=0-9",)},
        {"grade_lines": ("--dependency=afterok:1",)}, {"lines": ("-N 4",)}, {"partition": "gpu\n"}, {"partition": "a b"},
        {"time": "1 day"}, {"time": "10:00\n"}, {"gpus": "eight"}, {"gpus": "8\n"}, {"gpus": "\uff19"}, {"time": "\uff110"}, {"partition": "\uff50"}, {"shards": 0}, {"nodes": 0},
        {"lines": ("--comment=hf_abcdefghijklmnopqrstuv",)},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_stand_in_an_sbatch_line_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Jobs(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "jobs", "gpus"),
    [
        ({}, Jobs(), "1"),
        ({"tensor_parallel_size": 16}, Jobs(nodes=2), "8"),
        ({"tensor_parallel_size": 8, "model_args": {"pipeline_parallel_size": 2}}, Jobs(nodes=2), "8"),
        ({"tensor_parallel_size": 4}, Jobs(gpus="a100:8"), "a100:8"),
        ({}, Jobs(gpus="0"), None),
        ({"backend": "server", "tensor_parallel_size": 8, "serve": True}, Jobs(), "8"),
        ({"backend": "server", "base_url": "http://gpus:8000/v1"}, Jobs(shards=2), None),
    ],
)
def test_a_node_asks_for_the_gpus_of_its_part_of_the_model(
    keys: dict[str, object], jobs: Jobs, gpus: str | None
) -> None:
    assert count_gpus(settings(**keys), jobs) == gpus


@pytest.mark.parametrize(
    ("keys", "jobs"),
    [
        ({"tensor_parallel_size": 8}, Jobs(nodes=3)),
        ({"tensor_parallel_size": 16}, Jobs(nodes=2, gpus="4")),
        ({"tensor_parallel_size": 8, "data_parallel_size": 2}, Jobs(nodes=2)),
        ({"model_args": {"pipeline_parallel_size": "two"}}, Jobs()),
        ({"tensor_parallel_size": 2, "model_args": {"lora_local_path": "adapter"}}, Jobs(nodes=2)),
        ({"tensor_parallel_size": 2, "model_args": {"think_end_token": "</think>"}}, Jobs(nodes=2)),
    ],
)
def test_a_layout_that_does_not_fit_the_model_is_refused(keys: dict[str, object], jobs: Jobs) -> None:
    with pytest.raises(ConfigError):
        render_scripts(settings(**keys), jobs, Path("/folder"), [], pack=Path("work_dir"))


def test_no_credential_is_written(project: Path) -> None:
    token = "hf_" + "a" * 30
    assert cli("slurm", cwd=project, HF_TOKEN=token).returncode == 0
    assert not [path for path in (project / "slurm").iterdir() if token in path.read_text()]
    done = cli("slurm", "--set", f"base_url=http://me:{token}@host/v1", cwd=project)
    assert (done.returncode, "api_key_env" in done.stderr, token in done.stderr) == (2, True, False)


@thorough
def test_sigterm_ends_a_run_in_order_and_the_same_command_goes_on(project: Path) -> None:
    command = "run", "--no-canary", "--json"
    running = started(*command, cwd=project, PYTHONPATH=STAND_IN, STAND_IN_SECONDS="0.2")
    end = time.monotonic() + 60
    while len(answered(project)) < 2:
        assert running.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, words = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in words
    before = answered(project)
    again = forked(*command, cwd=project, PYTHONPATH=STAND_IN, STAND_IN_SECONDS="0")
    assert again.returncode == 0, again.stderr
    output = json.loads(again.stdout)
    assert output["before"] == len(before)
    assert len(answered(project)) == len(set(answered(project))) == output["before"] + output["asked"]
