"""Reading what lm_eval wrote: real output, and every kind of damage."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import THOROUGH
from runs import TIME, entry, manifest, run_lm_eval, sample, write_run
from shared import REPLAYED, replayed_pack

from meta_eval.api import compare
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.harness.sample_files import open_samples
from meta_eval.harness.sample_parser import read_metrics
from meta_eval.harness.scores import compute_scores, list_metric_keys
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.pack_match import match_pack

SAMPLES = f"samples_meta_some_{TIME}.jsonl"
RESULTS = f"results_{TIME}.json"


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed_pack(tmp_path_factory)[0]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lm-eval itself writes of a replay."""
    return replayed_pack(tmp_path_factory)[1]


@functools.cache
def read_whole(output: Path) -> Run:
    """The run in a folder that no test changes."""
    return read_run([output])


def read(*paths: Path, **options: Any) -> Run:
    return read_run(list(paths), **options)


def edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


# Real output


def test_a_time_to_the_nanosecond_in_the_names_of_files_is_read(tmp_path: Path) -> None:
    run = read_run([write_run(tmp_path / "out", [1.0, 0.0], time="2026-01-02T03-04-05.123456789")])
    assert [doc.doc_id for doc in run.tasks["meta_some"].docs] == [0, 1]
    assert run.notes == ()


def test_every_task_of_a_real_run_is_read(output: Path) -> None:
    run = read_whole(output)
    assert list(run.tasks) == list(REPLAYED)
    assert run.notes == ()
    assert {task: len(result.docs) for task, result in run.tasks.items()} == {
        "meta_bbh": 21, "meta_gpqa_cot": 15, "meta_ifeval": 18, "meta_mmlu_pretrain": 16, "meta_mmlu_pro_instruct": 15,
    }  # fmt: skip


def test_every_average_is_lm_evals_own(output: Path) -> None:
    written = json.loads(next(output.rglob("results_*.json")).read_text(encoding="utf-8"))["results"]
    for task, result in read_whole(output).tasks.items():
        scores = {spec: compute_scores(result.docs, spec).value for spec in list_metric_keys(result.docs)}  # type: ignore[union-attr]
        expected = {key: value for key, value in written[task].items() if "," in key and "_stderr" not in key}
        assert scores == pytest.approx(expected, abs=1e-12)


def test_the_docs_of_a_real_run(output: Path) -> None:
    run = read_whole(output)
    generated = run.tasks["meta_bbh"].docs[0]
    assert generated.prompt_matches
    assert generated.subtask is not None
    assert generated.recorded_is_correct is not None
    assert list(generated.filter_results) == ["strict-match", "flexible-extract", "official"]
    assert generated.limit_hit is False
    chosen = run.tasks["meta_mmlu_pretrain"].docs[0]
    assert chosen.n_choices == 4
    assert chosen.filter_results["none"].extracted == chosen.gold == "C"
    assert len(chosen.prompt_hashes) == 4
    assert chosen.answer_tail == ""


def test_the_whole_sample_is_found_again_by_its_offset(output: Path) -> None:
    result = read_whole(output).tasks["meta_gpqa_cot"]
    assert result.samples_file is not None
    with open_samples(result.samples_file) as at:
        for doc in result.docs:
            for name, answer in doc.filter_results.items():
                whole = at(answer)
                assert (whole["doc_id"], whole["filter"]) == (doc.doc_id, name)
                assert whole["resps"][0][0].endswith(doc.answer_tail)


def test_provenance_of_a_real_run(output: Path) -> None:
    import lm_eval

    provenance = read_whole(output).tasks["meta_bbh"].provenance
    assert provenance.model == "org/Some-Model"
    assert provenance.lm_eval == lm_eval.__version__
    assert provenance.limit is None
    assert provenance.docs_of_task == 21
    assert provenance.date is not None
    assert provenance.duration_s is not None
    assert provenance.duration_s > 0


def test_a_limited_run_says_so(pack: Path, tmp_path: Path) -> None:
    result = read(run_lm_eval(pack, ["meta_gpqa_cot"], tmp_path / "out", limit=4)).tasks["meta_gpqa_cot"]
    assert (result.provenance.limit, result.provenance.docs_of_task, len(result.docs)) == (4, 15, 4)


def test_a_real_run_is_of_its_pack_and_of_no_other(pack: Path, output: Path, tmp_path: Path) -> None:
    run = read_whole(output)
    match_pack(run, read_manifest(pack), pack="work_dir")
    other = tmp_path / "other"
    shutil.copytree(pack, other)
    tree = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    digest = tree["files"]["meta_bbh.parquet"]["sha256"]
    tree["files"]["meta_bbh.parquet"]["sha256"] = "0" * 64
    (other / "manifest.json").write_text(json.dumps(tree), encoding="utf-8")
    checked = match_pack(run, read_manifest(other), pack="other")
    assert set(checked.tasks) == set(run.tasks) - {"meta_bbh"} and list(checked.faults) == ["meta_bbh"]
    assert "meta_bbh was run on docs with SHA-256 " + digest in checked.faults["meta_bbh"]
    assert "beside the pack other" in checked.faults["meta_bbh"]
    assert "in the pack they have " + "0" * 64 in checked.faults["meta_bbh"]


def test_a_run_that_names_no_docs_is_of_no_pack(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0], extra={"configs": {"meta_some": {"task": "meta_some"}}})
    with pytest.raises(ResultsError, match="SHA-256 unknown"):
        match_pack(read(folder), manifest(meta_some=entry(2)), pack="work_dir")


def test_rows_on_the_hub_are_known_by_their_commit(tmp_path: Path) -> None:
    config = {"meta_some": {"task": "meta_some", "dataset_kwargs": {"revision": "a" * 40}}}
    run = read(write_run(tmp_path, [1, 0], extra={"configs": config}))
    match_pack(run, manifest(meta_some=entry(2, docs_file=None, dataset_revision="a" * 40)), pack="work_dir")
    with pytest.raises(ResultsError, match="commit"):
        match_pack(run, manifest(meta_some=entry(2, docs_file=None)), pack="work_dir")


# Several files


def test_one_file_is_enough_and_finds_its_results(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    result = read(folder / SAMPLES).tasks["meta_some"]
    assert len(result.docs) == 3
    assert result.provenance.results_file is not None


def test_results_written_under_a_name_of_ones_own(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    (folder / RESULTS).rename(folder / f"mine_{TIME}.json")
    assert read(folder).tasks["meta_some"].provenance.results_file == (folder / f"mine_{TIME}.json").resolve()


def test_the_newest_run_of_each_task_is_taken_and_said(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [1, 1], time="2026-01-02T00-00-00.5")
    write_run(tmp_path / "b", [0, 0], time="2026-01-03T00-00-00")
    write_run(tmp_path / "a", [1, 0], time="2026-01-01T00-00-00", task="meta_other")
    run = read(tmp_path / "a", tmp_path / "b")
    assert run.tasks["meta_some"].time == "2026-01-03T00-00-00"
    assert run.tasks["meta_other"].time == "2026-01-01T00-00-00"
    assert run.notes == ("2 runs of meta_some: the newest counts; with --repeats, runs of a task are averaged",)


def test_runs_of_many_tasks_are_one_notice(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        for task in ("meta_some", "meta_other"):
            write_run(tmp_path / task, [1, 0], time=f"2026-01-0{day}T00-00-00", task=task)
    (note,) = read(tmp_path).notes
    assert note.startswith("3 runs of each of 2 tasks: the newest counts")
    assert read(tmp_path, repeats=True).notes == ("3 runs of each of 2 tasks are averaged, doc by doc",)


def test_a_folder_named_twice_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [1, 1])
    assert read(tmp_path, tmp_path / "a").notes == ()


@pytest.mark.parametrize("named", ["../away", "link"])
def test_a_run_that_lies_elsewhere_is_named_as_the_user_names_it(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        write_run(
            tmp_path / "away" / "org__Some-Model", [1, 0], time=f"2026-0{number}-02T03-04-05", results=number == 2
        )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("link").symlink_to(tmp_path / "away")
    other = write_run(tmp_path / "here" / "other", [1, 0])
    (file,) = Path(named).rglob("results_*")
    texts = [*read(Path(named), file, tmp_path / "away").notes, json.dumps(compare(other, named).to_json())]
    assert named in texts[1] and not [text for text in texts if str(tmp_path) in text]
    with pytest.raises(ResultsError, match=rf"^{named}/org__Some-Model/samples_.*line 1: "):
        next(file.parent.glob("samples_meta_some_2026-02*")).write_text("{}\n")
        read(Path(named))


def test_the_folder_of_a_run_is_known_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "org__Some-Model", [1, 0], results=False)
    (folder / "below").mkdir()
    for here, named in ((folder / "below", ".."), (folder, "."), (tmp_path, "org__Some-Model")):
        monkeypatch.chdir(here)
        assert read(Path(named)).tasks["meta_some"].provenance.model == "org__Some-Model"


def test_the_folder_of_a_sweep_is_not_read_as_its_newest_model(tmp_path: Path) -> None:
    write_run(tmp_path / "bf16", [1, 1], model_args={"pretrained": "org/bf16"})
    write_run(tmp_path / "fp8", [1, 0], model_args={"pretrained": "org/fp8"}, time="2026-02-02T03-04-05.000006")
    with pytest.raises(ResultsError, match=r"was run with 2 models: org/fp8 \(.*fp8\), org/bf16 \(.*bf16\)"):
        read(tmp_path)
    assert read(tmp_path / "bf16").tasks["meta_some"].provenance.model == "org/bf16"


@pytest.mark.parametrize("folder", ["org__Some-Model", "run"])
def test_results_under_another_time_than_their_samples_are_no_second_model(folder: str, tmp_path: Path) -> None:
    write_run(tmp_path / folder, [1, 0])
    (tmp_path / folder / RESULTS).rename(tmp_path / folder / "results_2026-03-02T03-04-05.json")
    notes = " ".join(read(tmp_path).notes)
    assert f"has no samples of its time beside it, and {SAMPLES} has no results of its time" in notes


def test_samples_without_results_in_the_folder_of_another_model_are_of_another_run(tmp_path: Path) -> None:
    write_run(tmp_path / "org__Some-Model", [1, 0])
    write_run(tmp_path / "org__Another", [1, 0], results=False)
    with pytest.raises(ResultsError, match="was run with 2 models: org/Some-Model .*, org__Another"):
        read(tmp_path)


def test_results_of_two_models_are_not_one_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [1, 1])
    write_run(tmp_path / "b", [1, 1], task="meta_other", model_args={"pretrained": "org/Another"})
    with pytest.raises(ResultsError, match=r"from 2 models: .*org/Another"):
        read(tmp_path)
    write_run(
        tmp_path / "b", [1, 1], task="meta_other", model_args={"pretrained": "org/Some-Model", "quantization": "fp8"}
    )
    with pytest.raises(ResultsError, match="quantization=fp8"):
        read(tmp_path)


def test_ranks_write_docs_in_any_order(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 0, 1], order=[2, 0, 3, 1], filters=("strict-match", "flexible-extract"))
    result = read(folder).tasks["meta_some"]
    assert [doc.doc_id for doc in result.docs] == [0, 1, 2, 3]
    assert [doc.filter_results["strict-match"].metrics["exact_match"] for doc in result.docs] == [1, 0, 0, 1]


def test_a_doc_that_two_ranks_ran_counts_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 0])
    edit(folder / SAMPLES, lambda lines: [*lines, lines[0]])
    run = read(folder)
    assert len(run.tasks["meta_some"].docs) == 3
    assert "1 lines stand there twice" in run.notes[0]


def test_samples_without_results(tmp_path: Path) -> None:
    run = read(write_run(tmp_path / "org__Some-Model", [1, 0], results=False))
    result = run.tasks["meta_some"]
    assert (result.provenance.results_file, result.provenance.model) == (None, "org__Some-Model")
    assert "its model and limit are unknown" in run.notes[0]


def test_results_without_samples(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, [1, 0], samples=False))
    assert run.tasks["meta_some"].docs == ()
    assert run.tasks["meta_some"].aggregates["exact_match,strict-match"].value == 0.5
    assert "without --log_samples" in run.notes[0]


def test_an_older_lm_eval_that_names_neither_filter_nor_metrics(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])

    def older(lines: list[bytes]) -> list[bytes]:
        trees = [json.loads(line) for line in lines]
        return [
            json.dumps({key: value for key, value in tree.items() if key not in ("filter", "metrics")}).encode() + b"\n"
            for tree in trees
        ]

    edit(folder / SAMPLES, older)
    result = read(folder).tasks["meta_some"]
    assert list_metric_keys(result.docs) == (
        "exact_match,strict-match",
        "exact_match_macro,strict-match",
        "unextracted,strict-match",
    )
    (folder / RESULTS).unlink()
    with pytest.raises(ResultsError, match="names no filter"):
        read(folder)


def test_model_arguments_as_text_and_without_secrets(tmp_path: Path) -> None:
    text = "model=org/Some-Model,base_url=http://me:pw@host/v1,api_key=sk-1,tokenizer_backend=huggingface"
    provenance = read(write_run(tmp_path, [1], config={"model_args": text})).tasks["meta_some"].provenance
    assert provenance.model == "org/Some-Model"
    assert provenance.model_args["tokenizer_backend"] == "huggingface"
    assert "sk-1" not in str(provenance)
    assert "pw@" not in str(provenance)


# Answers


def test_answers_that_hit_the_limit_are_known_or_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 1], line={"resps": [["word " * 300]]})
    assert [doc.limit_hit for doc in read(folder).tasks["meta_some"].docs] == [None, None]
    counted = read(folder, count_tokens=lambda text: len(text.split()) * 4).tasks["meta_some"].docs
    assert [doc.limit_hit for doc in counted] == [True, True]
    counted = read(folder, count_tokens=lambda text: len(text.split())).tasks["meta_some"].docs
    assert [doc.limit_hit for doc in counted] == [False, False]


@pytest.mark.parametrize(
    ("settings", "hit"),
    [({"until": ["Q:"]}, True), ({"until": ["Q:"], "max_new_tokens": 400}, False), ({"max_tokens": 299}, True)],
)
def test_an_answer_may_have_as_many_tokens_as_lm_eval_lets_it_where_nobody_says(
    settings: dict[str, Any], hit: bool, tmp_path: Path
) -> None:
    line = {
        "resps": [["word " * 300]],
        "arguments": {"gen_args_0": {"arg_0": "Question 0?", "arg_1": settings}},
    }
    run = read(write_run(tmp_path, [1], line=line), count_tokens=lambda text: len(text.split()))
    assert run.tasks["meta_some"].docs[0].limit_hit is hit


def test_a_chat_template_is_seen_in_the_prompt(tmp_path: Path) -> None:
    arguments = {"gen_args_0": {"arg_0": "<chat>Question 0?</chat>", "arg_1": {"max_gen_toks": 10}}}
    docs = read(write_run(tmp_path, [1], line={"arguments": arguments})).tasks["meta_some"].docs
    assert docs[0].prompt_matches is False


def test_half_a_surrogate_pair_and_infinite_likelihoods_are_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1])
    edit(
        folder / SAMPLES,
        lambda lines: [lines[0].replace(b'[["The', b'[["\\ud83d The').replace(b'["A"]', b'["A", -Infinity]')],
    )
    assert read(folder).tasks["meta_some"].docs[0].answer_tail == "\ud83d The answer is A."


FOUR = {"resps": [["A", "B", "C", "C"]], "filtered_resps": ["A"], "each_answer": {"exact_match": [1.0, 0.0, 1.0, 1.0]}}
ENDS = ["stop", "length", None, "content_filter"]


@pytest.mark.parametrize(
    ("flat", "ends"),
    [
        ({"finish_reason": "length", "prompt_tokens": 5, "completion_tokens": 77, "random_place": 3}, "length"),
        ({"finish_reason": "content_filter", "tools_lost": True}, "content_filter"),
        (
            {**FOUR, "finish_reason": "length", "finish_reasons": ENDS, "completion_tokens": 8, "majority_answer": 2},
            ENDS,
        ),
    ],
)
def test_samples_of_a_checkout_before_1_0_0_say_the_same_of_their_answers(
    tmp_path: Path, flat: dict[str, Any], ends: Any
) -> None:
    tools = {"prompt": json.dumps({"messages": [], "tools": [{"type": "function"}]}), "input_final_prompts_hash": ["p"]}
    kept = {name: flat[name] for name in flat.keys() & {"resps", "filtered_resps"}}
    answer = {name: flat[name] for name in flat if name not in {*kept, "finish_reasons"}}
    lines = {"before": flat, "now": {**kept, "answer": {**answer, "finish_reason": ends}}}
    before, now = (
        read(write_run(tmp_path / name, [1], line=line, doc=tools)).tasks["meta_some"].docs[0]
        for name, line in lines.items()
    )
    (old,), (new,) = before.filter_results.values(), now.filter_results.values()
    assert replace(before, filter_results={}) == replace(now, filter_results={})
    assert replace(old, length=0) == replace(new, length=0)
    cut = tuple(end in ("length", "content_filter") for end in (ends if isinstance(ends, list) else [ends]))
    assert (now.cuts, now.place, now.tools_lost) == (cut, flat.get("random_place"), flat.get("tools_lost", False))
    assert (now.figures, new.majority) != ({}, None) or now.tools_lost


@pytest.mark.parametrize("tokens", [10**400, 2**53, -1])
def test_a_number_of_tokens_that_cannot_be_is_unknown(tmp_path: Path, tokens: int) -> None:
    folder = write_run(tmp_path, [1], line={"completion_tokens": 77})
    edit(folder / SAMPLES, lambda lines: [lines[0].replace(b"77", b"%d" % tokens)])
    assert read(folder).tasks["meta_some"].docs[0].figures == {}


# Damage


def test_a_file_cut_off_inside_a_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    edit(folder / SAMPLES, lambda lines: [*lines[:-1], lines[-1][:50]])
    with pytest.raises(ResultsError) as caught:
        read(folder)
    assert caught.value.where == f"{(folder / SAMPLES).resolve()}, line 3"
    assert "cut off" in caught.value.what
    run = read(folder, skip_damaged=True)
    assert len(run.tasks["meta_some"].docs) == 2
    assert run.tasks["meta_some"].skipped == 1
    assert any("1 damaged lines or docs are left out" in note for note in run.notes)


def test_a_file_cut_off_between_lines(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1], filters=("strict-match", "flexible-extract"))
    edit(folder / SAMPLES, lambda lines: lines[:-1])
    with pytest.raises(ResultsError, match=r"is truncated.*strict-match: 3, flexible-extract: 2"):
        read(folder)
    assert [doc.doc_id for doc in read(folder, skip_damaged=True).tasks["meta_some"].docs] == [0, 1]


def test_a_file_without_all_filters(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1], filters=("strict-match", "flexible-extract"))
    edit(folder / SAMPLES, lambda lines: lines[:3])
    with pytest.raises(ResultsError, match="has nothing of the filter flexible-extract"):
        read(folder)


def test_a_file_with_fewer_docs_than_the_results_say(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    edit(folder / SAMPLES, lambda lines: lines[:-1])
    with pytest.raises(ResultsError, match=r"holds 2 docs, and .* says 3"):
        read(folder)


def test_samples_and_results_that_disagree(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    edit(folder / SAMPLES, lambda lines: [line.replace(b'"exact_match":1.0', b'"exact_match":0.0') for line in lines])
    with pytest.raises(
        ResultsError, match=r"exact_match,strict-match is 0\.000000 over these samples, and 0\.666667 in"
    ):
        read(folder)


@pytest.mark.parametrize("change", [{"exact_match": 0.0}, {"resps": [["Another answer."]]}])
def test_a_doc_with_two_answers(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_run(tmp_path, [1, 0, 1])
    again = json.dumps(sample(0, 1, None, None, "exact_match", "strict-match", {}) | change) + "\n"
    edit(folder / SAMPLES, lambda lines: [*lines, again.encode()])
    with pytest.raises(ResultsError, match="doc 0 is here twice with a different question, answer or score"):
        read(folder)
    assert [doc.doc_id for doc in read(folder, skip_damaged=True).tasks["meta_some"].docs] == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\0" * 100, "is not JSON"),
        (b"\x1f\x8b\x08\x00compressed\n", "is compressed \\(gzip\\): unpack it"),
        (b"[]", "is empty"),
        (b"[1, 2]\n", "is not JSON"),
        (b"[[1], [2]]\n", "is no object"),
        (b'{"doc_id": 0}\n[1]\n', "doc or resps are missing|names no filter"),
        (b'{"doc_id": "0"}\n', "doc_id is '0'"),
        (b'{"doc_id": -1}\n', "doc_id is -1"),
        (b'{"doc_id": true}\n', "doc_id is True"),
        (b'{"doc_id": 0, "filter": "none", "resps": []}\n', "doc or resps are missing"),
        (b'{"doc_id": 0, "filter": "none", "resps": [], "doc": {}, "metrics": ["acc"]}\n', "'acc' is missing"),
        (b'{"doc_id": 0, "filter": "none", "resps": [], "doc": {}, "metrics": ["acc"], "acc": NaN}\n', "acc is nan"),
        (b"[" * 200_000, "is not JSON"),
    ],
)
def test_what_is_no_samples_file(tmp_path: Path, content: bytes, message: str) -> None:
    folder = write_run(tmp_path / "a", [1], results=False)
    (folder / SAMPLES).write_bytes(content)
    with pytest.raises(ResultsError, match=message) as caught:
        read(folder)
    assert SAMPLES in str(caught.value.where)
    with pytest.raises(ResultsError, match="every file is damaged"):
        read(folder, skip_damaged=True)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"results": {}}', b'{"results": {"a": 1}, "configs": {}}']
)
def test_what_is_no_results_file(tmp_path: Path, content: bytes) -> None:
    folder = write_run(tmp_path, [1])
    (folder / RESULTS).write_bytes(content)
    with pytest.raises(ResultsError) as caught:
        read(folder)
    assert caught.value.where == str((folder / RESULTS).resolve())
    run = read(folder, skip_damaged=True)
    assert run.tasks["meta_some"].provenance.results_file is None
    assert any(note.startswith("left out: ") for note in run.notes)


def test_an_older_run_stands_in_for_a_damaged_one_only_when_asked(tmp_path: Path) -> None:
    write_run(tmp_path, [1, 1], time="2026-01-01T00-00-00")
    write_run(tmp_path, [1, 0])
    (tmp_path / SAMPLES).write_bytes(b"")
    with pytest.raises(ResultsError, match="is empty"):
        read(tmp_path)
    run = read(tmp_path, skip_damaged=True)
    assert run.tasks["meta_some"].time == "2026-01-01T00-00-00"
    assert any("using an older run" in note for note in run.notes)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no lm_eval files found"):
        read(tmp_path)
    with pytest.raises(ResultsError, match="there is no such file or folder"):
        read(tmp_path / "missing")
    (tmp_path / "samples.jsonl").write_text('{"doc_id": 0}', encoding="utf-8")
    with pytest.raises(ResultsError, match="not named like lm_eval"):
        read(tmp_path / "samples.jsonl")


def test_other_files_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [1])
    (folder / "notes_of_mine.json").write_text("not JSON", encoding="utf-8")
    assert read(folder).notes == ()


@settings(max_examples=60 if THOROUGH else 15, deadline=None)
@given(cut=st.integers(0, 4000), junk=st.binary(max_size=20))
def test_no_damage_gives_a_wrong_number(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    """Bytes lost or overwritten anywhere: an error, or the docs that were there."""
    folder = write_run(tmp_path_factory.mktemp("run"), [1, 0, 1, 1], filters=("strict-match", "flexible-extract"))
    whole = {doc.doc_id: doc for doc in read(folder).tasks["meta_some"].docs}
    content = (folder / SAMPLES).read_bytes()
    (folder / SAMPLES).write_bytes(content[:cut] + junk)
    try:
        run = read(folder)
    except ResultsError:
        pass
    else:
        assert len(run.tasks["meta_some"].docs) == len(whole)
    try:
        run = read(folder, skip_damaged=True)
    except ResultsError:
        return
    result = run.tasks["meta_some"]
    assert {doc.doc_id for doc in result.docs} <= whole.keys()
    for doc in result.docs:
        for name, answer in doc.filter_results.items():  # not its length: the last line may have lost its line break
            expected = whole[doc.doc_id].filter_results[name]
            assert replace(answer, length=expected.length) == expected
    assert len(result.docs) == len(whole) or any("holds" in note for note in run.notes)


def test_the_texts_that_lm_eval_0_4_11_wrote_of_truth_values_are_verdicts() -> None:
    sample = {"acc": "True", "exact_match": "False", "words": "neither", "metrics": ["acc", "exact_match", "words"]}
    assert read_metrics(sample, ()) == {"acc": 1.0, "exact_match": 0.0}


def test_two_generated_answers_are_no_likelihood_whatever_they_say(tmp_path: Path) -> None:
    """A likelihood is logged as a number and whether it is greedy, as texts. Two answers may read the same."""
    folder = write_run(tmp_path, [1.0, 1.0], line={"resps": [["-1.5", "True"]]})
    docs = read(folder).tasks["meta_some"].docs
    assert [doc.answer_tail for doc in docs] == ["-1.5", "-1.5"]
    assert not any(doc.has_bad_likelihood or doc.answer_empty for doc in docs)


@pytest.mark.parametrize(
    "changes",
    [
        {"exact_match": 0.0, "each_answer": {"exact_match": [1.0]}, "resps": [["A"]]},
        {"each_answer": {"exact_match": [1.0, 0.0, 1.0]}},
    ],
)
def test_verdicts_on_each_answer_that_the_sample_contradicts_are_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_run(tmp_path, [1.0] * 5, line={**FOUR, **changes})
    with pytest.raises(ResultsError, match="each_answer and the answers, or their verdict, do not agree"):
        read_run([tmp_path])


def test_two_runs_of_one_time_that_differ_are_refused(tmp_path: Path) -> None:
    """Else the names of their folders would decide which of them counts."""
    write_run(tmp_path / "x", [1, 0])
    write_run(tmp_path / "y", [1, 1])
    with pytest.raises(ResultsError, match="there are two runs of one time, which differ"):
        read_run([tmp_path])
