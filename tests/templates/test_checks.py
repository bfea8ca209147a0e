"""What lm-eval would trip over in a template, or in silence read otherwise, is named when the template is read."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from one_task import TEMPLATE, as_template, as_yaml, one_template, run
from packs import without_fingerprints
from rows import make_row, write_rows

from meta_eval.base.errors import TemplateError
from meta_eval.pack.templates.checks import (
    AGGREGATIONS,
    ARGUMENTS,
    FILTERS,
    KEYS,
    OUTPUT_TYPES,
    defines_function,
)
from meta_eval.pack.templates.template_folder import read_templates

pytestmark = pytest.mark.plugin("meta")  # its packs are of the embedded sample


def test_the_lists_are_those_of_the_installed_lm_eval() -> None:
    import lm_eval.api.metrics
    import lm_eval.filters  # noqa: F401 (registers filters)
    from lm_eval.api.registry import AGGREGATION_REGISTRY, filter_registry

    try:
        from lm_eval.config.task import TaskConfig
    except ImportError:  # before 0.4.12
        from lm_eval.api.task import TaskConfig
    assert {field.name for field in dataclasses.fields(TaskConfig)} <= KEYS
    assert set(filter_registry.keys()) == FILTERS
    assert {name for name, _ in AGGREGATION_REGISTRY.items()} <= AGGREGATIONS
    for name, arguments in ARGUMENTS.items():
        assert [*inspect.signature(filter_registry.get(name)).parameters] == [*arguments]
    assert {"generate_until", "multiple_choice"} <= OUTPUT_TYPES


def _metadata(tree: dict[str, Any]) -> dict[str, Any]:
    return tree["metadata"]["meta_eval"]


def filtered(tree: dict[str, Any], **part: Any) -> dict[str, Any]:
    return tree | {"filter_list": [{"name": "strict", "filter": [part]}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t | {"generaton_kwargs": {}}, ["unknown key of lm-eval; did you mean 'generation_kwargs'?"]),
        (lambda t: t | {"output_type": "generate"}, ["output_type", "'generate'", "Write one of generate_until"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_toks": -5}}, ["max_gen_toks: -5", "from 1"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_toks": True}}, ["max_gen_toks: True"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_toks": "64"}}, ["generation_kwargs.max_gen_toks: '64' is not a number of tokens. Write it without quotes"]),
        (lambda t: t | {"generation_kwargs": {"temperature": "0"}}, ["generation_kwargs.temperature: '0' is not a number"]),
        (lambda t: t | {"generation_kwargs": {"do_sample": "false"}}, ["generation_kwargs.do_sample: 'false'"]),
        (lambda t: t | {"generation_kwargs": {"seed": "1"}}, ["generation_kwargs.seed: '1' is not a number"]),
        (lambda t: t | {"num_fewshot": "5"}, ["num_fewshot: '5' is not a number of examples. Write it without quotes"]),
        (lambda t: t | {"num_fewshot": -1}, ["num_fewshot: -1 is not a number of examples. Set a whole number from 0"]),
        (lambda t: t | {"repeats": "2"}, ["repeats: '2' is not a number of answers"]),
        (lambda t: t | {"generation_kwargs": {"max_gen_tok": 5}}, ["did you mean 'max_gen_toks'?"]),
        (lambda t: t | {"generation_kwargs": {"temprature": 0}}, ["did you mean 'temperature'?"]),
        (lambda t: t | {"filter_list": [{"name": "strict", "filter": [{"function": "take_frist"}]}]}, ["filter_list.0.filter.0", "did you mean 'take_first'?"]),
        (lambda t: t | {"filter_list": [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": "("}]}]}, ["regex_pattern: '('", "unterminated", "Correct the pattern"]),
        (lambda t: t | {"filter_list": [{"name": "a,b", "filter": [{"function": "take_first"}]}]}, ["filter_list.0.name: 'a,b'"]),
        (lambda t: filtered(t, function="regex", group_select="last"), ["filter_list.0.filter.0.group_select: 'last' is not a whole number. 0 takes the first match"]),
        (lambda t: filtered(t, function="regex_pos", group_select=None), ["filter_list.0.filter.0.group_select: None is not"]),
        (lambda t: filtered(t, function="multi_choice_regex", group_select=True), ["filter.0.group_select: True is not"]),
        (lambda t: filtered(t, function="regex", group_selct=0), ["filter_list.0.filter.0: 'group_selct' is no argument of the filter regex; did you mean 'group_select'?"]),
        (lambda t: filtered(t, function="take_first_k", k="2"), ["filter_list.0.filter.0.k: '2' is not a whole number from 1"]),
        (lambda t: filtered(t, function="take_first_k"), ["filter_list.0.filter.0.k: None is not a whole number from 1"]),
        (lambda t: filtered(t, function="map", mapping_dict=["a"]), ["filter_list.0.filter.0.mapping_dict: ['a'] is not a mapping"]),
        (lambda t: t | {"doc_to_image": "x"}, ["doc_to_image: a pack holds texts"]),
        (lambda t: t | {"doc_to_audio": ["x"]}, ["doc_to_audio: a pack holds texts"]),
        (lambda t: t | {"filter_list": "take_first"}, ["filter_list: must be a list"]),
        (lambda t: t | {"filter_list": [{"name": "strict", "filter": [{"function": "take_first"}]}] * 2}, ["filter_list.1.name: 'strict' is the name of two filters"]),
        (lambda t: t | {"generation_kwargs": {"until": 5}}, ["generation_kwargs.until: 5 is not a list of texts"]),
        (lambda t: t | {"generation_kwargs": {"until": {"a": "b"}}}, ["generation_kwargs.until: {'a': 'b'}"]),
        (lambda t: t | {"generation_kwargs": {"until": [""]}}, ["generation_kwargs.until: ['']"]),
        (lambda t: t | {"metric_list": [{"metric": "exact_match", "higher_is_better": "false"}]}, ["metric_list.0.higher_is_better: 'false' is neither true nor false"]),
        (lambda t: t | {"metric_list": [{"metric": "exact_match", "agregation": "mean"}]}, ["did you mean 'aggregation'?"]),
        (lambda t: t | {"metric_list": [{"metric": "exact_match", "aggregation": "means"}]}, ["metric_list.0.aggregation: unknown to lm-eval: 'means'; did you mean 'mean'?", "!function"]),
        (lambda t: t | {"include": "_nothing"}, ["include: there is no file '_nothing'. Copy the file into the template folder"]),
        (lambda t: t | {"metric_list": [{}]}, ["metric_list.0.metric"]),
        (lambda t: t | {"metric_list": [{"metric": "target"}]}, ["metric_list.0.metric: 'target' is the name of a field of every sample"]),
        (lambda t: _metadata(t).update(published=[{"metric": "acc,strict"}]) or t, ["published.0.metric: 'acc,strict' is not a metric", "Metrics: exact_match"]),
        (lambda t: _metadata(t).update(published=[{"metric": "exact_match,strict", "averaging": "makro"}]) or t, ["published.0.averaging"]),
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


def test_a_module_that_is_not_python_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f():\n    return (\n", encoding="utf-8")
    with pytest.raises(TemplateError, match=r"m\.py:2: is not Python: .*\. Correct this line"):
        defines_function(tmp_path / "m.py", "f")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"foo": "bar"}, "'foo': unknown key of a group of lm-eval"), ({"tsk": ["my_task"]}, "did you mean 'task'?"),
        ({"aggregate_metric_list": 5}, "aggregate_metric_list: must be a list of mappings"),
        ({"aggregate_metric_list": [{"metrc": "acc"}]}, "'metrc': unknown key of a group of lm-eval; did you mean 'metric'?"),
    ],
)  # fmt: skip
def test_a_group_that_ends_lm_eval_is_refused(keys: dict[str, Any], words: str, tmp_path: Path) -> None:
    folder = one_template(tmp_path / "t", as_template(TEMPLATE))
    (folder / "g.yaml").write_text(as_yaml({"group": "gg", "task": ["my_task"], **keys}), encoding="utf-8")
    with pytest.raises(TemplateError) as caught:
        read_templates(folder)
    assert str(folder / "g.yaml") in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", [b"a\xff.txt", b"../manifest.json/x.py"])
def test_a_file_that_no_pack_can_hold_is_refused_by_name(name: bytes, tmp_path: Path) -> None:
    folder = one_template(tmp_path / "t", as_template(TEMPLATE))
    if name.startswith(b".."):
        (folder / "my").rename(folder / "manifest.json")
    else:
        (folder / "my" / os.fsdecode(name)).write_text("x")
    with pytest.raises(TemplateError, match="a pack cannot hold a file of this name"):
        read_templates(folder)


def test_a_link_out_of_the_template_folder_is_refused(tmp_path: Path) -> None:
    folder = one_template(tmp_path / "t", as_template(TEMPLATE))
    (tmp_path / "token").write_text("mine")
    (folder / "my" / "s.txt").symlink_to(tmp_path / "token")
    with pytest.raises(TemplateError, match=r"my/s\.txt: is a link out of the template folder"):
        read_templates(folder)


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


@pytest.mark.parametrize("where", ["utils", "companion", "yaml"])
def test_no_credential_of_a_template_enters_a_pack(where: str, tmp_path: Path) -> None:
    token = "hf_" + "a1B2" * 8
    template = as_template({**TEMPLATE, "description": token} if where == "yaml" else TEMPLATE)
    config = configuration(tmp_path, template, utils=f"\nTOKEN = {token!r}\n" if where == "utils" else "")
    if where == "companion":
        (tmp_path / "t" / "my" / "key.txt").write_text(token)
    with without_fingerprints():
        code, _, err = run("prepare", "-c", config)
    assert (code, "holds a credential, and packs are passed on" in err, token in err) == (2, True, False), err


def test_an_exception_that_cannot_say_what_it_is_is_one_message(tmp_path: Path) -> None:
    utils = """

class Mute(Exception):
    def __str__(self):
        raise ValueError


def odd(dataset):
    raise Mute
"""
    code, err = prepared(tmp_path, as_template({**TEMPLATE, "process_docs": "@utils.odd"}), utils=utils)
    assert (code, "fails with Mute on" in err) == (2, True), err


def test_a_work_dir_among_the_templates_is_refused(tmp_path: Path) -> None:
    config = configuration(tmp_path, as_template(TEMPLATE))
    code, _, err = run("prepare", "-c", config, "--set", f"work_dir={tmp_path}/t/w")
    assert (code, "lies in template_dir, so that its tasks would be templates, too" in err) == (2, True), err
    assert not (tmp_path / "t" / "w").exists()


def test_a_template_dir_that_is_a_file_is_named_by_its_key(tmp_path: Path) -> None:
    config = configuration(tmp_path, as_template(TEMPLATE))
    code, _, err = run("prepare", "-c", config, "--set", f"template_dir={config}")
    assert (code, "is a file, not a folder" in err, "template_dir" in err) == (2, True, True), err


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
     ("datasets.Dataset.from_list([{**make_doc(row), 'x': n or 'a'} for n, row in enumerate(dataset)])", "values of one Arrow type"),
     ("datasets.Dataset.from_list([make_doc(row) for row in dataset for _ in range(2)])", "4 docs of 2 rows, and 2 with the question hash"),
     ("datasets.Dataset.from_list([make_doc(dataset[1]) for _ in range(2)])", "2 docs of 2 rows, and 2 with the question hash"),
     ("datasets.Dataset.from_list([{**make_doc(row), 'input_question_hash': None} for row in dataset for _ in range(2)])", "4 docs of 2 rows. "),
     ("1 / 0", "fails with ZeroDivisionError")],
)  # fmt: skip
def test_a_process_docs_that_makes_no_docs(returned: str, words: str, tmp_path: Path) -> None:
    if words == "returns no docs" or words == "returns docs without":
        returned = returned.replace("dataset", "process_docs(dataset)", 1) if "select" in returned else returned
    utils = f"\n\nimport datasets\n\n\ndef odd(dataset):\n    return {returned}\n"
    code, err = prepared(tmp_path, as_template({**TEMPLATE, "process_docs": "@utils.odd"}), utils=utils)
    assert code == 2
    assert words in err


# The line of utils.py where the body of `odd` below begins: it fails there.
@pytest.mark.parametrize(
    ("code", "words"),
    [("next(iter([]))", ["utils.py: odd, utils.py line {line} in odd_doc: fails with StopIteration on", "row 1 (question hash"]),
     ("int('x')", ["utils.py line {line} in odd_doc: fails with ValueError: invalid literal", "row 1 (question hash"]),
     ("raise Silent", ["line {line} in odd_doc: fails with Silent on"]),
     ("raise Base", ["t/my/utils.py, line {line}, in odd_doc: interrupts the program (Base)"]),
     ("raise ValueError('no riddle')", ["row 1 (question hash", "made into docs by", "line {line} in odd_doc: no riddle"]),
     ("return 5", ["utils.py: odd: returns int for", "row 1 (question hash", "and not a dict"]),
     ("doc['x'] = object()", ["utils.py: odd, docs of", "row 1 (question hash", "column 'x' holds <object"]),
     ("doc['x'] = 'a'", ["utils.py: odd, docs of", "row 1 (question hash", "column 'x' holds 'a', which does not fit"]),
     ("doc['x'] = 10**30", ["utils.py: odd, docs of", "row 1 (question hash", "column 'x' holds 1000000000"]),
     ("doc['prompt'] = '\\ud800'", ["utils.py: odd, docs of", "row 1 (question hash", "column 'prompt' holds"]),
     ("doc[7] = 1", ["utils.py: odd, docs of", "the name of column 7 is no text"])],
)  # fmt: skip
def test_what_fails_on_one_row_is_named_with_its_row_and_place(
    code: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A StopIteration ended the docs in silence."""
    utils = f"""

import datasets


class Base(BaseException): ...


class Silent(Exception):
    def __str__(self): raise ValueError


def odd_doc(row):
    doc = {{**make_doc(row), "x": 1}}
    if row["input_question"] in {"ab" if "[7]" in code else "b"!r}:
        {code}
    return doc


def odd(dataset):
    return datasets.Dataset.from_list([odd_doc(row) for row in dataset])


odd.make_doc = odd_doc
"""
    config = configuration(tmp_path, as_template({**TEMPLATE, "process_docs": "@utils.odd"}), utils=utils)
    monkeypatch.chdir(tmp_path)
    done = cli("prepare", "-c", config.name, "--set", "template_dir=t")
    lines = (tmp_path / "t/my/utils.py").read_text(encoding="utf-8").splitlines()
    assert done.returncode == 2
    assert all(word.format(line=lines.index(f"        {code}") + 1) in done.stderr for word in words), done.stderr
    assert "/t/my/utils.py" not in done.stderr


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
