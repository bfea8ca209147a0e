"""A history of runs: kept without texts, judged by all runs before, with the range in which a change began."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from command import cli
from marks import each
from one_task import run
from runs import TIME, write_run

from meta_eval.errors import UserError
from meta_eval.plugins.nightly.history_alarm import judge_history
from meta_eval.plugins.nightly.run_history import (
    PastRun,
    TaskVerdicts,
    add_run,
    find_newer,
    read_history,
    read_past_run,
)

DOCS = 60


def past(night: int, verdicts: dict[str, list[float]], **other: object) -> PastRun:
    tasks = {
        task: TaskVerdicts(metric="exact_match,none", docs={f"d{at}": value for at, value in enumerate(values)})
        for task, values in verdicts.items()
    }
    return PastRun(time=f"2026-01-{night + 1:02}T03:00:00Z", name=f"c{night}", tasks=tasks, **other)  # type: ignore[arg-type]


def nights(count: int, lost: int = 0, since: int = 99, task: str = "t", seed: int = 5) -> list[PastRun]:
    """Runs of 60 docs: 40 right, 8 that flip, 12 wrong; ``lost`` more are wrong since a night."""
    rng = np.random.default_rng(seed)
    history = []
    for night in range(count):
        right = 40 - (lost if night >= since else 0)
        values = [1.0] * right + [0.0] * (40 - right) + rng.integers(0, 2, 8).astype(float).tolist() + [0.0] * 12
        history.append(past(night, {task: values}))
    return history


def test_false_alarms_are_named_by_two_numbers_a_year(tmp_path: Path) -> None:
    for night in nights(12):
        add_run(tmp_path, night)
    check = ("history", "check", "--folder", tmp_path, "--json")
    told = json.loads(run(*check, "--false-alarms", "2", "--runs-a-year", "3650")[1])
    assert [chart["runs_per_alarm"] for chart in told["charts"]] == [1825]
    code, out, err = run(*check, "--false-alarms", "2", "--runs-a-year", "10")
    assert (code, out, "one in 5" in err) == (2, "", True)


def test_a_run_is_kept_without_prompts_and_answers_and_twice_is_once(tmp_path: Path) -> None:
    results = write_run(tmp_path / "out", [1.0, 0.0, 1.0])
    kept = read_past_run([results], name="1a2b3c4")
    files = {add_run(tmp_path / "history", kept), add_run(tmp_path / "history", kept)}
    (file,) = files
    text = file.read_text()
    assert "Question" not in text
    assert "answer" not in text
    (again,) = read_history(tmp_path / "history")
    assert again == kept
    assert (again.name, again.time, list(again.tasks["meta_some"].docs.values())) == (
        "1a2b3c4", "2026-01-02T03:04:05.000006Z", [1.0, 0.0, 1.0],
    )  # fmt: skip


def test_a_lasting_drop_is_an_alarm_with_the_range_of_its_runs() -> None:
    judged = judge_history(nights(24, lost=12, since=20), 365)
    assert judged.outcome == "alarm"
    (chart,) = judged.charts
    assert chart.alarm is not None
    first, last = chart.alarm[1].change or (0, 0)
    assert first <= 20 <= last
    assert judge_history(nights(20), 365).outcome == "no alarm"


def test_docs_that_flip_are_named_and_explain_the_spread() -> None:
    (chart,) = judge_history(nights(24), 365).charts
    assert chart.flips is not None
    assert set(chart.flips.unsteady) <= {f"d{at}" for at in range(40, 48)}
    assert len(chart.flips.unsteady) >= 6
    assert chart.flips.changed == 8
    assert chart.flips.expected == pytest.approx(chart.flips.seen, rel=0.5)


def test_a_smaller_drop_needs_more_docs_and_more_runs() -> None:
    chart = judge_history(nights(12), 365).charts[0]
    docs, runs = (
        [find(drop) for drop in (0.02, 0.05, 0.2)] for find in (chart.find_docs_needed, chart.find_runs_needed)
    )
    if None not in docs:
        assert docs == sorted(docs, reverse=True)  # type: ignore[type-var]
    assert runs == sorted(runs, reverse=True)  # type: ignore[type-var]


def test_runs_before_an_accepted_change_no_longer_count() -> None:
    history = nights(24, lost=12, since=20)
    accepted = [*history[:20], history[20].model_copy(update={"new_level": True}), *history[21:]]
    judged = judge_history(accepted, 365)
    assert judged.outcome == "too few runs"
    assert len(judged.runs) == 4


def test_a_run_of_other_docs_is_left_out_and_said() -> None:
    history = nights(10)
    history[3] = past(3, {"t": [1.0] * 30})
    history[4] = past(4, {"other": [1.0] * DOCS})
    judged = judge_history(history, 365)
    assert judged.charts[0].runs == (0, 1, 2, 5, 6, 7, 8, 9)
    assert judged.notes == ("t: 2 of 10 runs lack it, its metric exact_match,none, or many of its docs",)


def test_several_tasks_share_the_rate_with_their_mean() -> None:
    history = [PastRun(time=one.time, tasks={"a": one.tasks["t"], "b": one.tasks["t"]}) for one in nights(5)]
    charts = judge_history(history, 365).charts
    assert [chart.name for chart in charts] == ["mean", "a", "b"]
    assert sum(1 / chart.runs_per_alarm for chart in charts) == pytest.approx(1 / 365)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10])
def test_below_the_runs_that_an_alarm_needs_it_cannot_tell(count: int, tmp_path: Path) -> None:
    for night in nights(count, lost=3, since=count - 1):
        add_run(tmp_path, night)
    code, out, _ = run("history", "check", "--folder", tmp_path, "--json")
    told = json.loads(out)
    if count < 10:
        assert (code, told["outcome"]) == (3, "too few runs")
        assert "an alarm needs 10" in told["summary"]
    else:
        assert (code, told["outcome"]) == (0, "no alarm")


def test_a_gross_drop_is_an_alarm_of_few_runs() -> None:
    history = [*nights(6), past(7, {"t": [0.0] * DOCS})]
    assert judge_history(history, 365).outcome == "alarm"


def test_runs_that_lack_docs_are_compared_by_those_that_they_share() -> None:
    # Each lacks 2 % of the docs, and no doc is in all runs.
    rng, whole = np.random.default_rng(2), nights(28, lost=9, since=24)
    history = []
    for night in whole:
        docs = dict(night.tasks["t"].docs)
        for name in rng.choice(sorted(docs), 5, replace=False):
            del docs[str(name)]
        history.append(night.model_copy(update={"tasks": {"t": TaskVerdicts(metric="exact_match,none", docs=docs)}}))
    assert len(set.intersection(*(set(night.tasks["t"].docs) for night in history))) < 10
    judged = judge_history(history, 365)
    assert judged.charts[0].docs == DOCS
    assert judged.outcome == "alarm"
    expected = [point.score for point in judge_history(whole, 365).charts[0].points]
    assert [point.score for point in judged.charts[0].points] == pytest.approx(expected, abs=0.03)
    assert judged.notes == ("t: 28 of 28 runs lack some docs, and are compared by the others",)


def test_a_run_that_lacks_hard_docs_is_not_better() -> None:
    history = [past(night, {"t": [1.0] * 50 + [0.0] * 10}) for night in range(12)]
    easy = TaskVerdicts(metric="exact_match,none", docs=dict(list(history[-1].tasks["t"].docs.items())[:52]))
    history[-1] = history[-1].model_copy(update={"tasks": {"t": easy}})
    assert judge_history(history, 365).charts[0].points[-1].score == pytest.approx(50 / 60)


@pytest.mark.parametrize("lost", [0, 12])
def test_another_model_is_named(lost: int, tmp_path: Path) -> None:
    for at, night in enumerate(nights(24, lost=lost, since=20)):
        add_run(tmp_path, night.model_copy(update={"model": "org/new" if at >= 20 else "org/old"}))
    _, out, _ = run("history", "check", "--folder", tmp_path, "--json")
    assert "since c20 the model is org/new, and before org/old" in json.loads(out)["summary"]


def test_the_command_adds_runs_and_its_exit_code_is_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SHA", "f00d")
    folder = tmp_path / "history"
    results = write_run(tmp_path / "out", [1.0, 0.0, 1.0])
    code, out, err = run("history", "add", results, "--folder", folder)
    assert (code, Path(out.strip()).parent) == (0, folder)
    assert "added f00d: 3 verdicts of 1 task\n" in err
    assert run("history", "check", "--folder", folder)[0] == 3
    for one in nights(24, lost=12, since=20):
        add_run(tmp_path / "long", one)
    page = tmp_path / "page.html"
    code, out, _ = run("history", "check", "--folder", tmp_path / "long", "--json", "--html", page)
    told = json.loads(out)
    assert (code, told["exit_code"], told["outcome"]) == (1, 1, "alarm")
    assert page.read_text().count("from the score, the taller mark, to the mean of the runs before") == 1


HEAD = '{"format": "meta-eval history", "version": 1, "time": "2026-01-01T00:00:00.000000Z", "name": "n", "model": "m"'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "is no run of a history"),
        ('{"format": "meta-eval history", "version": 2}', "is of a newer version"),
        ('{"format": "meta-eval history", "version": 1, "time": "now", "tasks": {}}', "time"),
        ('{"format": "meta-eval history", "version": 1, "time": "2026-01-01T00:00:00Z", "tasks": {"t": {"metric": "m", '
         '"docs": {"a": 2}}}}', "tasks.t.docs.a: it must be 1 or less"),
        (f'{HEAD}}}', "tasks: it is missing. Fetch it again, or delete it"),
        (f'{HEAD}, "more": 1, "tasks": {{"t": {{"metric": "m", "docs": {{"a": 1}}}}}}}}', "more: there is no such key"),
        *((f'{HEAD}, "tasks": {{"t": {{"metric": "m", "docs": {docs}}}}}}}', words) for docs, words in {
            '{"a": Infinity}': "docs.a", '{"a": true}': "docs.a", '{"a": "1.0"}': "docs.a", "{}": "docs: ",
        }.items()),
        (f'{HEAD}, "tasks": {{}}}}', "tasks: "),
        ("[" * 10_000, "nested more than 100 deep|cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_run_is_named(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError, match=told) as caught:
        read_history(tmp_path)
    assert "x.json" in str(caught.value)


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    code, out, err = run("history", "check", "--folder", tmp_path)
    assert (code, out) == (2, "")
    assert "meta-eval history add" in err


def test_a_run_of_a_year_below_1000_is_kept(tmp_path: Path) -> None:
    results = write_run(tmp_path / "out", [1.0, 0.0])
    for file in results.rglob("*_2026-*"):
        file.rename(file.with_name(file.name.replace(TIME, "0001-01-01T00-00-00.000000")))
    assert run("history", "add", results, "--folder", tmp_path / "history")[0] == 0
    assert read_history(tmp_path / "history")[0].time == "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "time",
    [
        "2026-13-41T99:00:10Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60.5Z", "2026-01-01T::::::::Z", "\u0662026-01-01T00:00:00Z", "now", "", None, 5,
    ],
)  # fmt: skip
def test_a_time_that_does_not_exist_is_one_message(time: object, tmp_path: Path) -> None:
    add_run(tmp_path, nights(1)[0])
    (file,) = tmp_path.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "time": time}))
    code, out, err = run("history", "check", "--folder", tmp_path)
    assert (code, out, err.count("error: ")) == (2, "", 1)
    said = " ".join(err.split())
    assert f"{file}: time: " in said and "Fetch it again, or delete it" in said


def test_runs_are_in_the_order_of_their_times_however_these_are_written(tmp_path: Path) -> None:
    (run_of_a_night,) = nights(1)
    times = ["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.25Z"]
    for time in times:
        add_run(tmp_path, run_of_a_night.model_copy(update={"time": time}))
    assert [past.time for past in read_history(tmp_path)] == [times[1], times[2], times[0]]


def test_a_damaged_task_is_left_out_of_a_history_by_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out", [1.0, 0.0])
    write_run(folder, [1.0, 0.0], task="meta_other", time="2026-01-02T03-04-06")
    file = next(folder.glob("samples_meta_other_*"))
    file.write_text(file.read_text()[:-40])
    code, _, err = run("history", "add", folder, "--folder", tmp_path / "history")
    assert (code, "left out: meta_other: " in err) == (0, True), err


@pytest.mark.parametrize("time", ["2026-13-41T99-00-10", "2026-02-30T03-04-05.5"])
@pytest.mark.parametrize("verb", [("history", "add"), ("report",)])
def test_results_whose_name_has_no_real_time_are_refused(time: str, verb: tuple[str, ...], tmp_path: Path) -> None:
    """Else they would be the newest run, or of 1970."""
    results = write_run(tmp_path / "out", [1.0, 0.0])
    for file in results.rglob("*_2026-*"):
        file.rename(file.with_name(file.name.replace(TIME, time)))
    code, out, err = run(*verb, results)
    said = " ".join(err.split())
    assert (code, out) == (2, "")
    assert f"there is no time {time}, which stands in its name. Restore the file's original name" in said


def test_a_file_of_the_history_that_somebody_changed_is_not_replaced(tmp_path: Path) -> None:
    results, history = write_run(tmp_path / "out", [1.0, 0.0]), tmp_path / "history"
    add = ("history", "add", results, "--folder", history, "--name", "x")
    file = Path(run(*add)[1].strip())
    file.write_text(file.read_text() + "my notes")
    code, _, err = run(*add)
    assert (code, "was changed since" in " ".join(err.split())) == (2, True)
    assert file.read_text().endswith("my notes")


def test_a_huge_file_in_a_history_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "2026.json").open("wb") as huge:
        huge.truncate(50 * 2**30)
    code, _, err = run("history", "check", "--folder", tmp_path)
    assert (code, "larger than 64 MiB" in " ".join(err.split())) == (2, True)


def test_no_view_is_written_where_it_would_be_a_run(tmp_path: Path) -> None:
    for night in nights(12):
        add_run(tmp_path, night)
    file = tmp_path / "report.json"
    code, _, err = run("history", "check", "--folder", tmp_path, "--html", file)
    assert (code, "report.json" in err, file.exists()) == (2, True, False)
    assert run("history", "check", "--folder", tmp_path, "--html", tmp_path / "report.html")[0] == 0


def test_a_terminal_says_what_the_needed_docs_and_runs_and_a_dash_are(tmp_path: Path) -> None:
    for night in nights(24):
        add_run(tmp_path, night)
    out = " ".join(run("history", "check", "--folder", tmp_path, "--drop", "0.1")[1].split())
    assert "a lasting drop of 0.1 points" in out and "a dash where more docs do not help" in out
    (row,) = [
        line.split() for line in run("history", "check", "--folder", tmp_path)[1].splitlines() if line[:2] == "t "
    ]
    assert row[-1].isdigit()  # a whole number of runs


def test_the_name_of_a_doc_is_explained(tmp_path: Path) -> None:
    for night in nights(24):
        add_run(tmp_path, night)
    out = " ".join(run("history", "check", "--folder", tmp_path)[1].split())
    assert "A doc is named by the beginning of its hash. To see it, search for that text in the samples file" in out


# What a clock said at one run after another: set back, set forward, stopped, of another century, without fractions.
CLOCKS = [
    f"{first} {second} {third}"
    for first, second in itertools.permutations(
        ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.25Z", "2026-01-02T03:04:06Z", "2025-12-31T23:59:59Z", "1970-01-01T00:00:00Z"), 2
    )
    for third in ("2026-01-02T03:04:05.5Z", "2099-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z")
]  # fmt: skip


@each("clock", CLOCKS)
def test_a_run_that_is_older_than_another_is_told_and_the_newest_is_judged(clock: str, tmp_path: Path) -> None:
    folder, times = tmp_path / clock, [datetime.fromisoformat(text) for text in clock.split()]
    added: list[PastRun] = []
    for night, text in zip(nights(3), clock.split(), strict=True):
        added.append(night.model_copy(update={"time": text}))
        add_run(folder, added[-1])
        newest = max(times[: len(added)])
        newer = find_newer(folder, added[-1])
        assert (newer and datetime.fromisoformat(newer.time)) == (None if times[len(added) - 1] == newest else newest)
    assert [one.time for one in read_history(folder)] == [
        one.time for _, one in sorted(zip(times, added, strict=True), key=lambda of: of[0])
    ]
    assert judge_history(read_history(folder), 100).runs[-1].time == clock.split()[times.index(max(times))]


def test_after_a_clock_ran_backwards_adding_says_which_run_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    add_run(folder, past(8, {"arc": [1.0]}).model_copy(update={"time": "2099-01-09T03:00:00Z"}))
    code, out, err = run("history", "add", write_run(tmp_path / "out", [1.0, 0.0]), "--folder", folder)
    assert (code, out.count("\n")) == (0, 1)
    assert "note: check does not judge this run, of 20" in err and "the newest is c8, of 2099-01-09" in " ".join(
        err.split()
    )


def test_runs_of_one_time_are_in_the_order_of_their_paths_and_it_is_said(tmp_path: Path) -> None:
    night, *others = nights(3)
    for name, one in zip(("x", "y", "z"), (night, *others), strict=True):
        add_run(tmp_path, one.model_copy(update={"name": name, "time": night.time}))
    for file, to in zip(sorted(tmp_path.glob("*.json")), ("c", "a", "b"), strict=True):
        file.rename(tmp_path / f"{to}.json")
    names = [json.loads((tmp_path / f"{file}.json").read_text())["name"] for file in "abc"]
    assert [one.name for one in read_history(tmp_path)] == names
    out = " ".join(run("history", "check", "--folder", tmp_path)[1].split())
    assert f"3 runs have the time {night.time}. They are in the order of their files' paths, and {names[-1]}" in out


def test_the_same_results_under_another_commit_are_refused(tmp_path: Path) -> None:
    """A job that evaluates nothing would be like the runs before it for ever."""
    results, folder = write_run(tmp_path / "out", [1.0, 0.0, 1.0]), tmp_path / "history"
    assert [run("history", "add", results, "--folder", folder, "--name", "c1")[0] for _ in range(2)] == [0, 0]
    code, out, err = run("history", "add", results, "--folder", folder, "--name", "c2")
    assert (code, out) == (2, "")
    assert "c2 has the results of c1: the same time" in " ".join(err.split())
    assert len([*folder.iterdir()]) == 1


def test_a_history_with_the_same_results_twice_is_not_judged(tmp_path: Path) -> None:
    first = add_run(tmp_path, nights(1)[0])
    (tmp_path / "copy.json").write_text(first.read_text().replace('"c0"', '"c1"'))
    with pytest.raises(UserError, match="the same verdicts"):
        read_history(tmp_path)


def test_results_without_a_time_are_kept_though_they_are_alike(tmp_path: Path) -> None:
    """Nobody can tell them from those of a job that evaluates nothing."""
    for name in ("x", "y"):
        add_run(tmp_path, nights(1)[0].model_copy(update={"time": "1970-01-01T00:00:00.000000Z", "name": name}))
    assert len(read_history(tmp_path)) == 2


def test_a_fall_of_the_mean_names_the_task_that_fell_most(tmp_path: Path) -> None:
    lost = (("s", 5, 5), ("t", 6, 6), ("u", 5, 7))
    tasks = [nights(24, docs, since=20, task=task, seed=seed) for task, docs, seed in lost]
    for night in zip(*tasks, strict=True):
        verdicts = {name: one.tasks[name] for one in night for name in one.tasks}
        add_run(tmp_path, night[0].model_copy(update={"tasks": verdicts}))
    code, out, _ = run("history", "check", "--folder", tmp_path, "--json")
    assert code == 1
    assert json.loads(out)["summary"].startswith("alarm: mean: a sudden drop that began after c19")
    assert json.loads(out)["summary"].endswith("; most fell t, by 10.2 points")


def test_a_run_of_which_no_time_is_known_is_said_to_be_taken_for_the_oldest(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [1, 0, 1], time="1970-01-01T00-00-00.000000")
    done = cli("history", "add", run, cwd=tmp_path)
    assert done.returncode == 0
    assert "the results name no time: check takes this run for the oldest" in done.stderr
