"""A small program that shows a fault under load to the maintainers of an engine, without a row of any dataset.

Prompts are made up, as those of `traffic`. They are asked alone and at the level that is worse, and the set is halved
while it still shows a corrupted answer. The program needs Python alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.plugins.load.level_decision import count
from meta_eval.plugins.load.signs import Seen, classify
from meta_eval.plugins.load.traffic import make_prompt
from meta_eval.sockets import Answer, Request, log, plural, replace_folder, report_progress

if TYPE_CHECKING:
    from meta_eval.plugins.load.load_build import Found
    from meta_eval.plugins.load.load_run import Asking
    from meta_eval.plugins.load.options import LoadOptions

# Prompts that are tried first, tokens of an answer, and how often each prompt is asked at the level.
_PROMPTS, _TOKENS, _TIMES = 64, 64, 4

# Prompts that are not halved any more.
_FEWEST = 4

# Our files in a folder, and their kind.
KIND = "load"
FILES = ("reproduce.py", "prompts.json")

PROGRAM = '''"""Asks prompts alone and many at once, and counts answers that differ: python reproduce.py [URL] [MODEL]

Greedy answers of a sound server differ seldom, and then by a near tie: both go on sensibly. Corrupted ones do not.
"""

import json, os, sys, threading, urllib.request

SET = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prompts.json"), encoding="utf-8"))
URL = (sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000/v1").rstrip("/")
MODEL = sys.argv[2] if len(sys.argv) > 2 else SET["model"]
HEADERS = {"Content-Type": "application/json"}
if os.environ.get("OPENAI_API_KEY"):
    HEADERS["Authorization"] = "Bearer " + os.environ["OPENAI_API_KEY"]


def ask(prompt):
    body = {"model": MODEL, "temperature": 0, "max_tokens": SET["max_tokens"]}
    if SET["kind"] == "chat":
        path, body["messages"] = "/chat/completions", [{"role": "user", "content": prompt}]
    else:
        path, body["prompt"] = "/completions", prompt
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=600) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["message"]["content"] if SET["kind"] == "chat" else choice["text"]


alone = [ask(prompt) for prompt in SET["prompts"]]
jobs = [number for _ in range(SET["times"]) for number in range(len(alone))]
loaded, lock = [], threading.Lock()


def work():
    while True:
        with lock:
            if not jobs:
                return
            number = jobs.pop()
        try:
            text = ask(SET["prompts"][number])
        except Exception as error:
            text = f"no answer: {error}"
        with lock:
            loaded.append((number, text))


threads = [threading.Thread(target=work) for _ in range(SET["level"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
differ = [(number, text) for number, text in loaded if text != alone[number]]
print(f"{len(differ)} of {len(loaded)} answers differ at {SET['level']} in flight")
for number, text in differ[:20]:
    print(f"--- prompt {number}: {SET['prompts'][number][:70]!r}\\nalone: {alone[number]!r}\\nloaded: {text!r}")
sys.exit(bool(differ))
'''


def write_reproduction(folder: Path, asking: Asking, found: Found, options: LoadOptions) -> str:
    """Find the smallest set of made-up prompts that shows the lowest worse level, and write it with a program.

    Args:
        folder: Where to write.
        asking: What asks the server.
        found: What was found.
        options: Of the command.

    Returns: What was written, or why nothing was: a sentence without its stop.

    Raises:
        UserError: The folder holds files that are not ours, or the server does not answer.
    """
    worse = [level.level for level in found.levels if level.decision.outcome == "worse"]
    if not worse:
        return "no level is worse, so there is nothing to reproduce"
    if not options.ask:
        return "nothing was asked, so nothing was reproduced: leave out --no-ask"
    level, kind = min(worse), asking.kind
    seed = f"{asking.run.seed} reproduction"
    prompts = [make_prompt(seed, number, asking.context)[0] for number in range(2 * _PROMPTS) if number % 4 < 2][
        :_PROMPTS
    ]
    report_progress(f"asking {len(prompts)} made-up prompts alone, and {_TIMES} times at {level:,} in flight")
    requests = [_make_request(number, kind, prompt) for number, prompt in enumerate(prompts)]
    alone = {answer.doc: answer for answer in asking.ask_now(requests, options.alone)}
    chosen = [request for request in requests if request.doc in alone and alone[request.doc].error is None]
    bad = _ask_at(asking, chosen, alone, level, found.limit)
    if not bad:
        log.warning("made-up prompts do not show it")
        return "made-up prompts do not show the fault, so no program was written: report the level and the signs"
    while len(chosen) > _FEWEST:
        touched = {seen.doc for seen in bad}
        half = sorted(chosen, key=lambda request: request.doc not in touched)[: len(chosen) // 2]
        if not (again := _ask_at(asking, half, alone, level, found.limit)):
            break
        chosen, bad = half, again
    chosen.sort(key=lambda request: request.doc)
    numbers = [request.doc for request in chosen]
    signs = ", ".join(f"{sign} {number:,}" for sign, number in count(bad).signs)
    content = {
        "model": _name_for_others(found.model), "engine": found.engine, "deployment": found.name, "level": level,
        "times": _TIMES, "max_tokens": _TOKENS, "kind": kind, "seen": signs,
        "prompts": [prompts[number] for number in numbers],
    }  # fmt: skip
    files = zip(FILES, (PROGRAM.encode(), json.dumps(content, indent=1).encode()), strict=True)
    with replace_folder(folder, KIND, shared=True) as new:
        for name, raw in files:
            new.write(name, raw)
    return f"{folder} has {plural(len(chosen), 'made-up prompt')} and a program that show it at {level:,} in flight"


def _name_for_others(model: str) -> str:
    """A model's name without the folders of this machine."""
    return Path(model).name if model.startswith(("/", ".", "~")) else model


def _make_request(number: int, kind: str, prompt: str) -> Request:
    text = prompt if kind == "generate" else json.dumps({"messages": [{"role": "user", "content": prompt}]})
    return Request(f"made-up/{number}", "made-up", number, 0, kind, text, (), _TOKENS, {})


def _ask_at(
    asking: Asking, requests: Sequence[Request], alone: dict[int, Answer], level: int, limit: float | None
) -> list[Seen]:
    """The corrupted answers at a level; near ties are found where the server scores texts."""
    repeated = [
        replace(request, id=f"made-up/{request.doc}/{time}", repeat=time)
        for time in range(_TIMES) for request in requests
    ]  # fmt: skip
    seen = []
    prompts = {request.doc: request for request in requests}
    answers = list(asking.ask_now(repeated, level))
    parted = [answer for answer in answers if answer.error is None and answer.text != alone[answer.doc].text]
    scored = asking.score_now([(prompts[answer.doc], answer.text or "") for answer in parted]) if limit else {}
    for answer in answers:
        own = scored.get((answer.doc, answer.text or ""))
        one = classify([alone[answer.doc]], answer, prompts[answer.doc].prompt, None, own, limit or 0.0)
        if one.kind == "corrupted" or (one.kind == "parted" and limit is None):
            seen.append(one)
    return seen
