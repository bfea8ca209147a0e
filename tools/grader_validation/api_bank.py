"""Compare api_bank's grader with API-Bank's own evaluator, on answers made from the benchmark's golds.

    git clone https://github.com/AlibabaResearch/DAMO-ConvAI && git -C DAMO-ConvAI checkout 483554e
    python tools/grader_validation/api_bank.py --data DAMO-ConvAI

The evaluator (evaluator_by_json.py) runs a call on a fresh database and asks the called API whether the result is the
gold's. Here its parser, its ToolManager and its APIs do the same. Answers are written from the golds of levels 1 and 2:
the gold in several forms, with another value, with more or fewer words, without an argument, and so on. Four APIs that
need the network or a model are left out: ToolSearcher, SearchEngine, Translate and Dictionary.

Our score of free text is a ROUGE-L. For the verdict, more than a half is right, as more than a half of common words is
for the evaluator. Golds that the evaluator refuses itself are left out.
"""

from __future__ import annotations

import copy
import importlib
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import template_graders as frame

# Packages that only APIs need which are left out
ABSENT = ("sentence_transformers", "googletrans", "rank_bm25")
LEFT_OUT = ("ToolSearcher", "SearchEngine", "Translate", "Dictionary")
REST = (
    "The evaluator refuses the other golds: their result is of another state of the database, or the evaluator cannot "
    "handle their lists or names of arguments. A ROUGE-L of more than a half counts as right."
)
IGNORED = (
    ("AddAgenda", "token"),
    ("AddReminder", "token"),
    ("DeleteAgenda", "location"),
    ("DeleteReminder", "content"),
)
UNKNOWN = "not looked into"


class Evaluator:
    """API-Bank's parser of answers and its tools, with a fresh database for each answer."""

    def __init__(self, folder: Path) -> None:
        sys.modules.update({name: MagicMock() for name in ABSENT})
        sys.path.insert(0, str(folder))
        os.chdir(folder)  # the tools read their databases from there
        self._parser = importlib.import_module("api_call_extraction")
        self._manager = importlib.import_module("tool_manager").ToolManager()
        self._databases = {api["name"]: copy.deepcopy(api.get("init_database")) for api in self._manager.apis}

    def judge(self, gold: dict[str, Any], answer: str) -> tuple[bool, bool]:
        """Return the verdict, and whether the API refused the arguments. What counts as an error is wrong."""
        call = self._parser.get_api_call(answer)
        if call is None:
            return False, False
        try:
            name, arguments = self._parser.parse_api_call(call)
            if name != gold["api_name"]:
                return False, False
            self._reset(name)
            result = self._manager.api_call(name, **arguments)
            refused = result["exception"] is not None
            expected = copy.deepcopy(gold["result"])
            return bool(self._manager.init_tool(name).check_api_call_correctness(result, expected)), refused
        except Exception:
            return False, False

    def _reset(self, name: str) -> None:
        self._manager.inited_tools.clear()
        for api in self._manager.apis:
            if api["name"] in (name, "CheckToken") and "init_database" in api:
                api["init_database"] = copy.deepcopy(self._databases[api["name"]])
        self._manager.token_checker = self._manager.init_tool("CheckToken")


def golds(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted((folder / "lv1-lv2-samples").glob("*/*.jsonl")):
        yield from (turn for turn in frame.lines(file) if turn["role"] == "API" and turn["api_name"] not in LEFT_OUT)


def written(name: str, arguments: dict[str, str], quote: str = "'") -> str:
    """Write a call as the benchmark's prompt asks for it. The golds have lists as text."""
    shown = {key: value if value[:1] == "[" else f"{quote}{value}{quote}" for key, value in arguments.items()}
    return f"[{name}({', '.join(f'{key}={value}' for key, value in shown.items())})]"


def answers(gold: dict[str, Any], every: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield answers to a gold with the kind of their change. For the change of a value it names the argument too."""
    name, arguments = gold["api_name"], dict(gold["param_dict"])
    call = written(name, arguments)
    yield "gold", call
    yield "quotes", written(name, arguments, '"')
    yield (
        "words around",
        random.choice(("API-Request: {}", "I will do that.\n\n{}\n\nIt is done.", "{} # done")).format(call),
    )
    yield "no brackets", call[1:-1]
    yield "twice", f"[{call[1:-1]}, {call[1:-1]}]"
    yield "no call", random.choice(("Please give me your password.", "", f"I would call {name}.", f"[{name}]"))
    yield (
        "other API",
        written(random.choice([turn["api_name"] for turn in every if turn["api_name"] != name]), arguments),
    )
    if not arguments:
        return
    yield "order", written(name, dict(reversed(arguments.items())))
    yield "added", written(name, {**arguments, "unknown": "1"})
    left_out = random.choice(list(arguments))
    yield f"left out {left_out}", written(name, {key: value for key, value in arguments.items() if key != left_out})
    yield "positional", call.replace(f"{next(iter(arguments))}=", "", 1)
    for key, value in arguments.items():
        others = [turn["param_dict"].get(key, value) for turn in every]
        words = value.split(" ")
        changes = {
            "another": random.choice([other for other in others if other != value] or [value + "1"]),
            "lower case": value.lower(),
            "a blank": f" {value}",
            "a full stop": f"{value}.",
            "a word more": f"{value} please",
            "a word less": " ".join(words[:-1] or ["none"]),
            "other words": " ".join([*words[:1], "some", "other", "text"]),
            "no seconds": re.sub(r"(\d\d:\d\d):00$", r"\1", value),
        }
        for change, changed in changes.items():
            if changed != value and value[:1] != "[":
                yield f"{change} for {key}", written(name, {**arguments, key: changed})


def reason(name: str, kind: str, *, ours: bool, refused: bool) -> str:
    """Tell why the verdicts on an answer differ. ``ours`` and ``refused`` tell apart what we alone call right."""
    change, _, key = kind.partition(" for ")
    cases = {
        "a call written twice, which the evaluator's parser reads as one": kind == "twice",
        "free text that the API looks up in its database word for word; ours is its ROUGE-L": ours and refused,
        "free text with at most half of the words in common, in the evaluator's count of words as written": ours,
        "an argument that the evaluator does not compare for this API; we compare all": (name, key) in IGNORED,
        "a blank before the value, which the evaluator removes for this API; we compare the text": change == "a blank",
        "lower case, which is the same for this API; we compare the text": change == "lower case",
        UNKNOWN: True,
    }
    return next(why for why, fits in cases.items() if fits)


def main() -> None:
    folder = frame.checkout(__doc__, "AlibabaResearch/DAMO-ConvAI", "483554e").resolve() / "api-bank"
    evaluator = Evaluator(folder)
    template = frame.template_module("tools/utils.py")
    task = frame.settings(frame.TEMPLATES / "tools" / "api_bank.yaml")
    random.seed(8)
    every = list(golds(folder))
    texts = [written(gold["api_name"], gold["param_dict"]) for gold in every]
    kept = [(gold, text) for gold, text in zip(every, texts, strict=True) if evaluator.judge(gold, text)[0]]
    docs = list(template.api_bank_docs([frame.row(str(number), [text]) for number, (_, text) in enumerate(kept)]))
    made = [(gold, doc, *pair) for (gold, _), doc in zip(kept, docs, strict=True) for pair in answers(gold, every)]
    strict = frame.filtered(task, "strict-match", [answer for *_, answer in made], [doc for _, doc, *_ in made])
    by_metric: dict[str, list[tuple[bool, bool, str]]] = {"acc_rougeL": [], "acc": []}
    for (gold, doc, kind, answer), text in zip(made, strict, strict=True):
        scores = template.api_bank_results(doc, [text])
        theirs, refused = evaluator.judge(gold, answer)
        for metric, verdicts in by_metric.items():
            ours = scores[metric] > 0.5
            why = reason(gold["api_name"], kind, ours=ours, refused=refused)
            if metric == "acc" and why == UNKNOWN and not ours:
                why = "free text in other words, of which the evaluator wants only some; acc compares the text"
            verdicts.append((ours, theirs, why))
    note = f"The answers are made from {len(kept)} of {len(every)} golds of levels 1 and 2. {REST}"
    frame.show({
        "api_bank_generated": {**frame.tallied(by_metric["acc_rougeL"]), "note": note},
        "api_bank_generated_exact": frame.tallied(by_metric["acc"]),
    })  # fmt: skip


if __name__ == "__main__":
    main()
