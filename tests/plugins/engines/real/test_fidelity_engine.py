"""fidelity through real engines: the numbers are those of transformers, token by token, whatever brings them.

The model is the tiny Llama that meta-eval ships, so that none is taught here. It is in doubt nearly everywhere, and a
wrong number of BOS, another token or another place shows at once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from on_engines import FEWER, SECONDS, environment, project, ready
from places import REPOSITORY
from tokenizers import Tokenizer

from meta_eval.judge.token_table import Forced, find_choices_path, read_choices, read_tokens

pytestmark = pytest.mark.engine

MODEL = REPOSITORY / "src/meta_eval/base/assets/known_answers/model"
DOCS, TOP_K = 32, 3

# Log-probabilities in float32 differ by less between kernels; one token more or less differs by nats.
NEAR = 1e-3

# By request what transformers says of an answer behind a prompt: log-probabilities, and between which ranks each token
# lies if logits that are nearer than NEAR may change places. Of choices the sums.
REFERENCE = """
import json, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("tiny", dtype=torch.float32)
near, asked = json.load(open("asked.json"))
found = {}
with torch.no_grad():
    for name, (prompt, answer) in asked.items():
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1].log_softmax(-1)
        own = logits.gather(1, torch.tensor(answer)[:, None])
        top = logits.max(1)
        found[name] = {
            "logprobs": own[:, 0].tolist(), "top": top.values.tolist(),
            "least": (1 + (logits > own + near).sum(1)).tolist(), "most": (1 + (logits > own - near).sum(1) - 1).tolist(),
        }
print(json.dumps(found))
"""


def measured(folder: Path, *arguments: str, **more: str) -> dict[str, Any]:
    python = Path(os.environ["META_EVAL_RUNS"], "bin/python")
    command = [python, "-m", "meta_eval", "fidelity", "work_dir", "--json", "--docs", str(DOCS), "--top-k", str(TOP_K)]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**environment(), **more},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    output: dict[str, Any] = json.loads(done.stdout)
    assert (output["asked"], output["failed"]) == (DOCS, 0)
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a pack, and what export says is asked of it."""
    there = project(tmp_path_factory.mktemp("fidelity") / "here", MODEL, model_args={"enforce_eager": True})
    for command in (["prepare"], ["export", "--force", "-o", "r.jsonl"]):
        ready("-m", "meta_eval", *command, folder=there)
    return there


@pytest.fixture(scope="module", params=["vllm", "server", "ray", "hf"])
def measurement(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    own = {"server": ["--set", "serve=true"], "hf": ["--set", "model_args={}"]}.get(request.param, [])
    more = {} if request.param == "vllm" else FEWER
    return measured(folder, "--set", f"backend={request.param}", *own, "--output", f"out-{request.param}", **more)


@pytest.fixture(scope="module")
def requests(folder: Path) -> dict[str, dict[str, Any]]:
    """What is asked, by its hash."""
    lines = [json.loads(line) for line in (folder / "r.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    return {line["request_sha256"]: line for line in lines}


@pytest.fixture(scope="module")
def reference(folder: Path, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """What transformers says of the docs that were asked, which are the same of each backend: by the hash of the
    request and the place of the continuation."""
    (path, *_) = folder.glob("out-*/fidelity/*.choices.parquet")
    texts = read_tokens(path.with_name(path.name.replace(".choices", "")))
    asked = {
        f"{sha256} {place}": [requests[sha256]["prompt_token_ids"], ids]
        for sha256 in [asked_answer.request_sha256 for asked_answer in (*texts, *read_choices(path)[1])]
        for place, ids in enumerate(requests[sha256]["continuation_token_ids"])
    }
    (folder / "asked.json").write_text(json.dumps([NEAR, asked]))
    likelihoods: dict[str, dict[str, list[Any]]] = json.loads(ready("-c", REFERENCE, folder=folder))
    return likelihoods


def table(folder: Path, measurement: Mapping[str, Any]) -> list[Forced]:
    return list(read_tokens(folder / measurement["table"]))


def test_every_token_has_the_log_probability_and_the_rank_that_transformers_gives_it(
    folder: Path, measurement: Mapping[str, Any], requests: Mapping[str, Any], reference: Mapping[str, Any]
) -> None:
    answers = table(folder, measurement)
    assert sum(len(answer.token_ids) for answer in answers) > 500
    spread = []
    for answer in answers:
        asked, right = requests[answer.request_sha256], reference[f"{answer.request_sha256} 0"]
        assert list(answer.token_ids) == asked["continuation_token_ids"][0]
        assert answer.prompt_tokens == len(asked["prompt_token_ids"])
        assert answer.logprobs == pytest.approx(right["logprobs"], abs=NEAR)
        assert answer.top_logprobs == pytest.approx(right["top"], abs=NEAR)
        assert (np.array(right["least"]) <= answer.ranks).all()
        assert (answer.ranks <= np.array(right["most"])).all()
        spread += list(answer.ranks)
    assert len(set(spread)) > 20, "tokens of all ranks were tried"


def test_the_likeliest_tokens_are_kept_in_order(folder: Path, measurement: Mapping[str, Any]) -> None:
    for answer in table(folder, measurement):
        assert answer.top_k_ids is not None
        assert answer.top_k_logprobs is not None
        assert answer.top_k_ids.shape == (len(answer.token_ids), TOP_K)
        assert (np.diff(answer.top_k_logprobs, axis=1) <= 0).all()
        assert (answer.top_k_logprobs[:, 0] == answer.top_logprobs).all()
        assert ((answer.ranks == 1) <= (answer.margins < NEAR)).all()


def test_choices_have_the_likelihoods_that_transformers_gives_them(
    folder: Path, measurement: Mapping[str, Any], reference: Mapping[str, Any]
) -> None:
    _, choices = read_choices(find_choices_path(folder / measurement["table"]))
    assert len(choices) >= 3
    for choice in choices:
        right = [sum(reference[f"{choice.request_sha256} {n}"]["logprobs"]) for n in range(len(choice.logprobs))]
        assert choice.logprobs == pytest.approx(right, abs=NEAR)


def test_a_token_is_the_text_that_meta_recorded(folder: Path, measurement: Mapping[str, Any], requests: Any) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tiny/tokenizer.json"))
    for answer in table(folder, measurement):
        (text,) = requests[answer.request_sha256]["continuations"]
        assert tokenizer.decode(list(answer.token_ids), skip_special_tokens=False) == text
