"""Results whose answers came from several deployments or models say so, in a report and in a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marks import few
from runs import write_run

from meta_eval import compare
from meta_eval.judge.alarms import describe_alarm

VERDICTS = [1.0] * 60 + [0.0] * 40


def origins(models: dict[str, int] | None = None, *addresses: str) -> dict[str, Any]:
    endpoints = [{"addresses": [address], "answers": 50} for address in addresses]
    return {"asked": "m", "models": models or {}, "endpoints": endpoints}


def alarms(a: Path, b: Path) -> dict[str, list[tuple[str, bool]]]:
    made = compare(a, b, margin=5)
    return {
        alarm.kind: [(describe_alarm(task), task.veto) for task in alarm.tasks]
        for alarm in made.alarms
        if alarm.kind in ("another model", "several endpoints")
    }


def write(folder: Path, of_task: Any, task: str = "meta_some", **keys: Any) -> Path:
    return write_run(folder, VERDICTS, task=task, config={"meta_eval": {"origins": {task: of_task}}}, **keys)


def test_a_run_of_two_deployments_and_of_two_models_does_not_ship(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", {}), write(tmp_path / "b", origins({"m": 94, "n": 6}, "aa", "bb"))
    assert alarms(a, b) == {
        "another model": [("meta_some in B (6 of 100: they name m (94), n (6), and m was requested)", True)],
        "several endpoints": [("meta_some in B (aa (50), bb (50))", True)],
    }
    assert compare(a, b, margin=5).decision.outcome == "UNDECIDED"
    assert "in A" in str(alarms(b, a)), "the baseline too"


def test_one_other_name_is_a_note(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", {}), write(tmp_path / "b", origins({"m-0806": 100}, "aa"))
    assert [veto for _, veto in alarms(a, b)["another model"]] == [False]
    made = compare(a, b, margin=5)
    assert made.decision.outcome == "SHIP"
    assert dict(made.runs[1].provenance)["answered by"] == "answers name m-0806 (100); address aa"


def test_tasks_of_several_models_do_not_ship_and_of_several_addresses_say_so(tmp_path: Path) -> None:
    for task, model, address in (("meta_some", "m-1", "aa"), ("meta_other", "m-2", "bb")):
        write(tmp_path / "a", {}, task)
        write(tmp_path / "b", origins({model: 100}, address), task, time=f"2026-01-02T03-04-0{len(task) % 9}.000006")
    seen = alarms(tmp_path / "a", tmp_path / "b")
    assert ("in B, tasks name m-2 (meta_other); m-1 (meta_some)", True) in seen["another model"]
    assert seen["several endpoints"] == [("in B, tasks came from bb (meta_other); aa (meta_some)", False)]


def test_stock_lm_eval_names_its_address(tmp_path: Path) -> None:
    arguments = {"pretrained": "org/Some-Model", "base_url": "http://gpu7:8000/v1/completions"}
    a, b = write(tmp_path / "a", {}), write(tmp_path / "b", None, model_args=arguments)
    shown = dict(compare(a, b, margin=5).runs[1].provenance)["answered by"]
    assert shown.startswith("address ") and "gpu7" not in shown


@pytest.mark.parametrize(
    "content",
    few([7, [], {"models": 3, "endpoints": 3}, {"models": {"a": None}, "endpoints": [None, {"addresses": []}]},
     {"asked": [], "models": {"a": float("nan")}, "endpoints": [{"addresses": [{}], "answers": -1}]}], 2),
)  # fmt: skip
def test_origins_that_are_none_are_left_out(tmp_path: Path, content: Any) -> None:
    a, b = write(tmp_path / "a", {}), write(tmp_path / "b", content)
    assert compare(a, b, margin=5).decision.outcome in ("SHIP", "UNDECIDED")
