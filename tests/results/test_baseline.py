"""What verify keeps of Meta's recorded answers: the scores that it gave them, of this pack and of no other."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lm_eval
import pytest
from forked import started
from golden import all_tasks, shipped
from marks import few, thorough
from packs import edit, edit_docs, prepare, read_docs, reseal, yaml_of
from runs import run_lm_eval
from shared import whole_pack

from meta_eval.ask.ask_options import RunOptions
from meta_eval.base.hashing import hash_file
from meta_eval.harness.doc_results import FIGURES, DocFigure, DocResult
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.harness.replay import has_recorded_answer
from meta_eval.harness.scores import compute_scores
from meta_eval.pack.baseline import Baseline, find_baseline_file, find_verify_folder, read_baseline
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.verify import Proof, verify
from meta_eval.pack.verify.pack_verification import refresh_baseline

LETTERS = "meta_mmlu_pro_instruct"
FEW = f"{LETTERS},meta_ifeval,meta_mmlu_pretrain,meta_squad"
SHIPPED = shipped().tasks
GRADED = few([task for task in all_tasks() if not SHIPPED[task].unsafe_code], 4)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(whole_pack(tmp_path_factory), tmp_path_factory.mktemp("sample") / "work_dir"))


@pytest.fixture(scope="module")
def verified(sample: Path) -> Proof:
    return verify(sample, tasks=GRADED)


@pytest.fixture(scope="module")
def whole(sample: Path, verified: Proof) -> Baseline:
    return baseline(sample)


@pytest.fixture(scope="module")
def small_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pack = prepare(tmp_path_factory.mktemp("few") / "work_dir", FEW)
    verify(pack)
    return pack


@pytest.fixture
def pack(small_pack: Path, tmp_path: Path) -> Path:
    shutil.copytree(find_verify_folder(small_pack), find_verify_folder(tmp_path / "work_dir"))
    return Path(shutil.copytree(small_pack, tmp_path / "work_dir"))


def _verify(pack: Path) -> str:
    """The command that a reason names: it can be pasted as it is."""
    return shlex.join(["meta-eval", "verify", str(pack), "--min-agreement", "0.8"])


def baseline(pack: Path) -> Baseline:
    return read_baseline(pack, read_manifest(pack))


def find_docs(pack: Path) -> dict[str, tuple[DocResult, ...]]:
    return {name: task.docs for name, task in baseline(pack).graded.tasks.items()}


@pytest.mark.parametrize("task", GRADED)
def test_the_baseline_scores_what_verify_scored(task: str, sample: Path, verified: Proof, whole: Baseline) -> None:
    scores_what_verify_scored(task, sample, verified, whole)


def scores_what_verify_scored(task: str, pack: Path, proof: Proof, kept: Baseline) -> None:
    assert task not in kept.missing_reasons
    docs = kept.graded.tasks[task].docs
    report = proof.tasks[task]
    tallies = report.tallies
    assert tallies is not None
    assert [(doc.doc_id, doc.question_hash, doc.subtask) for doc in docs] == [
        (number, doc["input_question_hash"], doc["subtask_name"])
        for number, doc in enumerate(read_docs(pack, task))
        if has_recorded_answer(doc)
    ]
    specs = {report.entry.primary_metric, *(number.metric for number in report.entry.reference_scores)}
    for spec in specs if len(docs) == report.entry.docs else ():
        ours = compute_scores(docs, spec)
        assert ours is not None, spec
        assert ours.value == pytest.approx(report.scores[spec], abs=1e-12), spec


def test_the_baseline_is_read_as_a_run_of_the_same_answers_is(small_pack: Path, tmp_path: Path) -> None:
    run = read_run([run_lm_eval(small_pack, FEW.split(","), tmp_path)])
    assert {doc.cluster for doc in run.tasks["meta_squad"].docs} == {"0", "1"}
    for task, docs in find_docs(small_pack).items():
        ran = run.tasks[task].docs
        assert [(doc.doc_id, doc.question_hash, doc.subtask, doc.cluster) for doc in docs] == [
            (doc.doc_id, doc.question_hash, doc.subtask, doc.cluster) for doc in ran
        ]
        for ours, theirs in zip(docs, ran, strict=True):
            assert {name: (result.extracted, result.metrics) for name, result in ours.filter_results.items()} == {
                name: (result.extracted, result.metrics) for name, result in theirs.filter_results.items()
            }


def test_no_prompt_and_no_answer_is_kept(small_pack: Path) -> None:
    for task in FEW.split(","):
        text = find_baseline_file(small_pack, task).read_text(encoding="utf-8")
        for doc in read_docs(small_pack, task):
            for kept in (doc["question"], doc["prompt"], doc["recorded_output"]):
                assert not kept or len(kept) < 40 or json.dumps(kept)[1:-1] not in text


def test_docs_without_a_recorded_answer_are_no_verdicts(pack: Path) -> None:
    def forget(docs: list[dict[str, object]]) -> None:
        docs[3]["recorded_output"] = None

    edit_docs(pack, LETTERS, forget)
    verify(pack, tasks=[LETTERS])
    assert [doc.doc_id for doc in baseline(pack).graded.tasks[LETTERS].docs] == [0, 1, 2, *range(4, 15)]


def grader(pack: Path) -> None:
    edit(yaml_of(pack, LETTERS), "'best answer is ([A-Z])'", "'best option is ([A-Z])'")


def module(pack: Path) -> None:
    edit(pack / "mmlu_pro" / "utils.py", "import", "# other\nimport")


def gone(pack: Path) -> None:
    (pack / "mmlu_pro" / "utils.py").unlink()


def rows(pack: Path) -> None:
    prepared = read_manifest(pack)
    files = {
        name: entry.model_copy(update={"sha256": "0" * 64}) if name.endswith(".parquet") else entry
        for name, entry in prepared.files.items()
    }
    (pack / "manifest.json").write_text(prepared.model_copy(update={"files": files}).to_json(), encoding="utf-8")


@pytest.mark.parametrize("change", [grader, module, gone, rows])
def test_the_baseline_of_other_rows_or_graders_is_refused(change: Callable[[Path], None], pack: Path) -> None:
    assert LETTERS in baseline(pack).graded.tasks
    change(pack)
    kept = baseline(pack)
    assert not kept.graded.tasks
    assert kept.missing_reasons[LETTERS] == f"the pack changed after verify: run `{_verify(pack)}`"


@pytest.mark.parametrize("names_figures", [True, False])
def test_a_baseline_without_a_figure_of_answers_is_made_again_before_a_run(
    names_figures: bool, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = DocFigure("characters", "characters", "mean characters", lambda _, answers: sum(map(len, answers)) or None)
    if not names_figures:
        file = find_baseline_file(pack, "meta_squad")
        head, *lines = file.read_text(encoding="utf-8").splitlines()
        known = {key: value for key, value in json.loads(head).items() if key != "fields"}
        before = hash_file(file)
        file.write_text("\n".join([json.dumps(known), *lines, ""]), encoding="utf-8")
        written = find_verify_folder(pack) / ".meta-eval.verify.sha256"
        written.write_text(written.read_text().replace(before, hash_file(file)))
    else:
        assert baseline(pack).missing_reasons == {}
    for place in ("meta_eval.pack.baseline", "meta_eval.harness.doc_results"):
        monkeypatch.setattr(f"{place}.FIGURES", (*FIGURES, length))
    reason = baseline(pack).missing_reasons["meta_squad"]
    assert reason == f"an earlier meta-eval made it, which knew less of answers: run `{_verify(pack)}`"
    refresh_baseline(pack, FEW.split(","), RunOptions())
    assert all(doc.figures["characters"] > 0 for doc in baseline(pack).graded.tasks["meta_squad"].docs)
    monkeypatch.undo()
    assert baseline(pack).missing_reasons == {}


def test_the_baseline_outlives_a_move_and_the_same_prepare(small_pack: Path, pack: Path) -> None:
    prepare(pack, FEW, gpu_memory_utilization=0.8)
    assert find_docs(pack) == find_docs(small_pack)


def test_the_baseline_of_another_lm_eval_is_graded_again_before_a_run(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {run.provenance.lm_eval for run in baseline(pack).graded.tasks.values()} == {lm_eval.__version__}
    monkeypatch.setattr("meta_eval.pack.baseline.find_installed_lm_eval", lambda: "0.4.11")
    verify(pack, tasks=["meta_squad"])
    kept = baseline(pack)
    assert (kept.graded.tasks["meta_squad"].provenance.lm_eval, kept.missing_reasons) == ("0.4.11", {})
    reason = read_baseline(pack, read_manifest(pack), lm_eval=lm_eval.__version__).missing_reasons["meta_squad"]
    assert reason == f"lm-eval 0.4.11 graded it, and {lm_eval.__version__} is installed: run `{_verify(pack)}`"
    monkeypatch.undo()
    refresh_baseline(pack, FEW.split(","), RunOptions())
    assert baseline(pack).graded.tasks["meta_squad"].provenance.lm_eval == lm_eval.__version__


def test_verdicts_that_were_edited_are_no_baseline(pack: Path) -> None:
    file = find_baseline_file(pack, "meta_squad")
    file.write_text(file.read_text().replace("1.0", "0.0"))
    reason = baseline(pack).missing_reasons["meta_squad"]
    assert reason.endswith(f"was edited after verify wrote it: run `{_verify(pack)}`"), reason


def test_a_pack_that_was_never_verified_says_so(pack: Path) -> None:
    find_baseline_file(pack, LETTERS).unlink()
    assert baseline(pack).missing_reasons == {LETTERS: f"verify has not been run on this task: run `{_verify(pack)}`"}
    shutil.rmtree(find_verify_folder(pack))
    assert set(baseline(pack).missing_reasons.values()) == {
        f"verify has not been run on this pack: run `{_verify(pack)}`"
    }


def test_a_task_that_fails_loses_its_baseline_and_says_why(pack: Path) -> None:
    edit(pack / "_common" / "rows.py", "    extracted = results[0]\n", "    extracted = results[1]\n")
    verify(pack, tasks=[LETTERS], edited=True)
    assert "verify failed: " in baseline(pack).missing_reasons[LETTERS]


def test_docs_that_were_not_all_checked_are_no_baseline(pack: Path) -> None:
    manifest = read_manifest(pack)
    entry = manifest.tasks[LETTERS].model_copy(update={"docs": 16})
    (pack / "manifest.json").write_text(
        manifest.model_copy(update={"tasks": {**manifest.tasks, LETTERS: entry}}).to_json(), encoding="utf-8"
    )
    reseal(pack)
    verify(pack, tasks=[LETTERS])
    assert (
        baseline(pack).missing_reasons[LETTERS] == "verify did not check all docs: 15 of the 16 docs that were prepared"
    )


def test_tasks_that_run_code_ask_for_it_and_keep_what_they_have(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "work_dir", f"meta_mbpp,{LETTERS}")
    verify(pack)
    assert "--allow-code" in baseline(pack).missing_reasons["meta_mbpp"]
    allowed = verify(pack, tasks=["meta_mbpp"], allow_code=True)
    verify(pack)
    assert not baseline(pack).missing_reasons
    scores_what_verify_scored("meta_mbpp", pack, allowed, baseline(pack))


def test_only_the_tasks_that_were_named_are_written_anew(pack: Path) -> None:
    for task in FEW.split(","):
        find_baseline_file(pack, task).unlink()
    verify(pack, tasks=[LETTERS])
    assert {task for task in FEW.split(",") if find_baseline_file(pack, task).exists()} == {LETTERS}


def test_a_run_that_is_graded_again_writes_none(pack: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_ino for path in find_verify_folder(pack).rglob("*.jsonl")}
    verify(pack, tasks=[LETTERS], regrade=run_lm_eval(pack, [LETTERS], tmp_path / "out"))
    assert {path: path.stat().st_ino for path in find_verify_folder(pack).rglob("*.jsonl")} == before
    assert not (find_verify_folder(pack, regraded=True) / "baseline").exists()


@pytest.mark.parametrize("kept", [0, 30, 400, -200])
def test_a_damaged_file_is_no_baseline(kept: int, pack: Path) -> None:
    path = find_baseline_file(pack, LETTERS)
    path.write_bytes(path.read_bytes()[:kept])
    assert f"is damaged: run `{_verify(pack)}`" in baseline(pack).missing_reasons[LETTERS]


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (0, {"lm_eval": 4}), (0, {"docs": True}), (1, {"doc_id": {}}), (1, {"cluster": {"x": 1}}), (1, {"figures": 1e400}),
        (1, {"question_hash": []}), (1, {"answer_hash": ["x"]}), (1, {"answer_length": "x"}), (1, {"answer_length": "7"}), (1, {"cuts": []}), (1, {"filter_results": {"strict": {"extracted": 5}}}),
    ],
)  # fmt: skip
def test_a_file_with_a_value_of_another_type_is_no_baseline(line: int, change: dict[str, Any], pack: Path) -> None:
    path = find_baseline_file(pack, LETTERS)
    lines = path.read_text().splitlines()
    lines[line] = json.dumps({**json.loads(lines[line]), **change})
    path.write_text("\n".join(lines) + "\n")
    assert "is damaged" in baseline(pack).missing_reasons[LETTERS]


@pytest.mark.parametrize("change", ["no doc", "a doc twice", "a metric without verdicts"])
def test_a_file_that_verify_cannot_write_is_no_baseline(change: str, pack: Path) -> None:
    path = find_baseline_file(pack, LETTERS)
    head, *docs = map(json.loads, path.read_text().splitlines())
    if change == "no doc":
        docs = []
    elif change == "a doc twice":
        docs[1] = docs[0]
    else:
        for result in docs[0]["filter_results"].values():
            result["metrics"] = {name: [] for name in result["metrics"]}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in ({**head, "docs": len(docs)}, *docs)))
    assert "is damaged" in baseline(pack).missing_reasons[LETTERS]


def test_a_file_cut_at_the_end_of_a_line_is_no_baseline(pack: Path) -> None:
    path = find_baseline_file(pack, LETTERS)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "is damaged" in baseline(pack).missing_reasons[LETTERS]


@thorough
def test_a_kill_leaves_whole_files(sample: Path, tmp_path: Path) -> None:
    pack = Path(shutil.copytree(sample, tmp_path / "work_dir"))
    running = started("verify", pack)
    try:
        folder = find_verify_folder(pack) / "baseline"
        deadline = time.monotonic() + 120
        while len(list(folder.glob("*.jsonl"))) < 2:
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        running.kill()
        running.wait()
    kept = baseline(pack)
    assert len(kept.graded.tasks) >= 2
    assert not any("damaged" in why for why in kept.missing_reasons.values())
