"""Compare our scores for TriviaQA, SQuAD and DROP with the official implementations on answers of real models.

    git clone https://github.com/wangcunxiang/QA-Eval FOLDER/QA-Eval                # 90007d3
    git clone https://github.com/mandarjoshi90/triviaqa FOLDER/triviaqa             # ca43b58
    git clone https://github.com/openai/following-instructions-human-feedback FOLDER/instruct    # 5c0534c
    git clone https://github.com/remzawi/squad FOLDER/squad                         # 234eaea
    git clone https://github.com/huggingface/evaluate FOLDER/evaluate               # a7dd338
    git clone https://github.com/allenai/allennlp-models FOLDER/allennlp-models     # b1f3722
    python tools/grader_validation/span_answers.py --data FOLDER

QA-Eval's EVOUNA has the answers of five models to TriviaQA with people's verdicts. OpenAI's samples are answers of
GPT-3 and InstructGPT models to SQuAD v2 and DROP, 100 questions each, with and without shots. remzawi/squad has the
answers of three extractive models to half of SQuAD v2's dev questions.

Our scores are those of the whole task: the filter takes the first line of an answer.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from template_graders import (
    TEMPLATES,
    arguments,
    check_commit,
    compared,
    filtered,
    measured,
    module,
    row,
    settings,
    show,
    template_module,
)

COMMITS = {
    "QA-Eval": "90007d3",
    "triviaqa": "ca43b58",
    "instruct": "5c0534c",
    "squad": "234eaea",
    "evaluate": "a7dd338",
    "allennlp-models": "b1f3722",
}
MODELS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
RUNS = ("val_submission.csv", "qanetdev.csv", "charembdev.csv")
# OpenAI's gold of a question that the passage does not answer.
NONE = "Not in background"
# The form of a TriviaQA answer that a person accepts and no alias equals.
SENTENCE = "the answer is longer than an alias, mostly a sentence around it (theirs counts it as right)"
PART = "the answer is a part of an alias (theirs counts it as right)"
OTHER = "no alias is in the answer: other words or another spelling (theirs counts it as right)"
STRICT = "the answer is an alias, and the person did not take it (ours counts it as right)"

Scorer = Callable[[dict[str, Any], list[str]], dict[str, float]]


def scores(
    file: str, scorer: Scorer, cases: Iterable[tuple[str, list[str], str]], *names: str
) -> list[tuple[float, ...]]:
    """Return the named scores of a template for cases of question, correct responses and answer."""
    make_doc = template_module("_common/spans.py").make_doc
    questions, golds, outputs = zip(*cases, strict=True)
    docs = [make_doc(row(question, gold)) for question, gold in zip(questions, golds, strict=True)]
    answers = filtered(settings(TEMPLATES / file), "strict-match", outputs, docs)
    results = [scorer(doc, [answer]) for doc, answer in zip(docs, answers, strict=True)]
    return [tuple(result[name] for name in names) for result in results]


def triviaqa(folder: Path) -> dict[str, Any]:
    sys.path.insert(0, str(folder / "triviaqa"))
    official = module(folder / "triviaqa" / "evaluation" / "triviaqa_evaluation.py")
    cases: list[tuple[str, list[str], str]] = []
    people: list[bool] = []
    short: list[bool] = []
    for item in json.loads((folder / "QA-Eval" / "EVOUNA" / "TQ.json").read_text("utf-8")):
        for model in MODELS:
            if isinstance(verdict := item[f"judge_{model}"], bool):
                cases.append((item["question"], item["golden_answer"].split("/"), item[f"answer_{model}"]))
                people.append(verdict)
                short.append(model == "fid")
    tasks = template_module("squad/utils.py")
    ours = scores("squad/triviaqa_wiki_5shot.yaml", tasks.triviaqa, cases, "exact_match")
    theirs = [
        (float(official.metric_max_over_ground_truths(official.exact_match_score, answer, golds)),)
        for _, golds, answer in cases
    ]

    def form(number: int) -> str:
        """Say why a person and the aliases differ."""
        _, golds, answer = cases[number]
        if not people[number]:
            return STRICT
        said, *aliases = (f" {tasks.normalise_alias(text)} " for text in (answer, *golds))
        if any(alias.strip() and alias in said for alias in aliases):
            return SENTENCE
        return PART if said.strip() and any(said in alias for alias in aliases) else OTHER

    def judged(part: list[int]) -> dict[str, Any]:
        return compared([ours[n][0] == 1 for n in part], [people[n] for n in part], lambda at: form(part[at]))

    return {
        "triviaqa_evouna": measured(
            list(zip(ours, theirs, strict=True)),
            lambda _: "an answer of GPT-3.5 begins with a line that ends the question: Meta's recipe takes this line",
        ),
        "triviaqa_people_short": judged([n for n, is_short in enumerate(short) if is_short]),
        "triviaqa_people_chat": judged([n for n, is_short in enumerate(short) if not is_short]),
    }


def squad(folder: Path) -> dict[str, Any]:
    """Compare exact match and F1. No answer is an empty text to the script, and "Not in background" to ours."""
    official = module(folder / "evaluate" / "metrics" / "squad_v2" / "compute_score.py")

    def against(cases: list[tuple[str, list[str], str]], why: str) -> dict[str, Any]:
        ours = scores("squad/squad_1shot.yaml", template_module("squad/utils.py").squad, cases, "exact_match", "f1")
        theirs = []
        for _, golds, answer in cases:
            listed = {"text": [gold for gold in golds if not is_none(gold)]}
            dataset = [{"paragraphs": [{"qas": [{"id": "q", "answers": listed}]}]}]
            exact, f1 = official.get_raw_scores(dataset, {"q": "" if is_none(answer) else answer})
            theirs.append((float(exact["q"]), float(f1["q"])))
        return measured(list(zip(ours, theirs, strict=True)), lambda _: why)

    dev = json.loads((folder / "squad" / "data" / "dev-v2.0.json").read_text("utf-8"))["data"]
    questions = {qa["id"]: qa for page in dev for paragraph in page["paragraphs"] for qa in paragraph["qas"]}
    extracted = []
    for run in RUNS:
        for line in table(folder / "squad" / run):
            golds = [gold["text"] for gold in questions[line["Id"]]["answers"]]
            extracted.append((line["Id"], golds or [NONE], line["Predicted"] or NONE))
    return {
        "squad_instruct_gpt": against(
            samples(folder, "squadv2"), '"not in background." in small letters, which only ours takes for no answer'
        ),
        "squad_extractive": against(extracted, "not looked into"),
    }


def is_none(text: str) -> bool:
    return text.strip().rstrip(".") == NONE


def drop(folder: Path) -> dict[str, Any]:
    official = module(folder / "allennlp-models" / "allennlp_models" / "rc" / "tools" / "drop.py")
    cases = samples(folder, "drop")
    ours = scores("squad/drop_3shot.yaml", template_module("squad/drop.py").process_results, cases, "f1", "exact_match")
    theirs = []
    for _, golds, answer in cases:
        exact, f1 = zip(*(official.get_metrics(answer, (gold,)) for gold in golds), strict=True)
        theirs.append((float(max(f1)), float(max(exact))))
    return {"drop_instruct_gpt": measured(list(zip(ours, theirs, strict=True)))}


def samples(folder: Path, name: str) -> list[tuple[str, list[str], str]]:
    """Read OpenAI's samples of a benchmark."""
    file = folder / "instruct" / "automatic-eval-samples" / f"{name}_samples.csv"
    return [(line["context"], line["ref_text"].split("|"), line["sample"]) for line in table(file)]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    folder = arguments(__doc__, "folder of the six checkouts").parse_args().data
    for name, commit in COMMITS.items():
        check_commit(folder / name, commit)
    show({**triviaqa(folder), **squad(folder), **drop(folder)})


if __name__ == "__main__":
    main()
