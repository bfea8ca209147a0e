"""What each version of lm-eval 0.4 wrote, and what other people's tasks look like."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import REPOSITORY
from runs import TIME, digest, embed_samples, entry, manifest, published, sample, write_run

from meta_eval.harness.doc_results import DocResult, PerplexityParts, ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.run_alarms import count_changed_prompts
from meta_eval.judge.runs import judge
from meta_eval.pack.records.format import Place
from meta_eval.pack.records.format_registry import find_format
from meta_eval.pack.records.task_groups import ALL
from meta_eval.reports import eval_results
from meta_eval.reports.report import Report, build_report
from meta_eval.reports.samples import read_shown_samples
from meta_eval.reports.text import describe_averages
from meta_eval.stats import Interval

OUTPUTS = REPOSITORY / "tests" / "data" / "lm_eval_outputs"
VERSIONS = sorted(path.name for path in OUTPUTS.iterdir() if path.is_dir())
# The model answers "lol" to everything, and likes the shortest choice best, the first of several.
RIGHT = {
    "tiny_sums": ("acc,none", [1, 1, 0, 0]),
    "tiny_colours": ("acc,none", [0, 0]),
    "tiny_free": ("exact_match,flexible-extract", [1, 0, 0]),
}


@pytest.fixture(params=VERSIONS)
def output(request: pytest.FixtureRequest) -> Path:
    return OUTPUTS / str(request.param)


@functools.cache
def read_whole(output: Path) -> Run:
    """The run in a folder that no test changes."""
    return read_run([output])


def read(*paths: Path) -> Run:
    return read_run(list(paths))


def report(run: Run) -> Report:
    return build_report(judge(None, run, None), {"": run})


def results_of(folder: Path) -> Path:
    return next(folder.rglob("*results*.json"))


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(tree) or tree), encoding="utf-8")


# Every version


def test_every_task_is_read_doc_by_doc(output: Path) -> None:
    run = read_whole(output)
    assert run.notes == ()
    assert list(run.tasks) == ["tiny_colours", "tiny_free", "tiny_sums", "tiny_text"]
    for task, (spec, right) in RIGHT.items():
        result = run.tasks[task]
        score = compute_scores(result.docs, spec)
        assert score is not None
        assert list(score.doc_scores) == right
        assert score.value == pytest.approx(result.aggregates[spec].value)
        assert result.aggregates[spec].stderr is not None
        assert result.custom_aggregation == ()


def test_filters_are_told_apart_where_samples_do_not_name_them(output: Path) -> None:
    docs = read_whole(output).tasks["tiny_free"].docs
    assert [list(doc.filter_results) for doc in docs] == [["strict-match", "flexible-extract"]] * 3
    assert [doc.filter_results["strict-match"].metrics["exact_match"] for doc in docs] == [0, 1, 0]
    assert [doc.filter_results["strict-match"].extracted for doc in docs] == ["lo"] * 3


def test_a_perplexity_is_read_and_is_no_share(output: Path) -> None:
    run = read_whole(output)
    text = run.tasks["tiny_text"]
    assert [doc.filter_results["none"].metrics["word_perplexity"] for doc in text.docs] == [
        PerplexityParts(-35, 7),
        PerplexityParts(-17, 3),
    ]
    assert text.aggregates["word_perplexity,none"].value == pytest.approx(181.27, abs=0.01)
    assert not text.aggregates["bits_per_byte,none"].is_fraction
    built = report(run)
    assert [task.outcome for task in built.tasks if task.name == "tiny_text"] == ["undecided"]
    assert dict(describe_averages(built.tasks, built.group_averages))["tiny_text"].startswith(
        "word_perplexity,none 181.3, lower is better; byte_perplexity,none 2.718, lower"
    )


def test_the_total_of_a_group_is_shown(output: Path) -> None:
    run = read_whole(output)
    group = run.groups["tiny_choices"]
    assert sorted(group.tasks) == ["tiny_colours", "tiny_sums"]
    assert group.aggregates["acc,none"].value == pytest.approx(1 / 3)
    built = report(run)
    assert "acc,none 33.3 (0.0 to " in dict(describe_averages(built.tasks, built.group_averages))["tiny_choices"]


def test_a_column_named_prompt_is_no_prompt_of_a_pack(output: Path) -> None:
    result = read_whole(output).tasks["tiny_free"]
    assert [doc.prompt_matches for doc in result.docs] == [None] * 3
    assert [alarm for alarm in report(read_whole(output)).alarms if "prompts" in alarm.kind] == []


def test_a_doc_is_the_same_doc_in_every_version(output: Path) -> None:
    comparison = judge(read_whole(OUTPUTS / "0.4.13"), read_whole(output))
    assert [(task.name, task.docs) for task in comparison.tasks] == [
        ("tiny_choices", 6), ("tiny_colours", 2), ("tiny_free", 3), ("tiny_sums", 4), ("tiny_text", 2),
    ]  # fmt: skip
    assert "runs not alike" not in [alarm.kind for alarm in comparison.alarms]
    assert comparison.notes == ()
    assert {task.name: task.not_compared_reason for task in comparison.tasks}[
        "tiny_text"
    ] == "none of its metrics is a share"


def test_a_results_file_alone_finds_its_samples(output: Path) -> None:
    assert read(results_of(output)).tasks == read_whole(output).tasks


@pytest.mark.parametrize(
    ("output", "name"),
    [
        *((version, "results.json") for version in VERSIONS),
        (VERSIONS[-1], f"results_{TIME}.json"), (VERSIONS[-1], "mine.json"),
    ],
    indirect=["output"],
)  # fmt: skip
def test_samples_inside_the_results_file_are_read(output: Path, tmp_path: Path, name: str) -> None:
    file, apart = embed_samples(output, tmp_path / name), read_whole(output)
    run = read(file)
    assert run.notes == ()
    for task, result in run.tasks.items():
        assert [plain(doc) for doc in result.docs] == [plain(doc) for doc in apart.tasks[task].docs]
    assert len(list(read_shown_samples(judge(None, run, None).tasks))) == len(
        list(read_shown_samples(judge(None, apart, None).tasks))
    )
    place = Place(str(tmp_path), tmp_path)
    record_format = find_format(place)
    assert record_format is not None and record_format.open_run(place, None, (ALL,)).tasks == tuple(apart.tasks)


def plain(doc: DocResult) -> DocResult:
    """A doc without the places of its samples."""
    return replace(
        doc, filter_results={name: replace(result, offset=0, length=0) for name, result in doc.filter_results.items()}
    )


def test_a_samples_file_alone_finds_its_results_and_is_of_its_task(output: Path) -> None:
    path = next(path for path in output.rglob("*tiny_sums*.json*"))
    run = read(path)
    assert list(run.tasks) == ["tiny_sums"]
    assert run.tasks["tiny_sums"].provenance.model == "org/Some-Model"


def test_results_without_samples_still_show_scores(output: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(results_of(output), tmp_path))
    built = report(read(path))
    scored = {score.metric: score for task in built.tasks if task.name == "tiny_sums" for score in task.scores}
    score = scored["acc,none"]
    assert (score.value, score.interval) == (0.5, Interval(0.0, 1.0))
    assert scored["acc_norm,none"].value == 1.0
    assert score.not_comparable_reason == "there are no samples: run lm_eval with --log_samples"
    assert len([note for note in built.notes if "has no samples beside it" in note]) == 1


# Names before 0.4.3


def test_a_results_file_may_have_any_name(tmp_path: Path) -> None:
    shutil.copytree(OUTPUTS / "0.4.2", tmp_path, dirs_exist_ok=True)
    (tmp_path / "results.json").rename(tmp_path / "mine.json")
    (tmp_path / "notes.json").write_text('{"not": "ours"}', encoding="utf-8")
    assert {len(result.docs) for result in read(tmp_path).tasks.values()} == {2, 3, 4}


def test_samples_alone_do_not_say_what_they_are_of(tmp_path: Path) -> None:
    path = Path(shutil.copy(OUTPUTS / "0.4.2" / "pretrained__org__Some-Model_tiny_sums.jsonl", tmp_path))
    with pytest.raises(ResultsError, match="and no results of lm_eval before 0.4.3 are next to it"):
        read(path)


def test_of_two_runs_without_a_time_nobody_knows_the_newest(tmp_path: Path) -> None:
    for name in "ab":
        shutil.copytree(OUTPUTS / "0.4.0", tmp_path / name)
    with pytest.raises(ResultsError, match="tiny_colours: there are 2 runs, and lm-eval before 0.4.2 does not record"):
        read(tmp_path)
    assert len(read(tmp_path / "a").tasks) == 4


def test_lm_eval_before_0_4_is_refused(tmp_path: Path) -> None:
    tree = {"results": {"arc": {"acc": 0.5}}, "versions": {"arc": 0}, "config": {"model": "hf-causal"}}
    (tmp_path / "arc.json").write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"was written by lm-eval before 0\.4"):
        read(tmp_path)


def test_an_array_that_is_cut_off_or_damaged(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OUTPUTS / "2024-05-03", tmp_path / "out"))
    path = next(folder.rglob("samples_tiny_sums*.json"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(ResultsError, match="sample 3: is not JSON, and ends the file: it is cut off"):
        read(path)
    task = read_run([path], skip_damaged=True).tasks["tiny_sums"]
    assert ([doc.doc_id for doc in task.docs], task.skipped) == ([0, 1], 1)
    path.write_bytes(whole.replace(b'"doc_id": 1,', b'"doc_id": x,'))
    with pytest.raises(ResultsError, match="sample 2: is not JSON"):
        read(path)
    task = read_run([path], skip_damaged=True).tasks["tiny_sums"]
    assert [doc.doc_id for doc in task.docs] == [0, 2, 3]


def test_damage_that_hides_which_filter_a_sample_is_of_cannot_be_skipped(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OUTPUTS / "0.4.3", tmp_path / "out"))
    path = next(folder.rglob("samples_tiny_free*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0][:50] + b"\n", *lines[1:]]))
    with pytest.raises(ResultsError, match="every file is damaged"):
        read_run([path], skip_damaged=True)


# Other people's tasks


def plain_run(folder: Path, values: list[Any], average: float, *, aggregation: str | None = "mean") -> Path:
    """A task of no pack, whose docs are texts."""
    config = {
        "task": "plain",
        "metric_list": [{"metric": "f", **({"aggregation": aggregation} if aggregation else {})}],
    }
    folder.mkdir(exist_ok=True)
    lines = [
        {"doc_id": number, "doc": f"text {number}", "target": "x", "arguments": [["question", {}]], "resps": [["x"]],
         "filtered_resps": ["x"], "filter": "none", "metrics": ["f"], "f": value}
        for number, value in enumerate(values)
    ]  # fmt: skip
    tree = {"results": {"plain": {"f,none": average, "f_stderr,none": 0.1}}, "configs": {"plain": config}, "config": {}}
    (folder / f"samples_plain_{TIME}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / f"results_{TIME}.json").write_text(json.dumps(tree))
    return folder


def test_docs_of_any_shape_are_docs(tmp_path: Path) -> None:
    run = read(plain_run(tmp_path, [1.0, 0.0], 0.5))
    assert [doc.question_hash for doc in run.tasks["plain"].docs] == [digest("text 0"), digest("text 1")]
    assert report(run).tasks[0].scores[0].value == 0.5


@pytest.mark.parametrize("aggregation", ["f1", "median", None])
def test_an_average_of_its_own_is_taken_from_lm_eval(tmp_path: Path, aggregation: str | None) -> None:
    run = read(plain_run(tmp_path, [1.0, 0.0], 0.8, aggregation=aggregation))
    assert run.tasks["plain"].custom_aggregation == ("f,none",)
    assert "the task has its own aggregation" in run.notes[0]
    score = report(run).tasks[0].scores[0]
    assert (score.value, score.docs) == (0.8, 2)
    assert score.not_comparable_reason == "this is lm-eval's own average, which the docs' scores do not give"


def test_a_mean_that_is_none_is_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"f,none is 0\.500000 over these samples, and 0\.800000"):
        read(plain_run(tmp_path, [1.0, 0.0], 0.8))


def test_a_mean_over_what_is_a_number_leaves_out_the_rest(tmp_path: Path) -> None:
    docs = read(plain_run(tmp_path, [1.0, float("nan"), 0.0], 0.5, aggregation="nanmean")).tasks["plain"].docs
    assert [doc.filter_results["none"].metrics.get("f") for doc in docs] == [1.0, None, 0.0]
    with pytest.raises(ResultsError, match="f is nan, which is not a score"):
        read(plain_run(tmp_path, [1.0, float("nan"), 0.0], 0.5))


def test_a_task_without_any_score_is_read(tmp_path: Path) -> None:
    folder = plain_run(tmp_path, [None, None], 999.0)
    built = report(read(folder))
    assert built.tasks[0].scores[0].value is None
    assert dict(describe_averages(built.tasks, built.group_averages)) == {"plain": "f,none 999 (998.8 to 999.2)"}


def test_docs_that_were_chosen_by_number_are_whole_by_their_hash(tmp_path: Path) -> None:
    """With --samples, lm-eval before 0.4.12 says that it ran all docs."""
    folder = write_run(tmp_path, [1, 0, 1])
    lines = [json.loads(line) for line in (folder / f"samples_meta_some_{TIME}.jsonl").read_text().splitlines()]
    whole = digest("".join(line["doc_hash"] + line["prompt_hash"] + line["target_hash"] for line in lines))

    def chosen(tree: Any) -> None:
        tree["n-samples"]["meta_some"] = {"original": 100, "effective": 100}
        tree["task_hashes"] = {"meta_some": whole}

    edit_json(folder / f"results_{TIME}.json", chosen)
    assert len(read(folder).tasks["meta_some"].docs) == 3
    edit_json(folder / f"results_{TIME}.json", lambda tree: tree["task_hashes"].update(meta_some="0"))
    with pytest.raises(ResultsError, match="holds 3 docs, and .* says 100"):
        read(folder)


def test_the_total_of_another_run_is_not_shown(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OUTPUTS / "0.4.13", tmp_path / "out"))
    assert list(read(folder).groups) == ["tiny_choices"]
    write_run(folder / "later", [1, 0], task="tiny_sums", time="2099-01-01T00-00-00")
    run = read(folder)
    assert run.tasks["tiny_sums"].time == "2099-01-01T00-00-00"
    assert run.groups == {}


# Meta's recipe, whose docs have other columns than a pack's


def recipe_run(folder: Path, verdicts: list[float], prompt: str) -> Path:
    folder = write_run(folder, verdicts)
    path = folder / f"samples_meta_some_{TIME}.jsonl"
    lines = []
    for number, verdict in enumerate(verdicts):
        line = sample(number, verdict, None, None, "exact_match", "strict-match", {})
        question = f"{number}?"
        line["doc"] = {
            "input_question": question, "input_question_hash": digest(question), "gold": "A",
            "input_final_prompts": ["…"], "previously_is_correct": number % 2 == 0,
        }  # fmt: skip
        line["arguments"]["gen_args_0"]["arg_0"] = prompt
        line["prompt_hash"], line["doc_hash"] = digest(prompt + question), digest(prompt + question)
        lines.append(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def test_the_verdicts_that_the_recipe_carries_are_metas(tmp_path: Path) -> None:
    run = read(recipe_run(tmp_path, [1, 0, 0, 0], "p"))
    assert [doc.recorded_is_correct for doc in run.tasks["meta_some"].docs] == [True, False, True, False]
    flips = judge(None, run, None).tasks[0].flips
    assert flips is not None
    assert (flips.compared, flips.candidate_only, flips.baseline_only) == (4, 0, 1)


def test_runs_that_differ_in_prompts_alone_have_their_docs_in_common(tmp_path: Path) -> None:
    runs = [read(recipe_run(tmp_path / name, [1, 0, 1, 1], name)) for name in ("five shots", "none")]
    comparison = judge(*runs)
    assert comparison.tasks[0].docs == 4
    built = build_report(comparison, dict(zip("AB", runs, strict=True)))
    assert "runs not alike: meta_some (4 of 4 docs had another prompt in B)" in built.decision.reasons


def test_docs_with_the_same_prompt_are_paired_before_others(tmp_path: Path) -> None:
    def twins(prompts: list[str]) -> list[dict[str, Any]]:
        docs = []
        for number, prompt in enumerate(prompts):
            line = sample(number, 1, None, None, "exact_match", "strict-match", {})
            line["doc"] |= {"input_question_hash": digest("same"), "input_final_prompts_hash": [digest(prompt)]}
            docs.append(line)
        return docs

    runs = []
    for name, prompts in (("a", ["x", "y", "z"]), ("b", ["w", "z", "x"])):
        folder = write_run(tmp_path / name, [1, 1, 1])
        path = folder / f"samples_meta_some_{TIME}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in twins(prompts)), encoding="utf-8")
        runs.append(read(folder))
    source = judge(*runs).tasks[0].source
    assert source is not None
    assert [(a.doc_id, b.doc_id) for a, b in source.docs] == [(0, 2), (1, 0), (2, 1)]


def test_changed_prompts_are_not_called_metas_own(tmp_path: Path) -> None:
    arguments = {"gen_args_0": {"arg_0": "<chat>…</chat>", "arg_1": {"max_gen_toks": 10}}}
    run = read(write_run(tmp_path, [1] * 1319, line={"arguments": arguments}))
    assert count_changed_prompts(run.tasks["meta_some"].docs) == 1319
    pack = manifest(meta_some=entry(1319, published(84.5), subset="gsm8k"))
    built = build_report(judge(None, run, pack), {"": run})
    notes = yaml.safe_load(eval_results.render(built.document()))[0]["notes"]
    assert "1319 of 1319 prompts are not the recorded ones" in notes
    assert "the recorded prompts" not in notes
