"""Length as a decided quantity: `length` in gate.yaml."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import cli
from drawn_logs import draw_answers, write_inspect
from marks import few
from named_pairs import write_record
from packs import prepare
from runs import write_run
from stock_runs import make_choice, make_sample, write_stock_run

from meta_eval import compare as compare_runs
from meta_eval import report, verify
from meta_eval.base.errors import UserError

EQUAL = [1.0] * 60 + [0.0] * 40
Tokens = Callable[[int], int | None]


def write_side(
    folder: Path, tokens: Tokens, *, task: str = "meta_some", cut: Sequence[int] = (), limit: int | None = None
) -> Path:
    """A run in which doc n has so many tokens; those in ``cut`` ended at the limit."""
    config = {"gen_kwargs": {"max_gen_toks": limit}} if limit else None
    write_run(
        folder,
        EQUAL,
        task=task,
        config=config,
        time=f"2026-01-02T03-{ord(folder.name) % 60:02d}-{len(task):02d}.000006",
    )
    (path,) = folder.glob(f"samples_{task}_*")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        number = row["doc_id"]
        said = {"completion_tokens": tokens(number), "finish_reason": "length" if number in cut else "stop"}
        row["answer"] = {name: value for name, value in said.items() if value is not None}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_seconds_of_a_request_are_decided_alike(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 1.5)):
        (path,) = write_side(tmp_path / name, usual).glob("samples_*")
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            row["answer"]["seconds"] = factor * (2 + row["doc_id"] % 5)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert judge(tmp_path, "{seconds_at_most: 60}")[0] == 0
    ended, tree = judge(tmp_path, "{at_most: 10, seconds_at_most: 20}")
    assert (ended, tree["length"]["seconds"]["ratio"]) == (1, pytest.approx(1.5))
    assert "seconds of a request +50.0 %" in tree["summary"] and "tokens of an answer" not in tree["summary"]


def judge(folder: Path, rule: str | None = "{at_most: 10}", *more: str) -> tuple[int, dict[str, Any]]:
    (folder / "gate.yaml").write_text("margin: 5\n" + (f"length: {rule}\n" if rule else ""), encoding="utf-8")
    done = cli("compare", "a", "b", "--gate", "gate.yaml", "--json", *more, cwd=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


def usual(number: int) -> int:
    return 100 + 7 * (number % 13)


def grown(percent: int, spread: int = 1) -> Tokens:
    """Every doc's length grown by this much, and here and there by some tokens more or less."""
    return lambda number: usual(number) * (100 + percent) // 100 + spread * (number % 3 - 1)


@pytest.mark.parametrize(
    ("tokens", "code", "kind"),
    [
        (usual, 0, None),
        (grown(5), 0, None),
        (grown(20), 1, "longer answers"),
        (grown(-30), 0, None),
        (grown(10, spread=40), 3, "length not shown"),
    ],
)
def test_the_interval_of_the_growth_decides(tmp_path: Path, tokens: Tokens, code: int, kind: str | None) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", tokens)
    ended, tree = judge(tmp_path)
    assert (ended, [alarm["kind"] for alarm in tree["alarms"]]) == (code, [kind] if kind else [])
    found = tree["length"]["answer_tokens"]
    assert found["interval"]["lower"] <= found["ratio"] <= found["interval"]["upper"]
    mean = sum(map(usual, range(100)))
    assert found["ratio"] == pytest.approx(sum(tokens(n) or 0 for n in range(100)) / mean)
    assert (found["docs"], found["unknown"], found["tasks"]["meta_some"]["docs"]) == (100, 0, 100)


def test_over_several_tasks_a_token_counts_as_a_token(tmp_path: Path) -> None:
    for name, short, long in (("a", 10, 1000), ("b", 20, 1010)):
        write_side(tmp_path / name, lambda number, count=short: count + number % 3)  # type: ignore[misc]
        write_side(tmp_path / name, lambda number, count=long: count + number % 7, task="meta_other")  # type: ignore[misc]
    ended, tree = judge(tmp_path)
    found = tree["length"]["answer_tokens"]
    assert found["tasks"]["meta_some"]["ratio"] > 1.9 and found["tasks"]["meta_other"]["ratio"] < 1.02
    assert (ended, found["ratio"]) == (0, pytest.approx(1 + 20 / (10 + 0.99 + 1000 + 2.95), rel=1e-3))


def test_equal_scores_and_twice_the_tokens_are_no_ship_and_the_reason_is_said_first(tmp_path: Path) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", grown(100))
    _, tree = judge(tmp_path, "{at_most: 10}", "--html", "page.html", "--markdown", "card.md")
    assert (
        tree["summary"]
        .splitlines()[1]
        .startswith("Why: longer answers: tokens of an answer +100.0 % (95 % interval +99.")
    )
    assert "at most +10 % is allowed" in tree["summary"]
    for view in ("page.html", "card.md"):
        assert "Length beside the baseline" in (tmp_path / view).read_text(encoding="utf-8")


def test_without_a_rule_nothing_is_said_of_length(tmp_path: Path) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", grown(100))
    ended, tree = judge(tmp_path, None)
    assert (ended, tree.get("length")) == (0, None)


def test_answers_may_have_to_get_shorter(tmp_path: Path) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", grown(-10))
    assert judge(tmp_path, "{at_most: -20}")[0] == 1
    assert judge(tmp_path, "{at_most: -5}")[0] == 0


def test_a_cut_answer_counts_as_its_limit_whatever_was_counted(tmp_path: Path) -> None:
    """An engine that counts 1 for what it cut would hide the longest answers."""
    write_side(tmp_path / "a", usual, limit=1000)
    write_side(tmp_path / "b", lambda n: 1 if n < 20 else usual(n), cut=range(20), limit=1000)
    ended, tree = judge(tmp_path)
    assert (ended, "longer answers" in {alarm["kind"] for alarm in tree["alarms"]}) == (1, True)
    assert tree["length"]["answer_tokens"]["ratio"] == pytest.approx(
        (20 * 1000 + sum(map(usual, range(20, 100)))) / sum(map(usual, range(100)))
    )


@pytest.mark.parametrize("side", ["a", "b"])
def test_docs_of_unknown_length_forbid_ship(tmp_path: Path, side: str) -> None:
    for name in ("a", "b"):
        write_side(tmp_path / name, lambda n, name=name: None if name == side and n == 5 else usual(n))  # type: ignore[misc]
    ended, tree = judge(tmp_path)
    assert (ended, tree["length"]["answer_tokens"]["unknown"]) == (3, 1)
    assert "of 1 doc a side does not know the tokens of an answer" in tree["summary"]


def test_where_nothing_was_counted_the_rule_decides_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_side(tmp_path / name, lambda _: None)
    ended, tree = judge(tmp_path)
    assert (ended, tree["length"]["answer_tokens"]["ratio"], tree["length"]["answer_tokens"]["docs"]) == (3, None, 0)
    assert "of no doc both sides know the tokens of an answer" in tree["summary"]


def test_a_baseline_that_says_nothing_at_all_is_no_division_by_zero(tmp_path: Path) -> None:
    write_side(tmp_path / "a", lambda _: 0)
    write_side(tmp_path / "b", usual)
    assert judge(tmp_path)[0] == 3


def test_docs_are_paired_by_content_whatever_their_order(tmp_path: Path) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", usual)
    (path,) = (tmp_path / "b").glob("samples_*")
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    assert judge(tmp_path)[1]["length"]["answer_tokens"]["interval"] == {"lower": 1.0, "upper": 1.0}


def test_tasks_count_by_their_docs_and_each_has_its_own_growth(tmp_path: Path) -> None:
    for name, percent in (("a", 0), ("b", 30)):
        write_side(tmp_path / name, grown(percent, 0))
        write_side(tmp_path / name, usual, task="meta_other")
    _, tree = judge(tmp_path)
    ratios = {task: facts["ratio"] for task, facts in tree["length"]["answer_tokens"]["tasks"].items()}
    assert ratios == {"meta_some": pytest.approx(1.3, abs=0.01), "meta_other": 1.0}
    assert tree["length"]["answer_tokens"]["ratio"] == pytest.approx(1.15, abs=0.01)


@pytest.mark.parametrize(("chosen", "code"), [("[meta_some]", 1), ("{-meta_some: {}}", 0), ("[meta_other]", 0)])
def test_a_task_that_the_gate_leaves_out_does_not_count(tmp_path: Path, chosen: str, code: int) -> None:
    for name, percent in (("a", 0), ("b", 30)):
        write_side(tmp_path / name, grown(percent, 0))
        write_side(tmp_path / name, lambda _, percent=percent: 100 - percent, task="meta_other")  # type: ignore[misc]
    assert judge(tmp_path, f"{{at_most: 10}}\ntasks: {chosen}")[0] == code


def test_a_second_run_of_a_side_counts_with_its_mean(tmp_path: Path) -> None:
    write_side(tmp_path / "a", usual)
    write_side(tmp_path / "b", usual)
    write_side(tmp_path / "c", grown(40, 0))
    (tmp_path / "gate.yaml").write_text("margin: 5\nlength: {at_most: 10}\n", encoding="utf-8")
    done = cli("compare", "--gate", "gate.yaml", "--json", "a", "--", "b", "c", cwd=tmp_path)
    assert json.loads(done.stdout)["length"]["answer_tokens"]["ratio"] == pytest.approx(1.2, abs=0.01)


def test_beside_a_pack_its_record_is_the_baseline_and_has_no_counts(tmp_path: Path) -> None:
    record, run, tasks = write_record("sound", tmp_path)
    keys = {"backend": "server", "base_url": "http://127.0.0.1:9/v1", "template_dir": str(tasks)}
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(record), **keys)
    verify(pack)
    (tmp_path / "gate.yaml").write_text("margin: 20\nlength: {at_most: 10}\n", encoding="utf-8")
    judged = report(run, pack=pack, gate=tmp_path / "gate.yaml")
    assert "length not shown" in {alarm.kind for alarm in judged.alarms}
    assert judged.to_json()["length"]["answer_tokens"]["unknown"] > 100


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{at_most: much}", "length.at_most: 'much' is not allowed"),
        ("{atmost: 5}", "length.atmost: there is no such key; did you mean 'at_most' or"),
        ("{at_most: .nan}", "'.nan' is no finite number"),
        ("{at_most: -100}", "length.at_most"),
        ("{}", "length: {} is not allowed: limits nothing: write at_most, seconds_at_most or both"),
        ("5", "length: "),
        ("null", "length: "),
    ],
)
def test_a_mistake_in_the_rule_is_one_message(tmp_path: Path, rule: str, said: str) -> None:
    write_side(tmp_path / "a", usual)
    (tmp_path / "gate.yaml").write_text(f"margin: 5\nlength: {rule}\n", encoding="utf-8")
    done = cli("compare", "a", "a", "--gate", "gate.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change every sample of a run."""
    (path,) = folder.glob("samples_*")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


# What a sample may say of its tokens, and how many docs are then unknown.
ODD_COUNTS: list[tuple[Any, int]] = [
    (None, 100), (-1, 100), (1.5, 100), ("100", 100), (2**53, 100), (10**400, 100), ([100], 100), ({}, 100),
    (float("nan"), 100), (float("inf"), 100), ("", 100), (True, 100), (2**53 - 1, 0), (0, 0), (1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("count", "unknown"), few(ODD_COUNTS, 2), ids=lambda value: repr(value)[:12])
def test_a_count_that_is_none_is_unknown_and_forbids_ship(tmp_path: Path, count: Any, unknown: int) -> None:
    a, b = (write_side(tmp_path / name, usual) for name in "ab")
    rewrite(b, lambda row: row["answer"].update(completion_tokens=count))
    judged = compare_runs(a, b, gate=gate_of(tmp_path, "{at_most: 10}"))
    found = judged.to_json()["length"]["answer_tokens"]
    assert (found["unknown"], found["docs"]) == (unknown, 100 - unknown)
    assert judged.decision.outcome == ("UNDECIDED" if unknown else "SHIP" if count in (0, 1) else "DON'T SHIP")


@pytest.mark.parametrize(
    "limit", few(["many", -5, 0, None, 10**400, 1.5, [7], {"a": 1}, True], 2), ids=lambda value: repr(value)[:12]
)
def test_a_limit_that_is_none_changes_no_length(tmp_path: Path, limit: Any) -> None:
    a = write_side(tmp_path / "a", usual)
    b = write_side(tmp_path / "b", usual, cut=range(100))
    tree = json.loads((results := next(b.glob("results_*"))).read_text(encoding="utf-8"))
    tree["config"]["gen_kwargs"] = {"max_gen_toks": limit}
    results.write_text(json.dumps(tree), encoding="utf-8")
    try:
        judged = compare_runs(a, b, gate=gate_of(tmp_path, "{at_most: 10}"))
    except UserError as error:
        assert str(error)
    else:
        assert judged.to_json()["length"]["answer_tokens"]["ratio"] == 1.0


def test_a_single_doc_shows_nothing(tmp_path: Path) -> None:
    sides = [write_run(tmp_path / name, [1.0], line={"answer": {"completion_tokens": 50}}) for name in "ab"]
    judged = compare_runs(*sides, gate=gate_of(tmp_path, "{at_most: 10}"))
    assert judged.to_json()["length"]["answer_tokens"]["interval"] is None
    assert "length not shown" in {alarm.kind for alarm in judged.alarms}


@pytest.mark.parametrize("percent", [1, 57, 58, 110])
def test_just_what_is_allowed_is_allowed(tmp_path: Path, percent: int) -> None:
    a, b = (write_side(tmp_path / name, lambda _, n=n: n) for name, n in (("a", 100), ("b", 100 + percent)))  # type: ignore[misc]
    judged = compare_runs(a, b, gate=gate_of(tmp_path, f"{{at_most: {percent}}}"))
    assert judged.decision.outcome == "SHIP"


def test_one_endless_answer_of_a_hundred_is_no_proof(tmp_path: Path) -> None:
    a = write_side(tmp_path / "a", usual)
    b = write_side(tmp_path / "b", lambda n: 10**6 if n == 7 else usual(n))
    judged = compare_runs(a, b, gate=gate_of(tmp_path, "{at_most: 10}"))
    assert judged.decision.outcome == "UNDECIDED"


def test_choices_have_no_length_and_leave_the_others_alone(tmp_path: Path) -> None:
    rows = [make_choice(number, ["-1.0", "-2.0"], number % 2 == 0) for number in range(60)]
    for name in "ab":
        write_stock_run(tmp_path / name, {"choices": rows})
    judged = compare_runs(tmp_path / "a", tmp_path / "b", gate=gate_of(tmp_path, "{at_most: 10}"))
    found = judged.to_json()["length"]["answer_tokens"]
    assert (found["unknown"], found["docs"]) == (0, 0)


def gate_of(folder: Path, rule: str) -> Path:
    (folder / "gate.yaml").write_text(f"margin: 5\nlength: {rule}\n", encoding="utf-8")
    return folder / "gate.yaml"


@pytest.mark.parametrize(
    ("tokens", "cut", "ratio", "unknown"),
    [(1200, 1, 1.0, 0), (1200, 0, 1.0, 0), (3, 2, 2000 / 1200, 0), (400, 1, 1000 / 1200, 0), (None, 1, None, 100),
     (None, 2, 2000 / 1200, 0)],
)  # fmt: skip
def test_of_several_answers_those_that_were_cut_count_as_their_limit(
    tmp_path: Path, tokens: int | None, cut: int, ratio: float | None, unknown: int
) -> None:
    for name, count, ends in (("a", 1200, 0), ("b", tokens, cut)):
        answer = {"finish_reasons": ["length"] * ends + ["stop"] * (2 - ends)}
        answer |= {} if count is None else {"completion_tokens": count}  # type: ignore[dict-item]
        line = {"resps": [["The answer is A.", "The answer is B."]], "answer": answer}
        write_run(tmp_path / name, EQUAL, line=line, config={"gen_kwargs": {"max_gen_toks": 1000}})
    judged = compare_runs(tmp_path / "a", tmp_path / "b", gate=gate_of(tmp_path, "{at_most: 10}"))
    found = judged.to_json()["length"]["answer_tokens"]
    assert (found["ratio"], found["unknown"]) == (ratio and pytest.approx(ratio), unknown)


ROLLING = {"arguments": {"gen_args_0": {"arg_0": "A text."}}, "resps": [["-35.0"]], "filtered_resps": [-35.0]}
LAST_WORD = {
    "arguments": {"gen_args_0": {"arg_0": "Q:", "arg_1": " x"}}, "resps": [[["-2.0", "True"]]],
    "filtered_resps": [["-2.0", "True"]],
}  # fmt: skip
EMPTY = {"text": "", "answer": {"finish_reason": "stop"}}


@pytest.mark.parametrize(
    ("metrics", "parts", "unknown"),
    [({"word_perplexity": [-35.0, 4]}, ROLLING, 0), ({"acc": 1.0}, LAST_WORD, 0), ({"exact_match": 0.0}, EMPTY, 60)],
    ids=["rolling", "the last word", "empty answers"],
)
def test_what_likelihoods_answer_has_no_length(
    tmp_path: Path, metrics: dict[str, Any], parts: dict[str, Any], unknown: int
) -> None:
    said = [make_sample(number, "none", {"exact_match": 1.0}, answer={"completion_tokens": 9}) for number in range(60)]
    others = [make_sample(number, "none", metrics, **parts) for number in range(60)]
    averages = {
        "said": {"exact_match,none": 1.0},
        "other": {f"{name},none": 1.0 for name in ("acc", "word_perplexity")},
    }
    averages["other"] = {"exact_match,none": 0.0} if unknown else averages["other"]
    for name in "ab":
        write_stock_run(tmp_path / name, {"said": said, "other": others}, averages=averages)
    judged = compare_runs(tmp_path / "a", tmp_path / "b", gate=gate_of(tmp_path, "{at_most: 10}"))
    found = judged.to_json()["length"]["answer_tokens"]
    assert (found["docs"], found["unknown"]) == (60, unknown)


def test_the_same_questions_in_two_tasks_are_no_more_docs(tmp_path: Path) -> None:
    for name, percent in (("a", 0), ("b", 10)):
        write_side(tmp_path / name, grown(percent, spread=percent))
    alone = judge(tmp_path)[1]["length"]["answer_tokens"]["interval"]
    for name, percent in (("a", 0), ("b", 10)):
        write_side(tmp_path / name, grown(percent, spread=percent), task="meta_other")
    found = judge(tmp_path)[1]["length"]["answer_tokens"]
    assert (found["docs"], found["interval"]) == (200, {end: pytest.approx(value) for end, value in alone.items()})


def test_no_growth_is_a_negative_zero(tmp_path: Path) -> None:
    write_side(tmp_path / "a", lambda _: 100_000)
    write_side(tmp_path / "b", lambda number: 100_000 - (number == 0))
    assert "tokens of an answer +0.0 % (95 % interval +0.0 to" in judge(tmp_path, "{at_most: -5}")[1]["summary"]


def compare_logs(folder: Path, change: Callable[[dict[str, Any], int, int], None], **head: Any) -> dict[str, Any]:
    """Compare two logs of inspect_ai, of which each sample is changed, by its number and its side."""
    asked = [replace(one, text=one.text or "1", cut=False) for one in draw_answers(0)]
    for side, name in enumerate("ab"):
        path = write_inspect(folder / name, asked, side, **dict(head))
        tree = json.loads(path.read_text(encoding="utf-8"))
        for number, row in enumerate(tree["samples"]):
            change(row, number, side)
        path.write_text(json.dumps(tree), encoding="utf-8")
    return compare_runs(folder / "a", folder / "b", gate=gate_of(folder, "{at_most: 10}")).to_json()


@pytest.mark.plugin("inspect_ai")
@pytest.mark.parametrize("limit", ["cost", "message", "time", "token", "turn", "working"])
def test_an_answer_that_another_limit_cut_counts_as_counted(tmp_path: Path, limit: str) -> None:
    def change(row: dict[str, Any], number: int, side: int) -> None:
        row["output"]["usage"] = {"output_tokens": 10 + 10 * side}
        row["limit"] = {"type": limit, "limit": 9} if not side and number < 60 else None

    tree = compare_logs(tmp_path, change, config={f"{limit}_limit": 9})
    assert tree["length"]["answer_tokens"]["ratio"] == 2.0


@pytest.mark.plugin("inspect_ai")
def test_what_a_model_says_as_its_own_judge_is_no_answer(tmp_path: Path) -> None:
    def change(row: dict[str, Any], _: int, side: int) -> None:
        row["model_usage"] = {"org/m": {"output_tokens": 3 + 200 * side}}

    tree = compare_logs(tmp_path, change, scorer="model_graded_qa")
    assert tree["length"]["answer_tokens"]["ratio"] == 1.0


@pytest.mark.parametrize(
    "seconds", few(["1.5", True, -1.0, float("nan"), float("inf"), 1e308, None, [1.0], 2**53], 2), ids=repr
)
def test_seconds_that_are_none_are_unknown_and_forbid_ship(tmp_path: Path, seconds: Any) -> None:
    sides = [
        rewrite(write_side(tmp_path / name, usual), lambda row, given=given: row["answer"].update(seconds=given))  # type: ignore[misc]
        for name, given in (("a", 1.0), ("b", seconds))
    ]
    judged = compare_runs(*sides, gate=gate_of(tmp_path, "{seconds_at_most: 10}"))
    assert (judged.decision.outcome, judged.to_json()["length"]["seconds"]["docs"]) == ("UNDECIDED", 0)
