"""Compare the nexus grader with the comparison of NexusRaven-V2's notebook, on two models' answers to other questions.

    git clone https://github.com/HuanzhiMao/BFCL-Result && git -C BFCL-Result checkout b4adfc9
    git clone https://github.com/ShishirPatil/gorilla && git -C gorilla checkout 70d6722
    python tools/grader_validation/nexus_answers.py --data BFCL-Result --gorilla gorilla

No models' answers to Nexus itself were found. The Berkeley leaderboard has answers of NexusRaven-V2, the notebook's own
model, and of Gorilla OpenFunctions to its questions, as bare calls. They are run with a dummy for each of a question's
functions. It records its arguments as the dummies of the notebook's VirusTotal benchmark do. The gold is made from the
first possible value of each argument. Functions with a dot in their name, which Python cannot define, and golds with a
dictionary are left out. Run this script only where the models' calls are safe to run.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nexus as notebook
import template_graders as frame

MODELS = ("Nexusflow-Raven-v2", "gorilla-openfunctions-v2")
CATEGORIES = {
    "simple": "simple",
    "multiple": "multiple_function",
    "parallel": "parallel_function",
    "parallel_multiple": "parallel_multiple_function",
}
TYPES = {"string": "str", "integer": "int", "float": "float", "boolean": "bool", "array": "list", "tuple": "tuple",
         "dict": "dict", "any": "str"}  # fmt: skip
DUMMY = """
def {signature}:
    args_dict = locals()
    correctness.append({{{name!r}: {{key: value for key, value in args_dict.items() if value}}}})
"""


def signature(function: dict[str, Any]) -> str | None:
    """Return ``name(needed: type, other: type = None)``. None means that Python cannot define it."""
    properties = function["parameters"]["properties"]
    needed = function["parameters"].get("required", [])
    names = sorted(properties, key=lambda name: name not in needed)
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in (function["name"], *names)):
        return None
    inside = (
        f"{name}: {TYPES[properties[name]['type']]}" + (" = None" if name not in needed else "") for name in names
    )
    return f"{function['name']}({', '.join(inside)})"


def gold_text(possible: list[dict[str, Any]], functions: list[dict[str, Any]]) -> str | None:
    """Return the calls of a gold with the first value of each argument that must be given. None if one has a dict."""
    calls = []
    for entry in possible:
        ((name, arguments),) = entry.items()
        if not isinstance(arguments, dict):
            return None
        needed = next(item["parameters"].get("required", []) for item in functions if item["name"] == name)
        sure = {key: [value for value in values if value != ""] for key, values in arguments.items()}
        chosen = {key: sure[key][0] for key, values in arguments.items() if "" not in values or key in needed}
        if "{" in str(chosen.values()):
            return None
        calls.append(f"{name}({', '.join(f'{key}={value!r}' for key, value in chosen.items())})")
    return "; ".join(calls)


def compared(results: Path, gorilla: Path) -> Iterator[tuple[bool, bool, str]]:
    """Yield our verdict, the notebook's, and the reason of a difference."""
    template = frame.template_module("tools/utils.py")
    task = frame.settings(frame.TEMPLATES / "tools" / "nexus.yaml")
    data = gorilla / "berkeley-function-call-leaderboard" / "data"
    for category, published in CATEGORIES.items():
        questions = frame.lines(data / f"BFCL_v2_{category}.json")
        golds = [line["ground_truth"] for line in frame.lines(data / "possible_answer" / f"BFCL_v2_{category}.json")]
        file = f"gorilla_openfunctions_v1_test_{published}_result.json"
        answers = [
            [line["result"] for line in frame.lines(results / "2024-08-11" / "result" / model / file)]
            for model in MODELS
        ]
        for question, possible, *given in zip(questions, golds, *answers, strict=True):
            headers = [signature(function) for function in question["function"]]
            gold = None if None in headers else gold_text(possible, question["function"])
            if gold is None:
                continue
            names: dict[str, Any] = {"correctness": []}
            for header, function in zip(headers, question["function"], strict=True):
                exec(DUMMY.format(signature=header, name=function["name"]), names)
            prompt = "".join(f"Function:\ndef {header}:\n" for header in headers)
            docs = list(template.nexus_docs([frame.row(prompt, [gold])])) * len(given)
            for answer, text in zip(given, frame.filtered(task, "strict-match", given, docs), strict=True):
                ours = template.nexus_results(docs[0], [text])["acc"] == 1
                yield ours, notebook.official(names, answer, gold), "not looked into"


def main() -> None:
    parser = frame.arguments(__doc__, "checkout of HuanzhiMao/BFCL-Result")
    parser.add_argument("--gorilla", type=Path, required=True, help="checkout of ShishirPatil/gorilla")
    args = parser.parse_args()
    frame.check_commit(args.data, "b4adfc9")
    frame.check_commit(args.gorilla, "70d6722")
    frame.show({"nexus_other_questions": frame.tallied(compared(args.data, args.gorilla))})


if __name__ == "__main__":
    main()
