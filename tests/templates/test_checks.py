"""What lm-eval would trip over in a template, or in silence read otherwise, is named when the template is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from one_task import TEMPLATE, as_template, as_yaml, one_template, run
from packs import without_fingerprints
from rows import make_row, write_rows

from meta_eval.base.errors import TemplateError
from meta_eval.pack.templates.checks import FILTERS, KEYS, OUTPUT_TYPES
from meta_eval.pack.templates.template_folder import read_templates

pytestmark = pytest.mark.plugin("meta")  # its packs are of the embedded sample


def test_the_lists_are_those_of_the_installed_lm_eval() -> None:
    import lm_eval.filters  # noqa: F401 (registers them)
    from lm_eval.api.registry import filter_registry

    try:
        from lm_eval.config.task import TaskConfig
    except ImportError:  # before 0.4.12
        from lm_eval.api.task import TaskConfig
    assert {field.name for field in dataclasses.fields(TaskConfig)} <= KEYS
    assert set(filter_registry.keys()) == FILTERS
    assert {"generate_until", "multiple_choice"} <= OUTPUT_TYPES


def _metadata(tree: dict[str, Any]) -> dict[str, Any]:
    return tree["metadata"]["meta_eval"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t | {"generaton_kwargs": {}}, ["unknown key of lm-eval; did you mean 'generation_kwargs'?"]),
        (lambda t: t | {"output_type": "generate"}, ["output_type", "'generate'"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_toks": -5}}, ["max_gen_toks: -5", "from 1"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_toks": True}}, ["max_gen_toks: True"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_tok": 5}}, ["did you mean 'max_gen_toks'?"]),
        (lambda t: t | {"generation_kwargs": {"temprature": 0}}, ["did you mean 'temperature'?"]),
        (lambda t: t | {"filter_list": [{"name": "strict", "filter": [{"function": "take_frist"}]}]}, ["filter_list.0.filter.0", "did you mean 'take_first'?"]),
        (lambda t: t | {"filter_list": [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": "("}]}]}, ["regex_pattern: '('", "unterminated"]),
        (lambda t: t | {"filter_list": [{"name": "a,b", "filter": [{"function": "take_first"}]}]}, ["filter_list.0.name: 'a,b'"]),
        (lambda t: t | {"filter_list": "take_first"}, ["filter_list: must be a list"]),
        (lambda t: t | {"metric_list": [{"metric": "exact_match", "agregation": "mean"}]}, ["did you mean 'aggregation'?"]),
        (lambda t: t | {"metric_list": [{}]}, ["metric_list.0.metric"]),
        (lambda t: _metadata(t).update(published=[{"metric": "acc,strict"}]) or t, ["published.0.metric: 'acc,strict' is not a metric", "Metrics: exact_match"]),
        (lambda t: _metadata(t).update(published=[{"metric": "exact_match,loose"}]) or t, ["published.0.metric", "filters: strict"]),
        (lambda t: _metadata(t).update(min_agreement=True) or t, ["min_agreement", "True"]),
        (lambda t: t | {"task": "a,b"}, ["task: 'a,b' is not a valid name", "letters, digits"]),
        (lambda t: _metadata(t).update(groups=["../x"]) or t, ["groups: '../x' is not a valid name"]),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_named(change: Callable[[Any], Any], words: list[str], tmp_path: Path) -> None:
    import copy

    folder = one_template(tmp_path / "t", as_template(change(copy.deepcopy(TEMPLATE))))
    with pytest.raises(TemplateError) as caught:
        read_templates(folder)
    assert str(folder / "my" / "t.yaml") in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def configuration(tmp_path: Path, template: str, rows: list[dict[str, Any]] | None = None, utils: str = "") -> Path:
    """A configuration of this template, its utils with more at their end, and these rows."""
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(evals / "gpqa.jsonl", rows or [make_row("a"), make_row("b")])
    folder = one_template(tmp_path / "t", template)
    with (folder / "my" / "utils.py").open("a", encoding="utf-8") as file:
        file.write(utils)
    keys = {
        "model_name": "m", "evals_dataset": str(evals), "tasks": "my_task", "work_dir": str(tmp_path / "w"), "template_dir": str(folder),
        "max_model_len": 100000,
    }  # fmt: skip
    config = tmp_path / "c.yaml"
    config.write_text(as_yaml(keys), encoding="utf-8")
    return config


def prepared(
    tmp_path: Path, template: str, rows: list[dict[str, Any]] | None = None, utils: str = ""
) -> tuple[int, str]:
    config = configuration(tmp_path, template, rows, utils)
    with without_fingerprints():
        code, _, err = run("prepare", "-c", config)
    return code, err


def test_a_scoring_function_that_is_not_there(tmp_path: Path) -> None:
    code, err = prepared(tmp_path, as_template({**TEMPLATE, "process_results": "@utils.proces_results"}))
    assert code == 2
    assert "has no function 'proces_results'; did you mean 'process_results'?" in err
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("returned", "words"),
    [("[1]", "returns list"), ("None", "returns NoneType"), ("dataset.to_dict()", "returns dict"), ("dataset", "returns docs without"),
     ("dataset.select([])", "returns no docs"), ("datasets.Dataset.from_list([{**make_doc(row), 'gold': 1} for row in dataset])", "has no gold"),
     ("datasets.Dataset.from_list([{**make_doc(row), 'choices': 'ABC'} for row in dataset])", "column choices is 'ABC' and should be a list"),
     ("datasets.Dataset.from_list([{**make_doc(row), 'question': ['a']} for row in dataset])", "column question is ['a'] and should be a text"),
     ("datasets.Dataset.from_list([{**make_doc(row), 'answers': ['a', None]} for row in dataset])", "and should be a list of texts"),
     ("datasets.Dataset.from_list([{**make_doc(row), 'max_gen_toks': -1} for row in dataset])", "column max_gen_toks is -1"),
     ("1 / 0", "fails with ZeroDivisionError")],
)  # fmt: skip
def test_a_process_docs_that_makes_no_docs(returned: str, words: str, tmp_path: Path) -> None:
    if words == "returns no docs" or words == "returns docs without":
        returned = returned.replace("dataset", "process_docs(dataset)", 1) if "select" in returned else returned
    utils = f"\n\nimport datasets\n\n\ndef odd(dataset):\n    return {returned}\n"
    code, err = prepared(tmp_path, as_template({**TEMPLATE, "process_docs": "@utils.odd"}), utils=utils)
    assert code == 2
    assert words in err


def test_docs_that_fit_only_all_at_once_are_made_of_whole_rows(tmp_path: Path) -> None:
    """Batches that have passed have emptied their rows: the table made at once has every doc all the same."""
    import pyarrow.parquet as pq

    utils = """

import datasets


def odd(dataset):
    return datasets.Dataset.from_list([{**make_doc(row), "width": str(len(row["input_question"]))} for row in dataset])


odd.make_doc = lambda row: {**make_doc(row), "width": "9" if row["input_question"] == "q1029" else 9}
"""
    rows = [make_row(f"q{number}") for number in range(1030)]
    code, err = prepared(tmp_path, as_template({**TEMPLATE, "process_docs": "@utils.odd"}), rows, utils=utils)
    assert code == 0, err
    docs = pq.read_table(tmp_path / "w" / "my_task.parquet")
    assert docs.column("question").to_pylist() == [f"q{number}" for number in range(1030)]
    assert set(docs.column("width").to_pylist()) == {"2", "3", "4", "5"}


def test_a_gold_that_is_no_choice(tmp_path: Path) -> None:
    code, err = prepared(tmp_path, as_template(TEMPLATE), [make_row("a"), make_row("b", gold=["Q"])])
    assert code == 2
    assert "gold 'Q' is not among the choices" in err
    assert "subset gpqa, doc 1 (question hash" in err


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5, 1000, "1"])
def test_a_recorded_metric_that_verdicts_are_read_from_is_a_share(value: object, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    config = configuration(tmp_path, as_template(TEMPLATE))
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    (evals / "gpqa.jsonl").unlink()
    pq.write_table(pa.Table.from_pylist([make_row("a", output_metrics={"exact_match": value})]), evals / "gpqa.parquet")
    code, _, err = run("prepare", "-c", config)
    assert code == 2
    assert "the recorded metric exact_match is" in err


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (1, "x", "column 'extra' holds 'x'"),
        (2**70, 0, f"column 'extra' holds {2**70}"),
        ([1], {"a": 1}, "column 'extra' holds {'a': 1}"),
    ],
)
def test_a_column_that_arrow_has_no_type_for_is_named_with_its_row(
    first: object, second: object, words: str, tmp_path: Path
) -> None:
    code, err = prepared(tmp_path, as_template(TEMPLATE), [make_row("a", extra=first), make_row("b", extra=second)])
    assert code == 2
    assert words in err
    assert "subset gpqa, row" in err
