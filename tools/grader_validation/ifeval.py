"""Compare meta_ifeval with Meta's recorded verdicts, and with Google's scorer on answers of two models.

    python tools/grader_validation/ifeval.py --data CONTROLLLM --official EVALCHEMY
    python tools/grader_validation/ifeval.py --data CONTROLLLM --rebuild FOLDER

Prints the entries of src/meta_eval/plugins/meta/catalog/grader_validation/ifeval.yaml. ``--rebuild`` writes an evals
dataset into FOLDER with its original and an eval_config.yaml, for prepare, verify and report.

CONTROLLLM: 541 rows of Llama 3.1 8B Instruct which Meta's recipe has joined with the original, under the Llama licence.
``git clone https://github.com/linkedin/ControlLLM``, commit 7657b9f82188245f08142eccaed1fd68433ec3a4.

EVALCHEMY: Google's scorer with its published answers of GPT-4, in mlfoundations/evalchemy (Apache-2.0).
``git clone https://github.com/mlfoundations/evalchemy``, commit 6ed674159b37f740f2353a86f596f49f6ac13c19. Without it
only the entries of Meta's rows are printed.

Both scorers split sentences with nltk's punkt_tab: ``python -m nltk.downloader punkt_tab``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import template_graders as frame
from rebuild import details_row, write_evals

ROWS = "src/controlllm/inference/llm_eval_harness/additional_tasks/ifeval/joined_ifeval.parquet"
MODEL = "Llama-3.1-8B-Instruct"
USER, END = "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"
OFFICIAL = "eval/chat_benchmarks/IFEval"
GPT4 = f"{OFFICIAL}/data/input_response_data_gpt4_20231107_145030.jsonl"

NOTE = (
    "An answer agrees when every instruction has the same verdict. Both draw the letter of keys 1122 and 1129, and "
    "langdetect its samples, from the same seeds."
)

# Seeds of langdetect for verdicts that depend on its guess.
SEEDS = 300


def main() -> int:
    parser = frame.arguments(__doc__, "checkout of linkedin/ControlLLM")
    parser.add_argument("--official", type=Path, metavar="EVALCHEMY")
    parser.add_argument("--rebuild", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    rows = read_rows(arguments.data / ROWS)
    if arguments.rebuild is not None:
        rebuild(rows, arguments.rebuild)
        return 0
    utils = frame.template_module("ifeval/utils.py")
    measured = {"ifeval_strict_8b": recorded(utils, rows), "ifeval_format_8b": written(rows)}
    if arguments.official is not None:
        measured |= official(utils, rows, arguments.official)
    print("# How meta_ifeval agrees with recorded verdicts, real prompts and Google's own scorer. Written by")
    print("# tools/grader_validation/ifeval.py, which says from what.")
    frame.show(measured)
    return 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows, with the original's form of arguments: no nulls, and integers without a decimal point."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    for row in rows:
        row["kwargs"] = [
            {
                name: int(value) if isinstance(value, float) else value
                for name, value in kwargs.items()
                if value is not None
            }
            for kwargs in row["kwargs"]
        ]
    return rows


def doc(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a doc that the template's scorer reads."""
    return {
        "key": row["key"],
        "original_prompt": row["input_question"],
        "instruction_id_list": row["instruction_id_list"],
        "kwargs": [json.dumps(kwargs) for kwargs in row["kwargs"]],
    }


def recorded(utils: ModuleType, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare our verdicts on Meta's recorded answers with Meta's."""
    utils.require_punkt()
    results = {row["key"]: utils.process_results(doc(row), row["output_prediction_text"]) for row in rows}
    differ = [row for row in rows if results[row["key"]]["one_or_all_strict"] != row["previous_is_correct"]]
    prompt_level = sum(results[row["key"]]["prompt_level_strict_acc"] == row["previous_is_correct"] for row in rows)
    score = utils.mean_of_four([result["mean_acc"] for result in results.values()])
    return {
        "answers": len(rows),
        "agreed": len(rows) - len(differ),
        "held_out": {
            "answers": 0,
            "agreed": 0,
            "how": "The reading was found on these very rows; no others are public.",
        },
        "ours": None,
        "theirs": None,
        "rest": [{"count": 1, "why": f"key {row['key']}: {reason(row)}"} for row in differ],
        "note": "is_correct is no verdict on the prompt: it is true where exactly one instruction is strictly followed "
        f"or all are. The task's verdict, that of the prompt, equals it on {prompt_level} of {len(rows)} rows. "
        f"The four accuracies of these answers average {100 * score:.1f}, the published number.",
    }


def reason(row: Mapping[str, Any]) -> str:
    """Explain why Meta's is_correct differs from our verdicts, such as another language guess by another seed."""
    from langdetect import DetectorFactory, detect

    asked = [kwargs["language"] for kwargs in row["kwargs"] if "language" in kwargs]
    if not asked:
        return "not explained"
    result = []
    for seed in range(SEEDS):
        DetectorFactory.seed = seed
        result.append(detect(row["output_prediction_text"][0]))
    DetectorFactory.seed = 0
    return (
        f"an answer in a mixture of languages was to be in {asked[0]!r}, which langdetect finds under "
        f"{result.count(asked[0])} of {SEEDS} seeds; the reference sets none, and under the "
        f"fixed one it finds {result[0]!r}"
    )


def written(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare the prompts: the question without outer white space, in the headers of a single user turn."""
    fit = sum(row["prompt"] == f"{USER}{row['input_question'].strip()}{END}{frame.ASSISTANT}" for row in rows)
    trimmed = sum(row["input_question"] != row["input_question"].strip() for row in rows)
    note = (
        f"One user turn, no BOS, no system turn; {trimmed} questions end in white space that their prompts lack. "
        "Every row had joined the original's text. The JSON of input_question is not among what was kept."
    )
    return {**frame.counted(fit, len(rows)), "note": note}


def official(utils: ModuleType, rows: list[dict[str, Any]], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compare our verdict on each instruction with Google's scorer, for the answers of Meta's model and GPT-4."""
    google = official_scorer(folder / OFFICIAL)
    answers = {row["input_question"]: row["output_prediction_text"][0] for row in rows}
    gpt4 = {line["prompt"]: line["response"] for line in frame.lines(folder / GPT4)}
    for name, given in (("ifeval_google_8b", answers), ("ifeval_google_gpt4", gpt4)):
        ours, theirs, agreed = [], [], [0, 0]
        for row in rows:
            output = given[row["input_question"]]
            mine = utils.process_results(doc(row), [output])["mean_acc"]
            example = google.InputExample(
                key=row["key"],
                instruction_id_list=row["instruction_id_list"],
                prompt=row["input_question"],
                kwargs=row["kwargs"],
            )
            both = (google.test_instruction_following_strict, google.test_instruction_following_loose)
            his = tuple(seeded(utils.SEED, check, example, {example.prompt: output}) for check in both)
            ours.append(mine)
            theirs.append(his)
            agreed = [count + (list(first) == other) for count, first, other in zip(agreed, mine, his, strict=True)]
        scores = [round(100 * utils.mean_of_four(verdicts), 1) for verdicts in (ours, theirs)]
        for place, way in enumerate(("", "_loose")):
            prompts = [frame.percent([all(verdict[place]) for verdict in each]) for each in (ours, theirs)]
            counts = frame.counted(agreed[place], len(rows), ours=prompts[0], theirs=prompts[1], why="not explained")
            yield (
                f"{name}{way}",
                {**counts, "note": f"{NOTE} The four accuracies average {scores[0]}, theirs {scores[1]}."},
            )


def seeded(seed: int, check: Callable[..., Any], example: Any, given: Mapping[str, str]) -> list[bool]:
    """Return the official verdict on each instruction, checked separately with our random draws."""
    result = []
    for index, name in enumerate(example.instruction_id_list):
        random.seed(seed)
        seeded_example = type(example)(example.key, [name], example.prompt, [example.kwargs[index]])
        result.append(bool(check(seeded_example, given).follow_all_instructions))
    return result


def official_scorer(folder: Path) -> ModuleType:
    """Import Google's scorer from a checkout without its package, which has unneeded dependencies."""
    import langdetect
    import nltk

    nltk.download = lambda *_, **__: False  # type: ignore[method-assign] # it would download at import
    langdetect.DetectorFactory.seed = 0
    package = types.ModuleType("official_ifeval")
    package.__path__ = [str(folder)]
    sys.modules["official_ifeval"] = package
    with contextlib.redirect_stdout(sys.stderr):
        return importlib.import_module("official_ifeval.evaluation_main")


def rebuild(rows: list[dict[str, Any]], folder: Path) -> None:
    """Write the evals dataset, its original and a configuration of both.

    The question's text, the prompt, the output and the verdict are real. The dialog around the text and every other
    column are filled in.
    """
    details = [
        details_row(
            "ifeval",
            question=json.dumps({"dialog": [{"source": "user", "body": row["input_question"]}]}, ensure_ascii=False),
            prompt=row["prompt"],
            output=row["output_prediction_text"][0],
            is_correct=row["previous_is_correct"],
            benchmark_label="IFEval Strict",
        )
        for row in rows
    ]
    columns = ("key", "instruction_id_list", "kwargs")
    originals = [{"prompt": row["input_question"], **{name: row[name] for name in columns}} for row in rows]
    write_evals(folder, MODEL, "ifeval__strict", details, "ifeval", originals)


if __name__ == "__main__":
    sys.exit(main())
