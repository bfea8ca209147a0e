"""Choice tasks: the cut between context and continuation, which choice is the gold, and which choice won."""

from __future__ import annotations

import functools
import hashlib
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from golden import shipped
from hypothesis import given, settings
from hypothesis import strategies as st
from places import TEMPLATES, THOROUGH
from rows import make_row
from template_modules import load_module

from meta_eval.plugins.meta.source import sample as embedded


@functools.cache
def template() -> ModuleType:
    return load_module(TEMPLATES / "_common" / "choices.py")


def choice_row(prompts: list[str], gold: list[str], **other: Any) -> dict[str, Any]:
    return make_row(prompts=prompts, gold=gold, output=None, **{"input_choice_list": None, **other})


# Context and continuations


@pytest.mark.parametrize(
    ("prompts", "context", "continuations"),
    [
        (["Q\nAnswer: A", "Q\nAnswer: B"], "Q\nAnswer:", [" A", " B"]),
        (["q? Answer: yes", "q? Answer: no"], "q? Answer:", [" yes", " no"]),
        (["The sky is blue", "The sky is black today"], "The sky is", [" blue", " black today"]),  # not inside a word
        (["Drink: tea", "Drink: tea with milk"], "Drink:", [" tea", " tea with milk"]),  # the start of the other
        (["so Tom got the medal.", "so Max got the medal."], "so", [" Tom got the medal.", " Max got the medal."]),
        (["सही उत्तर: क", "सही उत्तर: ख"], "सही उत्तर:", [" क", " ख"]),
        (["ans: e", "ans: e\u0301"], "ans:", [" e", " e\u0301"]),  # not between a letter and its accent
        (["Answer\n\nA", "Answer\n\nB"], "Answer", ["\n\nA", "\n\nB"]),
        (["so?\nAnswer:\nA", "so?\nAnswer:\nB"], "so?\nAnswer", [":\nA", ":\nB"]),  # one token: a colon and a break
        (['so "?"\nA', 'so "?"\nB'], "so", [' "?"\nA', ' "?"\nB']),
        (["so.\n)\nA", "so.\n)\nB"], "so", [".\n)\nA", ".\n)\nB"]),
        (["Answer: ", "Answer: B"], "Answer:", [" ", " B"]),
        (["答案是甲", "答案是乙"], "", ["答案是甲", "答案是乙"]),  # no boundary to cut at
    ],
)
def test_the_context_is_what_the_prompts_share_up_to_a_word(
    prompts: list[str], context: str, continuations: list[str]
) -> None:
    assert template().split(prompts) == (context, continuations)


texts = st.text(st.sampled_from("ab A:\n\t é́कข") | st.characters(codec="utf-8"), min_size=1)
prompt_lists = st.lists(texts, min_size=2, max_size=5) | st.builds(
    lambda shared, ends, suffix: [shared + end + suffix for end in ends],
    texts,
    st.lists(texts, min_size=2, max_size=5),
    st.text("a b", max_size=5),
)


@settings(deadline=None)  # the first example loads the template
@given(prompt_lists)
def test_context_and_continuation_are_the_recorded_prompt_whatever_the_prompts(prompts: list[str]) -> None:
    context, continuations = template().split(prompts)
    assert [context + continuation for continuation in continuations] == prompts
    assert all(continuations)
    assert context == context.rstrip()
    assert not any(rest[0].isalnum() for rest in continuations) or context == ""


@settings(deadline=None)  # the first example loads the template
@given(st.text(), st.lists(st.from_regex(r"[^\W_]+", fullmatch=True), min_size=2, max_size=5, unique=True))
def test_words_behind_a_shared_text_are_the_continuations(shared: str, words: list[str]) -> None:
    context = f"{shared.rstrip()} Answer:"
    assert template().split([f"{context} {word}" for word in words]) == (context, [f" {word}" for word in words])


@pytest.mark.parametrize(
    ("prompts", "completions", "context", "continuations"),
    [
        (["q? Answer: yes", "q? Answer: no"], ["Answer: yes", "Answer: no"], "q?", [" Answer: yes", " Answer: no"]),
        (["q\nAnswer: yes", "q\nAnswer: no"], ["Answer: yes", "Answer: no"], "q", ["\nAnswer: yes", "\nAnswer: no"]),
        (
            ["q?\nAnswer: yes", "q?\nAnswer: no"],
            ["Answer: yes", "Answer: no"],
            "q",
            ["?\nAnswer: yes", "?\nAnswer: no"],
        ),
        (["q?\nAnswer: yes", "q?\nAnswer: no"], ["yes", "no"], "q?\nAnswer:", [" yes", " no"]),
        (["q?\nAnswer: yes", "q?\nAnswer: no"], [" yes", " no"], "q?\nAnswer:", [" yes", " no"]),
        (["the old sky is", "the old lake is"], ["sky is", "lake is"], "the old", [" sky is", " lake is"]),
        (["答案是甲", "答案是乙丙"], ["甲", "乙丙"], "答案是", ["甲", "乙丙"]),
    ],
)
def test_the_continuation_is_what_was_recorded_as_scored(
    prompts: list[str], completions: list[str], context: str, continuations: list[str]
) -> None:
    assert template().recorded_split(prompts, completions) == (context, continuations)
    doc = template().make_doc(choice_row(prompts, completions[:1], output_choice_completions=completions))
    assert (doc["prompt"], doc["continuations"]) == (context, continuations)
    assert doc["characters"] == [len(completion) for completion in completions]


def test_where_all_that_was_scored_is_as_long_what_is_not_shared_is_enough() -> None:
    """The shared words count the same for each choice then; scoring them would only add noise."""
    row = choice_row(LETTERS, ["Answer: B"], output_choice_completions=["Answer: A", "Answer: B"])
    doc = template().make_doc(row)
    assert (doc["prompt"], doc["continuations"], doc["characters"]) == ("Q Answer:", [" A", " B"], [9, 9])


UNFITTING = [
    (["q Answer: yes", "q Answer: no"], ["Answer: Yes", "Answer: No"]),  # not their ends
    (["q Answer: yes", "r Answer: no"], ["Answer: yes", "Answer: no"]),  # not the same before them
    (["q Answer: yes", "q Answer: no"], ["Answer: yes"]),  # one too few
]


def test_where_what_was_scored_does_not_resemble_the_prompts_what_they_share_is_the_context() -> None:
    prompts, completions = UNFITTING[0]
    doc = template().make_doc(choice_row(prompts, ["yes"], output_choice_completions=completions))
    assert (doc["prompt"], doc["continuations"]) == template().split(prompts)


FOUR = [f"Q\nAnswer: {letter}" for letter in "ABCD"]
SCORED = [f"Answer: {letter}" for letter in "ABCD"]


@pytest.mark.parametrize(
    ("prompts", "completions", "words"),
    [
        (FOUR[::-1], SCORED, r"prompt 1 ends with 'Q\nAnswer: D', and completion 1 is 'Answer: A'"),
        ([*FOUR[1::-1], *FOUR[2:]], SCORED, r"prompt 1 ends with 'Q\nAnswer: B', and completion 1 is 'Answer: A'"),
        ([f"{prompt} now" for prompt in FOUR], SCORED, r"prompt 1 ends with 'Q\nAnswer: A now', and completion 1 is"),
        ([*FOUR[:2], FOUR[2] + ".", FOUR[3]], SCORED, r"prompt 3 ends with 'Q\nAnswer: C.', and completion 3 is"),
        (FOUR[3:] * 4, SCORED, "prompt 1 ends with"),
        (FOUR[:3], SCORED, "holds 3 prompts and 4 completions"),
        (FOUR, SCORED[:3], "holds 4 prompts and 3 completions"),
        (["X" + FOUR[0], *FOUR[1:]], SCORED, "the 4 prompts begin differently"),
    ],
)
def test_prompts_that_contradict_each_other_or_what_was_scored_are_refused_with_the_hash(
    prompts: list[str], completions: list[str] | None, words: str
) -> None:
    row = choice_row(prompts, ["Answer: D"], output_choice_completions=completions)
    with pytest.raises(ValueError, match=re.escape(f"{row['input_question_hash']}: {words}")):
        template().process_docs([row])


def test_choices_whose_prompts_are_all_the_same_are_refused() -> None:
    """Two that are alike are odd, and lm-eval takes the first: so the record does."""
    row = choice_row(["Q tea", "Q tea", "Q tea"], ["C"], input_choice_list={"A": "tea", "B": "tea", "C": "tea"})
    with pytest.raises(ValueError, match="all 3 prompts are the same, so that no choice is right"):
        template().make_doc(row)


@pytest.mark.parametrize(("prompts", "completions"), UNFITTING)
def test_a_task_that_divides_by_lengths_refuses_such_a_row_with_its_hash(
    prompts: list[str], completions: list[str]
) -> None:
    row = choice_row(prompts, ["yes"], output_choice_completions=completions)
    with pytest.raises(ValueError, match=f"{row['input_question_hash']}: the prompts should end with what was scored"):
        template().process_docs_per_character([row])


@settings(deadline=None)  # the first example loads the template
@given(st.text(), st.lists(texts, min_size=2, max_size=5))
def test_context_and_recorded_continuation_are_the_prompt_whatever_was_scored(before: str, ends: list[str]) -> None:
    prompts = [before + end for end in ends]
    split = template().recorded_split(prompts, ends)
    assert split is not None
    context, continuations = split
    assert [context + continuation for continuation in continuations] == prompts
    assert before.startswith(context)
    assert context == context.rstrip()


LLAMA_3 = (  # how its tokenizer cuts a text before it looks for tokens
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@functools.cache
def pieces(text: str) -> list[str]:
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    return [piece for piece, _ in Split(Regex(LLAMA_3), "isolated").pre_tokenize_str(text)]


@settings(deadline=None)  # the first example loads the template
@given(
    st.lists(st.sampled_from(["a", "b1", "?", ".", " ", "\n", ")", "(", '"', "'s", "_", "é", "क", "ि", " the", "12"])),
    st.sampled_from([" ", "\n", "\n\n", " \n"]),
    st.sampled_from([["Answer: yes", "Answer: no"], ["yes", "no"], ["(A)", "(Bc)"]]),
)
def test_the_context_ends_where_one_of_llama_3_s_tokens_does(before: list[str], between: str, ends: list[str]) -> None:
    prompts = ["".join(before) + between + end for end in ends]
    for context, continuations in (template().recorded_split(prompts, ends), template().split(prompts)):
        cut = pieces(context)
        assert all(pieces(context + continuation)[: len(cut)] == cut for continuation in continuations)


def test_what_lm_eval_sends_are_the_recorded_prompts_letter_for_letter(sample_pack: tuple[Any, Path]) -> None:
    from golden import replay

    manifest, pack = sample_pack
    samples = replay(pack, CHOICE_TASKS)["samples"]
    assert {"meta_mmlu_pretrain", "meta_boolq", "meta_agieval_english"} <= set(samples)
    for name, entry in manifest.tasks.items():
        recorded = [
            row["input_final_prompts"] for row in embedded.read_tables()[f"{entry.model}-evals", entry.subset].rows
        ]
        sent = {
            sample["doc_id"]: [a[0] + a[1] for a in (asked["arguments"] for asked in requests(sample))]
            for sample in samples[name]
        }
        assert [sent[number] for number in range(len(recorded))] == recorded


def requests(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a request, under either shape in which lm-eval versions log them."""
    arguments = sample["arguments"]
    if isinstance(arguments, dict):
        return [{"arguments": (argument["arg_0"], argument["arg_1"])} for argument in arguments.values()]
    return [{"arguments": argument} for argument in arguments]


# Gold

LETTERS = ["Q Answer: A", "Q Answer: B"]
SPELT_OUT = {"A": "protein", "B": "vitamin A", "C": None}


@pytest.mark.parametrize(
    ("prompts", "gold", "other", "index"),
    [
        (LETTERS, ["Answer: B"], {}, 1),
        (LETTERS, ["B"], {}, 1),
        (LETTERS, ['"B"'], {}, 1),
        (LETTERS, ['"Answer: B"'], {"output_choice_completions": ["Answer: A", "Answer: B"]}, 1),
        (LETTERS, ["Answer: B", "B", " B"], {}, 1),  # several ways to write one choice
        (["q Answer: yes", "q Answer: no"], ["Answer: no"], {}, 1),
        (["n = 15", "n = 5"], ["5"], {}, 1),  # the other prompt ends in it as well
        (["Drink: tea", "Drink: iced tea"], ["Drink: iced tea"], {}, 1),
        (["Take vitamin A", "Take protein"], ["B"], {"input_choice_list": {"A": "vitamin A", "B": "protein"}}, 1),
        (["Take protein", "Take vitamin A"], ["A"], {"input_choice_list": SPELT_OUT}, 0),  # a letter, not an ending
        (["so Tom won.", "so Max won."], ["A"], {"input_choice_list": {"A": "Tom", "B": "Max"}}, 0),
    ],
)
def test_the_correct_response_names_one_choice(
    prompts: list[str], gold: list[str], other: dict[str, Any], index: int
) -> None:
    doc = template().make_doc(choice_row(prompts, gold, **other))
    assert doc["gold_index"] == index
    assert doc["gold"] == doc["continuations"][index].strip()


@pytest.mark.parametrize("gold", [["C"], ["Answer: A", "Answer: B"], [" "]])
def test_a_correct_response_that_names_no_choice_or_several_is_refused_with_its_hash(gold: list[str]) -> None:
    row = choice_row(LETTERS, gold)
    with pytest.raises(ValueError, match=f"{row['input_question_hash']}.*exactly one of the 2 choices"):
        template().make_doc(row)


def test_a_doc_has_the_recorded_likelihoods_and_the_lengths_of_what_was_scored() -> None:
    likelihoods = {"raw": [1.5, 0.5], "text": [0.1364, 0.05], "token": [0.5, 0.1667]}
    row = choice_row(
        ["<|begin_of_text|>q? Answer: yes", "<|begin_of_text|>q? Answer: no"],
        ["Answer: no"],
        output_choice_completions=["Answer: yes", "Answer: no"],
        output_choice_negative_log_likelihoods=likelihoods,
    )
    doc = template().make_doc(row)
    assert doc["prompt"] == "q?"
    assert doc["gold"] == "Answer: no"
    assert doc["recorded_negative_log_likelihoods"] == [1.5, 0.5]
    assert doc["characters"] == [11, 10]
    assert template().make_doc({**row, "output_choice_completions": None})["characters"] == [3, 2]


# Scoring


def score(likelihoods: list[float], gold: int, characters: list[int] | None = None) -> dict[str, Any]:
    doc = {"gold_index": gold, "subtask_name": "law", "characters": characters or [1] * len(likelihoods)}
    return template().process_results_per_character(doc, [(likelihood, False) for likelihood in likelihoods])


@pytest.mark.parametrize(
    ("likelihoods", "gold", "right"),
    [
        ([-1.0, -2.0, -3.0], 0, 1),
        ([-1.0, -2.0, -3.0], 1, 0),
        ([-2.0, -1.0, -1.0], 1, 1),  # of equals the first
        ([-2.0, -1.0, -1.0], 2, 0),
        ([-1.0, -2.0, -3.0, -4.0, -0.5], 4, 1),
        ([0.0, -2.0], 0, 1),
    ],
)
def test_the_likeliest_choice_counts(likelihoods: list[float], gold: int, right: int) -> None:
    assert score(likelihoods, gold) == {"acc": right, "acc_char": right, "ungraded": 0}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_a_likelihood_that_is_no_number_makes_the_doc_ungraded_and_wrong(odd: float, place: int) -> None:
    likelihoods = [-1.0, -1.0]
    likelihoods[place] = odd
    assert score(likelihoods, 0) == {"acc": 0, "acc_char": 0, "ungraded": 1}


def test_per_character_the_longer_choice_may_win() -> None:
    assert score([-1.3125, -1.25], 0, [11, 10]) == {"acc": 0, "acc_char": 1, "ungraded": 0}
    assert score([-1.3125, -1.25], 1, [11, 10]) == {"acc": 1, "acc_char": 0, "ungraded": 0}


@settings(deadline=None)  # the first example loads the template
@given(st.lists(st.floats(-1e6, 0), min_size=2, max_size=6), st.integers(0, 5), st.sampled_from([1, 2, 4]))
def test_for_choices_of_one_length_both_accuracies_are_one(likelihoods: list[float], gold: int, length: int) -> None:
    scores = score(likelihoods, gold, [length] * len(likelihoods))
    assert scores["acc"] == scores["acc_char"] == float(likelihoods.index(max(likelihoods)) == gold)


# Against a simulated model: what Meta recorded as scored, summed token by token, and what lm-eval makes of our docs


@functools.cache
def simulated() -> type:
    from lm_eval.api.model import TemplateLM

    class Simulated(TemplateLM):  # type: ignore[misc]
        """A likelihood for each token that depends on all before it, as of a model; tokens cut as Llama 3 cuts words."""

        def __init__(self, seed: int) -> None:
            super().__init__()
            self.seed = seed
            self.backend = "causal"

        eot_token_id = 0
        max_length = 10**6

        def tok_encode(self, string: str, **_: Any) -> list[str]:
            return re.findall(r" ?\w+| ?[^\s\w]+[\r\n]*|\s*[\r\n]+|\s+", string)

        def log_likelihood(self, before: list[str], token: str) -> float:
            if "\n" in token:
                return 0.0  # the end of a question; Meta's likelihood does not hold it
            digest = hashlib.sha256(f"{self.seed}\0{chr(1).join(before)}\0{token}".encode()).digest()
            return -(1 + digest[0]) / 64  # multiples of 1/64, so that sums are exact

        def scored(self, before: list[str], tokens: list[str]) -> float:
            return math.fsum(self.log_likelihood(before + tokens[:n], token) for n, token in enumerate(tokens))

        def _loglikelihood_tokens(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
            return [(self.scored(before, tokens), False) for _, before, tokens in requests]

        def generate_until(self, *_: Any, **__: Any) -> list[str]:
            raise NotImplementedError

        loglikelihood_rolling = generate_until

    return Simulated


CHOICE_TASKS = sorted(name for name, task in shipped().tasks.items() if task.output_type == "multiple_choice")


@pytest.fixture(scope="module")
def sample_pack(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    from golden import prepare_sample

    folder = tmp_path_factory.mktemp("choices") / "pack"
    return prepare_sample(folder, CHOICE_TASKS), folder


@pytest.mark.parametrize("seed", range(3 if THOROUGH else 2))
def test_every_choice_task_decides_as_the_recorded_reading_does(seed: int, sample_pack: tuple[Any, Path]) -> None:
    import lm_eval
    from lm_eval.tasks import TaskManager

    manifest, pack = sample_pack
    model = simulated()(seed)
    manager = TaskManager(include_path=str(pack), include_defaults=False)
    evaluation = lm_eval.simple_evaluate(
        model=model, tasks=CHOICE_TASKS, task_manager=manager, bootstrap_iters=0, log_samples=True
    )["samples"]
    for name in CHOICE_TASKS:
        entry = manifest.tasks[name]
        rows = embedded.read_tables()[f"{entry.model}-evals", entry.subset].rows
        for sample in evaluation[name]:
            row = rows[sample["doc_id"]]
            raw, per_character, last_word = [], [], []
            for prompt, completion in zip(row["input_final_prompts"], row["output_choice_completions"], strict=True):
                tokens = model.tok_encode(prompt)
                ends = len(model.tok_encode(completion))
                raw.append(model.scored(tokens[:-ends], tokens[-ends:]))
                per_character.append(raw[-1] / len(completion))
                last_word.append(model.log_likelihood(tokens[:-1], tokens[-1]))
            right = sample["doc"]["gold_index"]
            assert sample["acc"] == (raw.index(max(raw)) == right)
            # What all choices share does not decide which is the likeliest.
            assert raw.index(max(raw)) == last_word.index(max(last_word))
            if "acc_char" in sample:
                assert sample["acc_char"] == (per_character.index(max(per_character)) == right)


def test_dividing_the_last_word_by_the_length_of_what_was_scored_is_another_number() -> None:
    """Why the split matters: two models that differ only in how likely "Answer:" is."""
    row = choice_row(
        ["q?\nAnswer: yes", "q?\nAnswer: no"], ["Answer: yes"], output_choice_completions=["Answer: yes", "Answer: no"]
    )
    doc = template().make_doc(row)
    yes, no = -1.3125, -1.25  # of " yes" and of " no"
    for announced, right in ((0.0, 1.0), (-8.0, 1.0)):
        results = [(announced + yes, False), (announced + no, False)]
        assert template().process_results_per_character(doc, results)["acc_char"] == right
    yes = -1.5
    for announced, right in ((0.0, 0.0), (-8.0, 1.0)):  # -1.5 / 11 < -1.25 / 10, and -9.5 / 11 > -9.25 / 10
        results = [(announced + yes, False), (announced + no, False)]
        assert template().process_results_per_character(doc, results)["acc_char"] == right


def test_the_macro_average_gets_the_verdict_with_its_subtask() -> None:
    doc = {"gold_index": 0, "subtask_name": "law"}
    scores = template().process_results(doc, [(-1.0, False), (-2.0, False)])
    assert scores == {"acc": 1, "acc_macro": ("law", 1), "ungraded": 0}
