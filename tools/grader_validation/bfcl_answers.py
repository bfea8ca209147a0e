"""Compare bfcl_chat's grader with the Berkeley Function Calling Leaderboard on answers of 26 models.

    git clone https://github.com/HuanzhiMao/BFCL-Result && git -C BFCL-Result checkout b4adfc9
    git clone https://github.com/ShishirPatil/gorilla && git -C gorilla checkout 70d6722
    pip install tree-sitter==0.21.3 tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4 requests
    python tools/grader_validation/bfcl_answers.py --data BFCL-Result --gorilla gorilla

The leaderboard published the answers of 2024-08-11 with its verdicts: a score file lists the wrong answers. Questions
and functions are the same at gorilla's commit 70d6722. Only models that got the leaderboard's prompt and answered in
text are read. The others answered with function calls of an API, or in a format of their own.

Two comparisons: with the decoder of Llama's handler and the checker of 70d6722, on the answers of all 26 models; and
with the published verdicts, on the answers of the two Llama models. Other models' handlers decode in other ways.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import template_graders as frame

# The leaderboard's package has the name of the script next to this one.
generated = frame.module(Path(__file__).with_name("bfcl.py"))

PUBLISHED = {
    "simple": "simple", "multiple": "multiple_function", "parallel": "parallel_function",
    "parallel_multiple": "parallel_multiple_function", "java": "java", "javascript": "javascript",
    "irrelevance": "relevance",
}  # fmt: skip
LLAMA = ("meta-llama_Meta-Llama-3-70B-Instruct", "meta-llama_Meta-Llama-3-8B-Instruct")
MODELS = (
    *LLAMA, "claude-2.1", "claude-3-5-sonnet-20240620", "claude-3-haiku-20240307", "claude-3-opus-20240229",
    "claude-3-sonnet-20240229", "claude-instant-1.2", "command-r-plus", "databricks-dbrx-instruct",
    "gpt-3.5-turbo-0125", "gpt-4-0125-preview", "gpt-4-0613", "gpt-4-1106-preview", "gpt-4-turbo-2024-04-09",
    "gpt-4o-2024-05-13", "gpt-4o-2024-08-06", "gpt-4o-mini-2024-07-18", "mistral-large-2407", "mistral-medium-2312",
    "mistral-small-2402", "mistral-tiny-2312", "nvidia_nemotron-4-340b-instruct", "open-mistral-nemo-2407",
    "open-mixtral-8x22b", "open-mixtral-8x7b",
)  # fmt: skip
NO_LIVE = "No public answers to the live categories were found."


class Judged(NamedTuple):
    model: str
    category: str
    number: int
    answer: str
    ours: bool
    theirs: bool
    published: bool


def is_right(utils: Any, checker: Any, question: dict[str, Any], gold: list[Any], category: str, answer: str) -> bool:
    """Return the verdict of Llama's handler and the checker. An error of the checker counts as wrong."""
    text = answer.replace("\n", "")
    text = text if text.startswith("[") else "[" + text
    text = text if text.endswith("]") else text + "]"
    language = generated.LANGUAGES.get(category, "Python")
    try:
        decoded = utils.ast_parse(text, language)
    except Exception:
        return category == "irrelevance"
    if category == "irrelevance":
        return not any(decoded)
    try:
        checked = checker.ast_checker(question["function"], decoded, gold, language, category, "meta-llama/Llama")
    except Exception:
        return False
    return bool(checked["valid"])


def judged(results: Path, gorilla: Path) -> Iterator[Judged]:
    """Yield every answer with its verdicts."""
    utils, checker = generated.official(gorilla)
    constant = importlib.import_module("bfcl.model_handler.constant")
    template = frame.template_module("tools/utils.py")
    task = frame.settings(frame.TEMPLATES / "tools" / "bfcl.yaml")
    for category, published in PUBLISHED.items():
        questions, golds = read_questions(gorilla, category)
        prompts = []
        for question in questions:
            shown = utils.func_doc_language_specific_pre_processing(copy.deepcopy(question["function"]), category)
            messages = copy.deepcopy(question["question"])
            utils.system_prompt_pre_processing_chat_model(messages, constant.DEFAULT_SYSTEM_PROMPT, shown)
            prompts.append("\n\n".join(message["content"] for message in messages))
        rows = [frame.row(prompt, [json.dumps(gold)]) for prompt, gold in zip(prompts, golds, strict=True)]
        docs = list(template.bfcl_docs(rows))
        for model in MODELS:
            answers = [
                line["result"]
                for line in frame.lines(
                    results / "result" / model / f"gorilla_openfunctions_v1_test_{published}_result.json"
                )
            ]
            _, *failed = frame.lines(results / "score" / model / f"{published}_score.json")
            wrong = {line["id"] - 1 for line in failed}
            strict = frame.filtered(task, "strict-match", answers, docs)
            for number, (doc, answer, text) in enumerate(zip(docs, answers, strict, strict=True)):
                ours = template.bfcl_results(doc, [text])["acc"] == 1
                theirs = is_right(utils, checker, questions[number], golds[number], category, answer)
                yield Judged(model, category, number, answer, ours, theirs, number not in wrong)


def read_questions(gorilla: Path, category: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """Read a category's questions and golds. Where no call is right the gold is an empty list."""
    data = gorilla / "berkeley-function-call-leaderboard" / "data"
    questions = frame.lines(data / f"BFCL_v2_{category}.json")
    if category == "irrelevance":
        return questions, [[] for _ in questions]
    return questions, [
        line["ground_truth"] for line in frame.lines(data / "possible_answer" / f"BFCL_v2_{category}.json")
    ]


def main() -> None:
    parser = frame.arguments(__doc__, "checkout of HuanzhiMao/BFCL-Result")
    parser.add_argument("--gorilla", type=Path, required=True, help="checkout of ShishirPatil/gorilla")
    args = parser.parse_args()
    results, gorilla = args.data.resolve(), args.gorilla.resolve()
    frame.check_commit(results, "b4adfc9")
    frame.check_commit(gorilla, "70d6722")
    every = list(judged(results / "2024-08-11", gorilla))
    llama = [item for item in every if item.model in LLAMA]
    same = {
        category: [item.ours == item.theirs for item in every if item.category == category] for category in PUBLISHED
    }
    by_category = ", ".join(f"{category} {sum(equal)} of {len(equal)}" for category, equal in same.items())
    frame.show(
        {
            "bfcl_answers": {
                **frame.tallied((item.ours, item.theirs, decoder_reason(item.answer)) for item in every),
                "note": f"By category: {by_category}. Of the two Llama models' {len(llama)} answers "
                f"{sum(item.ours == item.theirs for item in llama)} agree. {NO_LIVE}",
            },
            "bfcl_published": frame.tallied((item.ours, item.published, version_reason(item.answer)) for item in llama),
        }
    )


def decoder_reason(answer: str) -> str:
    """Tell why our decoder reads an answer that Llama's handler does not."""
    if answer.strip().startswith("`"):
        return "backticks around the calls: we remove them as later versions of the leaderboard do, 70d6722 does not"
    if "\\\n" in answer:
        return (
            "a backslash before a line break, which Python reads and the handler does not, because it removes the break"
        )
    if answer != answer.strip():
        return "blanks around the calls: we remove them as later versions of the leaderboard do, 70d6722 does not"
    return "not looked into"


def version_reason(answer: str) -> str:
    """Tell why the published verdict differs from the checker of 70d6722, with which ours agrees."""
    bare = answer.replace("\n", "")
    if bare.startswith("['"):
        return "quotes inside the brackets, which the decoder of 70d6722 removes and the older one did not"
    if bare.startswith("[ "):
        return "a blank behind the bracket, which the older decoder read and that of 70d6722 does not"
    return "no named argument: a call for 70d6722, none for the older decoder"


if __name__ == "__main__":
    main()
