"""What differs between two sides besides the model: the grader, the BOS, the weights, and how many answers count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from marks import thorough
from runs import TIME, entry, manifest, read_lines, write_lines, write_run
from stored import stored

from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.judge.decide import Decision
from meta_eval.judge.gate import Gate
from meta_eval.judge.runs import judge

LONG = "I add the pens of both boxes. The answer is A."


def right(count: int, n: int) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def say(folder: Path, text: str | None, *, docs: Sequence[int] = (), **fields: Any) -> Path:
    """Change the answers of a run: of some docs, or of all."""
    (path,) = folder.glob("samples_*")
    lines = read_lines(path)
    for line in lines:
        if not docs or line["doc_id"] in docs:
            line.update({"resps": [[f"{line['doc_id']} {text}"]]} if text else {}, **fields)
    write_lines(path, lines)
    return folder


def compared(tmp_path: Path, *, gate: Gate | None = None) -> Decision:
    return judge(read_run([tmp_path / "A"]), read_run([tmp_path / "B"]), gate=gate).decision


def versions(number: object, lm_eval: str = "0.4.13") -> dict[str, Any]:
    return {"versions": {"meta_some": number}, "lm_eval_version": lm_eval}


# The grader


def test_another_verdict_on_the_same_text_is_no_loss_of_the_model(tmp_path: Path) -> None:
    say(write_run(tmp_path / "A", right(120, 200), extra=versions(3.0)), LONG)
    say(write_run(tmp_path / "B", right(110, 200), extra=versions(3.1)), LONG)
    decision = compared(tmp_path, gate=Gate(margin=5.0))
    assert (decision.outcome, decision.tasks[0].drop.value, decision.invalid) == ("SHIP", 0.0, False)
    assert decision.caveats == (
        "graded differently: meta_some (10 of 200 docs whose answers are the same word for word have other verdicts, 10 "
        "lower and 0 higher; they count as ties; the drop of the scores is 5.0; task version 3.0 in A, 3.1 in B)",
    )


def graded(
    folder: Path, docs: int, equal: int, *, lost: int = 0, lower: int = 0, higher: int = 0, losses: int = 0
) -> Decision:
    """A and B of so many docs, the first of them with equal answers. Of these B has so many lower and so many higher
    verdicts; of the others it has lost some, and the grader takes ``losses`` more."""
    base = [float(doc % 2 == 0) for doc in range(docs)]
    other = list(base)
    for doc in [doc for doc in range(equal) if base[doc]][:lower]:
        other[doc] = 0.0
    for doc in [doc for doc in range(equal) if not base[doc]][:higher]:
        other[doc] = 1.0
    for doc in [doc for doc in range(equal, docs) if base[doc]][: lost + losses]:
        other[doc] = 0.0
    say(write_run(folder / "A", base), LONG)
    say(say(write_run(folder / "B", other), LONG), "Something else", docs=range(equal, docs))
    return compared(folder)


def test_a_judge_that_flips_a_few_equal_answers_hides_no_loss(tmp_path: Path) -> None:
    """Three equal answers with other verdicts, and 24 points lost on the others."""
    decision = graded(tmp_path, 400, 200, lost=96, lower=1, higher=2)
    assert (decision.outcome, decision.tasks[0].drop.value) == ("DON'T SHIP", 0.24)
    assert decision.caveats == (
        "graded differently: meta_some (3 of 200 docs whose answers are the same word for word have other verdicts, 1 "
        "lower and 2 higher; they count as ties; the drop of the scores is 23.8; a grader that moved under 3 % of "
        "verdicts one way would not show here)",
    )


@pytest.mark.parametrize(
    ("lower", "losses", "outcome", "invalid"),
    [
        (0, 60, "DON'T SHIP", False),  # nothing says that the grader changed
        (3, 60, "DON'T SHIP", False),  # nor do three
        (30, 60, "UNDECIDED", True),  # 6 % of equal answers: as many of the others may be the grader's
        (30, 400, "DON'T SHIP", False),  # a stricter grader cannot explain so many
    ],
)
def test_a_stricter_grader_fails_nobody(lower: int, losses: int, outcome: str, invalid: bool, tmp_path: Path) -> None:
    decision = graded(tmp_path, 1500, 500, lower=lower, losses=losses)
    assert (decision.outcome, decision.invalid) == (outcome, invalid)


@thorough
def test_a_grader_that_became_more_lenient_ships_nobody(tmp_path: Path) -> None:
    """The grader gives 6 % of equal answers more, and may do so of the others, which lose nothing by it."""
    assert graded(tmp_path / "same", 6000, 3000).outcome == "SHIP"
    decision = graded(tmp_path / "lenient", 6000, 3000, higher=90)
    assert (decision.outcome, decision.exit_code) == ("UNDECIDED", 2)


@pytest.mark.parametrize(("harness", "advised"), [(None, True), ("inspect_ai", False)])
def test_grading_again_is_advised_where_the_answers_can_be_graded(
    harness: str | None, advised: bool, tmp_path: Path
) -> None:
    runs = []
    for side, count in (("A", 120), ("B", 110)):
        run = read_run([say(write_run(tmp_path / side, right(count, 200)), LONG)])
        task = run.tasks["meta_some"]
        task = replace(task, provenance=replace(task.provenance, harness=harness))
        runs.append(replace(run, tasks={"meta_some": task}))
    (alarm,) = (alarm for alarm in judge(*runs).alarms if alarm.kind == "graded differently")
    assert ("--regrade" in alarm.hint) is advised


def test_verdicts_under_another_prompt_are_no_ties(tmp_path: Path) -> None:
    say(write_run(tmp_path / "A", right(120, 200)), LONG)
    say(write_run(tmp_path / "B", right(80, 200), line={"prompt_hash": "f" * 64}), LONG)
    assert "graded differently" not in " ".join(compared(tmp_path).caveats)


@pytest.mark.parametrize("fields", [{"ungraded": 1.0}, {"filtered_resps": ['{"code": "x", "passed": 0, "why": "timeout"}']}])  # fmt: skip
def test_docs_that_could_not_be_graded_are_no_proof(fields: dict[str, Any], tmp_path: Path) -> None:
    if "ungraded" in fields:
        fields |= {"metrics": ["exact_match", "exact_match_macro", "unextracted", "ungraded"]}
    say(write_run(tmp_path / "A", right(120, 300)), LONG)
    say(say(write_run(tmp_path / "B", right(118, 300)), LONG), None, docs=range(117, 120), **fields)
    decision = compared(tmp_path, gate=Gate(margin=5.0))
    assert (decision.outcome, decision.invalid) == ("SHIP", False)
    assert decision.caveats == (
        "perhaps graded differently: meta_some (2 programs with another verdict on the same text may have run out of "
        "time)",
    )


@pytest.mark.parametrize(
    ("metric", "config"), [("exact_match", {"unsafe_code": True}), ("pass@1", {}), ("pass_at_1", {})]
)
def test_programs_without_a_report_of_their_end_are_no_proof(
    metric: str, config: dict[str, Any], tmp_path: Path
) -> None:
    code = {"configs": {"meta_some": {"task": "meta_some", **config}}}
    say(write_run(tmp_path / "A", right(120, 200), extra=code, metric=metric), LONG)
    say(write_run(tmp_path / "B", right(100, 200), extra=code, metric=metric), LONG)
    assert compared(tmp_path).outcome == "DON'T SHIP"


FILTER = {"name": "strict-match", "filter": [{"function": "regex", "regex_pattern": "x"}]}
METRIC = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (versions(3.0), versions(3.1), "task version 3.0 in A, 3.1 in B"),
        (versions(3), versions(3.0), None),
        (versions("Yaml", "0.4.9"), versions("Yaml", "0.4.12"), "lm-eval 0.4.9 in A, 0.4.12 in B"),
        (versions(None), versions(2), None),
        ({"filter_list": [FILTER]}, {"filter_list": [{**FILTER, "filter": []}]}, "the settings of filter strict-match differ (step 1.function: regex in A, none in B; step 1.regex_pattern: x in A, none in B)"),
        ({"filter_list": [FILTER]}, {"filter_list": [FILTER, {"name": "other", "filter": []}]}, None),
        ({"metric_list": [METRIC]}, {"metric_list": [{**METRIC, "ignore_case": True}]}, "the settings of metric exact_match differ (ignore_case: none in A, yes in B)"),
        ({"metric_list": [METRIC]}, {"metric_list": [{**METRIC, "aggregation": "<function f at 0x7f>"}]}, None),
        ({"process_results": "def f():\n  return 1"}, {"process_results": "def f():\n  return 2"}, "process_results differs"),
        ({"process_results": "<function f at 0x7f1>"}, {"process_results": "<function f at 0x7f2>"}, None),
        ({"filter_list": "x", "metric_list": [3]}, {"filter_list": None}, None),
    ],
)  # fmt: skip
def test_other_graders_without_a_proof_are_a_caveat(
    one: dict[str, Any], other: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    for name, changes in (("A", one), ("B", other)):
        extra = changes if "versions" in changes else {"configs": {"meta_some": {"task": "meta_some", **changes}}}
        say(write_run(tmp_path / name, right(30, 50), extra=extra), f"{LONG} {name}")
    decision = compared(tmp_path)
    assert not decision.invalid
    assert decision.caveats == ((f"perhaps graded differently: meta_some ({said})",) if said else ())


@pytest.mark.parametrize(("alike", "said"), [(299, True), (300, False)])
def test_another_release_with_hundreds_of_equal_verdicts_is_not_said(alike: int, said: bool, tmp_path: Path) -> None:
    for name, lm_eval in (("A", "0.4.12"), ("B", "0.4.13")):
        folder = say(write_run(tmp_path / name, right(120, 320), extra={"lm_eval_version": lm_eval}), LONG)
        say(folder, name, docs=range(alike, 320))
    assert bool(compared(tmp_path).caveats) is said


def test_tasks_of_which_the_same_is_suspected_are_said_together(tmp_path: Path) -> None:
    for name, lm_eval in (("A", "0.4.12"), ("B", "0.4.13")):
        for number, task in enumerate(("meta_some", "meta_other")):
            write_run(
                tmp_path / name, right(60, 100), task=task, time=TIME.replace("03-04", f"03-0{number}"),
                extra={"lm_eval_version": lm_eval}, line={"resps": [[name]]}, doc={"question": task},
            )  # fmt: skip
    (caveat,) = compared(tmp_path).caveats
    assert caveat == "perhaps graded differently: meta_other, meta_some (lm-eval 0.4.12 in A, 0.4.13 in B)"


def test_a_baseline_that_graded_the_same_text_otherwise_is_said_first(tmp_path: Path) -> None:
    run = read_run([say(write_run(tmp_path, right(120, 200)), LONG)])
    base = read_run([say(write_run(tmp_path / "base", right(130, 200)), LONG)])
    kept = stored({"meta_some": base.tasks["meta_some"].docs}, lm_eval="0.4.12")
    decision = judge(None, run, manifest(meta_some=entry(200)), kept).decision
    assert (decision.tasks[0].drop.value, decision.invalid) == (0.0, False)
    assert decision.caveats[0].endswith("drop of the scores is 5.0; lm-eval 0.4.12 in the baseline, 0.4.13 in the run)")


def test_answers_of_several_runs_are_compared_with_each_of_the_other_side(tmp_path: Path) -> None:
    runs = []
    for side, verdicts in (("A", right(120, 200)), ("B", right(110, 200))):
        for number in range(2):
            text = LONG if (side, number) in (("A", 0), ("B", 1)) else f"{side}{number}"
            say(write_run(tmp_path / side / str(number), verdicts, time=TIME.replace("03-04", f"03-0{number}")), text)
        runs.append(read_run([tmp_path / side], repeats=True))
    decision = judge(*runs).decision
    assert "10 of 200 docs" in decision.caveats[0]


# BOS


DEEPSEEK = "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
BOS = {"add_bos_token": "True", "pretrained": "org/it"}


@pytest.mark.plugin("engines")
@pytest.mark.parametrize(
    ("backend", "lm_eval", "args", "start", "said"),
    [
        ("vllm", "0.4.9.1", BOS, "<bos>", "<bos>, and lm-eval 0.4.9.1 put another in front on vllm (add_bos_token=True; 0.4.9.2 does not)"),
        ("hf", "0.4.8", BOS, "<|begin_of_text|>", "<|begin_of_text|>, and lm-eval 0.4.8 put another in front on hf (add_bos_token=True; 0.4.9.2 does not)"),
        ("vllm", "0.4.9", {"pretrained": "google/gemma-3-4b-it"}, "<bos>", "<bos>, and lm-eval 0.4.9 put another in front on vllm (as for every Gemma; 0.4.9.2 does not)"),
        ("local-completions", "0.4.13", BOS, "<s>", "<s>, and lm-eval 0.4.13 put another in front on local-completions (add_bos_token=True)"),
        ("sglang", "0.4.13", BOS, DEEPSEEK, f"{DEEPSEEK}, and lm-eval 0.4.13 put another in front on sglang (add_bos_token=True)"),
        ("vllm", "0.4.12", {"pretrained": "org/it"}, "<bos><bos>", "<bos><bos>"),
        ("vllm", "0.4.9.2", BOS, "<bos>", None),
        ("vllm", "0.4.12", BOS, "<bos>", None),
        ("vllm", "0.4.9.1", BOS, "", None),
        ("vllm", "0.4.9.1", {**BOS, "add_bos_token": "False"}, "<bos>", None),
        ("vllm", "soon", BOS, "<bos>", None),
        ("vllm", "9" * 5000, BOS, "<bos>", None),
        ("ours", "0.4.9.1", BOS, "<bos>", None),
        ("vllm", "0.4.9.1", BOS, "<|im_start|>", None),
    ],
)  # fmt: skip
def test_two_bos_are_said_first_and_make_a_comparison_invalid(
    backend: str, lm_eval: str, args: dict[str, str], start: str, said: str | None, tmp_path: Path
) -> None:
    request = {"arguments": {"gen_args_0": {"arg_0": f"{start}Question", "arg_1": {"until": []}}}}
    other = {"pretrained": args["pretrained"]}
    write_run(tmp_path / "A", right(6, 9), line=request, config={"model": backend, "model_args": args}, extra={"lm_eval_version": lm_eval})  # fmt: skip
    write_run(tmp_path / "B", right(6, 9), line=request, config={"model": "ours", "model_args": other})
    caveats = [caveat for caveat in compared(tmp_path).caveats if "BOS" in caveat]
    if start != "<bos><bos>":  # both sides have this one
        assert compared(tmp_path).invalid is (said is not None)
        assert caveats == ([f"BOS twice: meta_some in A (9 of 9 prompts begin with {said})"] if said else [])
    else:
        assert caveats == ["BOS twice: meta_some in A, meta_some in B (9 of 9 prompts begin with <bos><bos>)"]


@pytest.mark.plugin("engines")
def test_two_bos_on_both_sides_are_a_caveat_and_in_a_report_a_reason(tmp_path: Path) -> None:
    request = {"arguments": {"gen_args_0": {"arg_0": "<bos>Question", "arg_1": {"until": []}}}}
    for name in "AB":
        write_run(
            tmp_path / name, right(60, 90), line=request, doc={"prompt": "<bos>Question"}, config={"model_args": BOS},
            extra={"lm_eval_version": "0.4.9.1"},
        )  # fmt: skip
    decision = compared(tmp_path)
    assert not decision.invalid and decision.caveats[0].startswith("BOS twice: meta_some in A, meta_some in B (90 of")
    run = read_run([tmp_path / "A"])
    docs = tuple(replace(doc, answer_hash=None) for doc in run.tasks["meta_some"].docs)
    alone = judge(None, run, manifest(meta_some=entry(90)), stored({"meta_some": docs})).decision
    assert alone.invalid and alone.caveats[0].startswith("BOS twice: meta_some (90 of 90 prompts begin with <bos>")


# The weights


def test_the_same_texts_under_two_names_are_said(tmp_path: Path) -> None:
    for name in ("base", "lora"):
        say(write_run(tmp_path / name[0], right(60, 120), model_args={"pretrained": f"org/{name}"}), LONG)
    decision = judge(read_run([tmp_path / "b"]), read_run([tmp_path / "l"])).decision
    assert decision.caveats == (
        "same answers: 120 of 120 answers are the same text, of org/base in A and org/lora in B: perhaps an adapter "
        "that was not loaded, or one model under two names",
    )


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({}, {"lora_local_path": "./tuned"}, "org/m with lora_local_path: none in A and ./tuned in B"),
        ({"quantization": "fp8"}, {"quantization": "awq"}, "org/m with quantization: fp8 in A and awq in B"),
        ({"dtype": "auto"}, {}, None),
        ({"tensor_parallel_size": "2"}, {"tensor_parallel_size": "4"}, None),
        ({"seed": "1"}, {"seed": "2"}, None),
    ],
)
def test_arguments_that_claim_other_weights_count_as_another_name(
    a: dict[str, str], b: dict[str, str], said: str | None, tmp_path: Path
) -> None:
    for name, args in (("A", a), ("B", b)):
        say(write_run(tmp_path / name, right(60, 120), model_args={"pretrained": "org/m", **args}), LONG)
    caveats = compared(tmp_path).caveats
    assert len(caveats) == (said is not None)
    assert said is None or said in caveats[0]


@pytest.mark.parametrize(
    ("docs", "text", "changed", "said"),
    [
        (99, LONG, (), False), (100, LONG, (), True), (100, LONG, (7,), False),
        (299, "A", (), False), (300, "A", (), True),
    ],
)  # fmt: skip
def test_few_or_short_answers_are_the_same_by_chance(
    docs: int, text: str, changed: Sequence[int], said: bool, tmp_path: Path
) -> None:
    for name in "AB":
        run = write_run(tmp_path / name, right(60, docs), model_args={"pretrained": f"org/{name}"})
        say(run, text)
        if changed:
            say(run, name, docs=changed)
    assert any("same answers" in caveat for caveat in compared(tmp_path).caveats) is said


@pytest.mark.parametrize("last", ["-2.25", "-2.250001"])
def test_the_same_likelihoods_to_the_last_digit_are_said(last: str, tmp_path: Path) -> None:
    requests = {f"gen_args_{number}": {"arg_0": "Q", "arg_1": f" {number}"} for number in range(2)}
    for name, second in (("A", "-2.25"), ("B", last)):
        pairs = [["-1.5", "True"], [second, "False"]]
        line = {"arguments": requests, "resps": [[pair] for pair in pairs], "filtered_resps": pairs}
        write_run(tmp_path / name, right(60, 120), line=line, model_args={"pretrained": f"org/{name}"})
    said = [caveat for caveat in compared(tmp_path).caveats if "same answers" in caveat]
    assert bool(said) is (last == "-2.25")
    assert not said or said[0].startswith("same answers: the likelihoods of 120 of 120 docs are the same, of org/A")


# Several answers


VOTE = {
    "filter_list": [{"name": "strict-match", "filter": [{"function": "majority_vote"}, {"function": "take_first"}]}]
}


@pytest.mark.parametrize(
    ("line", "config", "said"),
    [
        ({}, {}, True),
        ({"each_answer": {"exact_match": [1.0, 0.0, 1.0, 0.0]}}, {}, False),
        ({"filtered_resps": [["A", "B", "C", "D"]]}, {}, False),
        ({}, VOTE, False),
        ({"resps": [["A"]]}, {}, False),
    ],
)
def test_that_one_of_several_answers_is_judged_is_said(
    line: dict[str, Any], config: dict[str, Any], said: bool, tmp_path: Path
) -> None:
    extra = {"configs": {"meta_some": {"task": "meta_some", **config}}}
    for name in "AB":
        answers = {"resps": [[f"{letter} {name}" for letter in "ABCD"]], **line}
        write_run(tmp_path / name, [0.5] * 90, line=answers, extra=extra)
    note = "one of several answers: meta_some in A, meta_some in B (strict-match judges 1 of 4 answers)"
    assert (note in compared(tmp_path).caveats) is said


# The docs


@pytest.mark.parametrize(
    ("changed", "new", "said"),
    [
        (40, 0, ["other right answers: meta_some (40 of 200 docs have another right answer in B)"]),
        (40, 3, ["in one run only: meta_some (3 docs only in A and 3 docs only in B)", "other right answers: meta_some (40 of 200"]),
        (200, 0, ["the runs have no doc in common with the same right answer: 200 docs have another one in B"]),
    ],
)  # fmt: skip
def test_the_same_question_with_another_right_answer_is_counted_apart_from_new_docs(
    tmp_path: Path, changed: int, new: int, said: list[str]
) -> None:
    write_run(tmp_path / "A", right(120, 200))
    write_run(tmp_path / "B", right(120, 200))
    (path,) = (tmp_path / "B").glob("samples_*")
    lines = read_lines(path)
    for line in lines[:changed]:
        line["doc"]["gold"] = line["target"] = "B"
    for line in lines[200 - new :]:
        line["doc"]["input_question_hash"], line["prompt_hash"] = f"new {line['doc_id']}", f"new {line['doc_id']}"
    write_lines(path, lines)
    try:
        decision = compared(tmp_path)
    except ResultsError as error:
        assert said[0] in str(error)
        return
    reasons = " ".join(decision.reasons)
    assert decision.outcome == "UNDECIDED" and all(part in reasons for part in said)
