"""audit: an endpoint's answers are the same model's, another's, or it cannot be told; and what differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from forced_tables import answer
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import few, thorough
from places import THOROUGH

from meta_eval.judge.token_table import Forced
from meta_eval.plugins.tokens import causes
from meta_eval.plugins.tokens.answer_audit import find_outcome, judge_answers
from meta_eval.plugins.tokens.answer_scores import TEMPERATURES, Decoding, ScoredDoc, score_docs
from meta_eval.plugins.tokens.audit_causes import count_prompts, find_causes
from meta_eval.plugins.tokens.endpoint_answers import AnswerFacts, count_cut
from meta_eval.stats import Interval

VOCABULARY = 8


def greedy(docs: int, regret: float, *, every: int = 10, tokens: int = 40, only: int = 1) -> list[Forced]:
    """Answers in which each ``every``-th token is so far below the likeliest; in each ``only``-th doc."""
    gaps = np.where(np.arange(tokens) % every == every - 1, regret, 0.0)
    return [answer(doc, [-3.0] * tokens, gaps if doc % only == 0 else 0 * gaps) for doc in range(docs)]


def sampled(
    docs: int, temperature: float = 1.0, top_p: float = 1.0, tokens: int = 60, seed: int = 0, k: int = VOCABULARY - 2,
    top_k: int = VOCABULARY, min_p: float = 0.0,
) -> list[Forced]:  # fmt: skip
    """Answers of a model with random distributions, sampled from it. Few long ones are scored sooner than many."""
    rng = np.random.default_rng(seed)
    answers = []
    for doc in range(docs):
        logs = np.sort(rng.normal(0, 2, (tokens, VOCABULARY)))[:, ::-1]
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        scaled = np.exp(logs / temperature)
        scaled /= scaled.sum(axis=1, keepdims=True)
        scaled = np.where(np.cumsum(scaled, axis=1) - scaled < top_p, scaled, 0)
        scaled = np.where((np.arange(VOCABULARY) < top_k) & (scaled >= min_p * scaled[:, :1]), scaled, 0)
        scaled /= scaled.sum(axis=1, keepdims=True)
        drawn = rng.random((tokens, 1)) > np.cumsum(scaled, axis=1)
        ids = np.minimum(drawn.sum(axis=1), VOCABULARY - 1).astype(np.int32)
        own = np.take_along_axis(logs, ids[:, None].astype(int), axis=1)[:, 0]
        answers.append(
            replace(
                answer(doc, own, logs[:, 0] - own), token_ids=ids, top_ids=np.zeros(tokens, np.int32),
                top_k_ids=np.tile(np.arange(k, dtype=np.int32), (tokens, 1)),
                top_k_logprobs=logs[:, :k].astype(np.float32),
            )
        )  # fmt: skip
    return answers


def score(answers: Sequence[Forced], temperature: float = 0.0, top_p: float = 1.0) -> list[ScoredDoc]:
    return score_docs(answers, {(row.task, row.doc): Decoding(temperature, top_p) for row in answers})


def test_likeliest_tokens_are_the_same_model_beside_a_noise_and_undecided_without() -> None:
    same, noise = score(greedy(50, 0.01)), score(greedy(50, 0.012))
    assert find_outcome(judge_answers(same, noise)) == "same"
    assert find_outcome(judge_answers(same)) == "undecided"


@pytest.mark.parametrize(
    ("regret", "noise", "outcome", "said"),
    [
        (0.1, 0.12, "same", "within the limit of 0.0185"),
        (0.1, 0.15, "undecided", "the noise of 0.0115 is above any of the same weights (0.01)"),
        (0.01, 0.15, "undecided", "its table may be of other weights"),
        (0.6, 0.15, "different", "beyond the limit of 0.0231"),
    ],
)
def test_by_a_noise_that_looks_like_another_model_nothing_is_the_same(
    regret: float, noise: float, outcome: str, said: str
) -> None:
    (verdict,) = judge_answers(score(greedy(60, regret)), score(greedy(60, noise)))
    assert (verdict.outcome, said in verdict.reason) == (outcome, True), verdict.reason


def test_sampled_answers_are_not_of_another_model_because_the_noise_is() -> None:
    (verdict,) = judge_answers(score(sampled(60), 1.0), score(sampled(60, 0.6, seed=1), 1.0))
    assert verdict.outcome == "undecided" and "its table may be of other weights" in verdict.reason


def test_a_noise_of_few_answers_measures_none() -> None:
    (verdict,) = judge_answers(score(greedy(50, 0.0)), score(greedy(19, 0.0)))
    assert verdict.outcome == "undecided" and "too few answers have a noise: 19" in verdict.reason


@pytest.mark.parametrize(
    ("docs", "tokens", "copies", "outcome"),
    [(50, 40, 1, "same"), (20, 200, 1, "undecided"), (200, 4, 1, "undecided"), (100, 40, 5, "undecided"),
     (250, 40, 5, "same")],
)  # fmt: skip
def test_answers_without_a_regret_are_the_same_only_if_no_rare_fault_can_hide(
    docs: int, tokens: int, copies: int, outcome: str
) -> None:
    scored = [replace(doc, cluster=str(doc.doc // copies)) for doc in score(greedy(docs, 0.0, tokens=tokens))]
    (verdict,) = judge_answers(scored, scored)
    assert (verdict.figures.score.value, verdict.outcome) == (0.0, outcome)
    assert ("to exclude rare faults, at least 44 independent answers" in verdict.reason) == (outcome == "undecided")


def test_other_weights_are_different_with_and_without_a_noise() -> None:
    other, noise = score(greedy(40, 0.6)), score(greedy(40, 0.012))
    for verdicts in (judge_answers(other, noise), judge_answers(other)):
        assert find_outcome(verdicts) == "different"
        assert [cause.key for cause in find_causes(verdicts, other, None, 0)] == ["weights"]


def test_answers_that_are_unlikely_in_their_later_tokens_alone_are_not_of_another_prompt() -> None:
    places = np.arange(80)
    docs = score(
        [answer(doc, [-3.0] * 80, np.where((places > 40) & (places % 10 == 9), 0.6, 0.0)) for doc in range(40)]
    )
    (cause,) = find_causes(judge_answers(docs), docs, None, 0)
    assert cause.key == "weights" and "another prompt" not in cause.text


@pytest.mark.parametrize(("regret", "bits"), [(0.07, "eight"), (0.7, "five"), (0.99, "four")])
def test_weights_are_said_to_be_as_coarse_as_their_regret(regret: float, bits: str) -> None:
    docs = score(greedy(40, regret, every=5 if regret == 0.99 else 10))
    (cause,) = find_causes(judge_answers(docs, score(greedy(40, 0.0))), docs, None, 0)
    assert (cause.key, f"differ as {bits} bits do" in cause.text) == ("weights", True)


def repeat(docs: int, penalty: float, temperature: float = 0.0, tokens: int = 40) -> list[Forced]:
    """Answers of a model that likes some words of each doc best, under a penalty of presence or sampled."""
    rng, answers = np.random.default_rng(4), []
    for number in range(docs):
        words = rng.normal(0, 1, 60)
        rows, ids = [], []
        for _ in range(tokens):
            logs = words + rng.normal(0, 1.5, 60)
            logs -= np.log(np.exp(logs).sum())
            chosen = logs - penalty * np.isin(np.arange(60), ids)
            if temperature:
                chosen = chosen / temperature + rng.gumbel(size=60)
            ids.append(int(chosen.argmax()))
            rows.append(logs)
        table, own = np.array(rows), np.array(ids, np.int32)
        order = np.argsort(-table, axis=1)
        top, at = order[:, 0].astype(np.int32), np.arange(tokens)
        forced = answer(number, table[at, own], table[at, top] - table[at, own])
        answers.append(
            replace(
                forced, token_ids=own, top_ids=top, top_k_ids=order[:, :20].astype(np.int32),
                top_k_logprobs=np.take_along_axis(table, order[:, :20], axis=1).astype(np.float32),
            )
        )  # fmt: skip
    return answers


@pytest.mark.parametrize("docs", few([50, 100], 2))
@pytest.mark.parametrize(
    ("penalty", "temperature", "named", "not_named"),
    few(
        [
            (0.5, 0.0, ("a penalty",), ("sampled", "coarser weights")),
            (2.0, 0.0, ("a penalty",), ("sampled", "coarser weights")),
            (0.0, 0.3, ("sampled at a temperature of about", "coarser weights", "another model"), ("a penalty",)),
            (0.0, 0.6, ("sampled at a temperature of about", "coarser weights", "another model"), ("a penalty",)),
        ],
        2,
    ),
)
def test_all_causes_that_the_figures_allow_are_named_and_none_that_they_contradict(
    docs: int, penalty: float, temperature: float, named: tuple[str, ...], not_named: tuple[str, ...]
) -> None:
    scored = score(repeat(docs, penalty, temperature))
    verdicts = judge_answers(scored, score(greedy(docs, 0.0)))
    assert verdicts[0].outcome == "different"
    (cause,) = find_causes(verdicts, scored, None, 0)
    assert [words in cause.text for words in (*named, *not_named)] == [True] * len(named) + [False] * len(not_named)
    assert cause.todo
    assert set(cause.groups) <= {group.name for group in vars(causes).values() if isinstance(group, causes.Group)}
    if temperature:
        assert cause.interval is not None
        assert cause.interval.lower <= temperature <= cause.interval.upper


def test_cut_answers_do_not_hide_what_else_differs() -> None:
    scored = score(repeat(50, 2.0))
    found = find_causes(judge_answers(scored), scored, None, 20)
    assert [cause.key for cause in found] == ["cut", "penalty"]


def test_few_answers_are_undecided() -> None:
    assert find_outcome(judge_answers(score(greedy(19, 0.6)))) == "undecided"


def test_no_single_token_decides() -> None:
    answers = greedy(60, 0.0)
    answers[0] = answer(0, [-20.0, *[-3.0] * 39], [19.9, *[0.0] * 39])
    (verdict,) = judge_answers(score(answers), score(greedy(60, 0.01)))
    assert verdict.figures.score.value < 0.001
    assert verdict.outcome != "different"


@pytest.mark.parametrize(
    ("temperature", "top_p"),
    [(0.7, 0.8), *(pytest.param(*pair, marks=thorough) for pair in ((1.0, 1.0), (0.7, 1.0), (1.0, 0.9)))],
)
def test_the_depth_of_sampled_answers_is_zero_as_they_were_sampled(temperature: float, top_p: float) -> None:
    docs, noise = (score(sampled(60, temperature, top_p, tokens=240, seed=seed), temperature, top_p) for seed in (0, 1))
    (verdict,) = judge_answers(docs, noise)
    assert abs(verdict.figures.score.value) < 0.01
    assert verdict.figures.surprise is not None and abs(verdict.figures.surprise) < 0.02
    assert verdict.figures.unlikely == 0
    assert verdict.outcome == "same"


@pytest.mark.parametrize("was", [0.7, pytest.param(1.3, marks=thorough)])
def test_another_temperature_is_found(was: float) -> None:
    docs = score(sampled(50, was, tokens=120), 1.0)
    verdicts = judge_answers(docs, score(sampled(50, tokens=120, seed=1), 1.0))
    assert verdicts[0].outcome == "different"
    bounds = verdicts[0].temperature_interval
    assert bounds is not None and bounds.lower - 0.05 <= was <= bounds.upper + 0.05
    assert [cause.key for cause in find_causes(verdicts, docs, None, 0)] == ["temperature"]


def perturbed(docs: int, noise: str, scale: float, tokens: int = 40) -> list[Forced]:
    """The likeliest tokens of a model after noise on its logits: Gumbel's is a temperature, Gaussian other weights."""
    rng, answers = np.random.default_rng(1), []
    for doc in range(docs):
        logs = rng.normal(0, 1, (tokens, 60)) * np.where(rng.random((tokens, 1)) < 0.5, 4.0, 1.5)  # half are sharp
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        ids = (logs + scale * getattr(rng, noise)(size=logs.shape)).argmax(axis=1)
        order, at = np.argsort(-logs, axis=1)[:, :20], np.arange(tokens)
        forced = answer(doc, logs[at, ids], logs[at, order[:, 0]] - logs[at, ids])
        answers.append(
            replace(
                forced, token_ids=ids.astype(np.int32), top_ids=order[:, 0].astype(np.int32),
                top_k_ids=order.astype(np.int32),
                top_k_logprobs=np.take_along_axis(logs, order, axis=1).astype(np.float32),
            )
        )  # fmt: skip
    return answers


@pytest.mark.parametrize(
    ("noise", "scale", "first"), [("gumbel", 0.7, "sampled at"), ("normal", 0.4, "coarser weights")]
)
def test_the_cause_that_fits_best_stands_first(noise: str, scale: float, first: str) -> None:
    docs = score(perturbed(40, noise, scale))
    (cause,) = find_causes(judge_answers(docs), docs, None, 0)
    assert cause.text.startswith(f"likely causes, the first of which fits best: (a) {first}")


@pytest.mark.parametrize(
    ("setting", "value", "words"), [("top_k", 3, "a top_k of about 3:"), ("min_p", 0.1, "a min_p of about 0.1:")]
)
def test_settings_that_leave_out_unlikely_tokens_are_named(setting: str, value: float, words: str) -> None:
    docs = score(sampled(60, tokens=120, **{setting: value}), 1.0)
    verdicts = judge_answers(docs, score(sampled(60, tokens=120, seed=1), 1.0))
    assert verdicts[0].outcome == "different"
    (cause,) = find_causes(verdicts, docs, None, 0)
    assert (cause.key, cause.text[: len(words)]) == (setting, words)


def test_answers_of_a_broken_copy_are_not_taken_for_edited_ones() -> None:
    docs = score(greedy(100, 12.0, every=2, only=10))
    (cause,) = find_causes(judge_answers(docs), docs, None, 0)
    assert cause.key == "mixture"
    assert cause.interval is not None and cause.interval.lower < 0.1 < cause.interval.upper


def test_sampling_where_greedy_was_asked_is_found() -> None:
    docs = score(sampled(60, 0.7))
    (cause,) = find_causes(judge_answers(docs), docs, None, 0)
    assert (cause.key, cause.interval and cause.interval.lower >= 0.6) == ("sampling_or_weights", True)
    assert re.match(r"likely causes, .* fits best: \(a\) sampled at a temperature of about.*; \(b\) ", cause.text)
    assert ("; or " in cause.text, len(set(cause.groups))) == (False, len(cause.groups))


def test_a_share_of_answers_that_go_elsewhere_has_an_interval() -> None:
    docs = score(greedy(100, 1.0, every=5, only=5))
    (cause,) = find_causes(judge_answers(docs), docs, None, 0)
    assert cause.key == "mixture"
    assert isinstance(cause.interval, Interval) and cause.interval.lower < 0.2 < cause.interval.upper < 0.35


def test_a_hidden_system_prompt_is_found_from_the_count_of_tokens() -> None:
    verdicts = judge_answers(docs := score(greedy(40, 0.01)), docs)
    prompts = count_prompts([-5] * 39 + [0])
    assert [cause.key for cause in find_causes(verdicts, docs, prompts, 0)] == ["prompt"]
    assert find_causes(verdicts, docs, count_prompts([0] * 40), 0) == ()
    assert [cause.key for cause in find_causes(verdicts, docs, None, 9)] == ["cut"]


def test_answers_that_were_edited_are_told_from_other_weights() -> None:
    edited = score([answer(doc, [-3.0] * 40, np.where(np.arange(40) == 20, 12.0, 0.0)) for doc in range(40)])
    (cause,) = find_causes(judge_answers(edited), edited, None, 0)
    assert (cause.key, cause.interval and cause.interval.lower > 0.8) == ("edited", True)


def test_prompts_with_fewer_tokens_in_some_answers_are_a_cut_context() -> None:
    verdicts = judge_answers(docs := score(greedy(40, 0.01)), docs)
    (cause,) = find_causes(verdicts, docs, count_prompts([0] * 30 + [-n for n in range(1, 11)]), 0)
    assert (cause.key, "25 %" in cause.text) == ("context", True)
    (cause,) = find_causes(verdicts, docs, count_prompts([0] * 30 + [-7] * 10), 0)
    assert (cause.key, "for some requests" in cause.text) == ("prompt", True)
    assert find_causes(verdicts, docs, count_prompts([0] * 100 + [1]), 0) == (), "one in a hundred is an accident"


def test_a_top_p_that_was_not_kept_is_found() -> None:
    docs = score(sampled(50, 1.0, tokens=180), 1.0, 0.7)
    verdicts = judge_answers(docs, score(sampled(50, 1.0, 0.7, tokens=180, seed=1), 1.0, 0.7))
    assert verdicts[0].outcome == "different"
    assert [cause.key for cause in find_causes(verdicts, docs, None, 0)] == ["top_p"]


@thorough
def test_the_noise_of_sampled_answers_is_taken_off() -> None:
    """Answers that are all a little too likely are the same beside a pair that is so too."""
    likely = score(sampled(250, 0.9), 1.0)
    assert judge_answers(likely, score(sampled(250, 0.9, seed=1), 1.0))[0].outcome == "same"
    assert judge_answers(likely, score(sampled(250, seed=1), 1.0))[0].outcome == "different"


def test_answers_of_about_the_same_length_have_their_own_figures() -> None:
    docs = score([*greedy(30, 0.0, tokens=12), *greedy(30, 0.6, tokens=100)])
    (verdict,) = judge_answers(docs)
    assert [(some.name, some.docs, some.score.value > 0.01) for some in verdict.lengths] == [
        ("1 to 16 tokens", 30, False), ("65 to 256 tokens", 30, True)
    ]  # fmt: skip
    assert judge_answers(docs[:30])[0].lengths == ()


def say(tokens: int, reason: str | None = "stop") -> AnswerFacts:
    return AnswerFacts(0.0, 1.0, 64, 10, tokens, reason)


def test_cut_answers_are_counted_whatever_the_endpoint_says_of_their_end() -> None:
    natural = [say(20 + n % 30) for n in range(60)]
    assert count_cut(natural) == 0
    assert count_cut([say(min(fact.completion_tokens or 0, 32)) for fact in natural]) == 36
    assert count_cut([*natural, say(30, "length")]) == 1
    assert count_cut([say(64, "length") for _ in range(60)]) == 0, "the limit that was asked for"
    assert count_cut([say(20) for _ in range(60)]) == 60
    assert count_cut([say(15) for _ in range(60)]) == 0, "short answers of one form"
    assert count_cut([]) == 0


def test_tokens_that_were_generated_as_two_do_not_count() -> None:
    words = {20: ' "', 10: ' "--', 13: "a", 14: "b", 15: "c"}
    ids, tops = np.array([13, 10, 14, 13, 15, 13], np.int32), np.array([13, 20, 15, 14, 15, 13], np.int32)
    split = replace(answer(0, [-9.0] * 6, [0, 1.5, 5, 0, 0, 0]), token_ids=ids, top_ids=tops)
    kept = {"top_k_ids": ids[:, None], "top_k_logprobs": -np.arange(1, 7, dtype=np.float32)[:, None] / 10}
    (doc,) = score_docs([replace(split, **kept)], {}, lambda some: "".join(words[token] for token in some))
    assert doc.scores.tolist() == [0.0, 0.0]
    assert doc.likelihoods is not None
    assert doc.likelihoods[TEMPERATURES.tolist().index(1.0)] == pytest.approx(-0.3)  # of the first and the fifth


def test_tokens_that_were_generated_as_another_token_do_not_count() -> None:
    words = {20: "\n\n", 10: "\n", 11: "\n", 12: "2", 13: "a", 14: "b", 15: "c"}
    ids = np.array([13, 10, 11, 12, 13, 14, 15], np.int32)
    tops = np.array([13, 20, 14, 14, 13, 14, 15], np.int32)
    split = replace(answer(0, [-9.0] * 7, [0, 1.5, 5, 5, 0, 0, 0]), token_ids=ids, top_ids=tops)
    (doc,) = score_docs([split], {}, lambda some: "".join(words[token] for token in some))
    assert doc.scores.tolist() == [0.0, 0.0]
    (doc,) = score_docs([split], {})
    assert doc.mean > 0.4


@given(st.floats(0.3, 2.0), st.floats(0.3, 1.0), st.integers(0, 99))
@settings(max_examples=20 if THOROUGH else 5, deadline=None)
def test_scores_are_numbers_for_any_settings(temperature: float, top_p: float, seed: int) -> None:
    docs = score(sampled(3, 1.0, tokens=20, seed=seed), temperature, top_p)
    assert all(np.isfinite(doc.scores).all() for doc in docs)
