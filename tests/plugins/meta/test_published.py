"""Published numbers: the evals dataset's own metrics first, else the catalog, and never one that is not comparable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from golden import shipped
from meta_datasets import StubDataset
from noted import noted
from rows import write_rows

from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.published_numbers import find_published_numbers, read_published_metrics
from meta_eval.plugins.meta.source import local_folder

TASKS = shipped().tasks
SMALL = StubDataset(("math", "mmlu"), Identity("Llama-3.2-1B-Instruct", "3.2", "instruct"))


def metric(label: str, tag: str, value: float) -> dict[str, Any]:
    return {"benchmark_label": label, "metric_tag": tag, "metric_value_computed": value}


def entries(
    task: str, label: str, rows: list[dict[str, Any]], dataset: StubDataset = SMALL
) -> tuple[list[Any], list[str]]:
    with noted() as notes:
        published = find_published_numbers(TASKS[task], dataset, [label], rows)
    return [(entry.metric, entry.value, entry.averaging) for entry in published], notes


def test_without_metrics_the_card_speaks() -> None:
    scores, notes = entries("meta_mmlu_instruct", "MMLU", [])
    assert scores == [("exact_match_macro,strict-match", 49.3, "macro")]
    assert notes == []


def test_the_metrics_of_the_dataset_win_and_a_difference_is_said() -> None:
    rows = [metric("MMLU", "macro_avg/acc", 49.17), metric("MMLU", "micro_avg/acc", 48.2), metric("ARC-C", "acc", 1)]
    scores, notes = entries("meta_mmlu_instruct", "MMLU", rows)
    assert scores == [("exact_match_macro,strict-match", 49.17, "macro"), ("exact_match,strict-match", 48.2, "micro")]
    assert len(notes) == 1
    assert "49.17" in notes[0]
    assert "49.3" in notes[0]


def test_a_rounding_is_no_difference() -> None:
    assert entries("meta_mmlu_instruct", "MMLU", [metric("MMLU", "macro_avg/acc", 49.34)])[1] == []


def test_a_number_of_another_benchmark_or_averaging_is_not_taken() -> None:
    scores, _ = entries(
        "meta_mmlu_instruct", "MMLU", [metric("MMLU (Thai)", "macro_avg/acc", 1.0), metric("MMLU", "weighted/acc", 2.0)]
    )
    assert scores == [("exact_match_macro,strict-match", 49.3, "macro")]


def test_the_rows_own_number_replaces_one_of_other_settings() -> None:
    """3.2 MATH: the card is 0-shot, the rows and their metrics are 4-shot."""
    dataset = replace(SMALL, identity=Identity("Llama-3.2-3B-Instruct", "3.2", "instruct"))
    label = "MATH (4-shot, CoT)"
    card = find_published_numbers(TASKS["meta_math"], dataset, [label], [])
    own = find_published_numbers(TASKS["meta_math"], dataset, [label], [metric(label, "em", 47.1)])
    assert [(e.value, e.same_settings) for e in card] == [(48.0, False)]
    assert [(e.value, e.same_settings) for e in own] == [(47.1, True)]


def test_the_mean_of_four_is_never_a_prompt_accuracy() -> None:
    dataset = replace(SMALL, subsets=("ifeval__strict",))
    scores, _ = entries("meta_ifeval", "IFEval Strict", [metric("IFEval Strict", "prompt_acc", 51.0)], dataset)
    assert scores == [("mean_acc,none", 59.5, "mean of four")]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    stem = "Llama-3.2-1B-Instruct-evals"
    root = tmp_path / stem
    write_rows(root / "mmlu.jsonl", [{"a": 1}])
    write_rows(root / "metrics.jsonl", [metric("MMLU", "macro_avg/acc", 49.3), {"benchmark_label": 3}])
    card = f"configs: [{{config_name: {stem}__mmlu__details, data_files: [{{split: latest, path: mmlu.jsonl}}]}}, {{config_name: {stem}__metrics, data_files: [{{split: latest, path: metrics.jsonl}}]}}]"
    (root / "README.md").write_text(f"---\n{card}\n---\n")
    return root


def test_the_metrics_config_is_read_and_is_no_subset(snapshot: Path) -> None:
    dataset = local_folder.open_evals_dataset(str(snapshot), identity=SMALL.identity)
    assert dataset.subsets == ("mmlu",)
    with noted() as notes:
        assert read_published_metrics(dataset) == [metric("MMLU", "macro_avg/acc", 49.3)]
    assert "1 of 2 rows" in notes[0]


@dataclass(frozen=True)
class _Broken(StubDataset):
    path: Path = Path()

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        return (DataFile(self.path, "metrics.parquet", "0" * 64),)


def test_metrics_that_cannot_be_read_are_said_and_the_card_stands_in(tmp_path: Path) -> None:
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1 but not really")
    with noted() as notes:
        assert read_published_metrics(_Broken(("mmlu",), path=tmp_path / "metrics.parquet")) == []
    assert "model cards instead" in notes[0]
