"""The recorded answers as lm-eval tasks: stock lm-eval runs them, from any directory, without meta-eval."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fake_model import model_folder
from packs import prepare, read_docs

from meta_eval.messages.errors import UserError

TEXTS, CHOICES = "meta_mmlu_pro_instruct", "meta_mmlu_pretrain"

# Each answer has -0.5 nats a byte, and those of even length are greedy.
STOCK = """
import json, sys
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

class Model(LM):
    def loglikelihood(self, requests, **_):
        self.seen = [list(one.args) for one in requests]
        return [(-0.5 * len(one.args[1].encode()), len(one.args[1].encode()) % 2 == 0) for one in requests]
    def generate_until(self, requests, **_): raise NotImplementedError
    def loglikelihood_rolling(self, requests, **_): raise NotImplementedError

model = Model()
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
found = lm_eval.simple_evaluate(model=model, tasks=["meta_fidelity"], task_manager=manager, bootstrap_iters=0)
assert not [name for name in sys.modules if name.split(".")[0] == "meta_eval"]
print(json.dumps([found["results"]["fidelity_" + sys.argv[2]], model.seen]))
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stock")
    return prepare(place / "work_dir", f"{TEXTS},{CHOICES}", model_name=str(model_folder(place / "m")))


def test_stock_lm_eval_says_the_sums_of_the_recorded_answers(pack: Path, tmp_path: Path) -> None:
    done = cli("fidelity", str(pack), "--write-stock", "stock", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    docs = [doc for doc in read_docs(pack, TEXTS) if (doc["recorded_output"] or "").strip()]
    assert said["tasks"] == {f"fidelity_{TEXTS}": len(docs)}
    command = shlex.split(said["command"])
    assert command[command.index("--tasks") + 1] == "meta_fidelity"
    assert command[command.index("--include_path") + 1] == "stock"
    (tmp_path / "else").mkdir()
    (tmp_path / "stock").rename(tmp_path / "else" / "moved")
    ran = subprocess.run(
        [sys.executable, "-c", STOCK, "moved", TEXTS], cwd=tmp_path / "else", capture_output=True, text=True, check=True
    )
    results: dict[str, Any]
    results, seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen == [[doc["prompt"], doc["recorded_output"]] for doc in docs]
    lengths = [len(doc["recorded_output"].encode()) for doc in docs]
    assert results["greedy,none"] == pytest.approx(sum(length % 2 == 0 for length in lengths) / len(lengths))
    assert results["logprob_per_byte,none"] == pytest.approx(-0.5)
    per_token = results["logprob_per_token,none"]  # of the small tokenizer most tokens are a byte
    assert -0.6 < per_token <= -0.5
    assert results["perplexity_per_token,none"] == pytest.approx(math.exp(-per_token))


def test_a_folder_that_holds_something_is_left_alone(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from meta_eval.api import write_stock

    monkeypatch.chdir(tmp_path)
    Path("stock").mkdir()
    Path("stock/mine").write_text("mine")
    with pytest.raises(UserError, match="stock: already exists and is not empty"):
        write_stock("stock", pack=pack)
    assert [path.name for path in Path("stock").iterdir()] == ["mine"]
    with pytest.raises(UserError, match="none of these docs has a recorded text"):
        write_stock("other", pack=pack, tasks=[CHOICES])
    assert not Path("other").exists()
    assert write_stock("few", pack=pack, docs=6).tasks[f"fidelity_{TEXTS}"] == 3
