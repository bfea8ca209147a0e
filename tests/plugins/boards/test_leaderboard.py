"""Details of the Open LLM Leaderboard 2: by hub id, from the hub's cache, and in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakehub import FakeHub
from leaderboard import DETAILS, TASKS, as_dataset, details, hub_of, samples
from marks import thorough
from packs import prepare, tree
from recorded_runs import record

from meta_eval import report, verify
from meta_eval.base.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.reports.report import Report


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``details``, as lm-eval wrote them, and ``pack``, made of that folder."""
    folder = tmp_path_factory.mktemp("board")
    prepare(folder / "pack", "recorded", evals_dataset=str(details(folder)))
    return folder


@pytest.fixture(scope="module")
def verified(board: Path) -> Path:
    """The folder, after a verification of the pack."""
    verify(board / "pack")
    return board


@pytest.fixture
def hub(board: Path, tmp_path: Path) -> Iterator[FakeHub]:
    with hub_of({DETAILS: as_dataset(board / "details")}, tmp_path / "cache") as fake:
        yield fake


@thorough
def test_every_task_of_the_board_is_graded_today_as_it_was(board: Path) -> None:
    proof = verify(board / "pack")
    checks = {name: (task.status, task.tallies and task.tallies.total.agreed) for name, task in proof.tasks.items()}
    assert checks == {name: ("passed", len(rows)) for name, (rows, _, _) in TASKS.items()}


def test_the_report_shows_the_raw_and_the_boards_value_of_a_run_and_of_the_record(verified: Path) -> None:
    board = verified
    record(board / "pack", board / "again", list(TASKS))
    shown = shown_by_board(report([board / "again"], pack=board / "pack"))
    musr = [name for name in TASKS if "musr" in name]
    chance = {"leaderboard_musr_murder_mysteries": 1 / 2, "leaderboard_musr_object_placements": 1 / 5}
    means = {name: mean(board, name, "acc_norm") for name in musr}
    above = [max(0.0, (means[name] - by) / (1 - by)) for name in musr for by in [chance.get(name, 1 / 3)]]
    gpqa = [sample["acc_norm"] for name in TASKS if "gpqa" in name for sample in samples(board / "details", name)]
    raw = sum(gpqa) / len(gpqa)
    strict = [mean(board, "leaderboard_ifeval", f"{level}_level_strict_acc") for level in ("prompt", "inst")]
    expected = {"MUSR": sum(above) / 3, "MUSR, raw": sum(means.values()) / 3, "IFEval": sum(strict) / 2}
    expected |= {"GPQA": max(0.0, (raw - 0.25) / 0.75), "GPQA, raw": raw}
    assert {name: shown[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    same = {
        name: name.replace(", raw", ", recorded and raw") if "raw" in name else f"{name}, recorded" for name in expected
    }
    assert {name: shown[of_record] for name, of_record in same.items()} == pytest.approx(expected, abs=1e-6)
    assert not {"BBH", "MATH Lvl 5", "mean"} & set(shown)  # of which tasks are missing


def test_a_part_that_was_not_run_has_the_records_number_alone(verified: Path) -> None:
    board = verified
    record(board / "pack", board / "other", ["leaderboard_ifeval"], salt="two")
    shown = shown_by_board(report([board / "other"], pack=board / "pack"))
    assert {"IFEval", "IFEval, recorded", "GPQA, recorded"} <= set(shown)
    assert "GPQA" not in shown


def shown_by_board(judged: Report) -> dict[str, float]:
    return {average.metric: average.value for average in judged.group_averages if average.name == "leaderboard_v2"}


def mean(board: Path, task: str, metric: str) -> float:
    values = [sample[metric] for sample in samples(board / "details", task)]
    flat = [float(part) for value in values for part in (value if isinstance(value, list) else [value])]
    return sum(flat) / len(flat)


def test_details_on_the_hub_are_a_baseline(hub: FakeHub, board: Path, tmp_path: Path) -> None:
    pack = prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=str(board / "details"), baseline=DETAILS)
    (kept,) = read_manifest(pack).tasks["leaderboard_ifeval"].baseline
    baseline = kept.name, kept.revision, kept.docs, kept.docs_with_other_prompt
    assert baseline == (DETAILS, hub.heads[DETAILS], len(TASKS["leaderboard_ifeval"][0]), 0)


def test_by_hub_id_only_the_files_of_the_wanted_tasks_are_fetched_and_the_commit_is_kept(
    hub: FakeHub, board: Path, tmp_path: Path
) -> None:
    pack = prepare(tmp_path / "pack", "leaderboard_gpqa_main,leaderboard_ifeval", evals_dataset=DETAILS)
    fetched = {request.path.rpartition("/")[2].partition("_2")[0] for request in hub.seen("/resolve/", "GET")}
    assert fetched == {"README.md", "results", "samples_leaderboard_gpqa_main", "samples_leaderboard_ifeval"}
    entry = read_manifest(pack).tasks["leaderboard_ifeval"]
    assert (entry.dataset_id, entry.dataset_revision) == (DETAILS, hub.heads[DETAILS])
    assert verify(pack).passed
    whole = tree(board / "pack")
    assert {name: whole[name] for name in ("leaderboard_gpqa_main.parquet", "leaderboard_ifeval.parquet")} == {
        name: digest for name, digest in tree(pack).items() if name.endswith(".parquet")
    }


def test_the_boards_first_files_hold_an_array_and_end_with_json(board: Path, tmp_path: Path) -> None:
    def as_array(name: str, content: bytes) -> tuple[str, bytes]:
        if not name.endswith(".jsonl"):
            return name, content
        return name.removesuffix("l"), json.dumps([json.loads(line) for line in content.splitlines()]).encode()

    files = dict(as_array(*configuration) for configuration in as_dataset(board / "details").items())
    with hub_of({DETAILS: files}, tmp_path / "cache"):
        pack = prepare(tmp_path / "pack", "leaderboard_gpqa_main", evals_dataset=DETAILS)
    assert tree(pack)["leaderboard_gpqa_main.parquet"] == tree(board / "pack")["leaderboard_gpqa_main.parquet"]


def test_the_hubs_cache_is_a_record_too_without_a_hub(hub: FakeHub, tmp_path: Path) -> None:
    prepare(tmp_path / "first", "leaderboard_ifeval", evals_dataset=DETAILS)
    hub.close()
    (cache,) = (tmp_path / "cache").glob("datasets--*")
    for name, place in (("root", cache), ("snapshot", next((cache / "snapshots").iterdir())), ("offline", DETAILS)):
        pack = prepare(tmp_path / name, "leaderboard_ifeval", evals_dataset=str(place))
        assert tree(pack)["leaderboard_ifeval.parquet"] == tree(tmp_path / "first")["leaderboard_ifeval.parquet"]


def test_several_runs_on_the_hub_are_told_apart_by_their_time(hub: FakeHub, board: Path, tmp_path: Path) -> None:
    files = as_dataset(board / "details")
    time = next(name.partition("results_")[2].removesuffix(".json") for name in files if "results_" in name)
    later = {name.replace(time, "2099-01-01T00-00-00.000000"): content for name, content in files.items()}
    hub.add(DETAILS, files | later)
    with pytest.raises(UserError, match=f"2 runs of leaderboard_ifeval: {time}.*evals_run"):
        prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=DETAILS)
    pack = prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=DETAILS, evals_run="2099-01-01T00:00:00")
    entry = read_manifest(pack).tasks["leaderboard_ifeval"].record
    assert entry is not None
    assert entry.time == "2099-01-01T00-00-00.000000"
    with pytest.raises(UserError, match="holds no run of '1999'"):
        prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=DETAILS, evals_run="1999")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"status": 403, "code": "GatedRepo"}, "has not been granted access"),
        ({"status": 401}, "only those who are logged in"),
        ({"status": 404, "code": "RepoNotFound"}, "no such dataset"),
        ({"status": 429}, "limits the rate"),
        ({"status": 500}, "fault of its own"),
    ],
)
def test_each_failure_of_the_hub_is_one_message(
    how: dict[str, object], message: str, hub: FakeHub, tmp_path: Path
) -> None:
    hub.fail("/api/datasets/", **how)
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=DETAILS)
    assert not (tmp_path / "pack").exists()


def test_a_cut_download_is_one_message_and_leaves_no_pack(hub: FakeHub, tmp_path: Path) -> None:
    hub.fail("samples_leaderboard_ifeval", method="GET", cut=40)
    with pytest.raises(UserError, match="the download failed"):
        prepare(tmp_path / "pack", "leaderboard_ifeval", evals_dataset=DETAILS)
    assert not (tmp_path / "pack").exists()


def test_an_unknown_task_is_answered_before_any_sample_is_fetched(hub: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'leaderboard_ifeval'"):
        prepare(tmp_path / "pack", "leaderboard_ifevl", evals_dataset=DETAILS)
    assert not hub.seen("samples_", "GET")


def test_docs_in_another_order_are_the_same_docs(board: Path, tmp_path: Path) -> None:
    task = "leaderboard_math_algebra_hard"
    run = Path(shutil.copytree(board / "details", tmp_path / "run"))
    record(board / "pack", tmp_path / "again", [task])
    (path,) = run.rglob(f"samples_{task}_*.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(line + "\n" for line in reversed(lines)), encoding="utf-8")
    pack = prepare(tmp_path / "pack", task, evals_dataset=str(run))
    verify(pack)
    (judged,) = report([tmp_path / "again"], pack=pack).tasks
    assert judged.flips is not None
    assert (judged.flips.compared, judged.flips.agreed) == (4, 4)
