"""Recorded answers of two runs graded again by one grader, and the decision on that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import cli
from golden import prepare_sample
from marks import few
from recorded_runs import record, task_folder
from runs import run_lm_eval

from meta_eval.api import compare, report
from meta_eval.ask.regrading import Regrader
from meta_eval.base.errors import UserError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.pack.verify import verify
from meta_eval.pack.verify.saved_answers import read_responses

SHAPES = ["arc_challenge", "gsm8k", "ifeval", "truthfulqa_mc2", "wikitext"]
GRADED_AGAIN = few(SHAPES, 4)
PENS = {
    "task": "pens",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "nowhere.jsonl"}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{question}}",
    "doc_to_target": "{{gold}}",
    "generation_kwargs": {"until": ["Question:"], "max_gen_toks": 99},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "filter_list": [
        {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### ([0-9]+)"}, {"function": "take_first"}]}
    ],
    "metadata": {"version": 3.2},
}  # fmt: skip


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for ``--include-path`` with one small task."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "pens.yaml").write_text(yaml.dump(PENS), encoding="utf-8")
    return folder


def write_pens(
    folder: Path, answers: Callable[[int], list[str]], verdict: Callable[[int], float], docs: int = 100, **tree: Any
) -> Path:
    """Write a run of `PENS` over docs whose gold is their number, with these verdicts."""
    folder.mkdir(parents=True)
    lines = [
        {
            "doc_id": number, "doc": {"question": f"{number}?", "gold": str(number)}, "target": str(number),
            "arguments": {"gen_args_0": {"arg_0": f"{number}?", "arg_1": {"until": ["Question:"], "max_gen_toks": 99}}},
            "resps": [answers(number)], "filtered_resps": [answers(number)[0][-3:]], "filter": "strict",
            "metrics": ["exact_match"], "exact_match": verdict(number),
        }
        for number in range(docs)
    ]  # fmt: skip
    time = "2026-03-01T10-00-00.000001"
    (folder / f"samples_pens_{time}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = {
        "results": {"pens": {"exact_match,strict": sum(map(verdict, range(docs))) / docs}},
        "configs": {"pens": {"task": "pens", "metric_list": PENS["metric_list"]}},
        "n-samples": {"pens": {"original": docs, "effective": docs}},
        "config": {"model": "vllm", "model_args": {"pretrained": "org/m"}},
        "lm_eval_version": "0.4.12", "date": 1772359200.0, **tree,
    }  # fmt: skip
    (folder / f"results_{time}.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def write_other_graders(tmp_path: Path, lost: int = 0) -> tuple[Path, Path]:
    """B's grader calls 10 right answers wrong; besides, B loses ``lost`` docs."""

    def say(number: int) -> list[str]:
        return [f"I add them. #### {number}"]

    a = write_pens(tmp_path / "A", say, lambda _: 1.0, versions={"pens": 3.0})
    b = write_pens(
        tmp_path / "B", lambda number: ["None."] if number < lost else say(number),
        lambda number: float(number >= lost and not number >= 90), versions={"pens": 3.1},
    )  # fmt: skip
    return a, b


def test_the_graders_part_is_no_drop_and_the_models_part_stays(tasks: Path, tmp_path: Path) -> None:
    a, b = write_other_graders(tmp_path, lost=10)
    assert compare(a, b).decision.caveats[0].startswith("graded differently: pens (10 of ")
    again = compare(a, b, regrade=True, include_path=tasks)
    (task,) = again.tasks
    assert again.decision.outcome == "DON'T SHIP"
    assert [caveat.partition(":")[0] for caveat in again.decision.caveats] == ["answers not read"]
    assert task.is_decided and task.drop_breakdown is not None
    assert task.drop.value == pytest.approx(10 / 100)
    parts = task.drop_breakdown
    assert parts.model is not None
    assert [parts.total.value, parts.grader.value, parts.model.value] == pytest.approx([20 / 100, 10 / 100, 10 / 100])
    assert (parts.regraded, parts.docs_with_other_prompt) == (10, 0)


def test_the_command_of_the_hint_says_what_graded(tasks: Path, tmp_path: Path) -> None:
    a, b = write_other_graders(tmp_path)
    first = cli("compare", str(a), str(b))
    assert "Add --regrade:" in " ".join((first.stdout + first.stderr).split())
    again = cli("compare", str(a), str(b), "--regrade", "--include-path", str(tasks), "--json", "--max-drop", "5")
    tree = json.loads(again.stdout)
    assert (again.returncode, tree["decision"]["outcome"]) == (0, "SHIP")
    assert [note.partition(" with ")[0] for note in tree["notes"]] == [
        f"{side}: pens: graded again by {tasks}" for side in "AB"
    ]
    assert tree["tasks"][0]["drop_breakdown"]["grader"]["value"] == pytest.approx(0.1)
    assert "The parts of the difference between the files of A and B" in again.stderr


def test_the_baseline_of_several_candidates_is_graded_again_once(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = write_other_graders(tmp_path)
    (tmp_path / "more").mkdir()
    _, c = write_other_graders(tmp_path / "more", lost=25)
    graded, regrade = [], Regrader.regrade
    monkeypatch.setattr(Regrader, "regrade", lambda self, run: graded.append(run) or regrade(self, run))
    done = cli("compare", a, b, c, "--regrade", "--include-path", tasks, "--json", "--max-drop", "5")
    candidates = json.loads(done.stdout)["candidates"]
    assert [candidate["outcome"] for candidate in candidates] == ["SHIP", "DON'T SHIP"], done.stderr
    parts = [candidate["report"]["tasks"][0]["drop_breakdown"]["grader"]["value"] for candidate in candidates]
    assert parts == pytest.approx([0.1, 0.1])
    assert len(graded) == 3


def test_all_of_several_answers_are_judged(tasks: Path, tmp_path: Path) -> None:
    def answers(right: int) -> Callable[[int], list[str]]:
        return lambda number: [f"#### {number}" if place < right else "#### x" for place in range(4)]

    a = write_pens(tmp_path / "A", answers(4), lambda _: 1.0, docs=20)
    b = write_pens(tmp_path / "B", answers(2), lambda _: 1.0, docs=20)
    assert compare(a, b).decision.caveats == (
        "one of several answers: pens in A, pens in B (strict judges 1 of 4 answers)",
    )
    again = compare(a, b, regrade=True, include_path=tasks)
    (task,) = again.tasks
    assert task.is_decided and task.drop.value == pytest.approx(0.5)
    assert again.decision.caveats == ()
    assert task.drop_breakdown is not None and task.drop_breakdown.grader.value == 0


def test_a_folder_of_own_tasks_that_is_not_there_is_refused(tmp_path: Path) -> None:
    a, b = (write_pens(tmp_path / name, lambda _: ["#### 1"], lambda _: 1.0, docs=20) for name in "AB")
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        compare(a, b, regrade=True, include_path=tmp_path / "nowhere")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of lm-eval's own tasks."""
    folder = tmp_path_factory.mktemp("recorded")
    names = [name for name in SHAPES if name in (*GRADED_AGAIN, "gsm8k")]
    return read_run([record(task_folder(folder / "tasks", names), folder / "out", names)])


def test_likelihoods_that_files_hold_as_text_are_numbers_again() -> None:
    saved = [[["-1.5", "True"], ["-2.0", "False"]], ["a text"], []]
    assert read_responses(saved) == {0: [(-1.5, True), (-2.0, False)], 1: ["a text"]}


@pytest.mark.parametrize("task", GRADED_AGAIN)
def test_the_installed_task_gives_its_own_verdicts_again(task: str, recorded: Run) -> None:
    one = Run({task: recorded.tasks[task]}, (), {})
    again = Regrader(None, None, Path("nowhere")).regrade(one).tasks[task]
    old = recorded.tasks[task]
    for graded, doc in zip(again.docs, old.docs, strict=True):
        assert {name: (result.metrics, result.extracted) for name, result in graded.filter_results.items()} == {
            name: (result.metrics, result.extracted) for name, result in doc.filter_results.items()
        }
    assert {key: value.value for key, value in again.aggregates.items()} == pytest.approx(
        {key: value.value for key, value in old.aggregates.items()}
    )
    assert (again.lower_is_better, again.custom_aggregation) == (old.lower_is_better, old.custom_aggregation)


def test_a_task_that_cannot_be_graded_again_is_left_out_and_says_why(recorded: Run, tmp_path: Path) -> None:
    other = read_run([write_pens(tmp_path / "A", lambda number: [str(number)], lambda _: 1.0)])
    both = Run({**other.tasks, "gsm8k": recorded.tasks["gsm8k"]}, (), {})
    again = Regrader(None, None, Path("nowhere")).regrade(both)
    assert list(again.tasks) == ["gsm8k"]
    assert "there is no such folder" in again.faults["pens"]
    with pytest.raises(UserError, match="template_dir nowhere: there is no such folder"):
        Regrader(None, None, Path("nowhere")).regrade(other)


def test_docs_of_another_task_of_that_name_are_one_message(tmp_path: Path) -> None:
    run = write_pens(tmp_path / "A", lambda number: [str(number)], lambda _: 1.0)
    for path in run.iterdir():
        text = path.read_text(encoding="utf-8").replace('"pens"', '"gsm8k"')
        path.with_name(path.name.replace("pens", "gsm8k")).write_text(text, encoding="utf-8")
        if "pens" in path.name:
            path.unlink()
    done = cli("compare", str(run), str(run), "--regrade")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot grade the docs of this run: lm-eval cannot run it: UndefinedError" in done.stderr
    assert "with --include-path" in done.stderr and "Traceback" not in done.stderr


def test_programs_are_run_only_if_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "pens.yaml").write_text(yaml.dump({**PENS, "unsafe_code": True}), encoding="utf-8")
    run = read_run([write_pens(tmp_path / "A", lambda number: [f"#### {number}"], lambda _: 0.0, docs=9)])
    with pytest.raises(UserError, match="runs model-written code") as refused:
        Regrader(None, None, tmp_path / "tasks").regrade(run)
    assert "--allow-code" in str(refused.value)
    again = Regrader(None, None, tmp_path / "tasks", allow_code=True).regrade(run).tasks["pens"]
    assert [doc.filter_results["strict"].metrics["exact_match"] for doc in again.docs] == [1.0] * 9
    assert again.provenance.grader.runs_code


@pytest.mark.parametrize("words", [["--include-path", "tasks"], ["--allow-code"]])
def test_options_of_grading_again_are_refused_without_it(words: list[str], tmp_path: Path) -> None:
    a, b = write_other_graders(tmp_path)
    done = cli("compare", str(a), str(b), *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "only has an effect with regrade. Add --regrade, or leave it out" in done.stderr


# With a pack


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "work_dir"
    prepare_sample(folder, ["meta_gpqa_cot"])
    verify(folder)
    return folder


@pytest.fixture
def misgraded(pack: Path, tmp_path: Path) -> Path:
    """A run of the pack with the recorded answers, whose file calls the first right answer wrong."""
    folder = run_lm_eval(pack, ["meta_gpqa_cot"], tmp_path / "out")
    (samples,), (results,) = folder.rglob("samples_*"), folder.rglob("results_*")
    lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    wrong = next(line["doc_id"] for line in lines if line["exact_match"] == 1 and line["filter"] == "strict-match")
    for line in lines:
        if line["doc_id"] == wrong:
            line["exact_match"] = 0.0
            line["exact_match_macro"] = [line["exact_match_macro"][0], 0.0] if "exact_match_macro" in line else None
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tree = json.loads(results.read_text(encoding="utf-8"))
    for key in list(tree["results"]["meta_gpqa_cot"]):
        if "," in key:  # averages of the verdicts above are no longer lm-eval's
            del tree["results"]["meta_gpqa_cot"][key]
    results.write_text(json.dumps(tree), encoding="utf-8")
    return folder


def test_a_report_decides_on_the_packs_own_verdicts(pack: Path, misgraded: Path) -> None:
    before = report(misgraded, pack=pack)
    assert before.tasks[0].drop.value == 0
    assert before.decision.caveats[0].startswith("graded differently: meta_gpqa_cot (1 of ")
    again = report(misgraded, pack=pack, regrade=True)
    assert not any("graded" in caveat for caveat in again.decision.caveats)
    (task,) = again.tasks
    assert task.is_decided and task.drop.value == 0
    assert any(note.startswith("meta_gpqa_cot: graded again by the pack with lm-eval ") for note in again.notes)


def test_two_runs_of_a_pack_are_graded_by_the_pack(pack: Path, misgraded: Path, tmp_path: Path) -> None:
    sound = run_lm_eval(pack, ["meta_gpqa_cot"], tmp_path / "sound")
    assert any("graded differently" in caveat for caveat in compare(sound, misgraded, pack=pack).decision.caveats)
    again = compare(sound, misgraded, pack=pack, regrade=True)
    (task,) = again.tasks
    assert not again.decision.invalid
    assert task.drop_breakdown is not None and task.drop_breakdown.regraded == 1
