"""Docs that are not independent are taken together, in whatever way a run came to be: copies, and what a field says."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import given
from hypothesis import strategies as st
from own_record import TEXTS, config_of, record_run
from packs import prepare, read_docs
from places import REPOSITORY
from runs import TIME

from meta_eval import compare, report, verify
from meta_eval.ask.early_stop import list_task_docs
from meta_eval.base.errors import ConfigError
from meta_eval.base.hashing import hash_text
from meta_eval.harness.clusters import list_content_parts, name_clusters, read_field, read_fields
from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.harness.scores import compute_scores
from meta_eval.harness.shared_texts import TextReading, choose_cluster_field
from meta_eval.judge.decision import TaskDecision
from meta_eval.pack.baseline import read_baseline
from meta_eval.pack.manifest import read_manifest
from meta_eval.reports.report import Report

PROBLEMS, COPIES = 12, 20


def plain(number: int, prompt: str, right: bool, doc: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A line of a task of lm-eval's own, as an old version writes it: without hashes."""
    return {
        "doc_id": number, "doc": doc, "target": "7", "arguments": [[prompt, {"until": []}]], "resps": [["7"]],
        "filtered_resps": ["7"], "filter": "none", "metrics": ["acc"], "acc": float(right), **keys,
    }  # fmt: skip


def written(folder: Path, lines: Sequence[dict[str, Any]], task: str = "aime") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"samples_{task}_{TIME}.jsonl").write_text(text, encoding="utf-8")
    mean = sum(line["acc"] for line in lines) / len(lines)
    tree = {
        "results": {task: {"acc,none": mean, "acc_stderr,none": 0.01}}, "configs": {task: {}},
        "n-samples": {task: {"original": len(lines), "effective": len(lines)}},
        "config": {"model": "vllm", "model_args": {"pretrained": "m"}, "limit": None, "gen_kwargs": {}},
    }  # fmt: skip
    (folder / f"results_{TIME}.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def copies(folder: Path, luck: int, **doc: Any) -> Path:
    """Each problem in many copies, of which all or none are right; the copies are numbered."""
    rng = random.Random(luck)
    right = [rng.random() < 0.6 for _ in range(PROBLEMS)]
    return written(
        folder,
        [plain(n, f"Problem {n % PROBLEMS}", right[n % PROBLEMS], {"id": n, **doc}) for n in range(PROBLEMS * COPIES)],
    )


def only(comparison: Report) -> TaskDecision:
    (task,) = comparison.tasks
    assert task.is_decided
    return task


def test_copies_of_a_problem_are_one_cluster_in_the_score_and_in_the_drop(tmp_path: Path) -> None:
    a, b = copies(tmp_path / "a", 1), copies(tmp_path / "b", 2)
    comparison = compare(a, b)
    assert only(comparison).drop.clusters == PROBLEMS
    interval = comparison.tasks[0].scores[0].interval
    assert interval is not None
    assert interval.upper - interval.lower > 0.4  # of 12 problems; of 240 docs it would be 0.12


def test_the_same_doc_under_other_shots_is_one_problem(tmp_path: Path) -> None:
    lines = [plain(n, f"shots {n}, problem {n % 3}", True, {"problem": n % 3}) for n in range(9)]
    docs = read_run([written(tmp_path, lines)]).tasks["aime"].docs
    assert len({doc.cluster for doc in docs}) == 3


def test_choices_behind_one_context_are_problems_of_their_own(tmp_path: Path) -> None:
    """BLiMP's contexts are empty, and its sentences differ."""
    pairs = [[["", f"A dog {n} runs."], ["", f"A dog {n} run."]] for n in range(6)]
    lines = [plain(n, "", True, {"n": n}, arguments=pair, resps=[[["-1", "True"]]] * 2) for n, pair in enumerate(pairs)]
    docs = read_run([written(tmp_path, lines)]).tasks["aime"].docs
    assert {doc.cluster for doc in docs} == {None}


def test_docs_that_share_nothing_have_the_intervals_of_docs_on_their_own(tmp_path: Path) -> None:
    lines = [plain(n, f"Problem {n}", n % 3 > 0, {"id": n}) for n in range(60)]
    (task,) = report(written(tmp_path, lines)).tasks
    docs = tuple(replace(doc, cluster=None) for doc in read_run([tmp_path]).tasks["aime"].docs)
    known = compute_scores(docs, "acc,none")
    assert known is not None
    assert known.clusters is None
    assert task.scores[0].interval == known.interval


@given(st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=1, max_size=12), st.randoms())
def test_clusters_are_what_hangs_together_whatever_the_order(keys: list[list[int]], luck: random.Random) -> None:
    texts = [[str(key) for key in each] for each in keys]
    clusters = name_clusters(texts)
    groups: list[set[int]] = []
    for place, each in enumerate(texts):
        near = [group for group in groups if any(set(each) & set(texts[other]) for other in group)]
        groups = [group for group in groups if group not in near] + [set().union({place}, *near)]
    for group in groups:
        names = {clusters[place] for place in group}
        least = min((key for place in group for key in texts[place]), default=None)
        assert names == ({None} if len(group) == 1 else {least})
    order = luck.sample(range(len(texts)), len(texts))
    assert name_clusters([texts[place] for place in order]) == [clusters[place] for place in order]


@given(st.text(max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_only_the_same_prompt_with_the_same_answer_is_the_same(prompt: str, gold: str, other: str) -> None:
    def keys(number: int, gold: str) -> list[tuple[str, ...]]:
        return list_content_parts(f"doc {number}", (prompt,), gold, [[f"{prompt}.", {}]])

    assert bool(set(keys(1, gold)) & set(keys(2, other))) == (gold == other)


# What the user names


def passages(folder: Path, task: str = "drop", right: int = 5) -> Path:
    return written(
        folder,
        [plain(n, f"Q{n}", n % 10 < right, {"id": n, "passage": {"at": n // 10}, "by": None}) for n in range(80)],
        task,
    )


def test_a_field_that_is_named_makes_clusters_in_report_compare_and_gate(tmp_path: Path) -> None:
    a, b = passages(tmp_path / "a"), passages(tmp_path / "b", right=4)
    assert only(compare(a, b)).drop.clusters == 80
    assert only(compare(a, b, cluster={"dr*": "passage"})).drop.clusters == 8
    gate = tmp_path / "gate.yaml"
    gate.write_text("margin: 2\ncluster: {drop: passage}\n", encoding="utf-8")
    assert only(compare(a, b, gate=gate)).drop.clusters == 8
    done = cli("compare", a, b, "--cluster", "drop=passage", "--json")
    assert json.loads(done.stdout)["tasks"][0]["drop"]["clusters"] == 8


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("drop=pasage", r"no doc has the cluster field 'pasage'.*did you mean 'passage'\?.*Fields: by, id, passage"),
        ("drop=by", "the cluster field 'by' holds nothing in any doc"),
        ("dorp=passage", "unknown task 'dorp'.*Tasks: drop"),
        ("passage", "not of the form TASK=FIELD"),
    ],
)
def test_a_field_or_task_that_is_not_there_is_one_message(tmp_path: Path, named: str, message: str) -> None:
    done = cli("report", passages(tmp_path / "a"), "--cluster", named, COLUMNS="300")
    assert done.returncode == 2
    with pytest.raises(AssertionError, match=f"(?i){message}"):
        raise AssertionError(done.stderr)


def test_a_task_that_a_gate_gives_a_field_and_no_run_has_is_named_with_the_gate(tmp_path: Path) -> None:
    gate = tmp_path / "gate.yaml"
    gate.write_text("cluster: {dorp: passage}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"gate\.yaml: cluster: unknown task 'dorp'; did you mean 'drop'\?"):
        report([passages(tmp_path / "a")], gate=gate)


def test_a_task_is_named_once() -> None:
    with pytest.raises(ConfigError, match="drop is named twice"):
        read_fields(["drop=a", "drop=b"])


# Texts that docs share, which nobody names


def text(number: int, *, of: str = "Passage", sign: str = ".") -> str:
    """A text of more than 200 characters."""
    return f"{of} {number}{sign} " + "It has a few sentences that several questions are about. " * 4


# Docs in the shapes of lm-eval's tasks, their prompt, and the field that makes clusters; 120 docs, of three to a text.
SHAPES: dict[str, tuple[Callable[[int], dict[str, Any]], str, str | None]] = {
    "squadv2": (
        lambda n: {"id": f"{n}", "title": "Normans", "context": text(n // 3), "question": f"Who {n}?", "answers": {}},
        "Title: {title}\n\nBackground: {context}\n\nQuestion: {question}\n\nAnswer:", "context",
    ),
    "drop": (
        lambda n: {"section_id": f"nfl_{n // 3}", "passage": text(n // 3), "question": f"How many {n}?"},
        "{passage} {question}", "passage",
    ),
    "boolq": (
        lambda n: {"question": f"is it {n}", "passage": text(n if n > 9 else n // 2), "idx": n, "label": 1},
        "{passage}\nQuestion: {question}?\nAnswer:", "passage",
    ),
    "multirc": (
        lambda n: {"paragraph": text(n // 3, sign='"'), "question": f"What {n}?", "answer": f"{n}", "label": 0},
        "{paragraph}\nQuestion: {question}\nAnswer:", "paragraph",
    ),
    "record": (
        lambda n: {"passage": text(n // 3) + "\n@highlight\n", "query": f"@placeholder {n}", "entities": ["a"]},
        "{passage} {query}", "passage",
    ),
    "qasper_bool": (
        lambda n: {"title": f"Paper {n // 3}", "abstract": text(n // 3), "question": f"Do they {n}?", "answer": "no"},
        "TITLE: {title}\nABSTRACT: {abstract}\n\nQ: {question}\n\nA:", "abstract",
    ),
    "a section of a passage": (
        lambda n: {"article": text(n // 3), "section": text(n // 2, of="Section"), "question": f"{n}"},
        "{article}\n{section}\n{question}", "article",
    ),
    "too few articles": (
        lambda n: {"article": text(n // 10), "section": text(n // 2, of="Section"), "question": f"{n}"},
        "{article}\n{section}\n{question}", "section",
    ),
    "a text within a field": (
        lambda n: {"context": {"text": text(n // 3), "title": "Normans"}, "question": f"{n}"},
        "{context[text]}\n{question}", "context.text",
    ),
    "sentences in a list": (
        lambda n: {"context": {"sentences": text(n // 3).split(". ")}, "question": f"{n}"},
        "{context[sentences][0]}. {context[sentences][1]}. {question}", "context.sentences",
    ),
    "a message": (
        lambda n: {"messages": [{"role": "system", "content": text(n // 3)}, {"role": "user", "content": f"{n}"}]},
        "{messages[0][content]}\n{messages[1][content]}", "messages.0.content",
    ),
    "a text of 60 docs": (
        lambda n: {"passage": text(n if n < 60 else 60), "question": f"{n}"}, "{passage} {question}", None,
    ),
    "coqa": (
        lambda n: {"id": f"{n}", "story": text(n), "questions": {"input_text": [f"{n}"]}, "answers": {}},
        "{story}\n\nQ: {questions}\n\nA:", None,
    ),
    "race": (
        lambda n: {"article": text(n), "problems": f"[{{'question': '{n}'}}]"}, "Article: {article}\n\n{problems}", None,
    ),
    "mmlu": (
        lambda n: {"question": f"Which {n}?", "subject": "law", "choices": ["a", "b"], "answer": 1},
        "{question}\nA. a\nB. b\nAnswer:", None,
    ),
    "gsm8k": (lambda n: {"question": f"Natalia sold {n}", "answer": f"#### {n}"}, "Question: {question}", None),
    "an instruction": (
        lambda n: {"instruction": text(0), "question": f"{n}"}, "{instruction}\n{question}", None,
    ),
    "a text that the model does not see": (
        lambda n: {"question": f"{n}", "explanation": text(n // 3)}, "{question}", None,
    ),
    "a short name": (lambda n: {"category": f"c{n // 3}", "question": f"{n}"}, "{category}: {question}", None),
}  # fmt: skip


@pytest.mark.parametrize("chat", [False, True])
def test_the_field_of_a_text_that_docs_share_is_found_in_the_shapes_of_lm_evals_tasks(chat: bool) -> None:
    for name, (shape, template, wanted) in SHAPES.items():
        reading, docs = TextReading(), [shape(number) for number in range(120)]
        for number, doc in enumerate(docs):
            prompt = template.format_map(doc)
            reading.add(number, doc, json.dumps([{"role": "user", "content": prompt}]) if chat else prompt)
        chosen = choose_cluster_field(reading.collect(range(120)), 120, 0.2)  # 30 clusters are enough
        assert (chosen and chosen.name) == wanted, name


def asked(folder: Path, seed: int, passages: int = 40, *, template: str = "{passage} {question}") -> Path:
    rng = random.Random(seed)
    docs = [{"question": f"Q{n}", "passage": text(n % passages)} for n in range(120)]
    lines = [
        plain(n, template.format_map(doc), rng.random() < 0.6, doc, resps=[[f"{seed} {n}"]])
        for n, doc in enumerate(docs)
    ]
    return written(folder, lines, "squad")


def test_docs_of_a_text_are_a_cluster_where_enough_are_left_and_else_named(tmp_path: Path) -> None:
    a, b = asked(tmp_path / "a", 1), asked(tmp_path / "b", 2)
    found = compare(a, b, margin=20)
    assert only(found).drop.clusters == 40
    assert "docs that share a text count as one cluster: squad by passage" in found.notes
    assert found.tasks[0].scores[0].interval == compare(a, b, cluster={"squad": "passage"}).tasks[0].scores[0].interval
    few = compare(a, b)
    assert only(few).drop.clusters == 120
    assert few.decision.caveats == ("docs share a text: --cluster squad=passage (40 texts in 120 docs)",)
    named = compare(a, b, cluster={"squad": "question"}, margin=20)
    assert only(named).drop.clusters == 120
    assert not named.decision.caveats


def test_a_text_outside_the_prompt_is_named_and_makes_no_cluster(tmp_path: Path) -> None:
    a, b = (asked(tmp_path / str(seed), seed, template="{question}") for seed in (1, 2))
    found = compare(a, b, margin=20)
    assert only(found).drop.clusters == 120
    assert "--cluster squad=passage" in found.decision.caveats[0]


@pytest.mark.parametrize("doc", [None, 7, [1], "text", {"": text(0)}, {"a\n b": text(0)}])
def test_docs_of_any_json_are_read(tmp_path: Path, doc: Any) -> None:
    run = read_run([written(tmp_path, [plain(n, f"{n} {text(0)}", True, doc) for n in range(3)])])
    assert len(run.tasks["aime"].docs) == 3


def test_the_margin_of_a_task_says_how_many_clusters_are_enough(tmp_path: Path) -> None:
    a, b = asked(tmp_path / "a", 1), asked(tmp_path / "b", 2)
    gate = tmp_path / "gate.yaml"
    gate.write_text("margin: {mean: 1, squad: 20}\n", encoding="utf-8")
    assert only(compare(a, b, gate=gate)).drop.clusters == 40


# In a pack


def recorded(tmp_path: Path, **keys: Any) -> Path:
    return prepare(
        tmp_path / "pack", "tiny_free", evals_dataset=str(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13"),
        template_dir=str(REPOSITORY / "tools/lm_eval_tasks"), **keys,
    )  # fmt: skip


def test_a_pack_says_which_field_makes_its_clusters_and_report_names_the_texts_that_make_none(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Eight texts in 15 docs, within a field; at a margin of 99 points they are clusters."""
    record = Path(shutil.copytree(record_run(tmp_path_factory), tmp_path / "record"))
    (samples,) = (record / "run").rglob(f"samples_{TEXTS}_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        passage = text(line["doc_id"] // 2)
        line["doc"]["context"] = {"text": passage}
        line["arguments"]["gen_args_0"]["arg_0"] = f"{passage}{line['doc']['question']}"
        line["prompt_hash"] = hash_text(line["arguments"]["gen_args_0"]["arg_0"])
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    said = []
    for margin in (1, 99):
        pack = prepare(tmp_path / f"pack{margin}", **{**config_of(record), "tasks": TEXTS, "margin": margin})
        found = report(record / "run", pack=pack, tasks=[TEXTS], margin=margin, cap=99.0)
        said.append(([a for a in found.decision.caveats if "share" in a], [n for n in found.notes if "share" in n]))
    key = f"cluster: {{{TEXTS}: context.text}} in the configuration of the pack"
    assert said[0] == ([f"docs share a text: {key} (8 texts in 15 docs)"], [])
    assert said[1] == ([], [f"docs that share a text count as one cluster: {TEXTS} by context.text"])


def test_a_field_is_named_by_its_path() -> None:
    doc = {"a": {"b": [{"c": "x"}, 7]}, "a.b": "dots", "n": None, "s": "text"}
    named = {field: read_field(doc, field) for field in ("a.b", "a.b.0.c", "a.b.1", "a.b.2", "n.m", "s.t", "s", "a.")}
    assert named == {
        "a.b": "dots", "a.b.0.c": "x", "a.b.1": "7", "a.b.2": None, "n.m": None, "s.t": None, "s": "text", "a.": None
    }  # fmt: skip


def test_a_configuration_names_the_field_of_a_recorded_task(tmp_path: Path) -> None:
    first = read_docs(recorded(tmp_path / "a"), "tiny_free")
    assert {doc["cluster"] for doc in first} == {None}
    field = next(iter(json.loads(first[0]["recorded_doc"])))
    pack = recorded(tmp_path / "b", cluster={"tiny_*": field})
    assert all(isinstance(doc["cluster"], str) for doc in read_docs(pack, "tiny_free"))
    with pytest.raises(ConfigError, match="no doc has the cluster field 'nothing'"):
        recorded(tmp_path / "c", cluster={"tiny_free": "nothing"})
    with pytest.raises(ConfigError, match="unknown task 'other'"):
        recorded(tmp_path / "d", cluster={"other": "x"})


def test_copies_are_asked_together_where_a_run_may_stop() -> None:
    def doc(number: int) -> DocResult:
        return DocResult(
            number, f"q{number}", (), None, None, f"c{number % 5}", "", None, None, None, "", False, None,
            filter_results={"f": FilterResult(None, {"em": 1.0}, 0, 0)},
        )  # fmt: skip

    docs = [doc(number) for number in range(20)]
    known = compute_scores(docs, "em,f")
    assert known is not None
    clusters = list_task_docs("t", docs, known, frozenset()).clusters
    assert clusters is not None
    assert len(set(clusters)) == 5


def test_verify_keeps_the_copies_in_a_pack_with_its_baseline(tmp_path: Path) -> None:
    """What decides when a run stops knows of them: a question of the sample is there twice."""
    pack = prepare(tmp_path / "pack", "meta_mmlu_pretrain")
    verify(pack)
    docs = read_baseline(pack, read_manifest(pack)).graded.tasks["meta_mmlu_pretrain"].docs
    named = [doc for doc in docs if doc.cluster is not None]
    assert len(named) == 2
    assert len({(doc.cluster, doc.question_hash) for doc in named}) == 1
