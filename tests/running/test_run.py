"""run: every answer is kept, none is asked twice, and the scores are those of a run that nothing disturbed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fake_model import FakeClient, model_folder, says
from golden import verdicts
from marks import few
from noted import noted
from own_record import CHOICES, TEXTS, config_of, record_run
from own_record import DOCS as OWN_DOCS
from pack_runs import run_pack as run_with_canary
from packs import yaml_of

from meta_eval import Config
from meta_eval.ask.grading import Grading
from meta_eval.ask.pipeline import RunResult
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests
from meta_eval.ask.request_loop import Pace
from meta_eval.base.errors import PackError, UserError
from meta_eval.harness.answer import Answer
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.baseline import read_baseline
from meta_eval.pack.manifest import read_manifest

# What the fake model says is not what was recorded.
run = partial(run_with_canary, canary=False)

TASKS = (TEXTS, CHOICES)
FIRST = OWN_DOCS[TEXTS]
DOCS = FIRST + OWN_DOCS[CHOICES]


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    """A class of its own for each test, in the place of every backend."""
    return stand_in(monkeypatch)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.ask.pipeline.find_client", lambda *_backend, **_keys: made)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))
    return made


@dataclass(frozen=True)
class Made:
    """A model's folder, the pack of `config()` beside it, and a whole run of it."""

    folder: Path
    whole: RunResult
    client: type[FakeClient]
    # What it said of its progress, and of each task that was scored: its scores, its docs, and how much was asked then.
    progress: list[tuple[str, int, int]]
    scored: list[tuple[str, dict[str, float], Collection[int], int]]
    # The tasks that were graded, in order.
    graded: list[str]


# The keys of the recorded run.
RECORD: dict[str, Any] = {}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    RECORD.update(config_of(record_run(tmp_path_factory)))
    folder = tmp_path_factory.mktemp("made")
    model_folder(folder / "m")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        made = Made(folder, None, stand_in(monkeypatch), [], [], [])  # type: ignore[arg-type]
        evaluate = Grading.evaluate
        monkeypatch.setattr(
            Grading, "evaluate", lambda self, name, *some, **keys: made.graded.append(name) or evaluate(self, name, *some, **keys)
        )  # fmt: skip
        monkeypatch.setattr("meta_eval.ask.grading.build_requests", None)  # grading builds no request again
        whole = run(
            config(),
            progress=lambda what, done=0, total=0: made.progress.append((what, done, total)),
            scored=lambda task, result, docs: made.scored.append((task, result, docs, len(made.client.asked))),
        )
    assert whole.graded is not None
    whole.graded.results = folder / whole.graded.results
    return replace(made, whole=whole)


@pytest.fixture
def whole(made: Made) -> RunResult:
    """What nothing disturbed."""
    return made.whole


@pytest.fixture
def bare(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made.folder / "m", tmp_path / "m")
    return tmp_path


@pytest.fixture
def place(bare: Path, made: Made) -> Path:
    """With the pack."""
    shutil.copytree(made.folder / "work_dir", bare / "work_dir")
    return bare


@pytest.fixture
def answered(place: Path, made: Made) -> Path:
    """With all answers of the whole run."""
    shutil.copytree(made.folder / "eval_results", place / "eval_results")
    return place


def config(**keys: Any) -> Config:
    return Config(**{**RECORD, "model_name": "m", "tasks": TASKS, **keys})


def scores(ran: RunResult) -> dict[str, dict[str, float]]:
    assert ran.graded is not None
    return ran.graded.scores


def samples(ran: RunResult) -> list[str]:
    """The verdicts of all docs."""
    assert ran.graded is not None
    lines = []
    for file in sorted(ran.graded.results.parent.glob(f"samples_*_{ran.graded.results.stem[8:]}.jsonl")):
        lines += verdicts([json.loads(line) for line in file.read_text().splitlines()])
    return lines


def after(number: int, error: BaseException) -> Callable[[int], None]:
    def before(given: int) -> None:
        if given == number:
            raise error

    return staticmethod(before)  # type: ignore[return-value]


def test_a_run_prepares_asks_everything_once_and_grades(made: Made) -> None:
    ran, asked = made.whole, made.client.asked
    assert len(asked) == len(set(asked)) == DOCS == ran.asked
    assert set(scores(ran)) == set(TASKS)
    assert ran.graded is not None
    assert ran.graded.missing == ran.graded.failed == 0


def test_the_scores_are_those_of_the_same_answers_through_grade(place: Path, whole: RunResult) -> None:
    from meta_eval import grade

    answers = place / "answers.jsonl"
    with answers.open("w") as out:
        for request in asked_of(place / "work_dir"):
            answer = says(request)
            if "choices" in answer:
                answer = {"choices": [{"logprob": value} for value, _ in answer["choices"]]}
            out.write(json.dumps({"id": request.id, "prompt_sha256": request.prompt_sha256, **answer}) + "\n")
    assert grade(answers, pack=place / "work_dir", output=place / "other").scores == scores(whole)


def asked_of(pack: Path) -> Iterator[Request]:
    evaluator = Evaluator(pack)
    for name in TASKS:
        yield from build_requests(evaluator, name, None)


def test_whatever_ends_it_the_same_again_asks_the_rest(place: Path, whole: RunResult, client: type[FakeClient]) -> None:
    asked = 0
    for error, given in ((KeyboardInterrupt(), 11), (BackendError("the engine is gone"), 5), (MemoryError(), 4)):
        client.before = after(given, error)
        with pytest.raises(type(error)):
            run(config())
        assert client.made[-1].left, "what it started is stopped"
        asked += given
        assert len(client.asked) == asked
    client.before = after(DOCS, KeyboardInterrupt())
    ran = run(config())
    assert (ran.before, ran.asked) == (20, DOCS - 20)
    assert len(client.asked) == len(set(client.asked)) == DOCS
    assert scores(ran) == scores(whole)
    assert samples(ran) == samples(whole)


def test_a_run_that_is_done_starts_no_engine(answered: Path, whole: RunResult, client: type[FakeClient]) -> None:
    again = run(config())
    assert not client.made
    assert (again.before, again.asked, again.engine) == (DOCS, 0, None)
    assert scores(again) == scores(whole)


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_line_that_a_crash_cut_off_is_asked_again(
    answered: Path, whole: RunResult, client: type[FakeClient], cut: int
) -> None:
    (file,) = whole.answers
    file.write_bytes(file.read_bytes()[:-cut])
    ran = run(config())
    assert len(client.asked) == (1 if cut > 1 else 0)  # one byte is the newline
    assert scores(ran) == scores(whole)
    assert all(json.loads(line) for line in file.read_bytes().splitlines()[:-2])


def test_shards_share_a_run(place: Path, whole: RunResult, client: type[FakeClient]) -> None:
    for number in (2, 0, 1):
        part = run(config(), shard=(number, 3))
        assert part.graded is None
    assert len(client.asked) == len(set(client.asked)) == DOCS
    ran = run(config())
    assert (ran.before, ran.asked) == (DOCS, 0)
    assert samples(ran) == samples(whole)


@pytest.mark.parametrize("of_shard", [False, True])
def test_two_answers_to_a_request_are_said_and_the_last_counts(
    answered: Path, whole: RunResult, of_shard: bool
) -> None:
    (file,) = whole.answers
    lines = file.read_bytes().splitlines(keepends=True)
    number, line = next((n, line) for n, line in enumerate(lines, 1) if b'"text": "' in line)
    other = file.with_name(f"{file.stem}.1-of-2.jsonl") if of_shard else file
    with other.open("ab") as out:
        out.write(line.replace(b'"text": "', b'"text": "No. '))
    with noted() as notes:
        run(config())
    places = [f"{file}, line {number}", f"{other}, line {1 if of_shard else len(lines) + 1}"]
    first, last = reversed(places) if of_shard else places  # in the order of the names of files
    told = f"answers that are not alike, and the last counts: {json.loads(line)['id']} in {first} and {last}"
    assert notes.count(f"1 request with {told}") == 1


def test_a_file_of_answers_with_the_name_of_other_settings_is_refused(answered: Path, whole: RunResult) -> None:
    (file,) = whole.answers
    file.write_text(file.read_text().replace('"settings_sha256": "', '"settings_sha256": "0'))
    with pytest.raises(UserError, match="names other settings than the name of its file") as caught:
        run(config())
    assert str(caught.value).startswith(f"{file}, line 1: ")


@pytest.mark.parametrize("shard", [(5, 3), (3, 3), (-1, 3), (0, 0), (0, 1.0), (True, 2), (0, 1, 2), 3, "12", None])
def test_what_is_no_shard_is_refused_before_anything_is_prepared(shard: Any, place: Path) -> None:
    with pytest.raises(UserError, match=r"^shard: .* is not a shard"):
        run(config(work_dir="elsewhere"), shard=shard)
    assert not Path("elsewhere").exists()


def test_a_whole_run_asks_what_a_lost_shard_left(place: Path, client: type[FakeClient]) -> None:
    run(config(), shard=(0, 2))
    client.asked.clear()
    ran = run(config())
    assert ran.asked == len(client.asked) == DOCS // 2


@pytest.mark.parametrize(
    "change",
    few([{"dtype": "float16"}, {"seed": 7}, {"model_args": {"quantization": "fp8"}}, {"tensor_parallel_size": 2},
     {"max_model_len": 9000}], 3),
)  # fmt: skip
def test_other_settings_never_use_these_answers(
    answered: Path, client: type[FakeClient], change: dict[str, Any]
) -> None:
    with noted() as notes:
        ran = run(config(**change))
    assert ran.before == 0
    assert len(client.asked) == DOCS
    assert any(next(iter(change)) in note for note in notes), "it says why it prepares again"


def test_another_model_of_the_same_name_never_uses_these_answers(answered: Path, client: type[FakeClient]) -> None:
    (answered / "m" / "model.safetensors").write_bytes(b"trained")
    assert run(config()).before == 0


@pytest.mark.parametrize("change", [{"concurrency": 3}, {"output_path": "eval_results"}, {"price_per_hour": 2.5}])
def test_what_no_answer_depends_on_changes_nothing(
    answered: Path, client: type[FakeClient], change: dict[str, Any]
) -> None:
    assert run(config(**change)).before == DOCS


def test_a_pack_of_other_settings_is_prepared_again_and_more_tasks_ask_only_what_is_new(
    place: Path, client: type[FakeClient]
) -> None:
    run(config(tasks=TASKS[:1]))
    ran = run(config())
    assert (ran.before, ran.asked) == (FIRST, 16)


def test_an_answer_to_a_prompt_that_was_changed_is_none(
    answered: Path, whole: RunResult, client: type[FakeClient]
) -> None:
    (file,) = whole.answers
    lines = file.read_text().splitlines()
    changed = json.loads(lines[5]) | {"request_sha256": "0" * 64}
    file.write_text("\n".join([*lines[:5], json.dumps(changed), *lines[6:]]) + "\n")
    again = run(config())
    assert client.asked == [changed["id"]]
    assert scores(again) == scores(whole)


def test_what_fails_at_first_is_asked_again_and_counts(place: Path, client: type[FakeClient]) -> None:
    client.fails = staticmethod(lambda request, attempt: "busy" if attempt == 1 and request.doc % 7 == 0 else None)
    ran = run(config())
    assert ran.failed == 0
    assert ran.graded is not None
    assert ran.graded.missing == ran.graded.failed == 0


def test_what_fails_for_good_is_recorded_and_stops_nothing_else(place: Path, client: type[FakeClient]) -> None:
    client.fails = staticmethod(lambda request, _: "no" if request.task == TASKS[0] and request.doc < 2 else None)
    ran = run(config())
    assert ran.failed == 2
    assert ran.graded is not None
    assert ran.graded.failed == 2
    assert set(ran.graded.scores) == set(TASKS)
    client.fails = staticmethod(lambda _request, _attempt: None)
    client.asked.clear()
    again = run(config())
    assert sorted(client.asked) == [f"{TASKS[0]}/0", f"{TASKS[0]}/1"], "the same command asks it again"
    assert again.failed == 0


def test_two_runs_never_write_one_file(answered: Path, whole: RunResult, client: type[FakeClient]) -> None:
    def second(given: int) -> None:
        if given == 3:
            client.before = staticmethod(lambda _given: None)
            with pytest.raises(PackError, match="another run is writing"):
                run(config())
            client.before = staticmethod(lambda _given: None)

    (file,) = whole.answers
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-16]))
    client.before = staticmethod(second)
    assert run(config()).asked == 16


def test_a_full_disk_is_a_message_and_loses_nothing(
    place: Path, whole: RunResult, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.write, [20]

    def write(number: int, data: Any) -> int:
        if bytes(data[:5]) == b'{"id"' or left[0] <= 0:
            left[0] -= 1
            if left[0] == 0:
                return real(number, data[: len(data) // 2])  # half a line fits
            if left[0] < 0:
                raise OSError(28, "No space left on device")
        return real(number, data)

    monkeypatch.setattr("meta_eval.ask.journal.os.write", write)
    with pytest.raises(PackError, match="No space left on device.*Free some space"):
        run(config())
    monkeypatch.setattr("meta_eval.ask.journal.os.write", real)
    client.asked.clear()
    ran = run(config())
    assert ran.before == 19
    assert samples(ran) == samples(whole)


@pytest.mark.parametrize("name", ["eval_results", "eval_results/m", "eval_results/answers"])
def test_a_file_where_results_go_is_named_and_kept(place: Path, client: type[FakeClient], name: str) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("mine")
    with pytest.raises(PackError) as caught:
        run(config())
    assert re.match(
        rf"{name}(/answers)?: cannot be written \((File exists|Not a directory)\)\. Move away", str(caught.value)
    )
    assert Path(name).read_text() == "mine"


def test_an_edited_pack_is_refused(place: Path, client: type[FakeClient]) -> None:
    yaml = yaml_of(place / "work_dir", TASKS[0])
    yaml.write_text(yaml.read_text() + "# mine\n")
    with pytest.raises(UserError, match=re.escape(yaml.name)):
        run(config())


def test_another_margin_is_said_and_is_the_packs(answered: Path, client: type[FakeClient]) -> None:
    """Else one result is judged at one margin by run, and at another by report."""
    with noted() as notes:
        run(config(margin=15))
    assert any("was prepared with different settings (margin)" in line for line in notes)
    assert any("the margin of work_dir changes from 1 to 15 points" in line for line in notes)
    assert read_manifest(answered / "work_dir").run_settings.margin == 15
    with noted() as notes:
        assert run(config(margin=15)).asked == 0
    assert not notes


@pytest.mark.plugin("engines")
def test_an_engine_that_is_not_installed_is_said_before_the_hub_is_asked(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("meta_eval.pack.hub.download_model_files", lambda name, *_: asked.append(name))
    monkeypatch.setattr("meta_eval.pack.backends.base.find_spec", lambda _: None)
    with pytest.raises(BackendError, match="backend vllm: vllm is not installed"):
        run(config(model_name="org/nobody-has-it"))
    assert not asked


def test_a_run_makes_the_baseline_once_and_again_when_it_is_stale(
    made: Made, answered: Path, client: type[FakeClient]
) -> None:
    steps: list[str] = []

    def story() -> bool:
        steps.clear()
        run(config(), baseline=True, progress=lambda step, *_: steps.append(step))
        return any("grading the recorded answers" in step for step in steps)

    def missing(pack: Path) -> set[str]:
        return set(read_baseline(pack, read_manifest(pack)).missing_reasons)

    assert missing(made.folder / "work_dir") == set(TASKS), "the run did not ask for it"
    assert story()
    assert not missing(answered / "work_dir")
    assert not story()
    for file in (answered / "work_dir.verify" / "baseline").glob("*.jsonl"):
        file.write_text("{}\n", encoding="utf-8")
    assert story()


def test_a_task_is_scored_as_soon_as_it_is_answered(made: Made) -> None:
    """The last with all others: it is graded only once, and of requests that are not built again."""
    assert all(sorted(docs) == list(range(len(docs))) for _, _, docs, _ in made.scored)
    assert [asked for *_, asked in made.scored] == [FIRST, DOCS]
    assert made.graded == [TASKS[0], *TASKS]
    told = {task: result.keys() for task, result, _, _ in made.scored}
    assert told == {task: result.keys() for task, result in scores(made.whole).items()}


def test_progress_says_tokens_pace_and_end(made: Made) -> None:
    shown = [line for line in made.progress if " tokens, " in line[0]]
    assert [done for _, done, _ in shown] == list(range(1, DOCS + 1))
    assert {total for *_, total in shown} == {DOCS}
    assert all(re.search(r"tokens, [\d,.]+ tokens a second", what) for what, *_ in shown)
    assert not any("left" in what for what, *_ in shown), "of so few answers nothing is estimated"


class _Clock:
    """A server that answers ``lanes`` requests at a time, each in ``latency`` seconds, with ``tokens`` tokens."""

    def __init__(self, lanes: int, latency: float, tokens: int) -> None:
        self.lanes, self.latency, self.tokens, self.now = lanes, latency, tokens, 0.0

    def respond(self, request: Request, number: int) -> Answer:
        self.now = (number // self.lanes + 1) * self.latency + (number % self.lanes) * 1e-3
        return request.answer(
            text="x", completion_tokens=self.tokens, prompt_tokens=100, started=self.now - self.latency,
            ended=self.now,
        )  # fmt: skip


@pytest.mark.parametrize(("lanes", "latency", "total"), [(64, 2.0, 1024), (1, 0.05, 256), (256, 30.0, 2048)])
@pytest.mark.parametrize("expected", [4, 40, 400])
def test_the_time_that_is_left_is_estimated_once_it_can_be(
    lanes: int, latency: float, total: int, expected: int
) -> None:
    """From then on it is within twice the truth, however long the recorded answers are, and whatever the canary took."""
    clock = _Clock(lanes, latency, tokens=40)
    pace = Pace({"t": total // 2, "u": total // 2}, {"t": expected, "u": expected}, clock=lambda: clock.now)
    request = Request("t/0", "t", 0, 0, "generate", "?", 64, (), None, ())
    other = replace(request, task="u")
    clock.now = -1000.0
    pace.begin()
    pace.add(clock.respond(request, 0))
    clock.now = 0.0
    pace.begin()
    estimates = []
    for number in range(1, total):
        pace.add(clock.respond(request if number < total // 2 else other, number))
        truth = (total // lanes + 1) * latency - clock.now
        if truth > 3 * latency:
            estimates.append((pace.seconds_left(), truth))
    known = [(left, truth) for left, truth in estimates if left is not None]
    assert len(known) > 0.8 * len(estimates)
    assert all(truth / 2 < left < truth * 2 for left, truth in known)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"completion_tokens": 3, "prompt_tokens": 100}, "3 tokens, 0.3 tokens a second"),
        ({"completion_tokens": 300, "prompt_tokens": 100}, "300 tokens, 30 tokens a second"),
        ({"prompt_tokens": 20000}, "20.0k prompt tokens, 2,000 prompt tokens a second"),
        ({"prompt_tokens": 90, "cached_tokens": 90}, ""),
        ({}, ""),
    ],
)
def test_progress_never_says_0_a_second(response: dict[str, int], message: str) -> None:
    clock = _Clock(1, 1.0, tokens=0)
    pace = Pace({"t": 2}, {}, clock=lambda: clock.now)
    clock.now = 10.0
    pace.add(Answer(id="t/0", text="x", **response))
    assert pace.describe() == message


def test_the_file_says_what_its_answers_depend_on_and_no_secret(place: Path, client: type[FakeClient]) -> None:
    ran = run(config(model_args={"quantization": "fp8"}))
    head = json.loads(ran.answers[0].read_text().splitlines()[0])
    assert head["settings"]["model_args"] == {"quantization": "fp8"}
    assert head["settings"]["model_files"].startswith("sha256:")
    assert head["model"] == "m"


def test_a_task_that_cannot_be_graded_stops_no_other(answered: Path, client: type[FakeClient]) -> None:
    yaml = yaml_of(answered / "work_dir", TASKS[0])
    yaml.with_name("broken.py").write_text("def process_results(doc, results):\n    raise RuntimeError('by hand')\n")
    yaml.write_text(yaml.read_text() + "process_results: !function broken.process_results\n")
    ran = run(config(), edited=True)
    assert ran.graded is not None
    assert (list(ran.graded.broken), list(ran.graded.scores)) == ([TASKS[0]], [TASKS[1]])


def test_several_models_share_a_pack_and_stand_side_by_side(
    place: Path, client: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:

    model_folder(place / "n", weights=b"others")
    (place / "eval_config.yaml").write_text(json.dumps({**RECORD, "model_name": ["m", "n"]}))
    done = cli("run", "--no-canary", "--json", "--html", "page.html", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "<h1>2 candidates beside the baseline</h1>" in (place / "page.html").read_text(encoding="utf-8")
    tree = json.loads(done.stdout)
    assert [(place["name"], place["best"], place["worst"]) for place in tree["places"]] == [
        ("the baseline", 1, 1), ("m", 2, 3), ("n", 2, 3),
    ]  # fmt: skip
    result = tree["models"]
    assert list(result) == ["m", "n"]
    assert result["m"]["tasks"] == result["n"]["tasks"]
    assert len({result[name]["results"].split("/")[-2] for name in result}) == 2
    assert len(client.asked) == 2 * DOCS
    assert json.loads((place / "work_dir" / "manifest.json").read_text())["run_settings"]["model_name"] == "m"
    shown = done.stderr.partition("2 candidates beside the baseline\n")[2].splitlines()
    assert shown[0] == "DON'T SHIP: m, n."
    rows = [line.split()[:3] for line in shown if line.startswith(("m ", "n "))]
    assert rows[:2] == [["m", "DON'T", "SHIP"], ["n", "DON'T", "SHIP"]]


@pytest.mark.plugin("engines")  # a server is asked by any name
def test_a_model_that_cannot_be_asked_leaves_the_others(place: Path, client: type[FakeClient]) -> None:

    (place / "eval_config.yaml").write_text(json.dumps({**RECORD, "model_name": ["gone", "m"]}))
    done = cli("run", "--no-canary", "--no-report", cwd=place)
    assert done.returncode == 2
    assert "gone: skipped" in done.stderr
    assert len(client.asked) == DOCS


@pytest.mark.parametrize(
    ("there", "words"),
    [("link", "is a link, and answers are not written through links"), ("pipe", "is not a regular file")],
)
def test_answers_are_written_through_no_link_and_into_no_pipe(answered: Path, there: str, words: str) -> None:
    journal = next((answered / "eval_results" / "answers").glob("*.jsonl"))
    journal.unlink()
    (answered / "mine").write_text("mine")
    if there == "link":
        journal.symlink_to(answered / "mine")
    else:
        os.mkfifo(journal)
    with pytest.raises(PackError, match=words):
        run(config())
    assert (answered / "mine").read_text() == "mine"
