"""Compare bfcl_chat's grader with the Berkeley Function Calling Leaderboard on answers of 28 models.

    git clone https://github.com/HuanzhiMao/BFCL-Result && git -C BFCL-Result checkout b4adfc9
    git clone https://github.com/vgangal101/gorilla_bfcl && git -C gorilla_bfcl checkout 76239ea
    git clone https://github.com/ShishirPatil/gorilla && git -C gorilla checkout 70d6722
    pip install tree-sitter==0.21.3 tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4 requests
    python tools/grader_validation/bfcl_answers.py --data BFCL-Result --qwen gorilla_bfcl --gorilla gorilla

The leaderboard published the answers of 2024-08-11 with its verdicts. Questions and functions are the same at gorilla's
commit 70d6722. Only models that got the leaderboard's prompt and answered in text are read. The others answered with
function calls of an API, or in a format of their own. The second repository has answers of two Qwen3 models to a later
version of the leaderboard, also to the live categories. They got the same kind of prompt. Their answers are graded with
the question of the same identifier at 70d6722.

All answers are compared with the decoder of Llama's handler and the checker of 70d6722. The answers of the two Llama
models are also compared with the published verdicts. Other models' handlers decode in other ways.
"""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterable, Iterator
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
# The file's name at the second repository, where the identifiers begin with it
LATER = {
    "simple": "simple_python", "multiple": "multiple", "parallel": "parallel", "parallel_multiple": "parallel_multiple",
    "java": "simple_java", "javascript": "simple_javascript", "irrelevance": "irrelevance",
    "live_simple": "live_simple", "live_multiple": "live_multiple", "live_parallel": "live_parallel",
    "live_parallel_multiple": "live_parallel_multiple", "live_irrelevance": "live_irrelevance",
}  # fmt: skip
QWEN = ("Qwen_Qwen3-4B-Instruct-2507", "Qwen_Qwen3-8B")


class Answer(NamedTuple):
    model: str
    question: str
    text: str
    published: bool | None = None


class Judged(NamedTuple):
    answer: Answer
    category: str
    ours: bool
    theirs: bool


def is_right(utils: Any, checker: Any, question: dict[str, Any], gold: list[Any], category: str, answer: str) -> bool:
    """Return the verdict of Llama's handler and the checker. An error of the checker counts as wrong."""
    text = answer.replace("\n", "")
    text = text if text.startswith("[") else "[" + text
    text = text if text.endswith("]") else text + "]"
    language = generated.LANGUAGES.get(category, "Python")
    try:
        decoded = utils.ast_parse(text, language)
    except Exception:
        return category.endswith("irrelevance")
    if category.endswith("irrelevance"):
        return not any(decoded)
    try:
        checked = checker.ast_checker(question["function"], decoded, gold, language, category, "meta-llama/Llama")
    except Exception:
        return False
    return bool(checked["valid"])


def judged(gorilla: Path, category: str, answers: Iterable[Answer]) -> Iterator[Judged]:
    """Yield the answers to a category's questions with our verdict and the official one."""
    utils, checker = generated.official(gorilla)
    constant = importlib.import_module("bfcl.model_handler.constant")
    template = frame.template_module("tools/utils.py")
    task = frame.settings(frame.TEMPLATES / "tools" / "bfcl.yaml")
    known = read_questions(gorilla, category)
    prompts = []
    for question, _ in known.values():
        shown = utils.func_doc_language_specific_pre_processing(copy.deepcopy(question["function"]), category)
        messages = copy.deepcopy(question["question"])
        utils.system_prompt_pre_processing_chat_model(messages, constant.DEFAULT_SYSTEM_PROMPT, shown)
        prompts.append("\n\n".join(message["content"] for message in messages))
    rows = [
        frame.row(prompt, [json.dumps(gold)], f"bfcl_{category}")
        for prompt, (_, gold) in zip(prompts, known.values(), strict=True)
    ]
    docs = dict(zip(known, template.bfcl_docs(rows), strict=True))
    given = [answer for answer in answers if answer.question in known]
    asked = [docs[answer.question] for answer in given]
    strict = frame.filtered(task, "strict-match", [answer.text for answer in given], asked)
    for answer, doc, text in zip(given, asked, strict, strict=True):
        ours = template.bfcl_results(doc, [text])["acc"] == 1
        yield Judged(answer, category, ours, is_right(utils, checker, *known[answer.question], category, answer.text))


def read_questions(gorilla: Path, category: str) -> dict[str, tuple[dict[str, Any], list[Any]]]:
    """Read a category's questions and golds by identifier, without the single gold that the checker cannot read.

    Where no call is right, the gold is an empty list.
    """
    data = gorilla / "berkeley-function-call-leaderboard" / "data"
    rows = frame.lines(data / f"BFCL_v2_{category}.json")
    golds = [[]] * len(rows)
    if not category.endswith("irrelevance"):
        golds = [line["ground_truth"] for line in frame.lines(data / "possible_answer" / f"BFCL_v2_{category}.json")]
    return {
        row["id"]: (row, gold)
        for row, gold in zip(rows, golds, strict=True)
        if all(isinstance(values, dict) for entry in gold for values in entry.values())
    }


def read_published(results: Path, category: str) -> Iterator[Answer]:
    """Yield the leaderboard's answers to a category. A score file lists the wrong ones by number."""
    for model in MODELS:
        file = f"gorilla_openfunctions_v1_test_{PUBLISHED[category]}_result.json"
        _, *failed = frame.lines(results / "score" / model / f"{PUBLISHED[category]}_score.json")
        wrong = {line["id"] - 1 for line in failed}
        for number, line in enumerate(frame.lines(results / "result" / model / file)):
            yield Answer(model, f"{category}_{number}", line["result"], number not in wrong)


def read_later(results: Path, category: str) -> Iterator[Answer]:
    """Yield the Qwen3 models' answers to a category."""
    for model in QWEN:
        folder = "live" if category.startswith("live_") else "non_live"
        for line in frame.lines(results / model / folder / f"BFCL_v4_{LATER[category]}_result.json"):
            yield Answer(model, category + line["id"].removeprefix(LATER[category]), line["result"])


def main() -> None:
    parser = frame.arguments(__doc__, "checkout of HuanzhiMao/BFCL-Result")
    parser.add_argument("--qwen", type=Path, required=True, help="checkout of vgangal101/gorilla_bfcl")
    parser.add_argument("--gorilla", type=Path, required=True, help="checkout of ShishirPatil/gorilla")
    args = parser.parse_args()
    results, qwen, gorilla = args.data.resolve(), args.qwen.resolve(), args.gorilla.resolve()
    frame.check_commit(results, "b4adfc9")
    frame.check_commit(qwen, "76239ea")
    frame.check_commit(gorilla, "70d6722")
    later_results = qwen / "berkeley-function-call-leaderboard" / "results"
    every = [
        item
        for category in PUBLISHED
        for item in judged(gorilla, category, read_published(results / "2024-08-11", category))
    ]
    later = [item for category in LATER for item in judged(gorilla, category, read_later(later_results, category))]
    llama = [item for item in every if item.answer.model in LLAMA]
    frame.show(
        {
            "bfcl_answers": {
                **checked(every),
                "note": f"{by_category(every)} Of the {len(llama)} answers of the two Llama 3 models "
                f"{sum(item.ours == item.theirs for item in llama)} agree.",
            },
            "bfcl_published": frame.tallied(
                (item.ours, bool(item.answer.published), version_reason(item.answer.text)) for item in llama
            ),
            "bfcl_live_answers": {**checked(later), "note": by_category(later)},
        }
    )


def checked(items: list[Judged]) -> dict[str, Any]:
    """Return the counts against the checker of 70d6722."""
    return frame.tallied((item.ours, item.theirs, decoder_reason(item.answer.text)) for item in items)


def by_category(items: list[Judged]) -> str:
    equal: dict[str, list[bool]] = {}
    for item in items:
        equal.setdefault(item.category, []).append(item.ours == item.theirs)
    return f"Agreed by category: {', '.join(f'{name} {sum(same)} of {len(same)}' for name, same in equal.items())}."


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
