"""The further metrics: what they say of texts and choices, and that lighteval's own say the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packs import prepare, read_docs
from places import REPOSITORY, TEMPLATES
from template_modules import template_module

from meta_eval import export, verify
from meta_eval.base.errors import UserError

metrics = template_module("_common/metrics.py")

WORDS = st.lists(
    st.sampled_from(["the", "A", "cat", "cats", "Cat-like", "7", "7.0", "1,000", "x.", "(y)", "", "été"]), max_size=6
)
TEXT = st.one_of(WORDS.map(" ".join), st.text(max_size=12))


def of(answer: str, *golds: str) -> dict[str, float]:
    scores: dict[str, float] = metrics.texts({"answers": list(golds)}, [answer])
    return scores


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        (" Paris ", "Paris", {"exact_match": 1, "quasi_exact_match": 1, "prefix_match": 1, "f1": 1}),
        ("the Paris!", "paris", {"exact_match": 0, "quasi_exact_match": 1, "prefix_match": 0, "quasi_prefix_match": 1}),
        ("Paris, of course", "Paris", {"exact_match": 0, "prefix_match": 1, "quasi_prefix_match": 1, "f1": 0.5}),
        ("7", "7.0", {"quasi_exact_match": 0}),  # the point goes before the number is read: 70.0
        ("07", "7", {"quasi_exact_match": 1}),
        ("well-known", "well known", {"quasi_exact_match": 1, "exact_match": 0}),
        ("", "", {"exact_match": 0, "quasi_exact_match": 0, "prefix_match": 0, "f1": 0}),
        ("anything", "the", {"quasi_prefix_match": 0}),  # of such a gold nothing is left
        ("no no yes", "no yes yes", {"f1": 2 / 3}),  # words count as often as they occur
    ],
)
def test_what_each_says_of_a_text(answer: str, gold: str, expected: dict[str, float]) -> None:
    scores = of(answer, gold)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_a_stricter_form_never_says_more_than_a_laxer_one(answer: str, golds: list[str]) -> None:
    scores = of(answer, *golds)
    assert all(0 <= value <= 1 for value in scores.values())
    assert scores["exact_match"] <= scores["quasi_exact_match"]
    if any(gold.strip() for gold in golds):
        assert scores["exact_match"] <= max(scores["prefix_match"], not answer.strip())
    assert scores == of(answer, *reversed(golds))


@given(TEXT)
def test_a_text_is_its_own_answer(text: str) -> None:
    assert of(text, text)["exact_match"] == float(bool(text))
    assert metrics.quasi(metrics.quasi(text).upper()).split() != ["the"]


DOC = {"continuations": [" a", " bcd", " ef"], "characters": [1, 3, 2], "gold_index": 1, "choice_tokens": [1, 2, 1]}


@pytest.mark.parametrize(
    ("likelihoods", "alone", "expected"),
    [
        ([-2.0, -3.0, -4.0], [-1.0, -9.0, -1.0], {"acc": 0, "acc_char": 1, "acc_token": 1, "acc_mutual_info": 1}),
        ([-3.0, -2.0, -4.0], [-9.0, -1.0, -1.0], {"acc": 1, "acc_char": 1, "acc_token": 1, "acc_mutual_info": 0}),
        ([-2.0, -2.0, -2.0], [-1.0, -1.0, -1.0], {"acc": 0, "acc_char": 1, "acc_token": 1, "acc_mutual_info": 0}),
        (
            [float("nan"), -2.0, -4.0],
            [-1.0, -1.0, -1.0],
            {"acc": 0, "acc_char": 0, "acc_token": 0, "acc_mutual_info": 0},
        ),
    ],
)
def test_what_each_says_of_choices(likelihoods: list[float], alone: list[float], expected: dict[str, float]) -> None:
    assert metrics.choices(DOC, [(likelihood, False) for likelihood in likelihoods + alone]) == expected
    scores = metrics.choices({**DOC, "choice_tokens": None}, [(likelihood, False) for likelihood in likelihoods])
    assert set(scores) == {"acc", "acc_char"}


def template(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_one_line_of_a_template_chooses_them(tmp_path: Path) -> None:
    text = (TEMPLATES / "winogrande" / "winogrande_5shot.yaml").read_text(encoding="utf-8")
    text = text.replace("meta_winogrande", "mine").replace(
        "include: ../_choice_yaml", "include: ../_choice_metrics_yaml"
    )
    folder = template(tmp_path / "templates", "mine", text)
    with pytest.raises(UserError, match=r"acc_token counts tokens, and the tokenizer of .* is not on this machine"):
        prepare(tmp_path / "none", "mine", template_dir=str(folder))
    model = own_tokenizer(tmp_path / "model")
    pack = prepare(tmp_path / "pack", "mine", template_dir=str(folder), model_name=str(model))
    docs = read_docs(pack, "mine")
    assert [doc["choice_tokens"] for doc in docs[:1]] == [[len(end.split()) for end in docs[0]["continuations"]]]
    (task,) = verify(pack).tasks.values()
    assert task.status == "passed"
    # Its mutual information asks each choice without the question too: a request of its own.
    assert export(pack, tmp_path / "requests.jsonl").tasks == {"mine": 2 * len(docs)}


def own_tokenizer(folder: Path) -> Path:
    """A tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


# Beside lighteval's


def cases(count: int) -> dict[str, list[dict[str, Any]]]:
    drawn = random.Random(15)
    words = [
        "the",
        "a",
        "An",
        "cat",
        "Cats",
        "dog",
        "well-known",
        "7",
        "07",
        "1,000",
        "3.5",
        "(so)",
        "it's",
        "été",
        "\tx",
        "U.S.",
    ]

    def text(longest: int) -> str:
        return drawn.choice(["", " "]) * drawn.randint(0, 1) + " ".join(
            drawn.choices(words, k=drawn.randint(1, longest))
        )

    texts = []
    for _ in range(count):
        golds = [text(3) for _ in range(drawn.randint(1, 3))]
        taken = drawn.choice(golds)
        answer = drawn.choice(
            [text(4), taken, taken.upper(), f"{taken}, {text(3)}", f"The {taken}.", "", f" {taken}\n"]
        )
        texts.append({"answer": answer, "golds": golds})
    choices = []
    for _ in range(count):
        ends = [" " + text(3).strip() for _ in range(drawn.randint(2, 5))]
        numbers = [[round(-drawn.expovariate(0.2), 1) for _ in ends] for _ in range(2)]
        choices.append(
            {
                "choices": ends, "gold": drawn.randrange(len(ends)), "tokens": [drawn.randint(1, 4) for _ in ends],
                "likelihoods": numbers[0], "alone": numbers[1],
            }
        )  # fmt: skip
    return {"texts": texts, "choices": choices}


@pytest.mark.lighteval
def test_lighteval_says_the_same_but_where_ours_say_that_they_differ(tmp_path: Path) -> None:
    count = 20_000
    made = cases(count)
    (tmp_path / "cases.json").write_text(json.dumps(made), encoding="utf-8")
    script = REPOSITORY / "tests" / "helpers" / "lighteval_metrics.py"
    command = [os.environ["META_EVAL_LIGHTEVAL"], str(script), "cases.json", "found.json"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    theirs = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    differing: dict[str, int] = {}
    for case, expected in zip(made["texts"], theirs["texts"], strict=True):
        scores = of(case["answer"], *case["golds"])
        for name, value in expected.items():
            if scores[name] == pytest.approx(value, abs=1e-9):
                continue
            differing[name] = differing.get(name, 0) + 1
            quasis = [metrics.quasi(text).split() for text in (case["answer"], *case["golds"])]
            repeats = any(len(set(words)) < len(words) for words in quasis)
            nothing_left = any(not words for words in quasis[1:])
            assert (name == "f1" and repeats) or (name == "quasi_prefix_match" and nothing_left), (name, case, value)
    for case, expected in zip(made["choices"], theirs["choices"], strict=True):
        doc = {
            "continuations": case["choices"], "characters": [len(choice) for choice in case["choices"]],
            "choice_tokens": case["tokens"], "gold_index": case["gold"],
        }  # fmt: skip
        assert (
            metrics.choices(doc, [(likelihood, False) for likelihood in case["likelihoods"] + case["alone"]])
            == expected
        ), case
    assert differing == {"f1": 1113, "quasi_prefix_match": 1526}
