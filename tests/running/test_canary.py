"""The canary: each broken set-up stops a run before its hours are spent, and a sound one never does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pack_runs import run_pack
from packs import prepare
from places import TEMPLATES
from recorded import Meta, Respond, learn

from meta_eval.ask import pipeline as story
from meta_eval.ask.answer_files import read_answers
from meta_eval.ask.canary import DOCS, CanaryError, compute_binomial_cdf, spread_docs
from meta_eval.ask.pipeline import RunResult
from meta_eval.ask.request import Request
from meta_eval.doctor.known_answers import find_model_folder
from meta_eval.harness.answer import Answer
from meta_eval.harness.settings import find_default_backend
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.config import Config, load_config

TASKS = "meta_gpqa,meta_mmlu_pro_instruct,meta_mmlu_pretrain"
# A task of texts and one of choices, with one doc less than the canary takes.
TWO = ("meta_gpqa", "meta_mmlu_pretrain")


def nonsense(ask: Request, client: Meta) -> Answer:
    """Another text, or other likelihoods."""
    if ask.kind == "choices":
        right = client.right(ask).choices
        return ask.answer(choices=[(-value - 9, None) for value, _ in right])
    return ask.answer(text=f"~~~ {ask.doc} q", finish_reason="length")


def of(text: str, *, flat: bool = False) -> Respond:
    def respond(ask: Request, client: Meta) -> Answer:
        if ask.kind == "choices":
            return ask.answer(choices=[(-1.0, None)] * len(ask.continuations)) if flat else client.right(ask)
        return ask.answer(text=text, finish_reason="stop")

    return respond


def with_bos(right: int, *, seen: int = 0) -> Respond:
    """Answers as recorded where the engine, which adds ``seen`` BOS, meets so many."""
    return lambda ask, client: client.right(ask) if client.bos(ask) + seen == right else nonsense(ask, client)


def counting(more: int) -> Respond:
    return lambda ask, client: replace(client.right(ask), prompt_tokens=len(ask.prompt_ids or ()) + more)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("canary")
    pack = prepare(place / "work_dir", TASKS, model_name=str(find_model_folder()), dtype="float32")
    learn(pack)
    return pack


@pytest.fixture
def ask(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResult]:
    monkeypatch.setattr(story, "find_client", lambda *_names, **_keys: Meta)

    def go(
        how: Respond, tasks: Sequence[str] = (), *, forces: bool = True, likes: bool = False, **options: Any
    ) -> RunResult:
        Meta.begin(how, forces=forces, likes=likes)
        return run_pack(config_of(prepared, tmp_path), tasks=tasks, **options)

    return go


@pytest.fixture(scope="module")
def sound(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Counter[str]]:
    """A run of a model that answers as was recorded, and how often each request was asked."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(story, "find_client", lambda *_names, **_keys: Meta)
        Meta.begin(lambda request, client: client.right(request))
        return run_pack(config_of(prepared, tmp_path_factory.mktemp("sound"))), Meta.asked


def config_of(pack: Path, output: Path) -> Config:
    settings = {
        "model_name": str(find_model_folder()), "evals_dataset": "sample", "tasks": TASKS,
        "work_dir": str(pack), "output_path": str(output / "out"), "max_model_len": 262144, "allow_code": True,
        "template_dir": str(TEMPLATES), "dtype": "float32",
    }  # fmt: skip
    return load_config(None, [f"{key}={json.dumps(value)}" for key, value in settings.items()])


def test_a_sound_model_passes_and_nothing_is_asked_twice(sound: tuple[RunResult, Counter[str]]) -> None:
    done, asked = sound
    assert done.canary is not None
    assert (done.canary.texts + done.canary.choices, done.canary.begin) == (DOCS, done.canary.texts)
    assert done.canary.identical == done.canary.texts
    assert done.canary.same == done.canary.choices > 0
    assert done.canary.off < 1e-6
    assert set(asked.values()) == {1}
    assert len(asked) == done.asked == len(read_answers(done.answers).by_key)


def test_a_copy_that_begins_alike_on_one_doc_in_four_is_let_go_on(ask: Callable[..., RunResult]) -> None:
    def respond(request: Request, client: Meta) -> Answer:
        return client.right(request) if request.doc % 4 == 0 or request.kind == "choices" else nonsense(request, client)

    assert ask(respond).graded is not None


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (of(""), "every answer is degenerate (empty)"),
        (of("<|eot_id|><|eot_id|>"), "every answer is degenerate (special tokens alone)"),
        (of("!" * 40), "every answer is degenerate (one token over and over). Another number of BOS does not help"),
        (of("assistant\n\nB"), "Another number of BOS does not help: check that model_name"),
        (of("~ another thing"), "Another number of BOS does not help: check that model_name"),
        (with_bos(1, seen=1), "With no BOS it answers as recorded: something adds a BOS"),
        (with_bos(1, seen=-1), "With two BOS it answers as recorded: something strips one"),
        (counting(1), "one BOS included. Check what it adds"),
        (counting(-7), "one BOS included. Check what it adds"),
        (
            lambda ask, _: ask.answer(error="no route to host"),
            "none of the first 32 requests was answered: no route",
        ),
    ],
)
def test_a_broken_set_up_is_named_and_leaves_no_answer(
    ask: Callable[..., RunResult], how: Respond, words: str, tmp_path: Path
) -> None:
    with pytest.raises(CanaryError) as caught:
        ask(how, () if "of the first 32" in words else TWO, forces=False)
    assert words in str(caught.value)
    assert "--no-canary" in str(caught.value)
    assert len(Meta.asked) <= DOCS
    (kept,) = (tmp_path / "out").rglob("*.jsonl")
    assert read_answers([kept]).by_key == {}


def test_when_it_is_put_right_the_same_command_asks_everything(ask: Callable[..., RunResult]) -> None:
    with pytest.raises(CanaryError):
        ask(of(""), TWO)
    assert ask(lambda request, client: client.right(request), TWO).before == 0


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            with_bos(1, seen=1),
            "likelier with no BOS, on 16 of 16 docs and by 8.99 nats a token. With no BOS it answers",
        ),
        (with_bos(1, seen=-1), "likelier with two BOS, on 16 of 16 docs and by 8.99 nats a token. With two BOS it"),
        (of("~ another thing"), "0% are the likeliest ones, of which any model that reads them finds half. Check rope"),
    ],
)
def test_recorded_answers_that_are_forced_name_what_is_broken(
    ask: Callable[..., RunResult], how: Respond, words: str, tmp_path: Path
) -> None:
    with pytest.raises(CanaryError) as caught:
        ask(how)
    assert words in str(caught.value)
    assert "--no-canary" in str(caught.value)
    (kept,) = (tmp_path / "out").rglob("*.jsonl")
    assert read_answers([kept]).by_key == {}


def test_a_model_with_an_opening_of_its_own_goes_on_where_it_finds_the_recorded_answers_likely(
    ask: Callable[..., RunResult],
) -> None:
    def thinks(request: Request, client: Meta) -> Answer:
        return client.right(request) if request.kind == "choices" else request.answer(text=f"<think>{request.doc}")

    with pytest.raises(CanaryError, match="answers begin as the recorded one"):
        ask(thinks, forces=False)
    done = ask(thinks, likes=True)
    assert done.canary is not None
    assert (done.canary.begin, done.canary.top) == (0, 1.0)
    assert done.canary.forced > 64


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            lambda request, client: of("#%&*+=^~|"[request.doc % 9])(request, client),
            "most of the model is there. Check",
        ),
        (of("assistant\n\nB"), "most of the model is there. Check"),
    ],
)
def test_recorded_answers_that_are_likely_excuse_nothing_else(
    ask: Callable[..., RunResult], how: Respond, words: str
) -> None:
    """Behind its first words any language model goes on well with an answer, whatever stood around the prompt."""
    with pytest.raises(CanaryError) as caught:
        ask(how, likes=True)
    assert words in str(caught.value)


def test_nothing_is_forced_where_the_model_would_be_loaded_once_more(
    ask: Callable[..., RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(find_backend(find_default_backend() or "server")), "reloads_model", True)
    done = ask(lambda request, client: client.right(request), TWO)
    assert done.canary is not None
    assert (done.canary.forced, done.canary.top) == (0, None)


def test_what_is_forced_is_no_answer_of_the_run(sound: tuple[RunResult, Counter[str]]) -> None:
    done, _ = sound
    assert done.canary is not None
    assert (done.canary.top, done.canary.forced > 64) == (1.0, True)
    assert all(answer.tokens is None for answer in read_answers(done.answers).by_key.values())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (of("", flat=True), "the likelihoods of the continuations are all alike"),
        (nonsense, "the likeliest of the choices is the recorded one on 0 of 16 docs"),
        (with_bos(1, seen=1), "With no BOS it answers as recorded"),
        (
            lambda ask, _: ask.answer(choices=[(float("nan"), None)] * len(ask.continuations)),
            "or no numbers",
        ),
    ],
)
def test_choices_tell_a_broken_set_up_too(ask: Callable[..., RunResult], how: Respond, words: str) -> None:
    with pytest.raises(CanaryError) as caught:
        ask(how, tasks=["meta_mmlu_pretrain"])
    assert words in str(caught.value)


def test_without_canary_everything_is_asked(ask: Callable[..., RunResult]) -> None:
    done = ask(of("~ another thing"), TWO, canary=False)
    assert done.canary is None
    assert done.graded is not None


def test_a_count_that_goes_wrong_later_stops_the_run_too(ask: Callable[..., RunResult]) -> None:
    def respond(request: Request, client: Meta) -> Answer:
        more = 1 if sum(Meta.asked.values()) > DOCS + 5 else 0
        return replace(client.right(request), prompt_tokens=len(request.prompt_ids or ()) + more)

    with pytest.raises(CanaryError, match="one BOS included"):
        ask(respond)
    assert ask(lambda request, client: client.right(request)).before == DOCS + 5


@given(st.dictionaries(st.text(max_size=3), st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20), max_size=50))
def test_chosen_docs_are_spread_over_tasks_and_subtasks(tasks: dict[str, list[str | None]]) -> None:
    result = spread_docs(tasks)
    eligible = {task: [doc for doc, name in enumerate(names) if name is not None] for task, names in tasks.items()}
    assert all(set(docs) <= set(eligible[task]) and len(set(docs)) == len(docs) for task, docs in result.items())
    total = sum(len(docs) for docs in result.values())
    assert total <= DOCS
    if len(tasks) <= DOCS:
        assert total == min(DOCS, sum(map(len, eligible.values())))
        most = max(map(len, result.values()), default=0)
        assert all(len(result.get(task, [])) >= min(len(docs), most - 1) for task, docs in eligible.items())
    for task, docs in result.items():
        per = Counter(tasks[task][doc] for doc in docs)
        whole = Counter(name for name in tasks[task] if name is not None)
        assert all(per[name] >= min(count, max(per.values()) - 1) for name, count in whole.items())


def test_of_more_tasks_than_docs_every_so_many_has_one() -> None:
    assert spread_docs({f"t{number}": ["a", "b"] for number in range(10)}, 4) == {
        "t0": [0],
        "t2": [0],
        "t5": [0],
        "t7": [0],
    }


def test_the_rules_stop_from_as_many_docs_on_as_is_written() -> None:
    for hits, docs, share in ((0, 12, 1 / 3), (2, 24, 1 / 3), (4, 32, 1 / 3), (0, 7, 1 / 2), (8, 32, 1 / 2)):
        assert compute_binomial_cdf(hits, docs, share) < 0.01 < compute_binomial_cdf(hits + 1, docs, share)
    assert compute_binomial_cdf(0, 11, 1 / 3) > 0.01 < compute_binomial_cdf(0, 6, 1 / 2)
