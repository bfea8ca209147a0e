"""`compare PACK.verify RUN` says what `report RUN --pack PACK` says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from named_pairs import RECORDS, write_record
from packs import prepare

from meta_eval import compare, report, verify
from meta_eval.base.errors import UserError
from meta_eval.reports.report import Report

# What the checks of a pack alone say. Beside the record, fewer docs are docs that only it has.
CHECKS = {"embedded sample", "not all docs", "in one run only"}


def facts(found: Report) -> tuple[str, object, object]:
    tasks = {
        task.name: (task.outcome, task.metric, task.decided_drop and (task.drop.value, task.interval))
        for task in found.tasks
    }
    alarms = {
        (alarm.kind, each.task, {"A": "the baseline", "B": None}.get(each.run or "", each.run), each.veto)
        for alarm in found.alarms
        for each in alarm.tasks
        if alarm.kind not in CHECKS
    }
    return found.decision.outcome, tasks, alarms


def pack_of(name: str, folder: Path, change: Callable[[Path], None] = lambda _: None) -> tuple[Path, Path]:
    """The pack of a record, verified, and a run beside it; both first changed."""
    record, run, tasks = write_record(name, folder)
    for side in (record, run):
        change(side)
    keys = {"backend": "server", "base_url": "http://127.0.0.1:9/v1", "template_dir": str(tasks)}
    pack = prepare(folder / "pack", "recorded", evals_dataset=str(record), **keys)
    verify(pack)
    return pack, run


@pytest.fixture
def packed(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    return pack_of(getattr(request, "param", "sound"), tmp_path)


@pytest.mark.parametrize("packed", sorted(RECORDS), indirect=True)
def test_both_say_the_same_of_a_record(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    assert facts(report(run, pack=pack)) == facts(compare(pack.with_name("pack.verify"), run))


def test_a_chat_template_is_in_the_recorded_prompts_and_no_difference(tmp_path: Path) -> None:
    def add_template(run: Path) -> None:
        (results,) = run.glob("results_*.json")
        tree = json.loads(results.read_text(encoding="utf-8")) | {"chat_template": "{{ messages }}"}
        results.write_text(json.dumps(tree), encoding="utf-8")

    pack, run = pack_of("sound", tmp_path, add_template)
    found = compare(pack.with_name("pack.verify"), run)
    assert facts(report(run, pack=pack)) == facts(found)
    assert not found.decision.invalid


def test_fewer_docs_are_named_by_the_pack_or_by_the_record(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    (samples,) = run.glob("samples_*.jsonl")
    lines = samples.read_text(encoding="utf-8").splitlines(keepends=True)
    samples.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    keys = {"skip_damaged": True}
    both = report(run, pack=pack, **keys), compare(pack.with_name("pack.verify"), run, **keys)
    assert facts(both[0]) == facts(both[1])
    assert [{alarm.kind for alarm in found.alarms} & CHECKS for found in both] == [
        {"not all docs"}, {"in one run only"},
    ]  # fmt: skip


def test_the_title_names_who_answered(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    assert [each.model for each in compare(pack.with_name("pack.verify"), run).runs] == ["org/m", "org/m"]


def test_the_pack_of_both_may_be_named_and_tasks_chosen(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    alone, beside = (compare(pack.with_name("pack.verify"), run, **keys) for keys in ({}, {"pack": pack}))
    assert facts(alone) == facts(beside)
    with pytest.raises(UserError, match="unknown task 'other'"):
        compare(pack.with_name("pack.verify"), run, tasks=["other"])


def test_graded_again_the_record_keeps_the_verdicts_of_its_pack(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    folder = pack.with_name("pack.verify")
    (alone,), (again,) = (compare(folder, run, pack=pack, regrade=regrade).tasks for regrade in (False, True))
    assert alone.drop == again.drop


def test_without_its_pack_what_verify_stored_is_no_run(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    shutil.rmtree(pack)
    with pytest.raises(UserError, match="pack: there is no such folder"):
        compare(pack.with_name("pack.verify"), run)


def test_a_pack_that_changed_after_verify_is_verified_again_first(packed: tuple[Path, Path]) -> None:
    pack, run = packed
    (template,) = pack.glob("sums.yaml.lm_eval")
    template.write_text(template.read_text(encoding="utf-8") + "# other\n", encoding="utf-8")
    with pytest.raises(UserError, match="the pack changed after verify"):
        compare(pack.with_name("pack.verify"), run)


BAD = (None, "text", True, -1, 1e999, [], {})
EDITS = [
    *((0, key, value) for key in ("pack", "docs", "fields") for value in BAD),
    *((1, key, value) for key in ("doc_id", "question_hash", "filter_results", "cuts") for value in BAD[:5]),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pack_of("sound", tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize(("line", "key", "value"), EDITS)
def test_what_verify_stored_is_no_word_of_a_friend(
    sound: tuple[Path, Path], tmp_path: Path, line: int, key: str, value: object
) -> None:
    """An edited file is one message, or a doc that only one run has: never another number without a word."""
    pack, run = sound
    copied = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in (pack, pack.with_name("pack.verify"))]
    (path,) = (copied[1] / "baseline").glob("*.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | {key: value})
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    try:
        found = compare(copied[1], run)
    except UserError as error:
        assert "pack.verify" in str(error)
    else:
        is_said = any(alarm.kind == "in one run only" and alarm.veto for alarm in found.alarms)
        assert is_said or facts(found) == facts(compare(pack.with_name("pack.verify"), run))
