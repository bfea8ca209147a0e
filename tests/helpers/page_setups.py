"""Contents of the folders in which the commands of docs/ run. A page names its setup by ``<!-- tests: NAME -->``."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import chat_server
import fake_server
import first_board
import perplexity_logs
import recorded_runs
import runs
import small_model
from places import REPOSITORY

# A page's text and its replacement.
Names = dict[str, str]


@contextmanager
def two_runs(folder: Path) -> Iterator[Names]:
    """Write the results of a model, an eight-bit copy with flips and a fine-tuned model that is worse at GSM8K."""
    chance = random.Random(7)
    sizes = {"arc_challenge": 1172, "gsm8k": 1319, "winogrande": 1267}
    base = {task: [float(chance.random() < 0.6) for _ in range(size)] for task, size in sizes.items()}
    for name, lost in (("base", None), ("int8", {}), ("tuned", {"gsm8k": 0.09})):
        for task, verdicts in base.items():
            some = (
                verdicts if lost is None else [_flipped(verdict, lost.get(task, 0.0), chance) for verdict in verdicts]
            )
            runs.write_run(
                folder / f"results_{name}" / task, some, task=task, metric="acc", filters=("none",),
                model_args={"pretrained": f"org/{name}"}, extra={"model_name": f"org/{name}"},
            )  # fmt: skip
    yield {}


def _flipped(verdict: float, lost: float, chance: random.Random) -> float:
    """Return a copy's verdict. 1 % of verdicts flip, and a share ``lost`` of right answers becomes wrong."""
    if chance.random() < 0.01:
        return 1 - verdict
    return 0.0 if verdict and chance.random() < lost else verdict


@contextmanager
def two_models(folder: Path) -> Iterator[Names]:
    """Serve a model that rounds otherwise when a prompt comes again, and a copy that is several times as far. Write the
    tokenizer of both.
    """
    seen: set[str] = set()

    def answer(body: fake_server.Body, encode: Callable[[str], list[int]]) -> fake_server.Body:
        tree = usual(body, encode)
        prompt = f"{body['model']} {body['prompt']}"
        size = 0.02 if body["model"] == "my/fp8" else 0.004 if prompt in seen else 0.0
        seen.add(prompt)
        for place in filter(None, tree["choices"][0].get("prompt_logprobs") or ()):
            for token in place.values():
                token["logprob"] *= 1 + size * (round(token["logprob"] * (16 if size > 0.01 else 48)) % 5 - 2)
        return tree

    small_model.write_tokenizer(folder / "tokenizer")
    usual, fake_server.completion = fake_server.completion, answer
    try:
        with fake_server.FakeServer(model="my/bf16", others=("my/fp8",)) as there:
            yield {"http://host1:8000/v1": there.url}
    finally:
        fake_server.completion = usual


@contextmanager
def bf16_run(folder: Path) -> Iterator[Names]:
    """Write the results of lm-eval's own tasks over our own rows."""
    tasks = recorded_runs.task_folder(folder / "tasks", ("arc_challenge", "hellaswag"), recorded_runs.SHAPES)
    recorded_runs.record(tasks, folder / "results_bf16", ("arc_challenge", "hellaswag"), salt="bf16")
    shutil.rmtree(tasks)
    yield {}


@contextmanager
def details(folder: Path) -> Iterator[Names]:
    """Write details of the first leaderboard over our own rows."""
    first_board.write(folder / "details_gpt2", first_board.tasks())
    yield {}


@contextmanager
def my_engine(folder: Path) -> Iterator[Names]:
    """Write the example script with an engine that gives every prompt the same answer."""
    text = (REPOSITORY / "examples" / "answer_requests.py").read_text(encoding="utf-8")
    made = re.sub(r"raise NotImplementedError\(.*\)", 'return "The answer is B. I think", "stop", 6', text, count=1)
    (folder / "examples").mkdir()
    (folder / "examples" / "answer_requests.py").write_text(made, encoding="utf-8")
    yield {}


@contextmanager
def llamacpp(_: Path) -> Iterator[Names]:
    """Provide llama.cpp and a small model from the folder META_EVAL_LLAMACPP."""
    packages = os.environ["META_EVAL_LLAMACPP"]
    paths = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))
    with patch.object(sys, "path", [*sys.path, packages]), patch.dict(os.environ, {"PYTHONPATH": paths}):
        yield {}


@contextmanager
def nightly(folder: Path) -> Iterator[Names]:
    """Write a history of 24 nightly runs; the last four lost docs."""
    from meta_eval.plugins.nightly.run_history import PastRun, TaskVerdicts, add_run

    chance = random.Random(7)
    for night in range(24):
        right = 150 - (10 if night >= 20 else 0)
        verdicts = [
            *[1.0] * right,
            *[0.0] * (150 - right),
            *(float(chance.random() < 0.5) for _ in range(20)),
            *[0.0] * 30,
        ]
        docs = {f"{number:012x}": verdict for number, verdict in enumerate(verdicts)}
        tasks = {"gsm8k": TaskVerdicts(metric="exact_match,strict-match", docs=docs)}
        name, time = f"{1_000_003 * (night + 1):07x}"[-7:], f"2026-10-{night + 1:02}T03:00:00Z"
        add_run(folder / "history", PastRun(time=time, name=name, model="org/model", engine="vllm 0.32.0", tasks=tasks))
    yield {}


@contextmanager
def thresholds(folder: Path) -> Iterator[Names]:
    """Write a file of score thresholds in the form of vLLM's CI."""
    metrics = [{"name": f"exact_match,{name}", "value": 0.755} for name in ("strict-match", "flexible-extract")]
    tree = {"model_name": "org/model", "tasks": [{"name": "gsm8k", "metrics": metrics}], "limit": 1000, "rtol": 0.03}
    (folder / "Meta-Llama-3-8B-Instruct.yaml").write_text(json.dumps(tree), encoding="utf-8")
    yield {}


def _own_tasks(setup: str) -> str:
    """What the page of own tasks shows for a setup."""
    page = (REPOSITORY / "docs/guides/own_tasks.md").read_text(encoding="utf-8")
    return page.partition(f"<!-- tests: new_folder, {setup} -->")[2]


@contextmanager
def rows(folder: Path) -> Iterator[Names]:
    """Write the row that the page shows."""
    row = json.loads(re.findall(r"^```json\n(.*?)^```$", _own_tasks("rows"), re.MULTILINE | re.DOTALL)[0])
    (folder / "my_evals").mkdir()
    (folder / "my_evals" / "my_quiz.jsonl").write_text(json.dumps(row), encoding="utf-8")
    yield {}


@contextmanager
def own_questions(folder: Path) -> Iterator[Names]:
    """Write the files that the page shows, with more questions, and serve two models that know most answers."""
    page = _own_tasks("own_questions")
    files = re.findall(r"^`([\w/.]+)` (?:has|is|says) .*?^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == [
        "my_tasks/questions.jsonl", "my_tasks/my_quiz.yaml", "my_tasks/quiz.py", "eval_config.yaml"
    ]  # fmt: skip
    more = (json.dumps({"question": f"What is {number} + 7?", "answer": f"{number + 7}"}) for number in range(17))
    files[0] = (files[0][0], files[0][1] + "".join(f"{line}\n" for line in more))
    stands_for: Names = {}
    answers = {doc["question"]: doc["answer"] for doc in map(json.loads, files[0][1].splitlines())}

    def reply(body: chat_server.Body, unknown: int) -> chat_server.Body:
        said = body["messages"][-1]["content"]
        known = next(
            (text for number, (asked, text) in enumerate(answers.items()) if asked in said and number % unknown), "red"
        )
        return chat_server.completion(f"The answer is {known}.", model=body["model"])

    with ExitStack() as stack:
        for name, unknown in (("a", 20), ("b", 4)):
            server = chat_server.ChatServer(functools.partial(reply, unknown=unknown))
            server.models = chat_server.Reply({"data": [{"id": f"model-{name}"}]})
            stands_for[f"https://{name}.example.com/v1"] = stack.enter_context(server).url
        for name, text in files:
            (folder / name).parent.mkdir(exist_ok=True)
            content = functools.reduce(lambda made, pair: made.replace(*pair), stands_for.items(), text)
            (folder / name).write_text(content, encoding="utf-8")
        yield stands_for


@contextmanager
def llama_perplexity(folder: Path) -> Iterator[Names]:
    """Write outputs of llama-perplexity for a baseline and two copies."""
    text = perplexity_logs.draw_text(240)
    nearer = replace(text, copy=text.base + (text.copy - text.base) / 3, divergence=text.divergence / 4)
    for name, content in (
        ("f16.log", perplexity_logs.write_plain(text.base)), ("q4_plain.log", perplexity_logs.write_plain(text.copy)),
        ("q4.log", perplexity_logs.write_table(text)), ("q6.log", perplexity_logs.write_table(nearer)),
    ):  # fmt: skip
        (folder / name).write_text(content, encoding="utf-8")
    yield {}


@contextmanager
def full_server(folder: Path) -> Iterator[Names]:
    """Make a pack, and serve its model: a share of the answers at the second level are those of another prompt."""
    import load_server

    load_server.make_load_pack(folder)
    asked: dict[str, int] = {}
    other = "lantern kettle saffron thimble walnut zephyr barley cobalt. The best answer is A."

    def spoil(text: str, _: int) -> str:
        asked[text] = asked.get(text, 0) + 1
        return other if asked[text] == 3 and random.Random(text).random() < 0.05 else text

    with load_server.load_server(folder / "model", tied=0.0, spoil=spoil) as there:
        yield {"http://localhost:8000/v1": there.url}


SETUPS: dict[str, Callable[[Path], AbstractContextManager[Names]]] = {
    "two_runs": two_runs, "bf16_run": bf16_run, "details": details,
    "my_engine": my_engine, "two_models": two_models, "llamacpp": llamacpp, "nightly": nightly, "thresholds": thresholds, "rows": rows,
    "own_questions": own_questions,
    "llama_perplexity": llama_perplexity, "full_server": full_server,
}  # fmt: skip
