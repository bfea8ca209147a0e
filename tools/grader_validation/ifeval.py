"""How meta_ifeval agrees with Meta's recorded answers, and with Google's own scorer on answers of two models.

    python tools/grader_validation/ifeval.py --data CONTROLLLM --official EVALCHEMY
    python tools/grader_validation/ifeval.py --data CONTROLLLM --rebuild FOLDER

Prints the entries of src/meta_eval/catalog/grader_validation/ifeval.yaml; ``--rebuild`` writes an evals dataset into
FOLDER and the original that belongs to it, with an eval_config.yaml, over which prepare, verify and report can be run.

CONTROLLLM: 541 rows of Llama 3.1 8B Instruct that Meta's recipe had read and joined with the original, under the Llama
licence: ``git clone https://github.com/linkedin/ControlLLM``, commit 7657b9f82188245f08142eccaed1fd68433ec3a4.

EVALCHEMY: Google's scorer and the answers of GPT-4 that Google published with it, as mlfoundations/evalchemy carries
them (Apache-2.0): ``git clone https://github.com/mlfoundations/evalchemy``, commit
6ed674159b37f740f2353a86f596f49f6ac13c19. Without it only the entries of Meta's rows are printed.

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

# Seeds under which langdetect is asked where its guess decides a verdict.
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
    """The rows, with arguments as the original writes them: sparse, and whole numbers whole."""
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
    """The part of a doc that the template's scorer looks at."""
    return {
        "key": row["key"],
        "original_prompt": row["input_question"],
        "instruction_id_list": row["instruction_id_list"],
        "kwargs": [json.dumps(kwargs) for kwargs in row["kwargs"]],
    }


def recorded(utils: ModuleType, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Our verdicts on Meta's recorded answers beside Meta's."""
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
    """Why Meta's is_correct is not what our verdicts read as: a language that is guessed otherwise by another seed."""
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
    """The prompts: the question without white space at its ends, in the headers of one user turn."""
    fit = sum(row["prompt"] == f"{USER}{row['input_question'].strip()}{END}{frame.ASSISTANT}" for row in rows)
    trimmed = sum(row["input_question"] != row["input_question"].strip() for row in rows)
    note = (
        f"One user turn, no BOS, no system turn; {trimmed} questions end in white space that their prompts lack. "
        "Every row had joined the original's text. The JSON of input_question is not among what was kept."
    )
    return {**frame.counted(fit, len(rows)), "note": note}


def official(utils: ModuleType, rows: list[dict[str, Any]], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Our verdicts on each instruction beside those of Google's scorer, on Meta's answers and on GPT-4's."""
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
    """The official verdicts on each instruction, every instruction checked on its own with the same draws as ours."""
    result = []
    for index, name in enumerate(example.instruction_id_list):
        random.seed(seed)
        seeded_example = type(example)(example.key, [name], example.prompt, [example.kwargs[index]])
        result.append(bool(check(seeded_example, given).follow_all_instructions))
    return result


def official_scorer(folder: Path) -> ModuleType:
    """Google's scorer out of a checkout, without the package around it, which asks for more than this needs."""
    import langdetect
    import nltk

    nltk.download = lambda *_, **__: False  # type: ignore[method-assign] # on import it would try
    langdetect.DetectorFactory.seed = 0
    package = types.ModuleType("official_ifeval")
    package.__path__ = [str(folder)]
    sys.modules["official_ifeval"] = package
    with contextlib.redirect_stdout(sys.stderr):
        return importlib.import_module("official_ifeval.evaluation_main")


def rebuild(rows: list[dict[str, Any]], folder: Path) -> None:
    """The evals dataset, its original, and a configuration that names both.

    Kept were the question's text, the prompt, the output and the verdict; the dialog around the text and every other
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
