"""choice_scoring: next_token: one prompt and one token a doc, the same verdicts, and likelihoods where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from golden import replay, verdicts
from packs import prepare, read_docs, some_templates
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval import export, grade
from meta_eval.harness.sample_files import read_samples
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.records.next_token import NotOneTokenError, find_choice_ids

TASK = "meta_mmlu_pretrain"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "model")


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(some_templates(tmp_path_factory.mktemp("templates"), "mmlu", "boolq"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, model: Path, templates: str) -> Path:
    folder = tmp_path_factory.mktemp("packs")
    keys = {"model_name": str(model), "template_dir": templates}
    return prepare(folder / "work_dir", TASK, choice_scoring="next_token", **keys)


@pytest.fixture(scope="module")
def by_likelihood(tmp_path_factory: pytest.TempPathFactory, templates: str) -> Path:
    return prepare(tmp_path_factory.mktemp("by_likelihood") / "work_dir", TASK, template_dir=templates)


@pytest.fixture(scope="module")
def requests(pack: Path) -> list[dict[str, Any]]:
    file = pack.parent / "requests.jsonl"
    export(pack, file)
    return [line for line in map(json.loads, file.read_text().splitlines()) if "id" in line]


def kept(folder: Path, tasks: str = TASK, **settings: Any) -> str | None:
    """Why a task is scored by likelihood all the same."""
    pack = prepare(folder / "work_dir", tasks, choice_scoring="next_token", **settings)
    entry = read_manifest(pack).tasks[tasks]
    assert (entry.choice_scoring == "likelihood") == (entry.likelihood_reason is not None)
    assert (entry.output_type == "multiple_choice") == (entry.choice_scoring == "likelihood")
    return entry.likelihood_reason


@pytest.mark.plugin("meta")
def test_a_doc_is_asked_once_for_one_of_its_choices(pack: Path, model: Path, requests: list[dict[str, Any]]) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    docs = read_docs(pack, TASK)
    assert len(requests) == len(docs)
    for doc, request in zip(docs, requests, strict=True):
        assert (request["kind"], request["prompt"], request["max_tokens"]) == ("generate", doc["prompt"], 1)
        allowed = request["settings"]["allowed_token_ids"]
        assert [tokenizer.decode([token]) for token in allowed] == doc["continuations"]


@pytest.mark.plugin("meta")
def test_of_choices_that_are_equally_likely_the_first_is_given(requests: list[dict[str, Any]]) -> None:
    """Half precision makes such ties, and an engine takes any of them; likelihoods take the first."""
    settings = requests[0]["settings"]
    held_back = [settings["logit_bias"][str(token)] for token in settings["allowed_token_ids"]]
    assert held_back == sorted(held_back, reverse=True)
    assert len(set(held_back)) == len(held_back)
    assert -1e-3 < min(held_back) < max(held_back) == 0


@pytest.mark.plugin("meta")
def test_recorded_answers_get_the_verdicts_that_likelihoods_get(pack: Path, by_likelihood: Path) -> None:
    results = [replay(folder, [TASK]) for folder in (pack, by_likelihood)]
    samples = [[json.loads(line) for line in verdicts(result["samples"][TASK])] for result in results]
    assert [{**sample, "extracted": None} for sample in samples[0]] == samples[1]
    assert {key for key in results[0]["results"][TASK] if "," in key} == {
        key for key in results[1]["results"][TASK] if "," in key
    }


@pytest.mark.plugin("meta")
def test_an_answer_that_is_no_choice_is_wrong_and_ungraded(
    pack: Path, requests: list[dict[str, Any]], tmp_path: Path
) -> None:
    docs = read_docs(pack, TASK)
    right = [docs[request["doc"]]["gold"] for request in requests]
    texts = [" " + right[0], right[1], "", "E!", *right[4:]]
    file = tmp_path / "answers.jsonl"
    file.write_text(
        "".join(
            json.dumps(
                {
                    "id": request["id"],
                    "prompt_sha256": request["prompt_sha256"],
                    "text": text,
                    "finish_reason": "length",
                }
            )
            + "\n"
            for request, text in zip(requests, texts, strict=True)
        )
    )
    done = grade([file], pack=pack, output=tmp_path / "out")
    (path,) = done.results.parent.glob("samples_*.jsonl")
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    assert [sample["acc"] for sample in samples] == [1.0, 1.0, 0.0, 0.0, *([1.0] * len(right[4:]))]
    assert [sample["ungraded"] for sample in samples] == [0.0, 0.0, 1.0, 1.0, *([0.0] * len(right[4:]))]
    # One token is the whole answer: none was cut at its limit.
    assert {doc.limit_hit for doc in read_samples(path, count_tokens=len).docs} == {False}


@pytest.mark.plugin("meta")
@pytest.mark.parametrize(
    ("task", "settings", "why"),
    [
        (TASK, {}, "the tokenizer of my/model is not on this machine"),
        pytest.param(
            TASK,
            {"backend": "hf"},
            "backend hf cannot restrict generation to given tokens",
            marks=pytest.mark.plugin("engines"),
        ),
        ("meta_boolq", {}, "its metrics are computed from likelihoods"),
    ],
)
def test_likelihoods_stay_where_something_is_missing(
    tmp_path: Path, templates: str, task: str, settings: dict[str, Any], why: str
) -> None:
    assert why in (kept(tmp_path, task, template_dir=templates, **settings) or "")


@pytest.mark.plugin("meta")
def test_every_model_of_a_sweep_must_have_the_same_tokens(tmp_path: Path, model: Path, templates: str) -> None:
    other = write_tokenizer(tmp_path / "other")
    tree = json.loads((other / "tokenizer.json").read_text())
    ids = tree["model"]["vocab"]
    ids["\u0120A"], ids["\u0120B"] = ids["\u0120B"], ids["\u0120A"]
    (other / "tokenizer.json").write_text(json.dumps(tree))
    alike, unlike = [str(model), str(write_tokenizer(tmp_path / "copy"))], [str(model), str(other)]
    assert kept(tmp_path / "same", model_name=alike, template_dir=templates) is None
    why = kept(tmp_path / "not", model_name=unlike, template_dir=templates)
    assert "has other tokens than" in (why or "")


@pytest.mark.plugin("meta")
def test_the_docs_of_a_pack_that_asks_for_likelihoods_hold_no_ids(by_likelihood: Path) -> None:
    assert "choice_token_ids" not in pq.read_schema(by_likelihood / f"{TASK}.parquet").names
    assert read_manifest(by_likelihood).tasks[TASK].choice_scoring == "likelihood"


@pytest.mark.parametrize(
    ("context", "choices", "why"),
    [
        ("Answer:", [" A", " yes"], "is 4 tokens"),
        ("Answer:", [" A", " A"], "two of its choices are the same"),
        ("Answer: ", ["A", "B"], "ends in white space"),
        ("Answer:", [" A", ""], "is 0 tokens"),
    ],
)
def test_each_choice_must_be_one_token_behind_the_context(
    model: Path, context: str, choices: list[str], why: str
) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    with pytest.raises(NotOneTokenError, match=why):
        list(find_choice_ids(iter([(context, choices)]), tokenizer))


def test_a_choice_must_not_change_the_tokens_before_it() -> None:
    """As where a tokenizer has a token of the colon and the letter."""
    from tokenizers import models

    vocabulary = {token: number for number, token in enumerate(["A", "B", ":", ":A", ":B", "x"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[(":", "A"), (":", "B")]))
    with pytest.raises(NotOneTokenError, match="changes the tokens before it"):
        list(find_choice_ids(iter([("x:", ["A", "B"])]), tokenizer))
