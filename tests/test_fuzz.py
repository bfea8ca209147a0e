"""Whatever a file holds, the command line ends with 0, 1, 2, 3 or 130, and what it says cannot fool a terminal.

A class of input each: YAML, names, rows, cards, results, packs, gates, answers. ``make test`` tries some hundred of them;
``META_EVAL_FUZZ=10000 python -m pytest tests/test_fuzz.py`` as many of each class.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from accelerator import answer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from one_task import TEMPLATE, as_template, as_yaml, one_template, run, write
from places import REPOSITORY, TEMPLATES, THOROUGH
from rows import make_row, write_rows
from runs import entry, manifest, published, write_run

from meta_eval.base.errors import UserError

ENDS = {0, 1, 2, 3, 130}
HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What of a name could be taken for a path, for several names, for markup or for nothing.
SIGNS = ["/", "..", "../x", "/tmp/x", ",", "\n", "\0", "*", "[b]", "[/b]", "[link=http://x]y[/link]", "<b>", "|", "`",
         "\x1b[31m", "\x1b]8;;http://x\x07", "\u202e", "\u2066", ":smile:", "~", "-x", " ", "", "$(x)", "\r", "\u2028", "</summary>"]  # fmt: skip

fuzz = lambda few: settings(  # noqa: E731
    max_examples=int(os.environ.get("META_EVAL_FUZZ", few if THOROUGH else max(2, few // 3))),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate] + ([] if "META_EVAL_FUZZ" in os.environ else [Phase.shrink]),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def ends_well(*arguments: str | Path) -> int:
    code, out, err = run(*arguments)
    if code == 70:
        report = Path(next(iter(re.findall(r"\S+meta-eval-bug-\S+\.txt", err))))
        text = report.read_text(encoding="utf-8")
        report.unlink()
        raise AssertionError(text)
    assert code in ENDS, err
    assert "Traceback" not in err
    assert not HOSTILE.search(out + err), repr(out + err)
    return code


@contextmanager
def folder() -> Iterator[Path]:
    path, before = Path(tempfile.mkdtemp(prefix="fuzz-")), Path.cwd()
    os.chdir(path)
    try:
        yield path
    finally:
        os.chdir(before)
        shutil.rmtree(path, ignore_errors=True)


# Trees, and trees that are nearly right


texts = st.one_of(st.text(max_size=12), st.sampled_from(SIGNS), st.sampled_from(["null", "yes", "1e9", ".nan", "2024-01-01", "0x1f"]))  # fmt: skip
numbers = st.one_of(
    st.integers(-3, 3), st.floats(), st.sampled_from([2**63, -(2**63) - 1, 10**30, 1e308, 0.5, 1000, -5]), st.booleans(), st.none()
)  # fmt: skip
leaves = st.one_of(numbers, texts)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree but its root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for key, value in items for place in [(*path, key), *places(value, (*path, key))]]


@st.composite
def mutated(draw: st.DrawFn, tree: Any) -> Any:
    """A tree with one to three of its values exchanged, dropped, or under another name."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(tree) or [("x",)]))
        node = tree
        for key in path:
            node = node[key]
        how = draw(st.sampled_from(["exchange", "exchange", "drop", "rename", "add"]))
        if how == "exchange" or not isinstance(node, dict):
            node[last] = draw(trees)
        elif how == "drop":
            node.pop(last, None)
        elif how == "rename":
            node[draw(texts)] = node.pop(last, None)
        else:
            node[draw(texts)] = draw(trees)
    return tree


trees_of_any_depth = st.builds(
    lambda depth, leaf: json.loads("[" * depth + json.dumps(leaf) + "]" * depth), st.integers(90, 400), leaves
)

# Anything that looks like YAML: parts that a grammar is made of, in any order.
snippets = st.lists(
    st.one_of(
        st.sampled_from(["a: ", "b: ", "- ", "\n", "\n  ", "&x ", "*x", "<<: ", "!!int ", "!function a.b", "{", "}", "[", "]", ", ", ": ", "? ",
                         "'", '"', "|\n", "#", "---\n", "...\n", "%YAML 1.1\n", "\t", "9" * 5000, "[" * 200, "{a: " * 40, "\ufeff", "@", "`",
                         "model_name: m\n", "tasks: t\n", "evals_dataset: e\n", "max_drop: 1\n", "2024-13-45", "0o7", "1:30", "~", "\\u0000"]),
        texts,
    ),
    max_size=14,
).map("".join)  # fmt: skip

CONFIG = {
    "model_name": "m", "evals_dataset": "./none", "tasks": "meta_gpqa", "template_dir": "no-such-folder", "work_dir": "w",
    "tensor_parallel_size": 1, "gpu_memory_utilization": 0.9, "max_model_len": 8192, "limit": None, "seed": 1, "batch_size": "auto",
    "model_args": {"enforce_eager": True}, "originals": {"math": {"id": "x/y", "revision": "z"}}, "log_samples": True,
}  # fmt: skip


@fuzz(30)
@given(st.one_of(snippets, trees.map(as_yaml), mutated(CONFIG).map(as_yaml)))
def test_a_configuration(text: str) -> None:
    # It names nothing that there is, so that nothing is ever prepared, wherever a work_dir may lead.
    with folder() as here:
        assert ends_well("prepare", "-c", write(here / "c.yaml", text)) == 2


@fuzz(20)
@given(
    st.sampled_from([*CONFIG, "model_args.x", "originals.math.id", "a.b.c.d.e.f.g.h.i", ""]), st.one_of(snippets, texts)
)
def test_an_override(key: str, text: str) -> None:
    with folder() as here:
        config = write(here / "c.yaml", as_yaml({**CONFIG, "template_dir": str(here / "none")}))
        assert ends_well("prepare", "-c", config, "--set", f"{key}={text}", "--set", f"template_dir={here}/none") == 2


GATE = {"max_drop": 1.0, "against": "published", "min_docs": 3, "tasks": {"meta_some": {"max_drop": 2}}}


@fuzz(12)
@given(st.one_of(snippets, mutated(GATE).map(as_yaml)))
def test_a_gate(text: str) -> None:
    with folder() as here:
        results = write_run(here / "out", [1, 0, 1], recorded=[True, False, True])
        ends_well("report", results, "--gate", write(here / "gate.yaml", text), "--json")


# Templates


@fuzz(12)
@given(st.one_of(mutated(TEMPLATE).map(as_template), snippets))
def test_a_template(text: str) -> None:
    with folder() as here:
        one_template(here, text)
        ends_well("tasks", "--template-dir", here, "--json")
        if len(text) % 16 == 0:  # it reads the shipped templates too
            ends_well("tasks", "new", "new", "--subset", "s", "--like", "my_task", "--template-dir", here)


# Names


@fuzz(15)
@given(
    st.sampled_from(["task", "group", "alias"]), st.one_of(st.sampled_from(SIGNS), st.text(min_size=1, max_size=200))
)
def test_a_name_of_a_template_is_one_word_or_refused(kind: str, name: str) -> None:
    tree = copy.deepcopy(TEMPLATE)
    block: Any = tree["metadata"]["meta_eval"]  # type: ignore[index]
    if kind == "task":
        tree["task"] = name
    else:
        block["groups" if kind == "group" else "aliases"] = [name]
    with folder() as here:
        code = ends_well("tasks", "--template-dir", one_template(here, as_template(tree)))
    if code == 0:
        assert re.fullmatch(r"\w[\w.:+-]*", name)
    else:
        assert code == 2


names = st.one_of(st.sampled_from(SIGNS), st.text(max_size=20))


@fuzz(10)
@given(
    st.lists(names, min_size=3, max_size=3),
    names,
    st.sampled_from([sign for sign in SIGNS if not {"/", "\0"} & set(sign)]),
)
def test_names_of_data_are_shown_as_they_are(subtasks: list[str], model: str, place: str) -> None:
    with folder() as here:
        results = write_run(
            here / f"o{place}",
            [1, 0, 1],
            recorded=[True, False, True],
            subtasks=subtasks,
            model_args={"pretrained": model},
        )
        assert ends_well("report", results, "--markdown", here / "r.md", "--html", here / "r.html") == 0
        card = (here / "r.md").read_text(encoding="utf-8")
    assert not HOSTILE.search(card)
    assert "<b>" not in card.replace("\\<b\\>", "").replace("`<b>`", "")
    assert card.count("</summary>") == card.count("<summary>")


# Rows

ROW = make_row()


class Columns:
    """Columns as parquet has them: of any type, in any of our columns."""

    types = st.sampled_from(
        [
            pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.date32(),
            pa.date64(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time64("ns"), pa.duration("ms"), pa.decimal128(38, 3),
            pa.list_(pa.int64()), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()), pa.list_(pa.list_(pa.string())),
            pa.struct([("a", pa.int64()), ("b", pa.map_(pa.int8(), pa.date32()))]), pa.null(), pa.dictionary(pa.int8(), pa.string()),
        ]
    )  # fmt: skip

    @staticmethod
    def values(kind: pa.DataType, seed: int, rows: int) -> pa.Array:
        raw = {1: [seed % 128, None], 8: [-(2**62), 2**62], 2: [1, 2]}
        candidates: list[Any] = [
            [seed % 100] * rows, [None] * rows, ["x" * (seed % 5)] * rows, [b"\xff\xfe"] * rows, [[seed % 9]] * rows, [["a", None]] * rows,
            [[("k", 1)]] * rows, [{"a": 1, "b": None}] * rows, [[["a"]]] * rows, [True] * rows, [2**40] * rows, raw[2][:1] * rows,
        ]  # fmt: skip
        for number in range(len(candidates)):
            try:
                return pa.array(candidates[(number + seed) % len(candidates)], kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                continue
        return pa.nulls(rows).cast(kind) if kind != pa.null() else pa.nulls(rows)


def prepared(here: Path, data: Callable[[Path], object], tasks: str = "my_task") -> int:
    evals = here / "Llama-3.1-8B-Instruct-evals"
    evals.mkdir(exist_ok=True)
    data(evals)
    keys = {
        "model_name": "m", "evals_dataset": str(evals), "tasks": tasks, "work_dir": str(here / "w"),
        "template_dir": str(one_template(here / "t")), "max_model_len": 100000,
    }  # fmt: skip
    return ends_well("prepare", "-c", write(here / "c.yaml", as_yaml(keys)), "--json")


@fuzz(12)
@given(st.lists(mutated(ROW), min_size=1, max_size=3), st.booleans())
def test_rows_of_json_lines(rows: list[Any], with_a_good_one: bool) -> None:
    with folder() as here:
        lines = [json.dumps(row) for row in ([ROW] if with_a_good_one else []) + rows]
        prepared(here, lambda evals: write(evals / "gpqa.jsonl", "\n".join(lines)))


@fuzz(15)
@given(st.sampled_from([*ROW, "another"]), Columns.types, st.integers(0, 2**40))
def test_rows_of_parquet_with_any_column_of_any_type(column: str, kind: pa.DataType, seed: int) -> None:
    rows = [make_row("a"), make_row("b")]
    table = pa.Table.from_pylist(rows)
    odd = Columns.values(kind, seed, 2)
    table = table.drop_columns([column]) if column in table.column_names else table
    with folder() as here:
        prepared(here, lambda evals: pq.write_table(table.append_column(column, odd), evals / "gpqa.parquet"))


METRIC = {"benchmark_label": "MMLU-Pro", "metric_tag": "macro_avg/em", "metric_value_computed": 48.3}


@fuzz(6)
@given(st.lists(mutated(METRIC), min_size=1, max_size=2))
def test_reported_metrics(rows: list[Any]) -> None:
    with folder() as here:

        def data(evals: Path) -> None:
            write_rows(evals / "gpqa.jsonl", [ROW])
            lines = "\n".join(json.dumps(row) for row in rows)
            write(evals / "m.jsonl", lines)
            write(evals / "README.md", "---\nconfigs:\n- config_name: x__metrics\n  data_files: m.jsonl\n---\n")

        prepared(here, data)


@pytest.mark.plugin("meta")
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-5", "1000", "true"])
def test_a_reported_metric_that_is_no_percentage_is_named(value: str, tmp_path: Path) -> None:
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    number = float(value) if value != "true" else True
    write_rows(evals / "gpqa.jsonl", [ROW])
    pq.write_table(pa.Table.from_pylist([{**METRIC, "metric_value_computed": number}]), evals / "m.parquet")
    write(evals / "README.md", "---\nconfigs:\n- config_name: x__metrics\n  data_files: m.parquet\n---\n")
    keys = {
        "model_name": "m",
        "evals_dataset": str(evals),
        "tasks": "meta_gpqa_cot",
        "work_dir": str(tmp_path / "w"),
        "template_dir": str(TEMPLATES),
    }
    code, _, err = run("prepare", "-c", write(tmp_path / "c.yaml", as_yaml(keys)))
    assert code == 2
    assert "__metrics, row 0: column metric_value_computed" in err
    assert not (tmp_path / "w").exists()


ORIGINAL = {"key": 1, "prompt": "What is 2 + 2?", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}


@fuzz(6)
@given(st.lists(mutated(ORIGINAL), min_size=1, max_size=2), st.sampled_from(["json", "parquet"]))
def test_originals(rows: list[Any], form: str) -> None:
    with folder() as here:
        original = here / f"o.{form}l" if form == "json" else here / "o.parquet"
        try:
            if form == "json":
                write(original, "\n".join(json.dumps(row) for row in rows))
            else:
                pq.write_table(pa.Table.from_pylist(rows), original)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return
        write_rows(here / "Llama-3.1-8B-Instruct-evals" / "gpqa.jsonl", [make_row(task_name="ifeval")])
        joined = as_template(TEMPLATE).replace("subset: gpqa", "subset: gpqa\n    join: ifeval")
        keys = {
            "model_name": "m", "evals_dataset": str(here / "Llama-3.1-8B-Instruct-evals"), "tasks": "my_task", "work_dir": str(here / "w"),
            "template_dir": str(one_template(here / "t", joined)), "originals": {"ifeval": {"id": str(original)}},
        }  # fmt: skip
        ends_well("prepare", "-c", write(here / "c.yaml", as_yaml(keys)), "--json")


# Cards

CARD = {"configs": [
    {"config_name": "Llama-3.1-8B-Instruct-evals__gpqa__details", "data_files": [{"split": "latest", "path": ["**/gpqa*.jsonl", "x"]}]},
    {"config_name": "default", "data_files": {"latest": "*"}, "data_dir": "y", "default": True},
]}  # fmt: skip


@fuzz(20)
@given(st.one_of(mutated(CARD).map(as_yaml), snippets), st.sampled_from(["---\n", "---", "\n\n---\n", "--- \n"]))
def test_a_card(text: str, fence: str) -> None:
    with folder() as here:
        evals = here / "Llama-3.1-8B-Instruct-evals"
        write_rows(evals / "gpqa.jsonl", [ROW])
        write(evals / "README.md", f"{fence}{text}\n{fence}")
        ends_well("tasks", "--evals-dataset", evals, "--template-dir", one_template(here / "t"))


# Results

LINES = ["results_2026-01-02T03-04-05.000006.json", "samples_meta_some_2026-01-02T03-04-05.000006.jsonl"]


def some_run(here: Path) -> Path:
    doc = {"recorded_metrics": '{"exact_match": 1.0}'}
    return write_run(here, [1, 0, 1, 1], recorded=[True, False, True, None], subtasks=["a", "a", "b", "b"], doc=doc)


recorded = st.one_of(
    st.sampled_from(["{", "[]", "null", '{"exact_match": NaN}', '{"exact_match": 1000}', '{"exact_match": -5}', '{"exact_match": "x"}',
                     '{"exact_match": 1' + "0" * 400 + "}", '{"exact_match": Infinity}', "[" * 5000, '{"exact_match": ' + "9" * 5000 + "}"]),
    trees.map(json.dumps),
)  # fmt: skip


PACK = json.loads(manifest(meta_some=entry(4, published(50.0))).to_json())


def some_pack(here: Path) -> Path:
    write(here / "manifest.json", json.dumps(PACK))
    return here


@fuzz(10)
@given(st.data())
def test_results(data: st.DataObject) -> None:
    with folder() as here:
        results = some_run(here / "out")
        name = data.draw(st.sampled_from(LINES))
        path = results / name
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if data.draw(st.booleans()):
                tree = data.draw(mutated(json.loads(line)))
                if name == LINES[1] and isinstance(tree.get("doc"), dict) and data.draw(st.booleans()):
                    tree["doc"]["recorded_metrics"] = data.draw(recorded)
                lines[number] = json.dumps(tree)
        write(path, "\n".join(lines) + "\n")
        ends_well(
            "report",
            results,
            "--pack",
            some_pack(here / "pack"),
            "--markdown",
            here / "r.md",
            "--html",
            here / "r.html",
            "--json",
        )
        ends_well("report", results, "--skip-damaged")
        ends_well("compare", some_run(here / "other"), results, "--skip-damaged", "--json")


@fuzz(10)
@given(st.integers(0, 6000), st.binary(max_size=3), st.sampled_from(LINES), st.booleans())
def test_truncated_and_overwritten_results(at: int, bytes_: bytes, name: str, cut: bool) -> None:
    with folder() as here:
        path = some_run(here / "out") / name
        content = path.read_bytes()
        at %= len(content)
        path.write_bytes(content[:at] + bytes_ + (b"" if cut else content[at + len(bytes_) :]))
        ends_well("report", here / "out", "--html", here / "r.html")
        ends_well("report", here / "out", "--skip-damaged", "--json")


@fuzz(10)
@given(st.one_of(st.sampled_from(SIGNS), st.text(max_size=40), st.text(st.sampled_from("".join(SIGNS)), max_size=12)))
def test_names_in_results(name: str) -> None:
    with folder() as here:
        path = some_run(here / "out") / LINES[0]
        tree = json.loads(path.read_text(encoding="utf-8"))
        tree["configs"][name] = tree["results"][name] = {"task": name, "acc,none": 0.5}
        tree["model_name"] = tree["config"]["model_args"]["pretrained"] = name
        write(path, json.dumps(tree))
        code = ends_well("report", here / "out", "--markdown", here / "r.md")
    assert code == (0 if re.fullmatch(r"\w[\w.:+-]*", name) else 2)


@fuzz(8)
@given(st.data())
def test_samples_that_are_graded_again(data: st.DataObject) -> None:
    from meta_eval.pack.verify.saved_answers import find_saved_samples, read_saved

    with folder() as here:
        path = some_run(here / "out") / LINES[1]
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        docs = [line["doc"] for line in lines]
        number = data.draw(st.integers(0, len(lines) - 1))
        lines[number] = data.draw(mutated(lines[number]))
        write(path, "\n".join(map(json.dumps, lines)) + "\n")
        try:
            files = find_saved_samples(here / "out", ["meta_some"])
            read_saved(files, "meta_some", docs, "exact_match,strict-match", lambda _: None)
        except UserError as error:
            assert not HOSTILE.search(str(error))


# Packs


@fuzz(20)
@given(st.one_of(mutated(PACK).map(json.dumps), snippets, st.integers(0, 3000).map(lambda end: json.dumps(PACK)[:end])))
def test_a_manifest(text: str) -> None:
    with folder() as here:
        write(here / "pack" / "manifest.json", text)
        ends_well("report", some_run(here / "out"), "--pack", here / "pack", "--json")
        if "meta_some.parquet" not in text:
            ends_well("verify", here / "pack", "--json")


@fuzz(15)
@given(mutated(PACK))
def test_doctor_of_a_manifest(tree: Any) -> None:
    with folder() as here, patch("meta_eval.doctor.lm_eval_probe.find_lm_eval", lambda: None):
        write(here / "pack" / "manifest.json", json.dumps(tree))
        ends_well("doctor", here / "pack", "--json")


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["lm_eval"]}, {"command": ["lm_eval", "--model_args"]}, {"command": []},
        {"lm_eval": {"minimum": ".", "below": "0.5"}}, {"lm_eval": {"minimum": "0.4", "below": ""}},
    ],
)  # fmt: skip
def test_doctor_of_an_odd_manifest(change: dict[str, Any]) -> None:
    with folder() as here, patch("meta_eval.doctor.lm_eval_probe.find_lm_eval", lambda: None):
        write(here / "pack" / "manifest.json", json.dumps({**PACK, **change}))
        assert ends_well("doctor", here / "pack", "--json") in (1, 2)


# Records


RECORD = Path(__file__).parent / "data" / "lm_eval_outputs" / "0.4.13"
SAMPLES = {path.name: path.read_text(encoding="utf-8").splitlines() for path in RECORD.rglob("*.json*")}


@fuzz(10)
@given(st.data())
def test_a_record(data: st.DataObject) -> None:
    with folder() as here:
        name = data.draw(st.sampled_from(sorted(SAMPLES)))
        for other, lines in SAMPLES.items():
            trees = [json.loads("\n".join(lines))] if other.endswith(".json") else list(map(json.loads, lines))
            if other == name:
                number = data.draw(st.integers(0, len(trees) - 1))
                trees[number] = data.draw(st.one_of(mutated(trees[number]), trees_of_any_depth))
            write(here / "record" / other, "".join(f"{json.dumps(tree)}\n" for tree in trees))
        keys = {
            "model_name": "m", "evals_dataset": "./record", "tasks": "tiny_free,tiny_text", "work_dir": "w", "max_model_len": 99999,
            "template_dir": str(REPOSITORY / "tools" / "lm_eval_tasks"),
        }  # fmt: skip
        if ends_well("prepare", "-c", write(here / "c.yaml", as_yaml(keys))) == 0:
            ends_well("verify", "w", "--json")
        ends_well("report", "record", "--skip-damaged", "--json")


CONVERSATION = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [{}]}]


@fuzz(2)
@given(st.data())
def test_a_record_of_a_chat_endpoint(data: st.DataObject) -> None:
    with folder() as here, patch("meta_eval.doctor.lm_eval_probe.find_lm_eval", lambda: None):
        asked: dict[int, Any] = {}
        for name, lines in SAMPLES.items():
            trees = [json.loads("\n".join(lines))] if name.endswith(".json") else list(map(json.loads, lines))
            for tree in trees if name.startswith("samples_tiny_free") else ():
                number = tree["doc_id"]
                if number not in asked:
                    asked[number] = data.draw(st.one_of(st.just(CONVERSATION), mutated(CONVERSATION)))
                tree["arguments"]["gen_args_0"]["arg_0"] = [json.dumps(asked[number])]
                del tree["prompt_hash"]
            write(here / "record" / name, "".join(f"{json.dumps(tree)}\n" for tree in trees))
        keys = {
            "model_name": "m", "evals_dataset": "./record", "tasks": "tiny_free", "work_dir": "w", "max_model_len": 99999,
            "template_dir": str(REPOSITORY / "tools" / "lm_eval_tasks"),
        }  # fmt: skip
        if ends_well("prepare", "-c", write(here / "c.yaml", as_yaml(keys))) == 0:
            assert ends_well("verify", "w", "--json") == 0
            ends_well("doctor", "w")
            ends_well("export", "w", "--to", "batch", "--output", "b.jsonl")


def test_a_doc_whose_text_is_none_is_one_message() -> None:
    with folder() as here:
        for name, lines in SAMPLES.items():
            trees = [json.loads("\n".join(lines))] if name.endswith(".json") else list(map(json.loads, lines))
            if name.startswith("samples_tiny_text"):
                trees[0]["doc"]["text"] = []
            write(here / "record" / name, "".join(f"{json.dumps(tree)}\n" for tree in trees))
        keys = {
            "model_name": "m", "evals_dataset": "./record", "tasks": "tiny_text", "work_dir": "w", "max_model_len": 99999,
            "template_dir": str(REPOSITORY / "tools" / "lm_eval_tasks"),
        }  # fmt: skip
        assert ends_well("prepare", "-c", write(here / "c.yaml", as_yaml(keys))) == 2


@pytest.fixture(scope="module")
def whole_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("whole")
    assert (
        prepared(here, lambda evals: write_rows(evals / "gpqa.jsonl", [make_row("a"), make_row("b", correct=False)]))
        == 0
    )
    return here / "w"


@pytest.mark.plugin("meta")
@fuzz(2)
@given(st.data())
def test_a_pack_that_is_cut_or_overwritten(whole_pack: Path, data: st.DataObject) -> None:
    with folder() as here:
        pack = here / "pack"
        shutil.copytree(whole_pack, pack)
        path = pack / data.draw(
            st.sampled_from(sorted(path.relative_to(pack).as_posix() for path in pack.rglob("*") if path.is_file()))
        )
        content = path.read_bytes()
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        cut = data.draw(st.booleans())
        # Code may do what code does: it is cut, so that it is no Python, and not overwritten with what may be another.
        path.write_bytes(
            content[:at]
            if cut or path.suffix == ".py"
            else content[:at] + data.draw(st.binary(min_size=1, max_size=3)) + content[at + 1 :]
        )
        ends_well("verify", pack, "--json")


# Answers


@pytest.fixture(scope="module")
def answered(whole_pack: Path) -> tuple[Path, bytes]:
    """The pack, and answers to it."""
    requests, answers = whole_pack.parent / "requests.jsonl", whole_pack.parent / "answers.jsonl"
    assert ends_well("export", whole_pack, "-o", requests) == 0
    return whole_pack, answer(whole_pack, requests, answers).read_bytes().strip() + b"\n"


@pytest.mark.plugin("meta")
@fuzz(8)
@given(st.data())
def test_answers(answered: tuple[Path, bytes], data: st.DataObject) -> None:
    pack, content = answered
    if data.draw(st.booleans()):
        lines = [json.loads(line) for line in content.splitlines()]
        number = data.draw(st.integers(0, len(lines) - 1))
        lines[number] = data.draw(st.one_of(mutated(lines[number]), trees))
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    else:
        at = data.draw(st.integers(0, len(content)))
        content = content[:at] + data.draw(st.binary(max_size=3)) + (b"" if data.draw(st.booleans()) else content[at:])
    with folder() as here:
        (here / "a.jsonl").write_bytes(content)
        how = data.draw(st.sampled_from([[], ["--partial"], ["--prefer", "last"]]))
        if ends_well("grade", here / "a.jsonl", "--pack", pack, "-o", here / "out", "--json", *how) == 0:
            ends_well("report", here / "out", "--pack", pack, "--markdown", here / "r.md", "--json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree | {"schema_version": True}, "has schema version True"),
        (lambda tree: tree | {"schema_version": 2.0}, "has schema version 2.0"),
        (lambda tree: {**tree, "tasks": {"a/b": next(iter(tree["tasks"].values()))}}, "is not a valid name"),
        (lambda tree: {**tree, "tasks": {"t": {**tree["tasks"]["meta_some"], "docs_file": "../x.parquet"}}}, "points outside the pack"),
        (lambda tree: {**tree, "files": {}}, "is not in files"),
        (lambda tree: {**tree, "groups": {"g": ["nobody"]}}, "there is no task 'nobody'"),
        (lambda tree: {**tree, "tasks": {}, "groups": {}}, "tasks: it must have at least 1 item"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be(change: Callable[[Any], Any], words: str, tmp_path: Path) -> None:
    write(tmp_path / "manifest.json", json.dumps(change(copy.deepcopy(PACK))))
    code, _, err = run("verify", tmp_path)
    assert code == 2
    assert words in err
