"""The catalog holds what Meta published, and nothing in it contradicts itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.plugins.meta import catalog

FAMILIES = [("3.1", "instruct"), ("3.1", "pretrain"), ("3.2", "instruct"), ("3.2", "pretrain"), ("3.3", "instruct")]
MODELS = [
    "Llama-3.1-8B-Instruct",
    "Llama-3.1-70B-Instruct",
    "Llama-3.1-405B-Instruct",
    "Llama-3.1-8B",
    "Llama-3.1-70B",
    "Llama-3.1-405B",
    "Llama-3.2-1B-Instruct",
    "Llama-3.2-3B-Instruct",
    "Llama-3.2-1B",
    "Llama-3.2-3B",
    "Llama-3.3-70B-Instruct",
]


def values(model: str, subset: str) -> dict[str | None, float]:
    published = catalog.find_published(model, subset)
    by_averaging = {number.averaging: number.value for number in published}
    assert len(by_averaging) == len(published), "one number for each averaging"
    return by_averaging


# Datasets and subsets


def test_lists_the_evals_dataset_of_every_model() -> None:
    assert sorted(catalog.list_dataset_ids()) == sorted(f"meta-llama/{model}-evals" for model in MODELS)


@pytest.mark.parametrize(("family", "count"), list(zip(FAMILIES, [30, 12, 21, 8, 12], strict=True)))
def test_counts_the_subsets_of_each_card(family: tuple[str, str], count: int) -> None:
    subsets = catalog.list_subsets(*family)
    assert len(subsets) == len(set(subsets)) == count
    assert list(subsets) == sorted(subsets)


def test_counts_55_distinct_subsets() -> None:
    """A name counts once for instruct and once for base, however many families have it: 41 + 14."""
    instruct = {
        subset
        for family, variant in FAMILIES
        if variant == "instruct"
        for subset in catalog.list_subsets(family, variant)
    }
    base = {
        subset
        for family, variant in FAMILIES
        if variant == "pretrain"
        for subset in catalog.list_subsets(family, variant)
    }
    assert (len(instruct), len(base), len(instruct) + len(base)) == (41, 14, 55)


def test_has_the_subsets_that_set_the_families_apart() -> None:
    assert "gpqa_diamond" in catalog.list_subsets("3.3", "instruct")
    assert "gpqa" not in catalog.list_subsets("3.3", "instruct")
    assert "math_hard" not in catalog.list_subsets("3.2", "instruct")
    assert "mmlu_portugese_chat" in catalog.list_subsets("3.2", "instruct")
    assert "multilingual_mmlu_pt" in catalog.list_subsets("3.1", "instruct")


def test_knows_no_subsets_of_what_was_not_published() -> None:
    assert catalog.list_subsets("3.3", "pretrain") == ()


def test_every_dataset_has_a_subset_list_and_numbers() -> None:
    for dataset_id in catalog.list_dataset_ids():
        identity = catalog.identify_dataset(dataset_id)
        assert identity.family and identity.variant and identity.model
        assert catalog.list_subsets(identity.family, identity.variant)
        assert catalog.list_numbers(identity.model)


def test_tells_licence_and_gate_where_known() -> None:
    gated = catalog.find_dataset("meta-llama/Llama-3.1-8B-evals")
    unknown = catalog.find_dataset("meta-llama/Llama-3.2-3B-evals")
    assert gated and (gated.licence, gated.gated) == ("llama3.1", True)
    assert unknown and (unknown.licence, unknown.gated) == ("llama3.2", None)


# Names


@pytest.mark.parametrize("model", [model for model in MODELS if "3.1" in model])
def test_translates_the_old_names_of_3_1(model: str) -> None:
    old = f"meta-llama/Meta-{model}-evals"
    assert catalog.find_canonical_id(old) == f"meta-llama/{model}-evals"
    assert catalog.is_listed(old)
    assert catalog.identify_dataset(old) == catalog.identify_dataset(f"meta-llama/{model}-evals")


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.3-70B-Instruct-evals", "me/Meta-Llama-3.1-8B-evals", "./rows", ""]
)
def test_leaves_every_other_name_unchanged(name: str) -> None:
    assert catalog.find_canonical_id(name) == name


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.2-11B-evals", "me/Llama-3.1-8B-evals", "Llama-3.1-8B-evals"])
def test_does_not_list_what_meta_did_not_publish(name: str) -> None:
    assert not catalog.is_listed(name)
    assert catalog.find_dataset(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct-evals", ("Llama-3.1-8B-Instruct", "3.1", "instruct")),
        ("me/Meta-Llama-3.1-405B-evals", ("Llama-3.1-405B", "3.1", "pretrain")),
        ("/data/copies/Llama-3.2-1B-Instruct-evals/", ("Llama-3.2-1B-Instruct", "3.2", "instruct")),
        ("Llama-3.2-3B-evals__mmlu__details", ("Llama-3.2-3B", "3.2", "pretrain")),
        ("C:\\data\\llama-3.3-70b-instruct-evals", ("Llama-3.3-70B-Instruct", "3.3", "instruct")),
        ("Llama-3.1-8B-Instruct-evals/rows", (None, None, None)),
        ("my-Llama-3.1-8B-evals", (None, None, None)),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct-evals", (None, None, None)),
        ("sample", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_identifies_a_dataset_by_its_name(name: str, expected: tuple[str | None, ...]) -> None:
    assert astuple(catalog.identify_dataset(name)) == expected


@given(st.text())
def test_identifies_any_text_without_an_error(name: str) -> None:
    identity = catalog.identify_dataset(name)
    known = {identity.model is None, identity.family is None, identity.variant is None}
    assert len(known) == 1, "all of an identity is known, or nothing"


# Published numbers


@pytest.mark.parametrize(
    ("model", "subset", "expected"),
    [
        ("Llama-3.1-8B", "mmlu", {"macro": 66.7, "micro": 65.6}),
        ("Llama-3.1-405B", "mmlu_pro", {"macro": 61.6, "micro": 59.6}),
        ("Llama-3.1-70B", "bbh", {"macro": 81.6}),
        ("Llama-3.1-8B", "triviaqa__wiki", {None: 77.6}),
        ("Llama-3.1-8B-Instruct", "mmlu", {"macro": 69.4, "micro": 69.44}),
        ("Llama-3.1-8B-Instruct", "mmlu_pro", {"macro": 48.3, "micro": 47.0}),
        ("Llama-3.1-70B-Instruct", "mmlu__0_shot__cot", {"macro": 86.0}),
        ("Llama-3.1-405B-Instruct", "ifeval__strict", {"mean of four": 88.6}),
        ("Llama-3.1-405B-Instruct", "ifeval__loose", {"mean of four": 88.6}),
        ("Llama-3.1-8B-Instruct", "math", {None: 51.9}),
        ("Llama-3.1-8B-Instruct", "math_hard", {None: 25.4}),
        ("Llama-3.1-405B-Instruct", "multilingual_mmlu_th", {"macro": 78.21}),
        ("Llama-3.2-1B", "mmlu", {"macro": 32.2}),
        ("Llama-3.2-3B", "drop", {None: 45.2}),
        ("Llama-3.2-3B-Instruct", "openrewrite_chat", {"micro": 40.1}),
        ("Llama-3.2-3B-Instruct", "mmlu_portugese_chat", {"macro": 54.5}),
        ("Llama-3.2-1B-Instruct", "gpqa", {None: 27.2}),
        ("Llama-3.3-70B-Instruct", "mmlu_pro", {"macro": 68.9}),
        ("Llama-3.3-70B-Instruct", "math", {None: 77.0}),
        ("Llama-3.3-70B-Instruct", "bfcl_chat", {"macro": 77.3}),
    ],
)
def test_gives_the_number_of_a_subset(model: str, subset: str, expected: dict[str | None, float]) -> None:
    assert values(model, subset) == expected


def test_gives_shots_metric_and_source_with_a_number() -> None:
    (number,) = catalog.find_published("Llama-3.2-1B-Instruct", "gsm8k")
    assert (number.benchmark, number.value, number.metric) == ("GSM8K (CoT)", 44.4, "em_maj1@1")
    assert (number.shots, number.cot, number.averaging) == ("8", True, None)
    assert number.source == "llama-models/models/llama3_2/MODEL_CARD.md"


def test_a_range_of_shots_stays_as_written() -> None:
    assert [number.shots for number in catalog.find_published("Llama-3.2-1B", "agieval_english")] == ["3-5"]


def test_has_no_number_for_an_unknown_model_or_subset() -> None:
    assert catalog.find_published("Llama-3.1-9B", "mmlu") == ()
    assert catalog.find_published("Llama-3.1-8B", "gsm8k") == ()
    assert catalog.list_numbers("Llama-3.1-9B") == ()


def test_the_subset_math_of_3_2_is_4_shot() -> None:
    (small,) = catalog.find_published("Llama-3.2-1B-Instruct", "math")
    (large,) = catalog.find_published("Llama-3.2-3B-Instruct", "math")
    assert (small.value, small.shots, small.same_settings) == (30.4, "4", True)
    assert (large.value, large.shots, large.same_settings) == (48.0, "0", False)
    assert large.note and "4-shot" in large.note


def test_only_the_3b_math_number_was_measured_with_other_settings_than_its_rows() -> None:
    assert [(n.model, n.subset) for n in catalog.list_numbers() if not n.same_settings] == [
        ("Llama-3.2-3B-Instruct", "math")
    ]


def test_the_subset_gpqa_of_3_1_is_chain_of_thought() -> None:
    (number,) = catalog.find_published("Llama-3.1-8B-Instruct", "gpqa")
    (unbound,) = [
        n for n in catalog.list_numbers("Llama-3.1-8B-Instruct") if n.benchmark == "GPQA" and n.subset is None
    ]
    assert (number.value, number.cot) == (32.8, True)
    assert (unbound.value, unbound.cot) == (30.4, False)


def test_gpqa_and_gpqa_diamond_are_two_benchmarks() -> None:
    assert values("Llama-3.3-70B-Instruct", "gpqa_diamond") == {None: 50.5}
    assert catalog.find_published("Llama-3.3-70B-Instruct", "gpqa") == ()
    diamond = [n for n in catalog.list_numbers("Llama-3.1-8B-Instruct") if n.benchmark.startswith("GPQA Diamond")]
    assert [(number.value, number.subset) for number in diamond] == [(31.8, None)]


def test_needle_in_haystack_1_means_100() -> None:
    assert values("Llama-3.2-3B", "needle_in_haystack") == {None: 100.0}
    assert values("Llama-3.2-1B", "needle_in_haystack") == {None: 96.8}


def test_infinite_bench_holds_two_benchmarks() -> None:
    published = catalog.find_published("Llama-3.2-1B-Instruct", "infinite_bench")
    assert {(number.metric, number.value) for number in published} == {("f1", 20.3), ("acc", 38.0)}


def test_benchmarks_without_rows_have_no_subset() -> None:
    unbound = {n.benchmark: n.value for n in catalog.list_numbers("Llama-3.1-8B-Instruct") if n.subset is None}
    assert unbound["Multipl-E HumanEval"] == 50.8
    assert unbound["TLDR9+ (test)"] == 17.2
    assert unbound["Gorilla Benchmark API Bench"] == 8.2


def test_ifeval_of_the_1b_stands_as_mean_of_four_and_as_prompt_accuracy() -> None:
    strict = catalog.find_published("Llama-3.2-1B-Instruct", "ifeval__strict")
    loose = catalog.find_published("Llama-3.2-1B-Instruct", "ifeval__loose")
    assert {(n.averaging, n.metric, n.value) for n in strict} == {
        ("mean of four", "acc", 59.5),
        (None, "prompt_acc", 51.0),
    }
    assert {(n.averaging, n.metric, n.value) for n in loose} == {
        ("mean of four", "acc", 59.5),
        (None, "prompt_acc", 55.3),
    }


def test_every_number_and_reproduction_is_of_a_subset_that_its_model_has() -> None:
    for entry in [
        *catalog.list_numbers(),
        *(r for m in MODELS for s in all_subsets() for r in catalog.find_reproductions(m, s)),
    ]:
        identity = catalog.identify_dataset(f"meta-llama/{entry.model}-evals")
        assert identity.family and identity.variant
        assert entry.subset is None or entry.subset in catalog.list_subsets(identity.family, identity.variant), entry


def test_every_number_is_a_percentage_with_a_source() -> None:
    for number in catalog.list_numbers():
        assert 1 < number.value <= 100, "a fraction would stand at or below 1"
        assert number.source
        assert number.metric
        assert number.benchmark


def test_no_number_stands_twice() -> None:
    with_subset = Counter((n.model, n.subset, n.averaging, n.metric) for n in catalog.list_numbers() if n.subset)
    without = Counter(
        (n.model, n.benchmark, n.averaging, n.metric, n.source) for n in catalog.list_numbers() if not n.subset
    )
    assert not [key for key, count in (with_subset + without).items() if count > 1]


def test_only_infinite_bench_needs_more_than_the_averaging_to_tell_its_numbers_apart() -> None:
    keys = Counter((n.model, n.subset, n.averaging) for n in catalog.list_numbers() if n.subset)
    assert {subset for (_, subset, _), count in keys.items() if count > 1} == {"infinite_bench"}


def test_only_these_subsets_have_no_published_number() -> None:
    """Meta published one number over the three of Gorilla, and none for these others."""
    missing = set()
    for dataset_id in catalog.list_dataset_ids():
        identity = catalog.identify_dataset(dataset_id)
        assert identity.model and identity.family and identity.variant
        for subset in catalog.list_subsets(identity.family, identity.variant):
            if not catalog.find_published(identity.model, subset):
                missing.add((identity.family, identity.variant, subset))
    assert missing == {
        ("3.1", "instruct", "gorilla_api_bench__huggingface"),
        ("3.1", "instruct", "gorilla_api_bench__tensorhub"),
        ("3.1", "instruct", "gorilla_api_bench__torchub"),
        ("3.2", "pretrain", "multi_needle"),
        ("3.3", "instruct", "math_hard"),
        ("3.3", "instruct", "nih__multi_needle"),
    }


def test_gives_what_others_reproduced() -> None:
    (reproduction,) = catalog.find_reproductions("Llama-3.1-8B-Instruct", "ifeval__strict")
    assert (reproduction.value, reproduction.averaging) == (77.82, "mean of two")
    assert sorted(entry.value for entry in catalog.find_reproductions("Llama-3.2-3B-Instruct", "math")) == [40.7, 45.14]
    assert catalog.find_reproductions("Llama-3.3-70B-Instruct", "gpqa_diamond") == ()


def test_reproductions_lie_near_the_published_number_of_the_same_averaging() -> None:
    """A number put against the wrong subset or averaging would lie further off."""
    for model in MODELS:
        for subset in all_subsets():
            for reproduction in catalog.find_reproductions(model, subset):
                for number in catalog.find_published(model, subset):
                    if number.averaging == reproduction.averaging and number.same_settings:
                        assert abs(number.value - reproduction.value) < 1.5, (number, reproduction)


def all_subsets() -> set[str]:
    return {subset for family in FAMILIES for subset in catalog.list_subsets(*family)}
