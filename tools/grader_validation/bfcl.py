"""Compare bfcl_chat's grader with the Berkeley Function Calling Leaderboard's own decoder and checker.

    git clone https://github.com/ShishirPatil/gorilla CHECKOUT
    git -C CHECKOUT checkout 70d6722
    pip install tree-sitter==0.21.3 tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4 requests
    python tools/grader_validation/bfcl.py --data CHECKOUT

Answers are generated from the leaderboard's questions and possible answers. Each gold is written in the language of its
functions and then changed: other values, types, quotes, brackets or order, missing or added arguments, fences, plain
prose. The official decoder is that of Llama's handler. If it refuses an answer, the decoder of later versions follows,
which also removes backticks.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from template_graders import checkout, lines, show, tallied, template_module

CATEGORIES = (
    "simple", "multiple", "parallel", "parallel_multiple", "java", "javascript", "live_simple", "live_multiple",
    "live_parallel", "live_parallel_multiple",
)  # fmt: skip
QUOTED = ("`{}`", "```\n{}\n```", "```[{}]```", "```python\n{}\n```", " {}", "\n{}\n", "{};", "'{}'")
PROSE = (
    "I will call the function {} for you.", "The call is:\n\n{}\n\nIt gives what you asked for.", "{} (the only call)",
    "There is no function for this.", "", "[]", "[[{}]]", "({})", "Could you tell me the value of `limit`?",
)  # fmt: skip
LANGUAGES = {"java": "Java", "javascript": "JavaScript"}


def official(folder: Path) -> tuple[Any, Any]:
    """Import the leaderboard's modules for decoding and checking."""
    root = folder / "berkeley-function-call-leaderboard"
    sys.path[:0] = [str(root), str(root / "bfcl" / "eval_checker")]
    os.chdir(root / "bfcl" / "eval_checker")  # the checker opens a file at import
    return importlib.import_module("bfcl.model_handler.utils"), importlib.import_module("checker")


def decode(utils: Any, answer: str, language: str) -> Any:
    """Decode an answer as the leaderboard does. None means that it refuses the answer."""
    for bare in (answer.replace("\n", ""), answer.strip("`\n ")):
        text = bare if bare.startswith("[") else "[" + bare
        text += "" if text.endswith("]") else "]"
        try:
            ast_parse = utils.ast_parse(text, language)
        except Exception:
            continue
        if isinstance(ast_parse, list) and all(isinstance(item, dict) for item in ast_parse):
            return ast_parse
    return None


# Writing answers


def written(call: tuple[str, dict[str, Any]], language: str) -> str:
    name, arguments = call
    write = {"Python": repr, "Java": java, "JavaScript": javascript}[language]
    return f"{name}({', '.join(f'{key}={write(value)}' for key, value in arguments.items())})"


def java(value: Any) -> str:  # noqa: PLR0911 (a return for each type)
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value if value.isidentifier() and random.random() < 0.5 else json.dumps(value)
        case int() if random.random() < 0.3:
            return f"{value}L"
        case float() if random.random() < 0.3:
            return f"{value}f"
        case list():
            items = ", ".join(map(java, value))
            form = random.choice(
                ("new ArrayList<String>(Arrays.asList({}))", "new String[]{{{}}}", "Arrays.asList({})")
            )
            return form.format(items)
        case dict():
            puts = " ".join(f'put("{key}", {java(item)});' for key, item in value.items())
            return random.choice(
                ("new HashMap<String, Object>() {{{{ {} }}}}", "new HashMap<String, Object>()")
            ).format(puts)
    return str(value)


def javascript(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value if value.isidentifier() and random.random() < 0.3 else json.dumps(value)
        case int() if random.random() < 0.2:
            return f"{value}n"
        case list():
            items = ", ".join(map(javascript, value))
            return random.choice(("[{}]", "new Array({})")).format(items)
        case dict():
            key = random.choice(('"{}"', "{}", "'{}'"))
            return "{" + ", ".join(f"{key.format(name)}: {javascript(item)}" for name, item in value.items()) + "}"
    return str(value)


def changed(value: Any) -> Any:
    """Return a value with a small or large change."""
    others: list[Any] = ["other", 7, 2.5, True, [], {}, None, [1, 2], ("a", "b"), {"k": "v"}]
    others += [f"{value}", [value], "my_variable"]
    match value:
        case bool():
            others += [not value, int(value), str(value)]
        case int():
            others += [float(value), value + 1, -value]
        case float():
            others += [int(value), value + 0.5]
        case str():
            others += [value.upper(), value.replace(" ", ""), value + ".", value.replace(",", " -"), value + "x"]
        case list():
            others += [tuple(value), value[::-1], value[:-1], [changed(item) for item in value], *value]
        case dict():
            others += [
                dict(list(value.items())[1:]),
                {**value, "more": 1},
                {key: changed(item) for key, item in value.items()},
            ]
    return random.choice(others)


def gold_calls(possible: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    result = []
    for entry in possible:
        ((name, arguments),) = entry.items()
        picked = {key: plain(random.choice(values or [""])) for key, values in arguments.items()}
        result.append((name, {key: value for key, value in picked.items() if value != ""}))
    return result


def plain(value: Any) -> Any:
    """Turn a possible value into a call's value. Inside a dict each value is a list of possible values."""
    if isinstance(value, dict):
        chosen = {key: random.choice(item) if isinstance(item, list) and item else item for key, item in value.items()}
        return {key: item for key, item in chosen.items() if item != ""}
    return [plain(item) for item in value] if isinstance(value, list) else value


def answers(possible: list[dict[str, Any]], language: str) -> Iterator[tuple[str, str]]:
    """Yield answers with the kind of their change."""
    calls = gold_calls(possible)
    text = ", ".join(written(call, language) for call in calls)
    yield "gold", f"[{text}]"
    yield "bare", text
    yield "quoted", random.choice(QUOTED).format(text)
    yield "prose", random.choice(PROSE).format(text)
    name, arguments = random.choice(calls)
    index = calls.index((name, arguments))
    for kind in ("value", "value", "value", "left out", "added", "positional", "expression", "function", "order"):
        others = list(calls)
        edited = dict(arguments)
        if kind == "value" and edited:
            key = random.choice(list(edited))
            edited[key] = changed(edited[key])
        elif kind == "left out" and edited:
            del edited[random.choice(list(edited))]
        elif kind == "added":
            edited["unknown"] = 1
        others[index] = (name + "x" if kind == "function" else name, edited)
        if kind == "order":
            random.shuffle(others)
            others = others[: random.choice((len(others), len(others), 1))]
        text = ", ".join(written(call, language) for call in others)
        if kind == "positional":
            text = text.replace("(", random.choice(("(5, ", "(x, ", "('a', ", "(true, ", "(**{}, ")), 1)
        elif kind == "expression":
            text = text.replace(
                "=", random.choice(("=1 + ", "=-", "=f(1) or ", "=x.y[", "=3 * ", "=not ", "=g(a=1) if 1 else ")), 1
            )
        yield kind, f"[{text}]"


REASONS = {
    ("JavaScript", "quoted"): "backticks around JavaScript: the older decoder reads a template, the later one the call",
    ("JavaScript", "positional"): "no JavaScript, **{} among the arguments, which tree-sitter repairs",
    ("Python", "expression"): "a list times a number, which the leaderboard gives to Python and we refuse",
}


def main() -> None:
    folder = checkout(__doc__, "ShishirPatil/gorilla", "70d6722").resolve()
    bfcl = template_module("tools/bfcl.py")
    utils, checker = official(folder)
    random.seed(8)
    result: list[tuple[bool, bool, str]] = []
    for category, question, possible in questions(folder):
        language = LANGUAGES.get(category, "Python")
        shown = json.loads(json.dumps(question["function"]))
        shown = utils.func_doc_language_specific_pre_processing(shown, category)
        declares = bfcl.declared(f"Here is a list of functions\n\n{shown}\n", "")
        gold = bfcl.read_possible(json.dumps(possible))
        for kind, answer in answers(possible, language):
            theirs = verdict(utils, checker, question["function"], possible, answer, language, category)
            decoded = bfcl.decode(answer, language)
            ours = decoded is not None and bfcl.grade(decoded, gold, declares)
            result.append((ours, theirs, REASONS.get((language, kind), f"{language}: {kind}")))
    show({"bfcl_generated": tallied(result)})


def questions(folder: Path) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Yield category, question and possible answers, without the single gold that the checker cannot read."""
    data = folder / "berkeley-function-call-leaderboard" / "data"
    for category in CATEGORIES:
        rows = lines(data / f"BFCL_v2_{category}.json")
        golds = [line["ground_truth"] for line in lines(data / "possible_answer" / f"BFCL_v2_{category}.json")]
        for row, gold in zip(rows, golds, strict=True):
            if all(isinstance(values, dict) for entry in gold for values in entry.values()):
                yield category, row, gold


def verdict(
    utils: Any, checker: Any, functions: list[Any], possible: list[Any], answer: str, language: str, category: str
) -> bool:
    """Return the leaderboard's verdict. Its own error counts as wrong, because its runner would stop."""
    decoded = decode(utils, answer, language)
    if decoded is None:
        return False
    try:
        checked = checker.ast_checker(functions, decoded, possible, language, category, "meta-llama/Llama")
    except Exception:
        return False
    return bool(checked["valid"])


if __name__ == "__main__":
    main()
