"""--stop-when-decided: the gate ends a run, its results say so, and the same again goes on in the same order."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_model import FakeClient, model_folder
from marks import thorough
from pack_runs import run_pack as run_with_canary
from places import THOROUGH
from rows import make_row, write_rows

from meta_eval import Config, grade, report
from meta_eval.ask.pipeline import RunResult
from meta_eval.ask.request import Request
from meta_eval.base.errors import ConfigError, UserError
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run
from meta_eval.pack.baseline import Baseline, read_baseline

pytestmark = pytest.mark.plugin("meta")  # its packs are of the embedded sample


# The canary keeps its answers back, and is a test of its own.
run = partial(run_with_canary, canary=False)

DOCS = 300 if THOROUGH else 200
# The share of right answers that a copy loses which is stopped.
LOSES = 0.5


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
    monkeypatch.setattr("meta_eval.ask.pipeline.find_client", lambda *_backend, **_keys: made)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))
    return made


def answering(loses: float) -> Callable[[Request], dict[str, Any]]:
    """A copy that says what was recorded, but for a share of its right answers."""

    def says(request: Request) -> dict[str, Any]:
        question = request.prompt.partition("\n\n")[2].partition("<|eot_id|>")[0]
        right = share(question) < 0.6 and share(f"lost {question}") >= loses
        text = f"The best answer is {'B' if right else 'A'}."
        return {"text": text, "finish_reason": "stop", "completion_tokens": 6}

    return says


def decided(
    place: Path,
    evals: Path,
    monkeypatch: pytest.MonkeyPatch,
    loses: float,
    rerun: int = 0,
    order_seed: str | None = "0",
    gate: str | None = None,
    **keys: Any,
) -> RunResult:
    monkeypatch.chdir(place)
    if not (place / "m").exists():
        model_folder(place / "m")
    monkeypatch.setattr("fake_model.says", answering(loses))
    config = Config(
        **{"model_name": "m", "evals_dataset": str(evals), "tasks": ("meta_mmlu_pro_instruct",), "margin": 5.0, **keys}
    )
    if gate is not None:
        Path("gate.yaml").write_text(gate)
    return run(
        config, stop_when_decided=True, rerun=rerun, order_seed=order_seed, gate=gate if gate is None else "gate.yaml"
    )


@dataclass(frozen=True)
class Failed:
    """A run that was stopped: its folder, what it came to, and what was asked, in order."""

    place: Path
    ran: RunResult
    asked: tuple[str, ...]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory, evals: Path) -> Failed:
    place = tmp_path_factory.mktemp("failed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        client = stand_in(monkeypatch)
        return Failed(place, decided(place, evals, monkeypatch, LOSES), tuple(client.asked))


@pytest.fixture
def place(failed: Failed, tmp_path: Path) -> Path:
    """A folder with its model and its pack, and nothing answered."""
    return Path(shutil.copytree(failed.place, tmp_path / "x", ignore=shutil.ignore_patterns("eval_results")))


def test_a_copy_that_lost_much_is_stopped_early(failed: Failed) -> None:
    stopped, asked = failed.ran.stopped, failed.asked
    assert stopped is not None
    assert stopped.outcome == "DON'T SHIP"
    assert stopped.docs <= len(asked) == len(set(asked)) < DOCS
    assert len(asked) <= 1.25 * stopped.docs + 64


def test_docs_that_fail_for_good_count_as_lost(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.fails = staticmethod(lambda request, _: "too long" if share(request.id) < 0.5 else None)
    ran = decided(place, evals, monkeypatch, 0.0, margin=1.0)
    assert ran.stopped is not None
    assert ran.stopped.outcome == "DON'T SHIP"
    assert len(set(client.asked)) < 150


def test_docs_count_with_the_mean_of_a_baselines_runs(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scored(value: Any, score: float) -> Any:
        return tuple(part if isinstance(part, str) else score for part in value) if isinstance(value, tuple) else score

    def all_scored(doc: DocResult, score: float) -> DocResult:
        results = {
            name: replace(kept, metrics={metric: scored(value, score) for metric, value in kept.metrics.items()})
            for name, kept in doc.filter_results.items()
        }
        return replace(doc, filter_results=results)

    def two_runs(*places: Any) -> Baseline:
        """A run that is all right and one that is all wrong: the copy loses 40 points to the first alone."""
        baseline = read_baseline(*places)
        ((name, task),) = baseline.graded.tasks.items()
        right, wrong = (replace(task, docs=tuple(all_scored(doc, score) for doc in task.docs)) for score in (1.0, 0.0))
        return replace(baseline, graded=Run({name: right}, repeats={name: (wrong,)}))

    monkeypatch.setattr("meta_eval.ask.early_stop.read_baseline", two_runs)
    ran = decided(place, evals, monkeypatch, 0.0)
    assert ran.stopped is not None
    assert ran.stopped.outcome is None


def test_the_margin_of_a_gate_stops_the_run(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = decided(place, evals, monkeypatch, LOSES, gate="margin: 1", margin=50.0)
    assert done.stopped is not None
    assert done.stopped.outcome == "DON'T SHIP"
    assert len(client.asked) < DOCS


def test_a_gate_that_leaves_every_task_out_is_refused(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="meta_math"):
        decided(place, evals, monkeypatch, 0.0, gate="tasks: [meta_math]")
    assert not client.asked


def test_cut_answers_that_are_not_taken_as_graded_are_refused(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="cut_answers is unscored"):
        decided(place, evals, monkeypatch, 0.0, gate="cut_answers: unscored")
    assert not client.asked


def test_a_copy_that_answers_alike_is_a_whole_run(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = decided(place, evals, monkeypatch, 0.0)
    assert ran.stopped is not None
    assert (ran.stopped.outcome, ran.stopped.complete) == (None, True)
    assert len(client.asked) == DOCS
    assert ran.graded is not None
    assert "stopped" not in json.loads(ran.graded.results.read_text())["config"]["meta_eval"]


def test_its_results_are_marked_and_never_stand_beside_the_published_number_as_if_whole(
    failed: Failed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(failed.place)
    ran = failed.ran
    assert ran.graded is not None
    judged = report(ran.graded.results, pack=ran.pack)
    (told,) = [alarm for alarm in judged.alarms if alarm.kind == "unfinished" or "not all docs" in alarm.kind]
    assert told.veto
    assert "it stopped when it was decided, DON'T SHIP at a margin of 5 points" in str(judged.to_json())
    assert all(score.candidate_minus_reference is None for task in judged.tasks for score in task.scores)
    assert judged.decision.outcome != "SHIP"


def test_docs_are_asked_in_one_order_and_the_same_again_goes_on(
    failed: Failed, place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(given: int) -> None:
        if len(client.asked) == 50:
            raise KeyboardInterrupt

    client.before = staticmethod(stop)
    with pytest.raises(KeyboardInterrupt):
        decided(place, evals, monkeypatch, LOSES)
    client.before = staticmethod(lambda _given: None)
    ran = decided(place, evals, monkeypatch, LOSES)
    assert tuple(client.asked) == failed.asked
    assert ran.stopped == failed.ran.stopped


@thorough
def test_a_whole_run_asks_the_rest(
    failed: Failed, tmp_path: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(failed.place, tmp_path / "x"))
    monkeypatch.setattr("fake_model.says", answering(0.0))
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",), margin=5.0)
    ran = run(config)
    before = len(failed.asked)
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


def order_file(place: Path) -> Path:
    (path,) = (place / "eval_results" / "answers").glob("*.order.json")
    return path


def results_of(ran: RunResult) -> dict[str, Any]:
    assert ran.graded is not None
    facts: dict[str, Any] = json.loads(ran.graded.results.read_text())["config"]["meta_eval"]
    return facts


def test_the_order_is_secret_and_its_hash_is_kept_before_the_first_request(
    failed: Failed,
    place: Path,
    evals: Path,
    client: type[FakeClient],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hashes: list[str] = []

    def look(_given: int) -> None:
        if not hashes:
            (journal,) = (place / "eval_results" / "answers").glob("*.jsonl")
            hashes.extend(json.loads(line).get("seed_sha256", "") for line in journal.read_text().splitlines())

    client.before = staticmethod(look)
    with caplog.at_level("INFO", "meta_eval"):
        ran = decided(place, evals, monkeypatch, 0.0, order_seed=None)
    order = results_of(ran)["order"]
    assert hashes[-1] == order["seed_sha256"] == hashlib.sha256(order["seed"].encode()).hexdigest()
    assert order["secret"]
    assert order["seed_sha256"] in caplog.text
    assert order["seed"] not in caplog.text
    assert order_file(place).stat().st_mode & 0o077 == 0
    assert ran.graded is not None
    (samples,) = ran.graded.results.parent.glob("samples_*.jsonl")
    places = {
        line["doc_id"]: line["answer"]["random_place"] for line in map(json.loads, samples.read_text().splitlines())
    }
    assert [int(name.split("/")[1]) for name in client.asked] == sorted(places, key=places.__getitem__)
    assert tuple(client.asked)[:50] != failed.asked[:50], "another run has another order"


def test_a_named_seed_is_no_secret(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(failed.place)
    assert results_of(failed.ran)["order"]["secret"] is False


@pytest.mark.parametrize("how", ["named", "changed", "gone"])
def test_a_run_never_goes_on_in_another_order(
    how: str, failed: Failed, tmp_path: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(shutil.copytree(failed.place, tmp_path / "x"))
    kept = order_file(place)
    if how == "changed":
        kept.write_text(json.dumps({"seed": "another", "secret": True}))
    elif how == "gone":
        kept.unlink()
    hint = {"named": "--order-seed", "changed": "another seed", "gone": "not there any more"}[how]
    with pytest.raises(UserError, match=hint):
        decided(place, evals, monkeypatch, 0.0, order_seed="other" if how == "named" else None)
    assert not client.asked


@thorough
def test_early_docs_are_asked_again_and_no_score_depends_on_it(
    failed: Failed, place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = decided(place, evals, monkeypatch, LOSES, rerun=40)
    first, again = client.asked[: ran.asked], client.asked[ran.asked :]
    assert (len(again), ran.asked_again) == (40, 40)
    assert set(again) <= set(first[: len(first) // 2 + 1])
    told = results_of(ran)["rerun"]["meta_mmlu_pro_instruct"]
    assert len(told["docs"]) == len(told["values"]) == 40
    assert ran.graded is not None
    assert failed.ran.graded is not None
    assert ran.graded.scores == failed.ran.graded.scores
    decided(place, evals, monkeypatch, LOSES, rerun=40)
    assert len(client.asked) == ran.asked + 40


@thorough
def test_a_server_that_becomes_worse_is_drift_and_no_ship(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = answering(0.0), answering(0.6)
    monkeypatch.setattr(
        "fake_model.says", lambda request: (late if client.asked.count(request.id) > 1 else early)(request)
    )
    monkeypatch.chdir(place)
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",), margin=5.0)
    ran = run(config, rerun=60, baseline=True)
    assert ran.graded is not None
    judged = report(ran.graded.results, pack=ran.pack)
    assert judged.decision.outcome == "UNDECIDED"
    assert judged.decision.reasons[0].startswith("drift")


@thorough
def test_second_answers_show_the_noise_of_the_engine_beside_the_flips(
    place: Path, evals: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(request: Request) -> dict[str, Any]:
        number = client.asked.count(request.id)
        flips = share(f"{number} {request.id}") < 0.1
        return {**answering(0.0)(request), **({"text": "The best answer is C."} if flips else {})}

    monkeypatch.setattr("fake_model.says", noisy)
    monkeypatch.chdir(place)
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",), margin=5.0)
    ran = run(config, rerun=200, baseline=True)
    assert ran.graded is not None
    (task,) = report(ran.graded.results, pack=ran.pack).tasks
    assert task.noise is not None
    assert task.noise.docs == 200
    assert task.noise.flipped in task.noise.interval
    assert task.noise.lost + task.noise.won > 0
    assert task.noise.explained is not None
    again = run(config, rerun=200, baseline=True, grade_only=True)
    assert again.graded is not None
    assert report(again.graded.results, pack=ran.pack).tasks[0].noise == task.noise
    with pytest.raises(UserError, match="second answers, which change no score"):
        grade([*Path("eval_results/answers/rerun").glob("*.jsonl")], pack=ran.pack)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rerun": 5, "shard": (0, 2)}, "--rerun"),
        ({"order_seed": "x"}, "--order-seed"),
        ({"rerun": -1}, "--rerun"),
        ({"rerun": 5, "order_seed": ""}, "is empty"),
    ],
)
def test_what_a_second_asking_cannot_be_used_with(
    keys: dict[str, Any], message: str, place: Path, evals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    config = Config(model_name="m", evals_dataset=str(evals), tasks=("meta_mmlu_pro_instruct",))
    with pytest.raises(ConfigError) as told:
        run(config, **keys)
    assert message in str(told.value)
