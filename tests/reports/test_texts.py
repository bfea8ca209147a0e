"""``compare --texts``: where two greedy runs part, and whether rounding explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import cli
from forced_tables import HEADER, answer, table
from hypothesis import given
from hypothesis import strategies as st
from runs import TIME, write_run
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval.api import compare_texts
from meta_eval.ask.request import Request
from meta_eval.judge.text_partings import TextPair, compare_greedy_texts
from meta_eval.judge.token_table import Forced
from meta_eval.stats.first_divergence import median_interval

WORDS = "The answer is yes, and nothing else."


def texts_of(folder: Path, texts: Sequence[str], settings: Mapping[str, Any] | None = None, **run: Any) -> Path:
    """A run with these texts."""
    write_run(folder, [1.0] * len(texts), **run)
    path = folder / f"samples_meta_some_{TIME}.jsonl"
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for sample, text in zip(samples, texts, strict=True):
        sample["resps"] = [[text]]
        sample["arguments"]["gen_args_0"]["arg_1"] = {"until": ["\n\n"], "max_gen_toks": 64, **(settings or {})}
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    return folder


def scored(
    tokenizer: Tokenizer, doc: int, text: str, at: int, others: Mapping[int, float], top_k: int | None = None
) -> Forced:
    """A text under the trusted copy: every token has the log-probability -0.8, and other tokens at one place these."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    request = Request("meta_some/0", "meta_some", 0, 0, "force", f"Question {doc}?", continuations=(text,))
    some: dict[str, Any] = {}
    if top_k is not None:
        some["top_k_ids"] = np.full((len(ids), top_k), -1, np.int32)
        some["top_k_logprobs"] = np.full((len(ids), top_k), -9.0, np.float32)
        some["top_k_ids"][:, 0], some["top_k_logprobs"][:, 0] = ids, -0.8
        for place, (token, logprob) in enumerate(others.items(), start=1):
            some["top_k_ids"][at, place], some["top_k_logprobs"][at, place] = token, logprob
    made = answer(doc, [-0.8] * len(ids), task="meta_some", request_sha256=request.sha256, **some)
    return replace(made, token_ids=np.asarray(ids, np.int32), top_ids=np.asarray(ids, np.int32))


@pytest.fixture
def model(tmp_path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(write_tokenizer(tmp_path / "m") / "tokenizer.json"))


def pair_of_runs(tmp_path: Path, parted: Mapping[int, str], docs: int = 12) -> tuple[Path, Path]:
    texts = [f"{WORDS} {doc}" for doc in range(docs)]
    second = [parted.get(doc, text) for doc, text in enumerate(texts)]
    return texts_of(tmp_path / "a", texts), texts_of(tmp_path / "b", second)


def compared(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    done = cli("compare", "--texts", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def gate(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text("texts: {min_docs: 10}\n", encoding="utf-8")
    return tmp_path / "gate.yaml"


def test_equal_texts_are_the_same_and_need_no_engine(tmp_path: Path) -> None:
    a, b = pair_of_runs(tmp_path, {})
    code, report = compared(a, b, "--gate", gate(tmp_path))
    assert (code, report["outcome"], report["reason"]) == (0, "same", "every text is identical")
    assert report["figures"][0]["identical_interval"]["upper"] == 1.0
    assert report["partings"] == []


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_run_beside_itself_is_not_the_same_but_undecided(tmp_path: Path, is_copy: bool) -> None:
    a, b = pair_of_runs(tmp_path, {})
    (b / f"results_{TIME}.json").write_bytes((a / f"results_{TIME}.json").read_bytes())
    code, report = compared(a, b if is_copy else a, "--gate", gate(tmp_path))
    assert (code, report["outcome"]) == (3, "undecided")
    assert report["reason"].startswith("the same run twice")


def test_a_task_that_neither_run_has_is_unknown(tmp_path: Path) -> None:
    a, b = pair_of_runs(tmp_path, {})
    done = cli("compare", a, b, "--texts", "--tasks", "meta_sme")
    assert done.returncode == 2
    assert "--tasks: unknown task 'meta_sme'; did you mean 'meta_some'?" in done.stderr


def test_texts_that_part_are_shown_where_they_part_and_without_a_table_nothing_is_decided(tmp_path: Path) -> None:
    a, b = pair_of_runs(tmp_path, {3: "The answer is no.", 5: "The"})
    code, report = compared(a, b, "--gate", gate(tmp_path))
    assert (code, report["outcome"], report["unit"]) == (3, "undecided", "character")
    assert [(parting["doc"], parting["at"], parting["token_a"], parting["token_b"]) for parting in report["partings"]] == [
        (3, 15, "y", "n"), (5, 4, " ", None),
    ]  # fmt: skip
    shown = " ".join(cli("compare", a, b, "--texts").stdout.split())
    assert "10 of 12 texts identical" in shown and "--tokens TABLE" in shown and "end of text" in shown


@pytest.mark.parametrize(
    ("logprob", "top_k", "outcome", "code", "gap"),
    [
        (-0.9, 3, "same", 0, 0.1),
        (-2.8, 3, "different", 1, 2.0),
        (None, 3, "different", 1, 8.2),  # below the last kept token
        (None, None, "undecided", 3, None),  # a token of which nothing is known may be as likely
    ],
)
def test_a_table_says_whether_a_parting_is_a_near_tie(
    tmp_path: Path, model: Tokenizer, logprob: float | None, top_k: int | None, outcome: str, code: int,
    gap: float | None, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    a, b = pair_of_runs(tmp_path, {3: "The answer is no."})
    others = {} if logprob is None else {model.token_to_id("n"): logprob}
    made = scored(model, 3, f"{WORDS} 3", 14, others, top_k)
    path = table(tmp_path / "t.parquet", [made], replace(HEADER, model="m")).path
    ended, report = compared(a, b, "--tokens", path, "--gate", gate(tmp_path))
    assert (ended, report["outcome"], report["unit"]) == (code, outcome, "token")
    (parting,) = report["partings"]
    assert (parting["at"], parting["token_a"], parting["token_b"]) == (15, "y", "n")
    assert parting["gap"] == (None if gap is None else pytest.approx(gap))
    assert parting["at_least"] is (gap is not None and logprob is None)


def test_a_text_that_ends_is_measured_by_the_end_token_and_one_that_goes_on_by_its_own_table(
    tmp_path: Path, model: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    longer = f"{WORDS} 5 times"
    a, b = pair_of_runs(tmp_path, {3: "The answer", 5: longer})
    end = {model.token_to_id("<|eot_id|>"): -1.0}
    first = table(tmp_path / "of_a.parquet", [scored(model, 3, f"{WORDS} 3", 10, end, 2)], replace(HEADER, model="m"))
    at = len(model.encode(f"{WORDS} 5", add_special_tokens=False).ids)
    second = table(tmp_path / "of_b.parquet", [scored(model, 5, longer, at, end, 2)], replace(HEADER, model="m"))
    _, report = compared(a, b, "--tokens", first.path)
    assert (report["outcome"], report["figures"][0]["near_ties"], report["figures"][0]["not_measured"]) == (
        "undecided", 1, 1,
    )  # fmt: skip
    _, report = compared(a, b, "--tokens", first.path, "--tokens", second.path)
    assert (report["outcome"], report["figures"][0]["near_ties"]) == ("same", 2)
    assert {(parting["token_a"], parting["token_b"]) for parting in report["partings"]} == {(" ", None), (None, " ")}


@pytest.mark.parametrize(
    ("stop", "limit", "logprob", "outcome"),
    [
        (["<|eot_id|>"], 64, -4.0, "different"),
        (["s y"], 64, -4.0, "undecided"),  # the text may have gone on with "s yes"
        (["s y"], 64, -1.0, "same"),
        (["<|eot_id|>"], 10, -4.0, "same"),  # cut at its limit
    ],
)
def test_an_end_counts_as_a_change_only_if_the_end_token_must_have_made_it(
    tmp_path: Path, model: Tokenizer, stop: list[str], limit: int, logprob: float, outcome: str
) -> None:
    settings = {"until": stop, "max_gen_toks": limit}
    texts = [f"other {doc}" for doc in range(11)]
    a = texts_of(tmp_path / "a", [*texts, "The answer it is"], settings)
    b = texts_of(tmp_path / "b", [*texts, "The answer"], settings)
    made = scored(model, 11, "The answer it is", 10, {model.token_to_id("<|eot_id|>"): logprob}, 2)
    path = table(tmp_path / "t.parquet", [made], replace(HEADER, model=str(tmp_path / "m"))).path
    assert compared(a, b, "--tokens", path)[1]["outcome"] == outcome


@pytest.mark.parametrize(("logprob", "outcome"), [(-1.0, "same"), (-3.0, "different")])
def test_a_text_may_have_been_written_in_other_tokens_than_the_tokenizer_makes_of_it(
    tmp_path: Path, model: Tokenizer, logprob: float, outcome: str
) -> None:
    texts = [f"other {doc}" for doc in range(11)]
    a, b = texts_of(tmp_path / "a", [*texts, "An Egg"]), texts_of(tmp_path / "b", [*texts, "An Apple"])
    whole, space = model.token_to_id("ĠA"), model.token_to_id("Ġ")
    made = scored(model, 11, "An Egg", 2, {whole: -4.0, space: logprob}, 3)
    path = table(tmp_path / "t.parquet", [made], replace(HEADER, model=str(tmp_path / "m"))).path
    _, report = compared(a, b, "--tokens", path)
    assert (report["outcome"], report["partings"][0]["token_b"]) == (outcome, " ")


def test_every_view_names_a_change_with_both_tokens_and_their_log_probabilities(
    tmp_path: Path, model: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    a, b = pair_of_runs(tmp_path, {3: "The answer is <b>.", 4: "The answer is no."})
    made = scored(model, 3, f"{WORDS} 3", 14, {model.token_to_id("<"): -4.0}, 3)
    path = table(tmp_path / "t.parquet", [made], replace(HEADER, model="m")).path
    done = cli("compare", a, b, "--texts", "--tokens", path, "--html", "p.html", "--markdown", "p.md")
    assert done.returncode == 0, done.stderr
    page, markdown = (Path(name).read_text(encoding="utf-8") for name in ("p.html", "p.md"))
    for view in (done.stdout, page, markdown):
        assert "1 parting is no near tie" in view and "meta_some/3" in view and "3.20" in view
    assert "&lt;" in page and "-4.00".replace("-", "\N{MINUS SIGN}") in page and "**different**" in markdown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "hot", "--texts"), "meta_some was sampled (temperature 0.7)"),
        (("a", "short", "--texts"), "meta_some: max_gen_toks is"),
        (("a", "a", "--tokens", "t.parquet"), "--tokens: has no effect without --texts"),
        (("a", "a", "--texts", "--margin", "1"), "--margin: has no effect with --texts"),
        (("a", "a", "--texts", "--tokens", "none.parquet"), "none.parquet: cannot be read"),
        (("a", "other", "--texts"), "no prompt of A is a prompt of B"),
    ],
)
def test_what_texts_cannot_say_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    texts_of(tmp_path / "a", [WORDS] * 12)
    texts_of(tmp_path / "hot", [WORDS] * 12, {"temperature": 0.7})
    texts_of(tmp_path / "short", [WORDS] * 12, config={"gen_kwargs": {"max_gen_toks": 9}})
    texts_of(tmp_path / "other", [WORDS] * 12, task="meta_some")
    samples = tmp_path / "other" / f"samples_meta_some_{TIME}.jsonl"
    samples.write_text(samples.read_text(encoding="utf-8").replace('"arg_0": "Q', '"arg_0": "Another q'))
    done = cli("compare", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and words in " ".join(done.stderr.split())


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    a, b = texts_of(tmp_path / "a", [WORDS] * 12), texts_of(tmp_path / "b", [WORDS] * 10)
    assert compared(a, b)[1]["notes"] == ["2 texts of A left out: B has no text behind this prompt"]
    path = table(tmp_path / "t.parquet", [answer(0, [-1.0])]).path
    done = cli("compare", a, b, "--texts", "--tokens", path)
    assert done.returncode == 2 and "the tokenizer of my/model is not on this machine" in " ".join(done.stderr.split())
    model = write_tokenizer(tmp_path / "m")
    path = table(tmp_path / "t.parquet", [answer(0, [-1.0])], replace(HEADER, model=str(model))).path
    assert "t.parquet holds no text of A or B" in compared(a, b, "--tokens", path)[1]["notes"][1]


def test_a_damaged_task_is_left_out_only_if_asked(tmp_path: Path) -> None:
    a, b = pair_of_runs(tmp_path, {})
    write_run(b / "two", [1.0], task="meta_two")
    (b / "two" / f"samples_meta_two_{TIME}.jsonl").write_bytes(b"{")
    done = cli("compare", "--texts", a, b)
    assert done.returncode == 2 and f"samples_meta_two_{TIME}.jsonl" in (words := "".join(done.stderr.split()))
    assert "With--skip-damaged,theothersarecompared" in words
    assert any("meta_two" in note for note in compared(a, b, "--skip-damaged")[1]["notes"])


def test_docs_with_several_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    a, b = pair_of_runs(tmp_path, {3: "The answer is no."})
    for folder in (a, b):
        path = folder / f"samples_meta_some_{TIME}.jsonl"
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for sample in samples[3:5]:
            sample["resps"] = [[WORDS, "Something else."]]
        path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")
    found = compare_texts(a, b)
    assert (found.comparison.outcome, found.comparison.figures[0].docs) == ("same", 10)
    assert found.notes == tuple(
        f"meta_some: 2 docs of {side} with several answers left out; --texts compares single ones" for side in "AB"
    )
    shown = cli("compare", a, b, "--texts")
    assert found.notes[0] in " ".join(shown.stdout.split())


TEXTS = st.lists(st.tuples(st.text("ab", max_size=5), st.text("ab", max_size=5)), min_size=1, max_size=20)


@given(TEXTS)
def test_a_parting_is_the_first_difference(texts: list[tuple[str, str]]) -> None:
    comparison = compare_greedy_texts([TextPair("t", doc, a, b) for doc, (a, b) in enumerate(texts)])
    partings = {parting.doc: parting for parting in comparison.partings}
    assert partings.keys() == {doc for doc, (a, b) in enumerate(texts) if a != b}
    for doc, parting in partings.items():
        a, b = texts[doc]
        assert a[: parting.at - 1] == b[: parting.at - 1] and a[: parting.at] != b[: parting.at]
    mirrored = compare_greedy_texts([TextPair("t", doc, b, a) for doc, (a, b) in enumerate(texts)])
    assert mirrored.figures == comparison.figures and mirrored.outcome == comparison.outcome


def test_the_interval_of_the_median_is_brookmeyer_and_crowleys() -> None:
    # 6-MP arm of Freireich's trial: the median is 23, and its 95 % interval on the log-log scale 13 to none.
    events = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    times = [*events, *censored]
    assert median_interval(times, [True] * len(events) + [False] * len(censored)) == (13, None)
    assert median_interval([5, 9], [False, False]) == (None, None)


def test_the_title_tells_two_runs_of_one_model_apart(tmp_path: Path) -> None:
    for name in ("first", "second"):
        texts_of(tmp_path / name, [WORDS])
    done = cli("compare", "--texts", "first", "second", cwd=tmp_path)
    assert "Texts of org/Some-Model: second (B) beside first (A)" in done.stdout, done.stderr
