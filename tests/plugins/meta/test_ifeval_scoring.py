"""Scoring IFEval: docs, the six metrics, checkers that fail and the data that two checkers need."""

from __future__ import annotations

import json
import logging
import random
import shutil
from pathlib import Path
from types import ModuleType

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packs import punkt_data
from places import TEMPLATES, THOROUGH
from template_modules import load_module, template_module

TEMPLATE = TEMPLATES / "ifeval"


@pytest.fixture(autouse=True)
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing lm-eval's checkers downloads data when there is none; a test must not."""
    import nltk

    monkeypatch.setattr(nltk, "download", lambda *_, **__: False)
    monkeypatch.setattr(nltk.data, "path", [])


def template() -> ModuleType:
    return template_module("ifeval/utils.py")


NO_COMMA = ("punctuation:no_comma", {})
TITLE = ("detectable_format:title", {})
QUOTED = ("startend:quotation", {})
TEN_WORDS = ("length_constraints:number_words", {"relation": "at least", "num_words": 10})
RIVER = ("keywords:existence", {"keywords": ["river"], "num_words": None})
SENTENCES = ("length_constraints:number_sentences", {"relation": "at least", "num_sentences": 2})
CAPITALS = ("change_case:capital_word_frequency", {"capital_relation": "at least", "capital_frequency": 1})
GERMAN = ("language:response_language", {"language": "de"})
# No letter, so that lm-eval's checker draws one.
HASHES = ("keywords:letter_frequency", {"letter": "#", "let_relation": "at least", "let_frequency": 2})
# Said in full by every original; where it is not, the checkers draw it.
OPEN = [
    ("keywords:letter_frequency", {"letter": "!", "let_relation": "less than", "let_frequency": 3}),
    ("detectable_content:number_placeholders", {}),
    ("detectable_format:number_bullet_lists", {}),
    ("length_constraints:number_words", {}),
    ("startend:end_checker", {}),
    ("language:response_language", {}),
]


def row(*instructions: tuple[str, dict], **changes: object) -> dict:
    made = {
        "input_question": json.dumps({"dialog": [{"source": "user", "body": "Write about a river."}]}),
        "input_final_prompts": ["<|begin_of_text|>Write about a river."],
        "input_question_hash": "ab12",
        "input_final_prompts_hash": ["cd34"],
        "subtask_name": None,
        "output_prediction_text": ["A river."],
        "is_correct": True,
        "key": 17,
        "original_prompt": "Write about a river.",
        "instruction_id_list": [instruction for instruction, _ in instructions],
        "kwargs": [json.dumps(arguments) for _, arguments in instructions],
    }
    return made | changes


def score(response: str, *instructions: tuple[str, dict]) -> dict:
    return template().process_results(template().make_doc(row(*instructions)), [response])


# Docs


def test_the_doc_has_the_common_columns_and_what_the_checkers_need() -> None:
    docs = template().process_docs(datasets.Dataset.from_list([row(NO_COMMA, RIVER)]))
    assert docs[0] == {
        "question": row()["input_question"],
        "prompt": "Write about a river.",
        "gold": "punctuation:no_comma, keywords:existence",
        "subtask_name": None,
        "choices": None,
        "input_question_hash": "ab12",
        "input_final_prompts_hash": ["cd34"],
        "recorded_output": "A river.",
        "recorded_is_correct": True,
        "recorded_metrics": None,
        "answers": ["punctuation:no_comma, keywords:existence"],
        "key": 17,
        "original_prompt": "Write about a river.",
        "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
        "kwargs": ["{}", '{"keywords": ["river"], "num_words": null}'],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kwargs": ["{}"]}, "2 instructions and 1 kwargs"),
        ({"kwargs": [], "instruction_id_list": []}, "at least one"),
        ({"kwargs": ["{}", "{'keywords': 1}"]}, "not JSON"),
        ({"kwargs": ["{}", "[1]"]}, "not a JSON object"),
    ],
)
def test_rows_that_cannot_be_scored_are_refused_with_their_key(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"key 17: .*{message}"):
        template().make_doc(row(NO_COMMA, RIVER, **changes))


# Verdicts


def test_each_instruction_has_its_own_verdict() -> None:
    result = score("A river, wide and slow.", NO_COMMA, RIVER)
    assert result == {
        "prompt_level_strict_acc": 0,
        "inst_level_strict_acc": [False, True],
        "prompt_level_loose_acc": 0,
        "inst_level_loose_acc": [False, True],
        "mean_acc": ([False, True], [False, True]),
        "one_or_all_strict": 1,
        "one_or_all_loose": 1,
        "ungraded": 0,
    }


def test_arguments_are_sparse_and_nulls_do_not_count() -> None:
    assert score("The river is long.", RIVER)["prompt_level_strict_acc"] == 1
    assert score("The lake is long.", RIVER)["prompt_level_strict_acc"] == 0


def test_loose_forgives_a_first_line_that_strict_does_not() -> None:
    result = score('Sure, here it is:\n"A river"', QUOTED, NO_COMMA)
    assert result["inst_level_strict_acc"] == [False, False]
    assert result["inst_level_loose_acc"] == [True, True]
    assert (result["prompt_level_strict_acc"], result["prompt_level_loose_acc"]) == (0, 1)


def test_an_empty_response_follows_nothing() -> None:
    assert score("", NO_COMMA)["inst_level_loose_acc"] == [False]


def test_language_detection_is_the_same_every_time() -> None:
    doubtful = "Ein Test, a test."
    assert len({score(doubtful, GERMAN)["prompt_level_strict_acc"] for _ in range(60 if THOROUGH else 20)}) == 1


@pytest.mark.parametrize(
    ("response", "followed", "reads"),
    [
        ("A lake, wide.", 0, 0),
        ("A river, wide.", 1, 1),  # one of three is read as right
        ("A river and a lake.", 2, 0),  # two of three are not
        ("A river and a lake and whatever lies between the two.", 3, 1),
    ],
)
def test_the_reading_is_one_instruction_or_all_and_no_verdict(response: str, followed: int, reads: int) -> None:
    result = score(response, NO_COMMA, RIVER, TEN_WORDS)
    assert sum(result["inst_level_strict_acc"]) == followed
    assert (result["one_or_all_strict"], result["prompt_level_strict_acc"]) == (reads, followed == 3)


def test_strict_and_loose_verdicts_have_readings_of_their_own() -> None:
    result = score('Sure, here it is:\n"A river"', QUOTED, NO_COMMA)
    assert (result["one_or_all_strict"], result["one_or_all_loose"]) == (0, 1)
    result = score('Sure:\n"A river"', QUOTED, NO_COMMA, TEN_WORDS)
    assert (result["inst_level_strict_acc"], result["one_or_all_strict"]) == ([False, True, False], 1)
    assert (result["inst_level_loose_acc"], result["one_or_all_loose"]) == ([True, True, False], 0)


def test_a_letter_that_is_none_is_drawn_as_the_reference_draws_first_under_seed_0() -> None:
    followed = score("yy", HASHES)
    assert followed["inst_level_strict_acc"] == followed["inst_level_loose_acc"] == [True]
    assert score("## not one of them", HASHES)["inst_level_loose_acc"] == [False]


@settings(max_examples=20 if THOROUGH else 5, deadline=None)
@given(st.integers(), st.text("aeyY#! \n*", max_size=20), st.permutations([HASHES, *OPEN]))
def test_no_verdict_depends_on_what_was_drawn_before_and_no_draw_on_a_verdict(
    seed: int, response: str, instructions: list
) -> None:
    random.seed(seed)
    expected = random.Random(seed).random()
    scores = score(response, *instructions)
    assert random.random() == expected
    verdicts = dict(zip((name for name, _ in instructions), scores["inst_level_loose_acc"], strict=True))
    alone = {name: score(response, (name, given))["inst_level_loose_acc"][0] for name, given in instructions}
    assert verdicts == alone


def test_a_checker_that_raises_is_not_followed_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = score("A river.", ("keywords:existence", {"unheard_of": 1}), ("no:such_thing", {}), NO_COMMA)
    assert result["inst_level_strict_acc"] == [False, False, True]
    assert (result["prompt_level_loose_acc"], result["ungraded"]) == (0, 1)
    assert "key 17" in caplog.text
    assert "keywords:existence" in caplog.text
    assert "no:such_thing" in caplog.text


def test_an_answer_that_no_checker_ends_with_is_not_followed_counted_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        result = score("[" * 50_001, ("detectable_content:number_placeholders", {"num_placeholders": 3}))
    assert (result["inst_level_loose_acc"], result["ungraded"]) == ([False], 1)
    assert "the answer has more than 50,000 characters" in caplog.text


@given(st.text(max_size=80) | st.text("abcdefghijklmnopqrstuvwxyz\n*", max_size=80))
def test_any_response_is_scored_and_loose_is_never_stricter(response: str) -> None:
    result = score(response, NO_COMMA, TITLE, QUOTED, TEN_WORDS, RIVER, HASHES, *OPEN)
    pairs = zip(result["inst_level_strict_acc"], result["inst_level_loose_acc"], strict=True)
    assert all(loose >= strict for strict, loose in pairs)
    assert result["ungraded"] == 0


# Averages


def test_the_averages_are_those_of_a_hand_calculation() -> None:
    utils = template()
    strict = [[True, True, False], [True]]
    loose = [[True, True, True], [True]]
    assert utils.instruction_mean(strict) == pytest.approx(3 / 4)
    # Prompts: 1 of 2 strict, 2 of 2 loose. Instructions: 3 of 4 strict, 4 of 4 loose.
    expected = (1 / 2 + 3 / 4 + 1 + 1) / 4
    assert utils.mean_of_four(list(zip(strict, loose, strict=True))) == pytest.approx(expected)


# Punkt


@pytest.mark.parametrize("instruction", [SENTENCES, CAPITALS])
def test_missing_punkt_data_is_found_before_anything_is_generated(instruction: tuple[str, dict]) -> None:
    doc = template().make_doc(row(NO_COMMA, instruction))
    with pytest.raises(LookupError, match=r"python -m nltk\.downloader punkt_tab"):
        template().doc_to_text(doc)


def test_docs_that_need_no_punkt_data_do_not_ask_for_it() -> None:
    assert template().doc_to_text(template().make_doc(row(NO_COMMA, GERMAN))) == "Write about a river."


def test_a_pack_may_bring_the_punkt_data(tmp_path: Path) -> None:
    shutil.copytree(TEMPLATE.parent, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    punkt_data(tmp_path / "nltk_data")
    utils = load_module(tmp_path / "ifeval" / "utils.py")
    doc = utils.make_doc(row(SENTENCES, CAPITALS))
    assert utils.doc_to_text(doc) == "Write about a river."
    result = utils.process_results(doc, ["A river is LONG. It ends in the sea."])
    assert (result["prompt_level_strict_acc"], result["ungraded"]) == (1, 0)


# Through lm-eval

FIXTURE = """
import datasets


def load(**kwargs):
    return {{"latest": datasets.Dataset.from_list({rows!r})}}
"""


def test_lm_eval_loads_the_task_and_scores_with_it(tmp_path: Path) -> None:
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    folder = tmp_path / "pack" / "ifeval"
    shutil.copytree(TEMPLATE.parent, folder.parent, ignore=shutil.ignore_patterns("__pycache__"))
    rows = [
        row(NO_COMMA, RIVER, TEN_WORDS, input_final_prompts=["first"]),
        row(QUOTED, input_final_prompts=["second"]),
    ]
    (folder / "fixture.py").write_text(FIXTURE.format(rows=rows))
    task_file = folder / "ifeval.yaml"
    task_file.write_text(task_file.read_text() + "custom_dataset: !function fixture.load\n")
    answers = {"first": "A river without any punctuation.", "second": 'Here:\n"So it is."'}

    class Answering(LM):
        def generate_until(self, requests: list, disable_tqdm: bool = False) -> list[str]:
            assert requests[0].args[1] == {"until": [], "do_sample": False, "temperature": 0, "max_gen_toks": 1280}
            return [answers[request.args[0]] for request in requests]

        def loglikelihood(self, requests: list) -> list:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    manager = TaskManager(include_path=str(tmp_path / "pack"), include_defaults=False)
    evaluation = lm_eval.simple_evaluate(model=Answering(), tasks=["meta_ifeval"], task_manager=manager)
    scores = {
        name.removesuffix(",none"): value
        for name, value in evaluation["results"]["meta_ifeval"].items()
        if name.endswith(",none") and "stderr" not in name
    }
    # Followed of [no comma, river, ten words] and [quoted]: strict 2 and 0, loose 2 and 1.
    assert scores == {
        "prompt_level_strict_acc": 0,
        "inst_level_strict_acc": pytest.approx(2 / 4),
        "prompt_level_loose_acc": pytest.approx(1 / 2),
        "inst_level_loose_acc": pytest.approx(3 / 4),
        "mean_acc": pytest.approx((0 + 2 / 4 + 1 / 2 + 3 / 4) / 4),
        "one_or_all_strict": 0,
        "one_or_all_loose": pytest.approx(1 / 2),
        "ungraded": 0,
    }
    assert evaluation["higher_is_better"]["meta_ifeval"]["ungraded"] is False
