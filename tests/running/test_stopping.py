"""--stop-when-decided: the gate ends a run, its results say so, and the same again goes on in the same order."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_model import FakeClient, model_folder
from pack_runs import run_pack as run_with_canary
from rows import make_row, write_rows

from meta_eval import Config, report
from meta_eval.answers.requests import Request
from meta_eval.messages.errors import ConfigError
from meta_eval.running.pipeline import RunResult

# The canary keeps its answers back, and is a test of its own.
run = partial(run_with_canary, canary=False)

DOCS = 900


def share(text: str) -> float:
    """A number from 0 to 1 that belongs to a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 16**8


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task of two subtasks, of which the recorded answers are right in some 60 %."""
    folder = tmp_path_factory.mktemp("evals") / "Llama-3.1-8B-Instruct-evals"
    rows = []
    for number in range(DOCS):
        question = f"What is {number} + {number}?"
        right = share(question) < 0.6
        output = f"The best answer is {'B' if right else 'A'}."
        rows.append(make_row(question, subtask=f"s{number % 3 // 2}", output=output, correct=right))
    write_rows(folder / "mmlu_pro.jsonl", rows)
    return folder


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    return stand_in(monkeypatch)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.running.pipeline.client_of", lambda *_backend, **_keys: made)
    monkeypatch.setattr("meta_eval.running.retry_rounds.ROUNDS", (0, 0, 0))
    return made


def answering(loses: float) -> Callable[[Request], dict[str, Any]]:
    """A copy that says what was recorded, but for a share of its right answers."""

    def says(request: Request) -> dict[str, Any]:
        question = request.prompt.partition("\n\n")[2].partition("<|eot_id|>")[0]
        right = share(question) < 0.6 and share(f"lost {question}") >= loses
        text = f"The best answer is {'B' if right else 'A'}."
        return {"text": text, "finish_reason": "stop", "completion_tokens": 6}

    return says


def decided(place: Path, evals: Path, monkeypatch: pytest.MonkeyPatch, loses: float, **keys: Any) -> RunResult:
    monkeypatch.chdir(place)
    if not (place / "m").exists():
        model_folder(place / "m")
    monkeypatch.setattr("fake_model.says", answering(loses))
    config = Config(
        **{"model_name": "m", "evals_dataset": str(evals), "tasks": ("meta_mmlu_pro_instruct",), "margin": 5.0, **keys}
    )
    return run(config, stop_when_decided=True)


@dataclass(frozen=True)
class Shipped:
    """A run of a copy that answers as was recorded: its folder, what it came to, and what was asked, in order."""

    place: Path
    ran: RunResult
    asked: tuple[str, ...]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, evals: Path) -> Shipped:
    place = tmp_path_factory.mktemp("shipped")
    with pytest.MonkeyPatch.context() as monkeypatch:
        client = stand_in(monkeypatch)
        return Shipped(place, decided(place, evals, monkeypatch, 0.0), tuple(client.asked))


@pytest.fixture
def place(shipped: Shipped, tmp_path: Path) -> Path:
    """A folder with its model and its pack, and nothing answered."""
    return Path(shutil.copytree(shipped.place, tmp_path / "x", ignore=shutil.ignore_patterns("eval_results")))


def test_a_copy_that_answers_alike_ships_before_the_end(shipped: Shipped) -> None:
    stopped, asked = shipped.ran.stopped, shipped.asked
    assert stopped is not None
    assert stopped.outcome == "SHIP"
    assert stopped.docs <= len(asked) == len(set(asked)) < DOCS
    assert len(asked) <= 1.25 * stopped.docs + 64


def test_a_copy_that_lost_much_is_stopped_early(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = decided(place, evals, monkeypatch, 0.5, margin=1.0)
    assert ran.stopped is not None
    assert ran.stopped.outcome == "DON'T SHIP"
    assert len(client.asked) < 300


def test_what_is_not_decided_is_a_whole_run(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = decided(place, evals, monkeypatch, 0.08)
    assert ran.stopped is not None
    assert (ran.stopped.outcome, ran.stopped.complete) == (None, True)
    assert len(client.asked) == DOCS
    assert ran.graded is not None
    assert "stopped" not in json.loads(ran.graded.results.read_text())["config"]["meta_eval"]


def test_its_results_are_marked_and_never_stand_beside_the_published_number_as_if_whole(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shipped.place)
    ran = shipped.ran
    assert ran.graded is not None
    judged = report(ran.graded.results, pack=ran.pack)
    (told,) = [alarm for alarm in judged.alarms if alarm.kind == "unfinished" or "not all docs" in alarm.kind]
    assert told.veto
    assert "it stopped when it was decided, SHIP at a margin of 5 points" in str(judged.to_json())
    assert all(score.difference is None for task in judged.tasks for score in task.scores)
    assert judged.decision.outcome != "SHIP"


def test_docs_are_asked_in_one_order_and_the_same_again_goes_on(
    shipped: Shipped, place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(given: int) -> None:
        if len(client.asked) == 100:
            raise KeyboardInterrupt

    client.before = staticmethod(stop)
    with pytest.raises(KeyboardInterrupt):
        decided(place, evals, monkeypatch, 0.0)
    client.before = staticmethod(lambda _given: None)
    ran = decided(place, evals, monkeypatch, 0.0)
    assert tuple(client.asked) == shipped.asked
    assert ran.stopped == shipped.ran.stopped


def test_a_whole_run_asks_the_rest(
    shipped: Shipped, tmp_path: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(shipped.place, tmp_path / "x"))
    monkeypatch.setattr("fake_model.says", answering(0.0))
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",), margin=5.0)
    ran = run(config)
    before = len(shipped.asked)
    assert (ran.before, ran.asked) == (before, DOCS - before)
    assert ran.stopped is None


def test_a_task_without_recorded_answers_is_refused(
    tmp_path: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(folder / "mmlu_pro.jsonl", [make_row(f"What is {n}?", output=None if n == 3 else "B") for n in range(8)])
    with pytest.raises(ConfigError, match="meta_mmlu_pro_instruct cannot be stopped early"):
        decided(tmp_path, folder, monkeypatch, 0.0)
    assert not client.asked


def test_a_shard_is_refused(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",))
    with pytest.raises(ConfigError, match="--shard"):
        run(config, shard=(0, 2), stop_when_decided=True)
