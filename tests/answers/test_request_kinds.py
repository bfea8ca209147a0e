"""A kind of requests of another package: it is exported, graded, and refused where a backend does not take it."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_model import model_folder
from noted import noted
from offered import offer
from places import REPOSITORY

from meta_eval import export, grade, prepare, run
from meta_eval.ask.request_kinds import REQUEST_KINDS_GROUP, find_task_kind
from meta_eval.base.errors import UserError

EXAMPLE = REPOSITORY / "examples" / "rolling_kind.py"


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("rolling_kind", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Rolling()


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A recorded run of lm-eval with a task of perplexity, ``tiny_text``."""
    return Path(shutil.copytree(REPOSITORY / "tests" / "data" / "lm_eval_outputs" / "0.4.13", tmp_path / "results"))


@pytest.fixture
def config(record: Path) -> Path:
    content = {
        "model_name": str(model_folder(record.parent / "model")), "backend": "server", "tasks": "tiny_text",
        "base_url": "http://127.0.0.1:9/v1", "evals_dataset": str(record), "output_path": str(record.parent / "out"),
        "template_dir": str(REPOSITORY / "tools" / "lm_eval_tasks"), "work_dir": str(record.parent / "pack"),
    }  # fmt: skip
    path = record.parent / "eval_config.yaml"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def pack(config: Path) -> Path:
    prepare(config)
    return config.parent / "pack"


def test_its_requests_are_exported_and_their_answers_graded(
    pack: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, REQUEST_KINDS_GROUP, rolling=load_example())
    export(pack, pack.parent / "requests.jsonl")
    _, *requests = map(json.loads, (pack.parent / "requests.jsonl").read_text(encoding="utf-8").splitlines())
    (samples,) = record.rglob("samples_tiny_text_*.jsonl")
    rows = {row["doc_id"]: row for row in map(json.loads, samples.read_text(encoding="utf-8").splitlines())}
    assert {request["kind"] for request in requests} == {"rolling"}
    assert all(
        request["continuations"] == [rows[request["doc"]]["arguments"]["gen_args_0"]["arg_0"]] for request in requests
    )
    names = ("id", "prompt_sha256", "request_sha256")
    answers = [
        {name: request[name] for name in names} | {"choices": [{"logprob": float(rows[request["doc"]]["resps"][0][0])}]}
        for request in requests
    ]
    file = pack.parent / "answers.jsonl"
    file.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    (results,) = record.rglob("results_*.json")
    recorded = json.loads(results.read_text(encoding="utf-8"))["results"]["tiny_text"]["bits_per_byte,none"]
    assert grade(file, pack=pack).scores["tiny_text"]["bits_per_byte,none"] == pytest.approx(recorded)


@pytest.mark.parametrize(("output_type", "own"), [("multiple_choice", "choices"), ("generate_until", "generate")])
def test_a_kind_of_a_package_comes_before_the_cores_and_the_shadowed_one_is_told(
    output_type: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = load_example()
    monkeypatch.setattr(type(kind), "takes", lambda *_: True)
    offer(monkeypatch, REQUEST_KINDS_GROUP, rolling=kind)
    task = SimpleNamespace(OUTPUT_TYPE=output_type, config=SimpleNamespace(metadata=None))
    with noted() as notes:
        assert [find_task_kind("t", task).name for _ in range(2)] == ["rolling", "rolling"]
    assert notes == [
        f"the kind of requests {own} (meta_eval.ask.request_kinds) is not used for {output_type} requests of tasks "
        "asked as text: rolling takes them"
    ]


def test_a_backend_that_does_not_take_it_is_refused_with_its_sentence(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, REQUEST_KINDS_GROUP, rolling=load_example())
    with pytest.raises(UserError, match="tiny_text: cannot be scored: backend server does not say how likely a whole"):
        run(config)


@pytest.mark.parametrize(
    ("name", "words"),
    [("choices", "is never used as 'choices'"), ("mine", "defines the kind of requests rolling")],
)
def test_a_kind_of_another_name_is_a_warning(
    name: str, words: str, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, REQUEST_KINDS_GROUP, **{name: load_example()})
    with noted() as notes, pytest.raises(UserError, match="it scores the likelihood of whole texts"):
        export(pack, pack.parent / "requests.jsonl")
    assert any(words in note for note in notes)
