"""A recorded run of lm-eval as an evals dataset: through prepare, verify and report."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import recorded_runs
import yaml
from marks import few, thorough
from noted import noted
from packs import edit_docs, prepare, punkt_data, read_docs
from places import REPOSITORY, THOROUGH
from recorded_runs import SHAPES, record, task_folder
from runs import run_lm_eval

from meta_eval import compare, export, grade, report, verify
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.stats import DropBreakdown

OUTPUTS = REPOSITORY / "tests" / "data" / "lm_eval_outputs"
TASKS = REPOSITORY / "tools" / "lm_eval_tasks"
NO_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a TiB of nothing": lambda path: (path.touch(), os.truncate(path, 2**40)),
}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``run``, what lm-eval wrote of its own tasks over our rows, and ``pack``, made of it."""
    folder = tmp_path_factory.mktemp("shapes")
    record(task_folder(folder / "tasks", list(SHAPES)), folder / "run", list(SHAPES))
    prepare(folder / "pack", "recorded", evals_dataset=str(folder / "run"))
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """What lm-eval 0.4.13 wrote of four tiny tasks."""
    return Path(shutil.copytree(OUTPUTS / "0.4.13", tmp_path / "eval_results"))


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack of what lm-eval 0.4.13 wrote, verified. No test changes it."""
    folder = tmp_path_factory.mktemp("proven")
    pack = tiny(Path(shutil.copytree(OUTPUTS / "0.4.13", folder / "eval_results")))
    verify(pack)
    return pack


def tiny(run: Path, tasks: str = "recorded", **keys: Any) -> Path:
    return prepare(
        run.parent / "pack",
        tasks,
        **{"evals_dataset": str(run), "template_dir": str(TASKS), "model_name": "org/New-Model", **keys},
    )


def test_a_run_of_the_pack_is_compared_with_the_record_itself(proven: Path, tmp_path: Path) -> None:
    run, old = run_lm_eval(proven, ["recorded"], tmp_path / "out"), OUTPUTS / "0.4.13"
    for pair in ((run, old), (old, run)):
        decision = compare(*pair).decision
        assert not [reason for reason in decision.reasons if "not alike" in reason]
        assert [task.name for task in decision.tasks] == ["tiny_colours", "tiny_free", "tiny_sums"]
        decision = compare(*pair, tasks=["tiny_choices"]).decision  # a group of the record, which the pack has not
        assert {task.name for task in decision.tasks} <= {"tiny_choices", "tiny_colours", "tiny_sums"}
        decision = compare(*pair, tasks=["-tiny_choices", "-tiny_text"]).decision
        assert [task.name for task in decision.tasks] == ["tiny_free"]


def change(run: Path, task: str, edit: Callable[[list[dict[str, Any]]], Any]) -> Path:
    (path,) = run.rglob(f"samples_{task}_*.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    edit(samples)
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    return path


@thorough
def test_every_shape_of_benchmark_is_graded_today_as_it_was(shapes: Path) -> None:
    proof = verify(shapes / "pack")
    checks = {name: (task.status, task.tallies and task.tallies.total.agreed) for name, task in proof.tasks.items()}
    assert checks == {name: ("passed", len(rows)) for name, (rows, _, _) in SHAPES.items()}


def test_the_same_model_again_differs_nowhere_and_another_where_it_does(shapes: Path) -> None:
    verify(shapes / "pack")
    planted = {"arc_challenge": range(7), "gsm8k": range(8), "mmlu_abstract_algebra": [0, 5]}
    # A pack that lies elsewhere, asked by lm-eval itself. Of what the other model answers alike it is the same model again.
    moved = Path(shutil.copytree(shapes / "pack", shapes / "elsewhere" / "pack"))
    expected = {}
    again = SHAPES if THOROUGH else planted
    for name, tasks, docs in (("again", list(again), {}), ("other", list(SHAPES), planted)):
        record(moved, shapes / name, tasks, planted=docs)
        judged = report([shapes / name], pack=shapes / "pack")
        flips = {task.name: task.flips.compared - task.flips.agreed for task in judged.tasks if task.flips}
        drops = {task.name: task.drop.value for task in judged.tasks if task.is_decided}
        assert not [alarm.kind for alarm in judged.alarms if alarm.kind == "changed prompts"]
        told = {task.name: task.drop_breakdown for task in judged.tasks if task.drop_breakdown}
        assert {task: figures(task_report) for task, task_report in told.items()} == {
            task: (0.0, drop, 0.0) for task, drop in drops.items()
        }
        expected[name] = flips, drops
    flips, drops = expected["again"]
    assert (set(flips.values()), set(drops.values())) == ({0}, {0.0})
    flips, drops = expected["other"]
    assert {count for task, count in flips.items() if task not in planted} == {0}
    assert {drop for task, drop in drops.items() if task not in planted} == {0.0}
    verdicts = {"arc_challenge": "acc", "gsm8k": "exact_match", "mmlu_abstract_algebra": "acc"}
    real = {task: differing(shapes, task, metric) for task, metric in verdicts.items()}
    assert sum(real.values()) > 0
    assert {task: count for task, count in expected["other"][0].items() if count} == {
        task: count for task, count in real.items() if count
    }


def figures(breakdown: DropBreakdown) -> tuple[float, float, float]:
    """The grader's, the model's and the prompts'."""
    assert breakdown.model is not None and breakdown.prompts is not None
    return breakdown.grader.value, breakdown.model.value, breakdown.prompts.value


def test_what_only_the_grader_changed_is_the_graders(shapes: Path, tmp_path: Path) -> None:
    # As if another grader had taken one right answer of the record for wrong, and one wrong one for right.
    run = Path(shutil.copytree(shapes / "run", tmp_path / "run"))

    def edit(samples: list[dict[str, Any]]) -> None:
        first, second = ({line["doc_id"] for line in samples if line["acc"] == value} for value in (0.0, 1.0))
        for sample in samples:
            if sample["doc_id"] in (min(first), min(second)):
                sample["acc"] = 1.0 - sample["acc"]

    change(run, "mmlu_abstract_algebra", edit)
    pack = prepare(tmp_path / "pack", "mmlu_abstract_algebra", evals_dataset=str(run))
    verify(pack)
    record(pack, tmp_path / "again", ["mmlu_abstract_algebra"])
    (task,) = report([tmp_path / "again"], pack=pack).tasks
    assert task.drop_breakdown is not None
    assert (figures(task.drop_breakdown), task.drop_breakdown.regraded, task.drop_breakdown.changed) == (
        (0.0, 0.0, 0.0),
        2,
        0,
    )
    assert task.drop_breakdown.grader.lost == task.drop_breakdown.grader.won == 1 / 8


def test_choices_with_prompts_of_their_own_are_asked_and_graded_from_a_file(shapes: Path, tmp_path: Path) -> None:
    export(shapes / "pack", tmp_path / "requests.jsonl", tasks=["winogrande"])
    text = (tmp_path / "requests.jsonl").read_text(encoding="utf-8")
    requests = [line for line in map(json.loads, text.splitlines()) if "id" in line]
    docs = dict(enumerate(read_docs(shapes / "pack", "winogrande")))
    lines = []
    for number, request in enumerate(requests):
        doc, choice = docs[number // 2], number % 2
        assert (request["id"], request["prompt"]) == (
            f"winogrande/{number // 2}/{choice}",
            doc["recorded_prompts"][choice],
        )
        likelihood, greedy = json.loads(doc["recorded_responses"])[choice][0]
        answer = {"choices": [{"logprob": likelihood, "is_greedy": greedy}]}
        lines.append({"id": request["id"], "prompt_sha256": request["prompt_sha256"], **answer})
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    graded = grade(answers, pack=shapes / "pack", tasks=["winogrande"], output=tmp_path / "graded")
    recorded = [json.loads(doc["recorded_metrics"])["acc,none"] for doc in docs.values()]
    assert graded.scores["winogrande"]["acc,none"] == sum(recorded) / len(recorded)
    assert 0 < sum(recorded) < len(recorded)


def differing(folder: Path, task: str, metric: str) -> int:
    """The docs to which the recorded and the other model were given another verdict, counted from the files."""
    both = []
    for run in ("run", "other"):
        (path,) = (folder / run).rglob(f"samples_{task}_*.jsonl")
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        both.append(
            {sample["doc_id"]: sample[metric] for sample in samples if sample["filter"] in ("none", "strict-match")}
        )
    return sum(both[0][doc] != both[1][doc] for doc in both[0])


def test_rendered_chat_templates_bring_no_second_bos_and_ask_the_same(shapes: Path) -> None:
    names = ["arc_challenge", "gsm8k"]
    record(shapes / "tasks", shapes / "chat", names, chat=True)
    pack = prepare(shapes / "chat_pack", "recorded", evals_dataset=str(shapes / "chat"))
    entries = read_manifest(pack).tasks
    assert {name: entry.warnings["prompt_with_bos"] for name, entry in entries.items()} == {
        "arc_challenge": 7,
        "gsm8k": 8,
    }
    assert verify(pack).passed
    record(pack, shapes / "chat_again", names)
    judged = report([shapes / "chat_again"], pack=pack)
    assert {task.flips and task.flips.agreed for task in judged.tasks} == {7, 8}


def test_prompts_that_bring_a_bos_were_asked_with_one_though_the_run_added_none(old: Path) -> None:
    (results,) = old.rglob("results_*.json")
    tree = json.loads(results.read_text(encoding="utf-8"))
    tree["config"]["model_args"]["add_bos_token"] = False
    results.write_text(json.dumps({**tree, "tokenizer_bos_token": ["<s>"]}), encoding="utf-8")

    def bring_bos(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            arguments = sample["arguments"]["gen_args_0"]
            arguments["arg_0"] = f"<s>{arguments['arg_0']}"
            sample["prompt_hash"] = hashlib.sha256(arguments["arg_0"].encode()).hexdigest()

    change(old, "tiny_free", bring_bos)
    manifest = read_manifest(tiny(old, "tiny_free"))
    (entry,) = manifest.tasks.values()
    assert (entry.warnings["prompt_with_bos"], manifest.run_settings.add_bos_token) == (entry.docs, True)


def test_a_bos_that_opens_turns_stays_in_the_prompt(shapes: Path) -> None:
    """Tokenizers of ChatML name <|im_start|> as BOS and add none."""
    model = recorded_runs.make_model("one", {})
    model.tokenizer = SimpleNamespace(**{**vars(model.tokenizer), "bos_token": "<|im_start|>"})
    model.apply_chat_template = lambda history, **_: "".join(f"<|im_start|>user\n{turn['content']}" for turn in history)
    record(shapes / "tasks", shapes / "chatml", ["gsm8k"], chat=True, model=model)
    pack = prepare(shapes / "chatml_pack", "recorded", evals_dataset=str(shapes / "chatml"))
    (entry,) = read_manifest(pack).tasks.values()
    assert entry.record is not None
    assert (entry.record.bos_text, "prompt_with_bos" in entry.warnings) == (None, False)
    assert all(doc["prompt"].startswith("<|im_start|>user") for doc in read_docs(pack, "gsm8k"))


def test_the_code_of_a_task_is_lm_evals_and_comes_along(shapes: Path) -> None:
    manifest = read_manifest(shapes / "pack")
    assert {"lm_eval_tasks/arc/arc_easy.yaml.lm_eval", "lm_eval_tasks/hellaswag/utils.py"} <= set(manifest.files)
    assert "lm_eval_tasks/arc/arc_easy.yaml" not in manifest.files  # lm_eval would take it for a task
    record_of = manifest.tasks["gsm8k"].record
    assert record_of is not None
    assert (record_of.model, record_of.shots, record_of.task_version) == ("org/Model-one", "2", "3.0")


def test_lm_evals_own_ifeval_brings_punkt_and_finds_it_where_the_machine_has_none(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk  # takes a second

    assert read_manifest(shapes / "pack").includes_punkt is False  # this machine has none, and prepare said so
    with monkeypatch.context() as patch:
        patch.setenv("NLTK_DATA", str(punkt_data(tmp_path / "data")))
        pack = prepare(tmp_path / "pack", "ifeval,gsm8k", evals_dataset=str(shapes / "run"))
    assert read_manifest(pack).includes_punkt is True
    moved = pack.rename(tmp_path / "elsewhere")
    assert not list(moved.rglob("multilingual"))  # tasks of their own, whose packages doctor would ask for
    monkeypatch.setattr(nltk.data, "path", [])
    assert verify(moved).passed
    assert nltk.data.find("tokenizers/punkt_tab/english").startswith(str(moved))


def test_what_a_results_file_says_of_functions_is_never_run(old: Path, tmp_path: Path) -> None:
    (path,) = old.rglob("results_*.json")
    tree = json.loads(path.read_text(encoding="utf-8"))
    mark = tmp_path / "was_run"
    tree["configs"]["tiny_free"]["process_results"] = f"open({str(mark)!r}, 'w')"
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert verify(tiny(old, "tiny_free")).passed
    assert not mark.exists()


@pytest.mark.parametrize("version", few(["0.4.0", "0.4.3", "0.4.5", "0.4.9", "0.4.13"], 2))
def test_what_older_versions_wrote_is_graded_alike_in_every_output_type(version: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(OUTPUTS / version, tmp_path / "any name"))
    proof = verify(tiny(run))
    assert {name: task.tallies and task.tallies.total.agreement for name, task in proof.tasks.items()} == {
        "tiny_colours": 1.0,
        "tiny_free": 1.0,
        "tiny_sums": 1.0,
        "tiny_text": 1.0,
    }


def test_the_same_record_gives_the_same_bytes(old: Path) -> None:
    first, second = (
        {path.name: path.read_bytes() for path in sorted(tiny(old).rglob("*")) if path.is_file()} for _ in range(2)
    )
    assert first == second


def test_a_metric_that_is_no_longer_the_recorded_one_is_a_disagreement(old: Path) -> None:
    # Of one doc the record gives a point that no filter gives today; lm-eval's average is left as it was.
    def edit(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            sample["exact_match"] = 1.0 - sample["exact_match"] if sample["doc_id"] < 2 else sample["exact_match"]

    change(old, "tiny_free", edit)
    task = verify(tiny(old, "tiny_free")).tasks["tiny_free"]
    assert task.status == "below"
    assert task.tallies is not None
    assert [line["why"] for line in task.tallies.disagreements] == ["graded otherwise"] * 2


@pytest.mark.parametrize("text", [True, False], ids=["as 0.4.11 wrote truth values", "as 0.4.13 does"])
def test_a_set_in_any_order_and_a_truth_value_of_numpys_are_what_they_were(
    old: Path, tmp_path: Path, text: bool
) -> None:
    tasks = Path(shutil.copytree(TASKS, tmp_path / "tasks"))
    (tasks / "own.py").write_text(
        "import numpy\n"
        "def process_results(doc, results):\n"
        "    right = numpy.bool_(results[0] == doc['gold'])\n"
        "    return {'exact_match': right, 'letters': set(doc['prompt'])}\n"
        "def count(each):\n"
        "    return len(each)\n",
        encoding="utf-8",
    )
    yaml = (tasks / "tiny_free.yaml").read_text(encoding="utf-8")
    both = "metric_list:\n  - {metric: letters, aggregation: !function own.count, higher_is_better: true}\n"
    yaml = yaml.replace("metric_list:\n", both) + "process_results: !function own.process_results\n"
    (tasks / "tiny_free.yaml").write_text(yaml, encoding="utf-8")

    def edit(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            right = sample["filtered_resps"][0] == sample["doc"]["gold"]
            sample["exact_match"] = str(right) if text else right
            sample["letters"] = sorted(set(sample["doc"]["prompt"]), reverse=sample["doc_id"] % 2 == 0)
            sample["metrics"] = ["exact_match", "letters"]
        samples[0]["letters"].pop()

    change(old, "tiny_free", edit)
    task = verify(tiny(old, "tiny_free", template_dir=str(tasks))).tasks["tiny_free"]
    assert task.tallies is not None
    assert [line["doc"] for line in task.tallies.disagreements] == [0]  # of which a letter was taken out
    total = task.tallies.total
    assert (total.agreed, total.with_reference) == (total.docs - 1, total.docs)


@pytest.mark.parametrize("version", ["0.4.3", "0.4.9", "0.4.13"])
def test_a_run_of_lm_evals_own_tasks_is_judged_beside_the_pack_of_a_record_of_them(
    proven: Path, tmp_path: Path, version: str
) -> None:
    other = Path(shutil.copytree(OUTPUTS / version, tmp_path / "other"))
    change(other, "tiny_sums", lambda samples: samples.reverse())
    with noted() as notes:
        judged = report([other], pack=proven)
    assert notes == []
    by_name = {task.name: task for task in judged.tasks}
    assert {name: task_report.flips and task_report.flips.agreed for name, task_report in by_name.items()} == {
        "tiny_choices": None, "tiny_colours": 2, "tiny_free": 3, "tiny_sums": 4, "tiny_text": None,
    }  # fmt: skip
    assert by_name["tiny_choices"].members == ("tiny_sums", "tiny_colours")  # a group, judged as its tasks are
    assert all(
        task_report.baseline_label == "the record's answers, graded by the pack"
        for task_report in by_name.values()
        if task_report.flips
    )
    assert any("not run with the pack" in note and "by their hashes" in note for note in judged.notes)


def test_a_run_with_other_prompts_than_the_record_is_compared_and_not_reported(proven: Path, tmp_path: Path) -> None:
    def edit(samples: list[dict[str, Any]]) -> None:
        samples[0]["prompt_hash"] = "0" * 64

    other = Path(shutil.copytree(OUTPUTS / "0.4.13", tmp_path / "other"))
    change(other, "tiny_sums", edit)
    (alarm,) = [alarm for alarm in report([other], pack=proven).alarms if alarm.kind == "left out"]
    note = str(alarm.tasks[0].note)
    assert re.search(r"tiny_sums was not run.*1 of 4 docs .*`meta-eval compare .*eval_results RUN`", note)
    with pytest.raises(UserError, match="tiny_sums was not run"):
        report([other], pack=proven, tasks=["tiny_sums"])


def test_an_edited_prompt_stops_with_its_doc(old: Path) -> None:
    def edit(samples: list[dict[str, Any]]) -> None:
        samples[2]["arguments"]["gen_args_0"]["arg_0"] += "!"

    change(old, "tiny_free", edit)
    with pytest.raises(UserError, match="tiny_free, doc 2.*recorded SHA-256"):
        tiny(old, "tiny_free")


def test_a_continuation_that_todays_task_does_not_make_stops_with_its_doc(old: Path) -> None:
    def edit(samples: list[dict[str, Any]]) -> None:
        samples[3]["doc"]["options"][1] = "another colour"

    change(old, "tiny_sums", edit)
    with pytest.raises(UserError, match=r"tiny_sums, doc 3 .*continues with ' another colour'"):
        tiny(old, "tiny_sums")


def test_of_several_runs_none_is_guessed(old: Path) -> None:
    (results,) = old.rglob("results_*.json")
    time = results.stem.removeprefix("results_")
    for path in list(results.parent.iterdir()):
        shutil.copy(path, path.with_name(path.name.replace(time, "2099-01-01T00-00-00.000000")))
    with pytest.raises(UserError, match=f"2 runs of tiny_colours: {time}, 2099-01-01T00-00-00.000000.*evals_run"):
        tiny(old)
    record_of = read_manifest(tiny(old, evals_run=time)).tasks["tiny_sums"].record
    assert record_of is not None
    assert record_of.time == time
    assert set(read_manifest(tiny(old, evals_dataset=str(results))).tasks) == {
        "tiny_colours", "tiny_free", "tiny_sums", "tiny_text",
    }  # fmt: skip


def test_a_part_of_a_run_says_so(old: Path) -> None:
    (results,) = old.rglob("results_*.json")
    tree = json.loads(results.read_text(encoding="utf-8"))
    tree["n-samples"]["tiny_sums"]["original"] = 90
    results.write_text(json.dumps(tree), encoding="utf-8")
    with noted() as notes:
        pack = tiny(old, "tiny_sums")
    assert read_manifest(pack).tasks["tiny_sums"].warnings == {"partial_run": 86}
    assert any("86 docs of the task are missing" in line for line in notes)


def test_results_without_samples_are_refused(old: Path) -> None:
    for path in old.rglob("samples_*"):
        path.unlink()
    with pytest.raises(UserError, match="--log_samples"):
        tiny(old)


def test_a_folder_is_no_record_by_its_names_alone(tmp_path: Path) -> None:
    folder = tmp_path / "eval_results"
    folder.mkdir()
    (folder / "samples_gpqa_2026-01-01T00-00-00.000000.jsonl").write_text('{"input_question": "?"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"^(?!.*doc_id).*"):
        prepare(tmp_path / "pack", "meta_gpqa", evals_dataset=str(folder))


def test_a_group_of_the_record_is_one_of_the_pack(old: Path) -> None:
    manifest = read_manifest(tiny(old, "tiny_choices"))
    assert manifest.groups == {"tiny_choices": ("tiny_sums", "tiny_colours")}
    assert set(manifest.tasks) == {"tiny_sums", "tiny_colours"}


def test_a_task_that_nobody_has_the_code_of_is_named(old: Path) -> None:
    with pytest.raises(UserError, match="no code for the task tiny_free"):
        tiny(old, "tiny_free", template_dir=str(old))


def test_an_unknown_name_is_answered_with_those_that_are_there(old: Path) -> None:
    with pytest.raises(UserError, match="'tiny_sum'; did you mean 'tiny_sums'.*recorded"):
        tiny(old, "tiny_sum")


@pytest.mark.plugin("meta")
def test_a_run_of_our_own_tasks_is_a_record_too(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "first", "meta_gpqa")
    record(pack, tmp_path / "run", ["meta_gpqa"])
    again = prepare(tmp_path / "second", "recorded", evals_dataset=str(tmp_path / "run"))
    proof = verify(again)
    assert {name: task.status for name, task in proof.tasks.items()} == {"meta_gpqa": "passed"}
    entry = read_manifest(again).tasks["meta_gpqa"]
    assert entry.primary_metric == read_manifest(pack).tasks["meta_gpqa"].primary_metric
    assert entry.model == "org/Model-one"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("max_gen_toks", value) for value in (-1, 0, "x", float("nan"), None, True, [1])),
        ("until", [1]), ("until", "\ud800"), ("temperature", float("inf")),
    ],
)  # fmt: skip
def test_a_setting_that_no_engine_takes_is_refused(key: str, value: object, old: Path) -> None:
    def edit(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            sample["arguments"]["gen_args_0"]["arg_1"][key] = value

    change(old, "tiny_free", edit)
    with pytest.raises(UserError, match=f"was generated with '{key}'"):
        tiny(old, "tiny_free")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resps", [["a\ud800b"]]),
        ("target", "\udfff"),
        ("doc_hash", "\ud800"),
        ("metrics", ["\ud800"]),
        ("doc", {"cluster": "\ud800"}),
        ("doc", {"subtask_name": "\ud800"}),
    ],
)
def test_half_of_a_surrogate_pair_is_named_with_its_doc(key: str, value: Any, old: Path) -> None:
    change(old, "tiny_free", lambda samples: [sample.update({key: value, "\ud800": 1.0}) for sample in samples])
    with pytest.raises(UserError, match=r"tiny_free, doc 0: holds half of a surrogate pair"):
        tiny(old, "tiny_free")


@thorough
@pytest.mark.parametrize(("width", "depth"), [(2, 60), (1, 1100)])
def test_groups_of_groups_are_walked_once(width: int, depth: int, old: Path) -> None:
    (path,) = old.rglob("results_*.json")
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["group_subtasks"] = {f"g{n}": [f"g{n + 1}"] * width for n in range(depth)} | {f"g{depth}": ["tiny_sums", "g7"]}
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert set(read_manifest(tiny(old, f"g{depth - 1}")).tasks) == {"tiny_sums"}


@pytest.mark.parametrize("content", [b"\xff", b"../..", b"a\0b", b"x" * 5000])
def test_the_snapshot_of_main_is_named_by_a_commit(content: bytes, tmp_path: Path) -> None:
    cache = tmp_path / "datasets--a--b"
    for commit in "ab":
        shutil.copytree(OUTPUTS / "0.4.13", cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_bytes(content)
    with pytest.raises(UserError, match=r"datasets--a--b"):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(cache))


def test_choices_asked_again_behind_an_empty_prompt_are_proven_and_graded(tmp_path: Path) -> None:
    """acc_mutual_info: each choice is scored behind the prompt, and again behind nothing."""
    tree = yaml.safe_load((TASKS / "tiny_sums.yaml").read_text(encoding="utf-8"))
    tree |= {"task": "tiny_mutual", "metric_list": [{"metric": metric} for metric in ("acc", "acc_mutual_info")]}
    own = tmp_path / "tasks"
    own.mkdir()
    (own / "tiny_mutual.yaml").write_text(yaml.dump(tree), encoding="utf-8")
    shutil.copyfile(TASKS / "tiny_sums.jsonl", own / "tiny_sums.jsonl")
    with contextlib.chdir(own):
        run = record(own, tmp_path / "run", ["tiny_mutual"], salt="two")
        pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(run), template_dir=str(own))
        assert verify(pack).passed
        frozen = prepare(tmp_path / "frozen", "tiny_mutual", evals_dataset="lm-eval", template_dir=str(own))
    (samples,) = run.rglob("samples_*.jsonl")
    recorded = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    for made in (pack, frozen):
        export(made, tmp_path / "requests.jsonl")
        asked = [
            json.loads(line) for line in (tmp_path / "requests.jsonl").read_text(encoding="utf-8").splitlines()[1:]
        ]
        answers = []
        for request in asked:
            doc, _, first = request["id"].removeprefix("tiny_mutual/").partition("/")
            given = recorded[int(doc)]["resps"][int(first or 0) :][: len(request["continuations"])]
            choices = [{"logprob": float(pair[0][0])} for pair in given]
            answers.append(
                {key: request[key] for key in ("id", "prompt_sha256", "request_sha256")} | {"choices": choices}
            )
        (tmp_path / "answers.jsonl").write_text(
            "".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8"
        )
        scores = grade(tmp_path / "answers.jsonl", pack=made, output=tmp_path / "out").scores["tiny_mutual"]
        wanted = {
            name: sum(verdicts[name] for verdicts in recorded) / len(recorded) for name in ("acc", "acc_mutual_info")
        }
        assert scores == {f"{name},none": pytest.approx(value) for name, value in wanted.items()}
        assert wanted["acc"] != wanted["acc_mutual_info"]  # or this would prove nothing


@pytest.mark.parametrize("text", ["[1]", "[" * 5000, "{", "5"], ids=str.__len__)
def test_an_edited_pack_whose_recorded_metrics_are_none_is_named(text: str, proven: Path, tmp_path: Path) -> None:
    def damage(docs: list[dict[str, Any]]) -> None:
        docs[0]["recorded_metrics"] = text

    pack = Path(shutil.copytree(proven, tmp_path / "pack"))
    edit_docs(pack, "tiny_free", damage)
    proof = verify(pack, edited=True, tasks=["tiny_free"]).tasks["tiny_free"]
    assert (proof.status, "doc 0: recorded_metrics is not a JSON object" in str(proof.reason)) == ("failed", True), (
        proof
    )


@pytest.mark.parametrize("obstacle", ["a pipe", "a device", "a TiB of nothing"] if THOROUGH else ["a pipe"])
def test_what_is_no_file_hangs_nothing_wherever_it_lies(obstacle: str, old: Path) -> None:
    time = "2026-11-21T16-00-44.533161"
    cache = old.parent / "datasets--a--b"
    for commit in "ab":
        shutil.copytree(old, cache / "snapshots" / commit)
    templates = Path(shutil.copytree(TASKS, old.parent / "tasks"))
    (cache / "refs").mkdir()
    names = ("x.json", "y.jsonl", "z_samples.jsonl", "README.md", "rows.parquet")
    for path in (cache / "refs" / "main", templates / "x.yaml", templates / "x.py", *(old / name for name in names)):
        NO_FILES[obstacle](path)
    tiny(old, template_dir=str(templates))
    report([old])
    for name in (
        f"results_{time}.json",
        f"samples_tiny_text_{time}.jsonl",
        "details_gsm8k|5_2024-01-01T00-00-00.parquet",
    ):
        NO_FILES[obstacle](old / name)
    with suppress(UserError):
        tiny(old, template_dir=str(templates))
    with suppress(UserError):
        report([old])
    with pytest.raises(UserError, match="datasets--a--b"):
        prepare(old.parent / "other", "recorded", evals_dataset=str(cache))


@pytest.mark.parametrize(
    ("instruction", "arguments", "scores"),
    [
        # langdetect, unseeded, takes the answer for Portuguese or Italian.
        ("language:response_language", {"language": "it"}, (0.0, 1.0)),
        # No letter, so that lm-eval draws one: with its own seed "y", which the answer lacks.
        ("keywords:letter_frequency", {"letter": "#", "let_frequency": 1, "let_relation": "at least"}, (0.0,)),
    ],
)
def test_ifeval_judges_an_answer_the_same_way_each_time(
    instruction: str, arguments: dict[str, Any], scores: tuple[float, ...], tmp_path: Path
) -> None:
    questions = [
        {"key": n, "prompt": f"What has tea {n}?", "kwargs": [arguments], "instruction_id_list": [instruction]}
        for n in range(30 if THOROUGH else 12)  # unseeded, a dozen answers are judged alike once in a hundred runs
    ]
    model = recorded_runs.make_model("short", {})
    model.generate_until = lambda requests, **_: ["tea no commas" for _ in requests]
    tasks = task_folder(tmp_path / "tasks", ("ifeval",), {"ifeval": (questions, ("train",), 0)})
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(record(tasks, tmp_path, ("ifeval",), model=model)))
    assert verify(pack).tasks["ifeval"].graded_score in scores
