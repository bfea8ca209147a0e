"""grade: answers from anywhere get the scores that lm_eval would have given, and what is no answer gets none."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.pool
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accelerator import SCRIPT, answer, lines_of
from command import cli, full_disk
from golden import compared_tasks, verdicts
from lm_eval.api import metrics
from noted import noted
from own_record import CHOICES, TEXTS, config_of, record_run
from packs import edit, edit_docs, prepare, read_docs, reseal, some_templates, yaml_of
from shared import whole_pack, whole_replay

from meta_eval import export, grade, report
from meta_eval.ask.answer_files import read_answers
from meta_eval.ask.grading import Graded, Grading
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.harness.settings import Settings
from meta_eval.pack.pack_options import ScoringOptions

LETTERS, CHOICE, STOPS = TEXTS, CHOICES, "meta_mmlu_pro_pretrain"

Line = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of a task of texts and one of likelihoods, its requests, and the answers of the fake accelerator."""
    folder = tmp_path_factory.mktemp("made")
    pack = prepare(folder / "work_dir", **config_of(record_run(tmp_path_factory)))
    export(pack, folder / "requests.jsonl")
    answer(pack, folder / "requests.jsonl", folder / "answers.jsonl")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "place"))


@pytest.fixture(scope="module")
def undisturbed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """The grade of all these answers as they are, to compare others with."""
    return grade([made / "answers.jsonl"], pack=made / "work_dir", output=tmp_path_factory.mktemp("undisturbed"))


def rewrite(place: Path, change: Callable[[list[Line]], Any]) -> Path:
    """Other answers than were given: ``change`` edits the list of lines."""
    lines = lines_of(place / "answers.jsonl")
    change(lines)
    file = place / "changed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def graded(place: Path, *files: Path, **options: Any) -> Graded:
    return grade(files or [place / "answers.jsonl"], pack=place / "work_dir", output=place / "out", **options)


def samples(done: Graded, task: str) -> list[Line]:
    (file,) = done.results.parent.glob(f"samples_{task}_{done.results.stem.removeprefix('results_')}.jsonl")
    return lines_of(file)


def refusal(place: Path, *files: Path, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        graded(place, *files, **options)
    assert not list((place / "out").rglob("*")), "a refused grade leaves nothing behind"
    return str(error.value)


# What lm_eval makes of the same answers


def test_every_task_is_scored_doc_for_doc_as_lm_eval_scores_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pack = tmp_path / "work_dir"
    shutil.copytree(whole_pack(tmp_path_factory), pack)
    export(pack, tmp_path / "requests.jsonl", tasks=compared_tasks())
    answer(pack, tmp_path / "requests.jsonl", tmp_path / "answers.jsonl")
    done = graded(tmp_path, allow_code=True, tasks=compared_tasks())
    theirs = whole_replay(tmp_path_factory)
    ours = json.loads(done.results.read_text())
    assert sorted(done.scores) == compared_tasks()
    for task in compared_tasks():
        assert verdicts(samples(done, task)) == verdicts(theirs["samples"][task])
        told = {key: value for key, value in theirs["results"][task].items() if "_stderr" not in key}
        assert {key: ours["results"][task][key] for key in told} == told
    for part in ("configs", "versions", "n-shot", "higher_is_better", "n-samples"):
        assert sorted(ours[part]) == sorted(set(theirs[part]) & set(done.scores))
    read = read_run([done.results])
    assert sorted(read.tasks) == compared_tasks()


def test_standard_errors_are_those_of_the_command_line_of_lm_eval(place: Path) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    from meta_eval.harness.replay import ReplayLM

    manager = TaskManager(include_path=str(place / "work_dir"), include_defaults=False)
    theirs = lm_eval.simple_evaluate(model=ReplayLM(), tasks=[LETTERS, CHOICE], task_manager=manager)
    assert theirs is not None
    assert json.loads(graded(place).results.read_text())["results"] == json.loads(json.dumps(theirs["results"]))


def test_what_lm_eval_bootstraps_in_a_pool_is_drawn_here_to_the_same_number(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, seen = place / "work_dir", []
    edit(pack / f"{LETTERS}.yaml.lm_eval", "aggregation: mean", "aggregation: median")
    reseal(pack)
    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing, "Pool", None)
        done = graded(place, tasks=[LETTERS], progress=lambda *progress: seen.append(progress))
    scored = samples(done, LETTERS)
    which = scored[0]["filter"]
    values = [sample["exact_match"] for sample in scored if sample["filter"] == which]
    item = json.loads(done.results.read_text())["results"][LETTERS][f"exact_match_stderr,{which}"]
    # Of threads: this process has some, so it must not fork.
    monkeypatch.setattr(multiprocessing, "Pool", multiprocessing.pool.ThreadPool)
    # A pool adds up in any order.
    assert item == pytest.approx(metrics.bootstrap_stderr(metrics.median, values, 1000), rel=1e-12)
    assert item > 0
    assert (f"{LETTERS}: standard error of median", 999, 1000) in seen


def test_the_example_needs_neither_lm_eval_nor_meta_eval_and_its_loop_fits_thirty_lines() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert not any(name in text for name in ("import lm_eval", "import meta_eval", "from lm_eval", "from meta_eval"))
    assert text[text.index("def main") : text.index("if __name__")].count("\n") <= 30


def test_two_shards_are_one_run(place: Path, undisturbed: Graded) -> None:
    shards = [place / "0.jsonl", place / "1.jsonl"]
    for number, shard in enumerate(shards):
        answer(place / "work_dir", place / "requests.jsonl", shard, number, 2)
    assert len(lines_of(shards[0])) - len(lines_of(shards[1])) in (0, 1)
    assert graded(place, *shards).scores == undisturbed.scores
    assert graded(place, *reversed(shards)).scores == undisturbed.scores


@pytest.mark.parametrize("lost", [1, 40, 1000])
def test_after_a_crash_the_same_command_asks_only_what_is_missing(lost: int, place: Path, undisturbed: Graded) -> None:
    file = place / "answers.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-lost])
    asked: list[str] = []

    def noting(text: str, request: Line) -> str:
        asked.append(request["id"])
        return text

    before = {line["id"] for line in map(json.loads, filter(None, whole[:-lost].split(b"\n")[:-1]))}
    answer(place / "work_dir", place / "requests.jsonl", file, change=noting)
    assert before.isdisjoint(asked)
    assert graded(place, file).scores == undisturbed.scores


def test_it_writes_the_files_that_lm_eval_writes(place: Path) -> None:
    done = graded(place)
    names = sorted(path.name for path in (place / "out").rglob("*") if path.is_file())
    stamp = done.results.stem.removeprefix("results_")
    assert names == sorted([done.results.name, *(f"samples_{task}_{stamp}.jsonl" for task in (LETTERS, CHOICE))])
    assert done.results.parent.name == "my__model"
    assert not [path for path in (place / "out").iterdir() if path.name.startswith(".")]


def test_an_answer_is_cut_at_the_first_stop_sequence(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", STOPS, template_dir=str(some_templates(tmp_path, "mmlu_pro")))
    export(pack, tmp_path / "requests.jsonl")
    stop = lines_of(tmp_path / "requests.jsonl")[1]["stop"]
    assert stop

    def chatter(text: str, request: Line) -> str:
        return text.partition(stop[0])[0] + stop[0] + "So the best answer is (J). The answer is (J)."

    answer(pack, tmp_path / "requests.jsonl", tmp_path / "answers.jsonl")
    answer(pack, tmp_path / "requests.jsonl", tmp_path / "chatter.jsonl", change=chatter)
    with noted() as notes:
        done = graded(tmp_path, tmp_path / "chatter.jsonl")
    assert f"answers that go on past a stop sequence, and are cut there as lm_eval cuts them: {STOPS} 15" in notes
    assert done.scores == graded(tmp_path).scores


# What reaches the report


def test_why_an_answer_ended_reaches_the_report(place: Path) -> None:
    def cut(lines: list[Line]) -> None:
        for line in lines:
            if line["id"].startswith(LETTERS):
                line |= {"finish_reason": "length", "completion_tokens": 1024}

    done = graded(place, rewrite(place, cut))
    docs = read_run([done.results]).tasks[LETTERS].docs
    assert [(doc.limit_hit, doc.figures["answer_tokens"]) for doc in docs] == [(True, 1024)] * len(docs)
    judged = report(done.results, pack=place / "work_dir")
    (alarm,) = [alarm for alarm in judged.alarms if alarm.kind == "cut answers differ"]
    (task,) = alarm.tasks
    assert (task.task, task.veto) == (LETTERS, True)
    assert str(task.note).startswith(f"{len(docs)} of {len(docs)} answers, 0 of the baseline's; +100.0 points")


def test_a_long_answer_that_ended_by_itself_is_not_called_cut_off(place: Path) -> None:
    def long(lines: list[Line]) -> None:
        for line in lines:
            if "text" in line:
                line["text"] = "word " * 20_000 + line["text"]

    done = graded(place, rewrite(place, long))
    assert {doc.limit_hit for doc in read_run([done.results]).tasks[LETTERS].docs} == {False}


def test_tokens_a_second_are_of_the_time_in_which_anything_was_answered(place: Path) -> None:
    def timed(lines: list[Line]) -> None:
        for number, line in enumerate(lines):
            start = 10.0 * (number // 2)  # two at a time, two seconds each, with pauses of eight
            line |= {"started": start, "ended": start + 2.0}
            if "text" in line:
                line["completion_tokens"] = 50

    done = graded(place, rewrite(place, timed))
    lines = lines_of(place / "changed.jsonl")
    texts = [line for line in lines if "text" in line]
    assert done.speed is not None
    assert done.speed.seconds == 2.0 * -(-len(lines) // 2)
    assert done.speed.completion_tokens == 50 * len(texts)
    assert done.speed.tokens_per_second == pytest.approx(50 * len(texts) / (2.0 * -(-len(texts) // 2)))
    facts = dict(report(done.results, pack=place / "work_dir").runs[0].provenance)
    assert facts["answers"] == f"{50 * len(texts):,} tokens, {done.speed.tokens_per_second:,.1f} a second"


@pytest.mark.parametrize(("seconds", "shown"), [(3600.0 * 1000, "2,500.00"), (36.0, "0.025")])
def test_what_the_answers_cost_reaches_the_report(place: Path, seconds: float, shown: str, undisturbed: Graded) -> None:
    def timed(lines: list[Line]) -> None:
        for line in lines:
            line |= {"started": 0.0, "ended": seconds}

    grading = Grading(place / "work_dir", ScoringOptions())
    given = read_answers([rewrite(place, timed)])
    done = grading.grade(given, output=place / "priced", prices=Settings(model_name="m", price_per_hour=2.5))
    assert dict(report(done.results, pack=place / "work_dir").runs[0].provenance)["cost"] == shown
    assert "cost" not in dict(report(undisturbed.results, pack=place / "work_dir").runs[0].provenance)


def test_an_endpoint_is_paid_by_its_tokens_and_less_for_those_of_its_cache(place: Path) -> None:
    def counted(lines: list[Line]) -> None:
        for line in lines:
            line |= {"prompt_tokens": 1000, "completion_tokens": 100, "cached_tokens": 400}

    prices = Settings.model_validate(
        {"model_name": "m", "price_per_million_tokens": {"prompt": 2, "completion": 10, "cached": 1}}
    )
    given = read_answers([rewrite(place, counted)])
    speed = Grading(place / "work_dir", ScoringOptions()).grade(given, output=place / "paid", prices=prices).speed
    assert speed is not None and speed.cost == pytest.approx(speed.answers * (600 * 2 + 400 * 1 + 100 * 10) / 1e6)


def test_engine_and_model_are_those_of_the_answers(place: Path) -> None:
    def other(lines: list[Line]) -> None:
        for line in lines:
            line |= {"model": "org/theirs", "engine": "llama.cpp b9999"}

    done = graded(place, rewrite(place, other))
    provenance = read_run([done.results]).tasks[CHOICE].provenance
    assert (provenance.model, provenance.backend) == ("org/theirs", "llama.cpp b9999")
    assert done.results.parent.name == "org__theirs"


def test_an_edited_pack_is_graded_where_asked_for_and_the_results_say_so(place: Path) -> None:
    with yaml_of(place / "work_dir", LETTERS).open("a") as file:
        file.write("# mine\n")
    assert "--edited" in refusal(place)
    done = graded(place, edited=True)
    assert json.loads(done.results.read_text())["config"]["meta_eval"]["edited"] == [f"{LETTERS}.yaml"]


# What is no answer


def test_what_is_missing_is_named_and_nothing_is_graded(place: Path) -> None:
    told = refusal(place, rewrite(place, lambda lines: lines.__delitem__(slice(2, 7))))
    ids = ", ".join(f"{LETTERS}/{number}" for number in (2, 3, 4))
    assert f"of 31 requests: 5 have no answer ({ids} and 2 more)" in told
    assert "--partial" in told


def test_a_partial_grade_is_of_the_docs_that_are_answered_and_report_calls_it_unfinished(
    place: Path, undisturbed: Graded
) -> None:
    file = rewrite(place, lambda lines: lines.__delitem__(slice(0, 3)))
    done = graded(place, file, partial=True)
    assert (done.missing, done.failed) == (3, 0)
    assert [sample["doc_id"] for sample in samples(done, LETTERS)][:12] == list(range(3, 15))
    whole = {sample["doc_id"]: sample for sample in samples(undisturbed, LETTERS) if sample["filter"] == "strict-match"}
    for sample in samples(done, LETTERS):
        if sample["filter"] == "strict-match":
            assert sample["exact_match"] == whole[sample["doc_id"]]["exact_match"]
    judged = report(done.results, pack=place / "work_dir")
    (alarm,) = [alarm for alarm in judged.alarms if alarm.kind == "not all docs"]
    assert [(task.task, task.note) for task in alarm.tasks] == [(LETTERS, "12 of 15 docs were run")]
    assert alarm.veto


def test_a_partial_grade_leaves_a_task_out_that_has_no_answer(place: Path) -> None:
    def drop(lines: list[Line]) -> None:
        lines[:] = [line for line in lines if line["id"].startswith(CHOICE)]

    assert list(graded(place, rewrite(place, drop), partial=True).scores) == [CHOICE]
    assert list(graded(place, tasks=[CHOICE]).scores) == [CHOICE]


def test_a_partial_grade_of_nothing_is_refused(place: Path) -> None:
    """What it advises is no command that asks: `grade` asks nobody."""

    def fail(lines: list[Line]) -> None:
        lines[:] = [{key: line[key] for key in ("id", "prompt_sha256")} | {"error": "boom"} for line in lines]

    none, failed = (refusal(place, rewrite(place, change), partial=True) for change in (list.clear, fail))
    assert "none of the answers can be graded. Ask the model: `meta-eval export` writes what it must answer" in none
    assert "every request failed (" in failed and failed.endswith("and have the requests answered again")


def test_a_failed_answer_is_named_with_its_error(place: Path) -> None:
    def fail(lines: list[Line]) -> None:
        lines[4] = {"id": lines[4]["id"], "prompt_sha256": lines[4]["prompt_sha256"], "error": "out of memory"}

    told = refusal(place, rewrite(place, fail))
    assert f"1 failed ({LETTERS}/4: out of memory)" in told
    assert graded(place, rewrite(place, fail), partial=True).failed == 1


def test_a_failure_without_words_says_that_it_has_none(place: Path) -> None:
    def fail(lines: list[Line]) -> None:
        lines[4] = {"id": lines[4]["id"], "prompt_sha256": lines[4]["prompt_sha256"], "error": " "}

    assert f"1 failed ({LETTERS}/4: no reason was given)" in refusal(place, rewrite(place, fail))


def test_answers_of_another_pack_are_refused_even_in_part(place: Path) -> None:
    edit_docs(place / "work_dir", LETTERS, lambda docs: docs[1].update(prompt=docs[1]["prompt"] + " "))
    for partial in (False, True):
        told = refusal(place, partial=partial)
        assert (
            f"1 answers are of another pack ({LETTERS}/1 in {place / 'answers.jsonl'}, line 3: asked otherwise)" in told
        )


@pytest.mark.parametrize("name", ["meta_none/0", f"{LETTERS}/15", f"{LETTERS}/0/0", "x"])
def test_an_answer_to_what_the_pack_never_asked_is_refused(name: str, place: Path) -> None:
    told = refusal(place, rewrite(place, lambda lines: lines.append({**lines[0], "id": name})))
    assert f"1 answers are of another pack ({name} in" in told


def test_two_answers_to_one_request_are_refused_unless_one_is_preferred(place: Path) -> None:
    file = rewrite(place, lambda lines: lines.append({**lines[0], "text": "The best answer is nothing."}))
    told = refusal(place, file)
    assert f"1 have answers that are not alike ({LETTERS}/0 in {file}, line 1 and {file}, line 32)" in told
    assert "--prefer last" in told
    assert samples(graded(place, file, prefer="last"), LETTERS)[0]["resps"] == [["The best answer is nothing."]]
    assert graded(place, place / "answers.jsonl", place / "answers.jsonl").scores


def test_an_answer_of_another_kind_is_refused(place: Path) -> None:
    def other(lines: list[Line]) -> None:
        lines[0] = {**lines[0], "text": None, "choices": [{"logprob": -1}]}
        lines[-1]["choices"].pop()

    told = refusal(place, rewrite(place, other), partial=True)
    assert f"2 answers do not fit their requests ({LETTERS}/0 in" in told
    assert "it holds 3 of 4 choices" in told


def test_answers_of_two_models_are_refused(place: Path) -> None:
    told = refusal(place, rewrite(place, lambda lines: lines[5].update(model="org/other")))
    assert "these answers come from 2 models: my/model (" in told
    assert "line 6)" in told


def test_a_limit_of_the_engines_own_is_said(place: Path) -> None:
    file = rewrite(place, lambda lines: lines[0].update(finish_reason="length", completion_tokens=7))
    with noted() as notes:
        graded(place, file)
    assert any(f"such as its context: {LETTERS} 1" in note for note in notes)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_full_disk_leaves_nothing_behind(share: float, place: Path, undisturbed: Graded) -> None:
    largest = max(path.stat().st_size for path in undisturbed.results.parent.rglob("*.json*"))
    with full_disk(int(share * largest)):
        done = cli("grade", "answers.jsonl", "--pack", "work_dir", "--output", "out", cwd=place)
    assert done.returncode == 2
    assert (
        "out: cannot be written (lm_eval wrote nothing or half a file there; the disk may be full, or memory ran out). Free"
        in done.stderr
    )
    assert not list((place / "out").iterdir())


def test_half_a_results_file_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.loggers import EvaluationTracker

    whole = EvaluationTracker.save_results_aggregated

    def half(self: Any, *arguments: Any, **options: Any) -> None:
        whole(self, *arguments, **options)
        (file,) = Path(self.output_path).rglob("results_*.json")
        file.write_bytes(file.read_bytes()[:-10])

    monkeypatch.setattr(EvaluationTracker, "save_results_aggregated", half)
    assert "the disk may be full" in refusal(place)


def test_code_is_run_only_where_it_is_allowed(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", "meta_mbpp", template_dir=str(some_templates(tmp_path, "code")))
    export(pack, tmp_path / "requests.jsonl")
    answer(pack, tmp_path / "requests.jsonl", tmp_path / "answers.jsonl")
    assert "meta_mbpp: scoring runs model-written code" in refusal(tmp_path)


# The command


def test_the_command_says_what_the_function_says(place: Path, undisturbed: Graded) -> None:
    done = cli("grade", "answers.jsonl", "--pack", "work_dir", "--output", "out", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tasks"] == undisturbed.scores
    assert (told["missing"], told["failed"], told["model"]) == (0, 0, "my/model")
    assert "meta-eval report out/my__model --pack work_dir" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["gone.jsonl", "--pack", "work_dir"],
            "gone.jsonl: cannot be read: there is no such file; did you mean 'answers.jsonl'? Name files of answers",
        ),
        (["requests.jsonl", "--pack", "work_dir"], "requests.jsonl: holds requests, not answers"),
        (["answers.jsonl", "--pack", "gone"], "gone: there is no such folder. Run `meta-eval prepare`"),
        (["answers.jsonl", "--pack", "work_dir", "--prefer", "first"], "--prefer: 'first' is not allowed"),
        (["answers.jsonl", "--pack", "work_dir", "--output", "answers.jsonl"], "answers.jsonl: cannot be written"),
        (["answers.jsonl", "--pack", "work_dir", "--tasks", "meta_x"], "unknown task or group 'meta_x'"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], told: str, place: Path) -> None:
    done = cli("grade", *arguments, cwd=place)
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_an_answer_to_another_limit_or_stop_text_is_named_and_never_a_score(place: Path, undisturbed: Graded) -> None:
    asked = {line["id"]: line.get("request_sha256") for line in lines_of(place / "requests.jsonl")[1:]}

    def repeat(lines: list[Line]) -> None:
        for line in lines:
            line["request_sha256"] = asked[line["id"]]

    assert graded(place, rewrite(place, repeat)).scores == undisturbed.scores
    shutil.rmtree(place / "out")

    def other(lines: list[Line]) -> None:
        repeat(lines)
        lines[3]["request_sha256"] = "0" * 64

    message = refusal(place, rewrite(place, other))
    assert "1 answers are of another pack" in message
    assert "asked otherwise" in message


def test_answers_of_two_settings_of_run_are_not_one_run(place: Path) -> None:
    lines = lines_of(place / "answers.jsonl")
    files = []
    for number in range(2):
        head = {"format": "meta-eval answers", "version": 1, "settings_sha256": str(number)}
        files.append(place / f"{number}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in [head, *lines[number::2]]))
    said = refusal(place, *files)
    assert f"generated with different settings: {files[0]}, line 1; {files[1]}, line 1. Grade them one by one" in said
    both = place / "both.jsonl"
    both.write_text("".join(file.read_text() for file in files))
    at = len(lines[::2]) + 2
    assert f"settings: {both}, line 1; {both}, line {at}. Split a file before such a line" in refusal(place, both)


@pytest.mark.parametrize("version", [2, "1", None])
def test_answers_of_another_version_are_refused(version: object, place: Path) -> None:
    head = {"format": "meta-eval answers", "version": version, "settings_sha256": "0"}
    file = place / "newer.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [head, *lines_of(place / "answers.jsonl")]))
    assert f"is of version {version!r}, and this meta-eval reads version 1" in refusal(place, file)


@pytest.mark.parametrize("name", ["engine", "model"])
@pytest.mark.parametrize("value", ["..", "a\0b", "\ud800", "\x1b[31m", "\u202e", "é" * 128])
def test_a_name_that_no_folder_has_is_told_with_its_line(name: str, value: str, place: Path) -> None:
    changed = rewrite(place, lambda lines: lines[1].update({name: value}))
    assert f"changed.jsonl, line 2: not an answer: {name} is " in refusal(place, changed)


def test_half_a_character_is_graded_as_one_that_cannot_be_read(place: Path) -> None:
    changed = rewrite(
        place, lambda lines: [line.update(text=line["text"] + " \ud83d") for line in lines if "text" in line]
    )
    sample = samples(graded(place, changed), LETTERS)[0]
    assert sample["resps"][0][0].endswith(" \ufffd")


# Several answers a doc


def test_each_of_several_answers_is_graded_and_a_doc_counts_with_their_mean(place: Path) -> None:
    pack = place / "work_dir"
    edit(yaml_of(pack, LETTERS), "generation_kwargs:", "repeats: 4\ngeneration_kwargs:")
    reseal(pack)
    export(pack, place / "requests.jsonl", tasks=[LETTERS])
    _, *requests = lines_of(place / "requests.jsonl")
    docs = read_docs(pack, LETTERS)
    lines = []
    for request in requests:
        doc, repeat = request["doc"], int(request["id"].rpartition("/")[2])
        letter = docs[doc]["gold"] if repeat == 0 or (doc, repeat) == (0, 3) else "none"
        ended = "content_filter" if (doc, repeat) == (1, 1) else "length" if (doc, repeat) == (1, 2) else "stop"
        text = f"The best answer is {letter}." if letter != "none" else ""
        lines.append({**{key: request[key] for key in ("id", "prompt_sha256")}, "text": text, "finish_reason": ended})
    (place / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = graded(place, tasks=[LETTERS])
    first, second = (sample["answer"] for sample in samples(done, LETTERS)[:2])
    assert first["each_answer"]["exact_match"] == [1.0, 0.0, 0.0, 1.0]
    assert second["finish_reason"] == ["stop", "content_filter", "length", "stop"]
    run = read_run([done.results]).tasks[LETTERS]
    name = run.filters[0]
    means = [doc.filter_results[name].metrics["exact_match"] for doc in run.docs]
    assert means == [0.5, *([0.25] * (len(run.docs) - 1))]
    assert run.docs[1].cuts == (False, True, True, True)
    assert run.aggregates[f"exact_match,{name}"].value == 1.0, "lm-eval's own average is of the first answers"
