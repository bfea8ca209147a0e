"""Details files in the columns, types and names that public sources show, over our own rows.

Each maker takes docs of our own and names its source as repository@commit, path. No public source lists the columns of
2023 whole: the union of those that fetchers read is taken, in lighteval's order (sorted by name). Types that no source
shows are those of lighteval's first commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from first_board import Row, choice, sum_of, truthful

TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
TEXTS, WHOLES, REALS = pa.list_(TEXT), pa.list_(WHOLE), pa.list_(REAL)
NOTHING = pa.list_(pa.null())  # what pyarrow makes of lists that are empty in every row
HASHES = pa.struct([(name, TEXT) for name in ("cont_tokens", "example", "full_prompt", "input_tokens")])
Encode = Callable[[str], list[int]]
TARGETS = pa.struct([("choices", TEXTS), ("labels", WHOLES)])


def no_tokenizer(text: str) -> list[int]:
    """Make ids that no tokenizer gives."""
    return [7, *map(ord, text[-9:])]


@dataclass(frozen=True)
class Shape:
    """One layout of details.

    Attributes:
        task: The task as its file names it.
        rows: Our docs, in the columns of `first_board`.
        table: The file.
    """

    task: str
    rows: Sequence[Row]
    table: pa.Table


def choices_of_2023(encode: Encode = no_tokenizer) -> Shape:
    """ARC from July to October 2023: metrics are columns, one right choice, and hashes.

    - zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/arc.ipynb, hellaswag.ipynb and mmlu.ipynb: example, choices, gold
      (a number), predictions, acc, acc_norm.
    - Sudharsanselvaraj/Identifiable-Variance-Decomposition-of-Correlated-Errors-in-Foundation-Models@fb94ef5f,
      src/lineage_era/ollb/fetch_v1.py, layout "legacy": hashes, a struct with example.
    - ReexpressAI/Example_Data@b1b7bbab, tutorials/tutorial2_add_guardrails_to_genai/preprocess/qa_data_llm_benchmark.py:
      query.
    - edu-llm/olmo-eval-full@164ad8f0, diagnostics/mcq_cat/styles/uni_mcq/scripts/build_leaderboard_bridge.py: example is
      the dataset's id in early files.
    - collapseindex/dinostomp@a28ebaad, FINDINGS.md, N-007: full_prompt, padded, and num_effective_few_shots, which is -1.
    """
    fields = {
        "acc": REAL, "acc_norm": REAL, "choices": TEXTS, "example": TEXT, "full_prompt": TEXT, "gold": WHOLE,
        "hashes": HASHES, "input_tokens": pa.list_(WHOLES), "num_effective_few_shots": WHOLE, "padded": WHOLES,
        "predictions": REALS, "query": TEXT, "truncated": WHOLES,
    }  # fmt: skip
    docs = _arc_docs()
    return Shape(
        "harness|arc:challenge|25", docs, _table([_row_of_2023(n, row, encode) for n, row in enumerate(docs)], fields)
    )


def texts_of_2023(encode: Encode = no_tokenizer) -> Shape:
    """The same with every column as text, as Python writes it.

    The layout "legacy_str" of
    Sudharsanselvaraj/Identifiable-Variance-Decomposition-of-Correlated-Errors-in-Foundation-Models@fb94ef5f,
    src/lineage_era/ollb/fetch_v1.py. huggingface/lighteval@e469d7e2, src/lighteval/logging/evaluation_tracker.py
    falls back to it where pyarrow refuses the rows.
    """
    shape = choices_of_2023(encode)
    return Shape(shape.task, shape.rows, as_text(shape.table))


def truths_of_2023() -> Shape:
    """TruthfulQA of 2023: the choices are in the two lists of the dataset, the likelihoods in one list.

    zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/truthfulqa.ipynb: question, mc1_targets, mc2_targets, mc2, and
    predictions, those of mc1 first. panditk455/mech-interp-uncertainty@81fadfa6,
    benchmark_uncertainty/fetch_truthfulqa_data.py: mc1.
    """
    fields = {
        "full_prompt": TEXT, "hashes": HASHES, "mc1": REAL, "mc1_targets": TARGETS, "mc2": REAL, "mc2_targets": TARGETS,
        "predictions": REALS, "question": TEXT,
    }  # fmt: skip
    docs = [truthful(n) for n in range(4)]
    rows = []
    for n, row in enumerate(docs):
        bare = [text.removeprefix(" ") for text in row["choices"]]
        rows.append(
            {
                **_row_of_2023(n, row),
                "question": f"Do {n} moons sing?",
                "mc1_targets": {"choices": bare[:3], "labels": [1, 0, 0]},
                "mc2_targets": {"choices": bare[3:], "labels": [1, 1, 0]},
            }
        )
    return Shape("harness|truthfulqa:mc|0", docs, _table(rows, fields))


def sums_of_2023() -> Shape:
    """GSM8K of 2023, whose right answer stands in the dataset's own column.

    edu-llm/olmo-eval-full@164ad8f0, diagnostics/mcq_cat/styles/uni_mcq/scripts/build_leaderboard_bridge.py: example is
    the question. No source names the column of the right answer; rows of 2023 carry the columns of their dataset
    (`truths_of_2023`, `drop_of_2023`), and GSM8K's are question and answer.
    """
    fields = {
        "acc": REAL, "answer": TEXT, "example": TEXT, "full_prompt": TEXT, "hashes": HASHES, "predictions": TEXTS,
        "question": TEXT,
    }  # fmt: skip
    docs = [sum_of(n) for n in range(4)]
    rows = [
        {**_row_of_2023(n, row), "answer": row["gold"][0], "question": row["example"]} for n, row in enumerate(docs)
    ]
    return Shape("harness|gsm8k|5", docs, _table(rows, fields))


def drop_of_2023() -> Shape:
    """DROP of 2023, whose metrics are text.

    jv8-alt/fluke@fc7e138d, scripts/fetch_hf_data.py: example (the id of the question), passage and f1, which is text.
    zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/drop.ipynb: predictions and em.
    """
    fields = dict.fromkeys(("em", "example", "f1", "full_prompt", "passage"), TEXT) | {"predictions": TEXTS}
    docs = [
        {"example": f"{n}-5e-4f", "passage": f"Ann had {n} pebbles.", "full_prompt": f"Passage: {n}\nAnswer:",
         "predictions": [f" {n}"], "em": "1.0", "f1": "1.0"} for n in range(3)
    ]  # fmt: skip
    return Shape("harness|drop|3", docs, _table(docs, fields))


_SINCE_NOVEMBER: dict[str, pa.DataType] = {
    "choices": NOTHING, "cont_tokens": pa.list_(WHOLES), "example": TEXT, "full_prompt": TEXT, "gold": NOTHING,
    "gold_index": NOTHING, "input_tokens": pa.list_(WHOLES), "instruction": TEXT,
    "metrics": pa.struct([("acc", REAL), ("acc_norm", REAL)]), "num_asked_few_shots": WHOLE,
    "num_effective_few_shots": WHOLE, "padded": WHOLES, "pred_logits": NOTHING, "predictions": REALS,
    "truncated": WHOLES,
}  # fmt: skip
_EMPTY = {"choices": [], "gold": [], "gold_index": [], "pred_logits": [], "instruction": "", "num_asked_few_shots": 5,
          "num_effective_few_shots": 5}  # fmt: skip


def choices_since_november_2023() -> Shape:
    """ARC since November 2023: metrics in a struct; the columns of choices and right answers are empty.

    - huggingface/lighteval@e469d7e2, src/lighteval/logging/info_loggers.py and evaluation_tracker.py: the fifteen columns,
      sorted. A public reader of these files prints the same list.
    - Sudharsanselvaraj/Identifiable-Variance-Decomposition-of-Correlated-Errors-in-Foundation-Models@fb94ef5f,
      src/lineage_era/ollb/fetch_v1.py, layout "lighteval": gold is empty. Another reader found choices and gold_index
      empty too.
    - zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/drop.ipynb and winogrande.ipynb: metrics in the datasets whose names
      end in ``_public``, of November 2023.
    """
    docs = _arc_docs()
    rows = [{**row, **_ids(row), **_EMPTY} for row in docs]
    return Shape("harness|arc:challenge|25", docs, _table(rows, _SINCE_NOVEMBER))


def sums_since_november_2023() -> Shape:
    """GSM8K since November 2023: the same columns, and no right answer.

    zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/gsm8k.ipynb: example, predictions, metrics with acc. A public reader
    of details_meta-llama__Meta-Llama-3-70B-Instruct found gold and pred_logits empty.
    """
    fields = {**_SINCE_NOVEMBER, "metrics": pa.struct([("acc", REAL)]), "predictions": TEXTS}
    docs = [sum_of(n) for n in range(4)]
    rows = [{**row, **_ids({**row, "choices": [""]}), **_EMPTY} for row in docs]
    return Shape("harness|gsm8k|5", docs, _table(rows, fields))


def endings_since_november_2023() -> Shape:
    """Winogrande since November 2023: the ids of two prompts and of their common ending.

    zeno-ml/zeno-build@bced63f9, open_llm_leaderboard/winogrande.ipynb: example (the sentence with its gap), two
    predictions, metrics with acc.
    """
    fields = {**_SINCE_NOVEMBER, "metrics": pa.struct([("acc", REAL)])}
    docs = [choice(n, f"The pan {n} left the box, for the pan", ["pan", "box"], n % 2) for n in range(3)]
    rows = [
        {**row, "input_tokens": [[1, 2], [1, 3]], "cont_tokens": [[4], [4]], "padded": [0, 0], **_EMPTY} for row in docs
    ]
    return Shape("harness|winogrande|5", docs, _table(rows, fields))


def choices_of_lighteval(encode: Encode = no_tokenizer) -> Shape:
    """ARC by lighteval 0.1 and 0.2, from January 2024: the same fifteen columns, filled.

    huggingface/lighteval@e469d7e2, src/lighteval/logging/info_loggers.py (Detail) and evaluation_tracker.py (sorted).
    """
    fields = {**_SINCE_NOVEMBER, "choices": TEXTS, "gold_index": WHOLES}
    docs = _arc_docs()
    rows = [{**_EMPTY, **row, **_ids(row, encode), "gold": [], "instruction": ""} for row in docs]
    return Shape("leaderboard|arc:challenge|25", docs, _table(rows, fields))


def texts_of_lighteval(encode: Encode = no_tokenizer) -> Shape:
    """ARC by lighteval 0.4 to 0.7: sixteen columns, all as text, and each likelihood with whether it is greedy.

    huggingface/lighteval@e0af8215, src/lighteval/logging/evaluation_tracker.py (``str`` of each column), info_loggers.py
    (Detail) and src/lighteval/models/model_output.py.
    """
    docs = _arc_docs()
    rows = []
    for row in docs:
        whole = {**_EMPTY, **row, **_ids(row, encode), "gold": [], "instruction": "", "specifics": None}
        whole["predictions"] = [(cost, False) for cost in row["predictions"]]
        rows.append({name: str(whole[name]) for name in sorted([*_SINCE_NOVEMBER, "specifics"])})
    return Shape("leaderboard|arc:challenge|25", docs, _table(rows, dict.fromkeys(rows[0], TEXT)))


def answers_of_lighteval() -> Shape:
    """Generated answers by lighteval 0.8 to 0.9: seventeen columns; each prediction is a list of answers.

    huggingface/lighteval@7b421132, src/lighteval/logging/info_loggers.py and src/lighteval/models/model_output.py.
    """
    fields = {
        **_SINCE_NOVEMBER, "gold": TEXTS, "metrics": pa.struct([("extractive_match", REAL)]),
        "prediction_logits": NOTHING, "predictions": pa.list_(TEXTS), "specifics": pa.null(),
    }  # fmt: skip
    docs = [sum_of(n) for n in range(3)]
    rows = [
        {**_EMPTY, **row, **_ids({**row, "choices": [""]}), "choices": [], "gold_index": [], "prediction_logits": [],
         "predictions": [row["predictions"]], "metrics": {"extractive_match": 1.0}} for row in docs
    ]  # fmt: skip
    return Shape("lighteval|gsm8k|0", docs, _table(rows, dict(sorted(fields.items()))))


# Names of files that open-llm-leaderboard-old/details_meta-llama__Llama-2-7b-hf holds: PsyCogMetricsAI/llm-overconfidence
# @fc669bcc, upstream_metadata/open-llm-leaderboard-old__details_meta-llama__Llama-2-7b-hf.json. Runs until August 2023
# have colons in their time, in the folder too. One subject of MMLU was run alone, and once without examples.
LLAMA_2 = (
    "2023-08-19T16:35:46.942696/details_harness|arc:challenge|25_2023-08-19T16:35:46.942696.parquet",
    "2023-08-19T16:35:46.942696/details_harness|hendrycksTest-abstract_algebra|5_2023-08-19T16:35:46.942696.parquet",
    "2023-08-19T16:35:46.942696/details_harness|hendrycksTest-us_foreign_policy|5_2023-08-19T16:35:46.942696.parquet",
    "2023-08-19T16:35:46.942696/details_harness|truthfulqa:mc|0_2023-08-19T16:35:46.942696.parquet",
    "2023-08-21T20:09:03.352670/details_harness|hendrycksTest-abstract_algebra|0_2023-08-21T20:09:03.352670.parquet",
    "2023-08-28T19:52:01.926454/details_original|mmlu:abstract_algebra|5_2023-08-28T19:52:01.926454.parquet",
    "2023-08-28T19:52:01.926454/details_original|mmlu:anatomy|5_2023-08-28T19:52:01.926454.parquet",
    "2023-09-15T09-53-02.418861/details_harness|arc:challenge|25_2023-09-15T09-53-02.418861.parquet",
    "2023-09-20T14-39-46.791628/details_harness|drop|3_2023-09-20T14-39-46.791628.parquet",
    "2023-09-20T14-39-46.791628/details_harness|gsm8k|5_2023-09-20T14-39-46.791628.parquet",
    "2023-09-20T14-39-46.791628/details_harness|winogrande|5_2023-09-20T14-39-46.791628.parquet",
    "2023-12-02T13-00-06.695936/details_harness|gsm8k|5_2023-12-02T13-00-06.695936.parquet",
    "README.md",
    "results_2023-08-19T16:35:46.942696.json",
    "results_2023-08-19T16:35:46.942696.parquet",
    "results_2023-09-20T14-39-46.791628.json",
)


def card_of(model: str, repository: str, files: Sequence[str]) -> str:
    """Write the card of a dataset with these files, in the form of the leaderboard's.

    PsyCogMetricsAI/llm-overconfidence@fc669bcc, upstream_metadata/details_readme.txt: a configuration for each task, with a
    split for each run and ``latest``, and ``results``. In names of configurations and splits ``|``, ``:`` and ``-`` are
    ``_``; the files are patterns with quotes.
    """
    configs: dict[str, dict[str, str]] = {}
    for file in files:
        name, _, time = file.rpartition("/")[2].removesuffix(".parquet").rpartition("_")
        if name.startswith("details_"):
            config = name.removeprefix("details_").translate(str.maketrans("|:-", "___"))
            configs.setdefault(config, {})[time.translate(str.maketrans(":-", "__"))] = file.rpartition("/")[2]
    lines = [
        "---", f"pretty_name: Evaluation run of {model}",
        f'dataset_summary: "Dataset automatically created during the evaluation run of model\\\n  \\ [{model}]'
        f'(https://huggingface.co/{model}) on\\\n  \\ the [Open LLM Leaderboard].\\n\\nThe dataset is composed of '
        f'{len(configs)} configuration."', f"repo_url: https://huggingface.co/{model}",
        "leaderboard_url: https://huggingface.co/spaces/HuggingFaceH4/open_llm_leaderboard",
        "point_of_contact: clementine@hf.co", "configs:",
    ]  # fmt: skip
    for config, runs in sorted(configs.items()):
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, file in [*sorted(runs.items()), ("latest", runs[max(runs)])]:
            lines += [f"  - split: {split}", "    path:", f"    - '**/{file}'"]
    return "\n".join([*lines, "---", "", f"# Dataset Card for Evaluation run of {model}", "", repository, ""])


def write_shape(folder: Path, shape: Shape, time: str = "2023-08-19T16:35:46.942696", name: str | None = None) -> Path:
    """Write the file of a shape into the folder of its run, or under another name."""
    path = folder / (name or f"{time}/details_{shape.task}_{time}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(shape.table, path)
    return folder


def as_text(table: pa.Table) -> pa.Table:
    """Write each value as Python's ``str`` does."""
    rows = [{name: str(value) for name, value in row.items()} for row in table.to_pylist()]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, TEXT) for name in table.column_names]))


def _arc_docs() -> list[Row]:
    return [
        choice(n, f"Question: Which is {n}?\nAnswer:", [f"pebble {n}", f"a cup of rain {n}", "it's \"moss\""], n % 3)
        for n in range(5)
    ]  # fmt: skip


def _ids(row: Row, encode: Encode = no_tokenizer) -> Row:
    """The ids of requests, padded at the end as in a batch, and those of the choices."""
    requests = [encode(row["full_prompt"] + text) for text in row["choices"]]
    longest = max(map(len, requests))
    return {
        "input_tokens": [ids + [0] * (longest - len(ids)) for ids in requests],
        "padded": [longest - len(ids) for ids in requests], "cont_tokens": [encode(text) for text in row["choices"]],
        "truncated": [0] * len(requests),
    }  # fmt: skip


def _row_of_2023(n: int, row: Row, encode: Encode = no_tokenizer) -> Row:
    bare = [text.removeprefix(" ") for text in row["choices"] or ()]
    hashes = {field.name: f"{n:016x}" for field in HASHES}
    return {
        **row, **row["metrics"], **(_ids(row, encode) if bare else {}), "example": f"Pebble_{n}",
        "query": row["example"], "choices": bare, "gold": row["gold_index"][0] if bare else None, "hashes": hashes,
        "num_effective_few_shots": -1,
    }  # fmt: skip


def _table(rows: Sequence[dict[str, Any]], fields: dict[str, pa.DataType]) -> pa.Table:
    schema = pa.schema(list(fields.items()))
    return pa.Table.from_pylist([{name: row.get(name) for name in fields} for row in rows], schema=schema)
