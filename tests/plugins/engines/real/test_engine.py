"""The printed command, run as it is on the real vLLM engine: the sample, a tiny Llama on a CPU, another folder.

META_EVAL_ENGINE names a virtual environment with vLLM and lm-eval and without meta-eval; .ci/run makes it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from golden import verdicts
from on_engines import ready, verdicts_of
from places import GOLDEN

pytestmark = pytest.mark.engine

# "terminate called without an active exception": seen when all was answered and written; some C++ thread of the engine
# outlived its process. lm_eval had ended by then, so what it wrote is what counts.
ABORTED = 134

# What the same model says under transformers, where the number of BOS in front is ours to choose: the greedy answer
# without BOS, and the log-likelihood of a continuation with none, one and two.
ASK = """
import json, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained("tiny"), AutoTokenizer.from_pretrained("tiny")
encode = lambda text: tokenizer(text, add_special_tokens=False).input_ids
asked = json.load(open("asked.json"))
says, likelihoods = [], []
with torch.no_grad():
    for prompt in asked["prompts"]:
        ids = torch.tensor([encode(prompt)])
        out = model.generate(ids, max_new_tokens=8, do_sample=False)
        says.append(tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True))
    for context, continuation in asked["continuations"]:
        start, end = encode(context), encode(continuation)
        likelihoods.append([])
        for count in range(3):
            ids = [tokenizer.bos_token_id] * count + start + end
            found = model(torch.tensor([ids])).logits[0, -len(end) - 1:-1].log_softmax(-1)
            likelihoods[-1].append(float(found.gather(1, torch.tensor(end)[:, None]).sum()))
print(json.dumps([says, likelihoods]))
"""


@dataclass(frozen=True)
class Finished:
    """What a run left: the taught prompts with their answers, what prepare printed, results and samples by task."""

    taught: Mapping[str, str]
    prepared: Mapping[str, Any]
    results: Mapping[str, Any]
    samples: Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(scope="module")
def prepared(folder: Path) -> dict[str, Any]:
    """What prepare said of the sample."""
    config = {
        "model_name": "tiny",
        "evals_dataset": "sample",
        "tasks": "meta_instruct,meta_pretrain",
        "dtype": "float32",
        "gpu_memory_utilization": 0.3,
        "model_args": {"enforce_eager": True},
    }
    (folder / "eval_config.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "meta_eval", "prepare", "--json"]
    output: dict[str, Any] = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    return output


@pytest.fixture(scope="module")
def taught(folder: Path, taught_model: tuple[Path, Mapping[str, str]]) -> Mapping[str, str]:
    """A model in ``tiny`` that knows some recorded answers by heart."""
    model, known = taught_model
    shutil.copytree(model, folder / "tiny")
    return known


@pytest.fixture(scope="module")
def finished(folder: Path, prepared: dict[str, Any], taught: Mapping[str, str], engine: Path) -> Finished:
    assert not list(engine.glob("lib/python*/site-packages/meta_eval*"))
    there = folder.with_name("moved")
    shutil.move(folder, there)
    environment = {
        **os.environ,
        "PATH": f"{engine / 'bin'}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    command = ["sh", "-c", prepared["command"]]
    done = subprocess.run(command, cwd=there, check=False, env=environment)
    if done.returncode == ABORTED and list((there / "eval_results").rglob("results_*.json")):
        warnings.warn("the engine aborted at its end, when all was written", stacklevel=1)
    else:
        assert done.returncode == 0
    (results,) = (there / "eval_results").rglob("results_*.json")
    samples = {
        path.name.removeprefix("samples_").rpartition("_")[0]: [
            json.loads(line) for line in path.open(encoding="utf-8")
        ]
        for path in (there / "eval_results").rglob("samples_*.jsonl")
    }
    return Finished(taught, prepared, json.loads(results.read_text(encoding="utf-8")), samples)


def test_results_and_samples_of_every_task_are_written(finished: Finished) -> None:
    tasks = finished.prepared["tasks"]
    assert set(finished.samples) == set(tasks)
    assert len(tasks) >= 10
    for task, entry in tasks.items():
        assert len({sample["doc_id"] for sample in finished.samples[task]}) == entry["rows"]
        scores = {k: v for k, v in finished.results["results"][task].items() if "," in k and "_stderr" not in k}
        assert scores
        assert all(isinstance(score, float) and not math.isnan(score) for score in scores.values())


def test_the_engine_gives_every_taught_answer_back_word_for_word(finished: Finished) -> None:
    """Greedy decoding, the whole prompt and a BOS, or the model would say something else."""
    answers = {
        sample["doc"]["prompt"]: sample["resps"][0][0]
        for samples in finished.samples.values()
        for sample in samples
        if sample["doc"]["prompt"] in finished.taught and isinstance(sample["resps"][0][0], str)
    }
    assert answers == dict(finished.taught)


def test_a_taught_answer_gets_the_verdict_that_its_replay_gets(finished: Finished) -> None:
    for task, samples in finished.samples.items():
        known = [sample for sample in samples if sample["doc"]["prompt"] in finished.taught]
        golden = (GOLDEN / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
        assert set(verdicts(known)) <= set(golden)


def test_run_gives_every_verdict_that_the_stock_command_gives(finished: Finished, in_process: Path) -> None:
    assert {task: verdicts(samples) for task, samples in finished.samples.items()} == verdicts_of(in_process)


def test_the_engine_was_asked_with_exactly_one_bos(finished: Finished, folder: Path) -> None:
    asked, given = [], []
    for samples in finished.samples.values():
        for sample in samples:
            for arguments, (response,) in zip(sample["arguments"].values(), sample["resps"], strict=True):
                if not isinstance(response, str):
                    asked.append([arguments["arg_0"], arguments["arg_1"]])
                    given.append(float(response[0]))
    assert asked
    there = folder.with_name("moved")
    (there / "asked.json").write_text(json.dumps({"prompts": list(finished.taught), "continuations": asked}))
    says, likelihoods = json.loads(ready("-c", ASK, folder=there))
    # Taught answers came back, and without BOS they would not have.
    assert set(says) == {"BOS?"}
    # A likelihood tells two from one as well, which a taught answer does not.
    none, single, two = zip(*likelihoods, strict=True)
    assert given == pytest.approx(single, abs=1e-3)
    assert max(abs(a - b) for a, b in zip(given, none, strict=True)) > 0.1
    assert max(abs(a - b) for a, b in zip(given, two, strict=True)) > 0.1


def test_the_report_reads_what_the_engine_left(finished: Finished, folder: Path) -> None:
    """From the sample to the report, with nothing in between but the commands that a user types."""
    done = subprocess.run(
        [sys.executable, "-m", "meta_eval", "report", "eval_results", "--pack", "work_dir", "--json", "--html", "r.html"],
        cwd=folder.with_name("moved"), check=True, text=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert {task["name"] for task in report["tasks"]} == set(finished.prepared["tasks"])
    assert not {alarm["kind"] for alarm in report["alarms"]} & {
        "not run",
        "no samples",
        "not all docs",
        "changed prompts",
    }
    assert report["runs"][0]["provenance"]["backend"] == "vllm"
    assert (folder.with_name("moved") / "r.html").stat().st_size > 10_000
