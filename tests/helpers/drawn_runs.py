"""Pairs of runs, drawn by a number and written as lm-eval writes them: everything that a comparison reads is in them.

Each pair draws its tasks (30 to 2,000 docs), what the tasks are (texts under one or two filters, choices by likelihood,
a perplexity, scores without samples), what docs share (a passage, a question of another task), how many runs a side has,
how many answers a doc, a group, a gate, and what went wrong: lost docs, empty, cut and unread answers, another grader,
another prompt, another setting.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The first pairs are small: `make test` compares them.
SMALL_PAIRS, SMALL = 20, 200
_TIME = "2026-03-0{day}T10-00-00.00000{run}"
_SETTINGS = {"until": ["\n"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 256}
_PASSAGE = "A passage that several questions share, long enough to be a cluster by itself. " * 4


@dataclass(frozen=True)
class DrawnTask:
    """What a task is, and what differs between the sides."""

    name: str
    kind: str
    """``texts``, ``choices``, ``rolling`` or ``scores``."""

    docs: int
    accuracy: float
    flips: float
    loss: float
    filters: tuple[str, ...]
    answers: int
    """Answers to each doc."""

    passages: int
    """Docs that share a passage; 0 for none."""

    equal: float
    """The share of docs whose answers are the same text on both sides."""

    faults: tuple[tuple[float, float, float], tuple[float, float, float]]
    """Of each side the shares of empty, cut and unread answers."""

    regraded: float
    """The share of equal answers with another verdict."""

    other_prompt: bool


@dataclass(frozen=True)
class DrawnPair:
    """Two sides, each of one or more runs."""

    tasks: tuple[DrawnTask, ...]
    runs: tuple[int, int]
    group: bool
    gate: dict[str, Any] | None
    other_setting: bool


def draw_pair(number: int) -> DrawnPair:
    """The pair of a number: the same for the same number."""
    chance = random.Random(f"pair {number}")
    largest = SMALL if number < SMALL_PAIRS else 2000
    draw = _draw_sound_task if chance.random() < 0.35 else _draw_task
    tasks = tuple(draw(chance, place, largest) for place in range(chance.choice((1, 1, 2, 3, 4, 6))))
    plain = chance.random() < 0.6
    gate = None if plain else {"margin": chance.choice((0.5, 1, 2, 5)), "limits": {"unextracted": 5, "empty": 2}}
    if gate and chance.random() < 0.4:
        gate |= {"cap": chance.choice((3, 8)), "weights": chance.choice(("docs", "equal", "precision"))}
    if gate and chance.random() < 0.3:
        gate["cut_answers"] = chance.choice(("wrong", "unscored"))
    runs = (chance.choice((1, 1, 1, 2, 3)), chance.choice((1, 1, 1, 2)))
    return DrawnPair(tasks, runs, len(tasks) > 2 and chance.random() < 0.5, gate, chance.random() < 0.05)


def _draw_sound_task(chance: random.Random, place: int, largest: int) -> DrawnTask:
    """Texts of which at most a few are lost, and nothing else is wrong."""
    return DrawnTask(
        name=f"texts_{place}", kind="texts", docs=largest - chance.randrange(largest // 2),
        accuracy=chance.uniform(0.3, 0.9), flips=chance.choice((0.0, 0.02, 0.04)),
        loss=chance.choice((0.0, 0.0, 0.0, 0.01)), filters=("none",), answers=1, passages=0,
        equal=chance.choice((0.0, 0.5, 0.96)), faults=((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), regraded=0.0,
        other_prompt=False,
    )  # fmt: skip


def _draw_task(chance: random.Random, place: int, largest: int) -> DrawnTask:
    kind = chance.choices(("texts", "choices", "rolling", "scores"), (10, 3, 1, 1))[0]
    docs = int(30 * (largest / 30) ** chance.random())
    faults = [(0.0, 0.0, 0.0)] * 2
    if kind == "texts" and chance.random() < 0.4:
        faults[chance.randrange(2)] = tuple(chance.choice((0.0, 0.0, 0.02, 0.1, 0.2)) for _ in range(3))
    return DrawnTask(
        name=f"{kind}_{place}", kind=kind, docs=docs, accuracy=chance.uniform(0.1, 0.95),
        flips=chance.choice((0.0, 0.02, 0.04, 0.1)), loss=chance.choice((0.0, 0.0, 0.005, 0.02, 0.08, -0.03)),
        filters=("strict", "flexible") if kind == "texts" and chance.random() < 0.4 else ("none",),
        answers=chance.choice((1, 1, 1, 4)) if kind == "texts" else 1,
        passages=chance.choice((0, 0, 0, 5, 20)), equal=chance.choice((0.0, 0.5, 0.96)), faults=(faults[0], faults[1]),
        regraded=chance.choice((0.0, 0.0, 0.01, 0.05)), other_prompt=chance.random() < 0.03,
    )  # fmt: skip


def write_pair(number: int, folder: Path) -> tuple[list[Path], list[Path], Path | None]:
    """Write the pair of a number. Return the folders of A and of B, and the file of the gate."""
    pair = draw_pair(number)
    sides = tuple(
        [_write_run(pair, number, side, run, folder / f"{'AB'[side]}{run}") for run in range(pair.runs[side])]
        for side in range(2)
    )
    gate = None
    if pair.gate:
        gate = folder / "gate.yaml"
        gate.write_text(json.dumps(pair.gate), encoding="utf-8")
    return sides[0], sides[1], gate


def _write_run(pair: DrawnPair, number: int, side: int, run: int, folder: Path) -> Path:
    folder.mkdir(parents=True)
    time = _TIME.format(day=1 + side, run=run)
    settings = _SETTINGS | ({"temperature": 0.5} if side and pair.other_setting else {})
    tree: dict[str, Any] = {
        "results": {}, "group_subtasks": {}, "configs": {}, "versions": {}, "n-shot": {}, "higher_is_better": {},
        "n-samples": {}, "config": {"model": "vllm", "model_args": {"pretrained": f"org/m{side}"}, "limit": None},
        "date": 1772359200.0 + 86400 * side + run, "lm_eval_version": "0.4.13", "model_name": f"org/m{side}",
        "total_evaluation_time_seconds": f"{100 + side}.{run}",
    }  # fmt: skip
    for task in pair.tasks:
        lines = _draw_samples(task, number, side, run, settings)
        metric = {"choices": "acc", "rolling": "word_perplexity"}.get(task.kind, "exact_match")
        means = {name: [line[metric] for line in lines if line["filter"] == name] for name in task.filters}
        scores = {f"{metric},{name}": _average(metric, values) for name, values in means.items()}
        errors = {f"{metric}_stderr,{name}": 0.01 for name in task.filters}
        tree["results"][task.name] = {"alias": task.name, **scores, **errors}
        tree["configs"][task.name] = {
            "task": task.name, "output_type": "generate_until", "generation_kwargs": settings,
            "metric_list": [{"metric": metric, "aggregation": "mean"}], "metadata": {"version": 1.0},
        }  # fmt: skip
        tree["versions"][task.name], tree["n-shot"][task.name] = 1.0, 0
        tree["higher_is_better"][task.name] = {metric: metric != "word_perplexity"}
        tree["n-samples"][task.name] = {"original": task.docs, "effective": task.docs}
        if task.kind != "scores":
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            (folder / f"samples_{task.name}_{time}.jsonl").write_text(text, encoding="utf-8")
    if pair.group:
        members = [task.name for task in pair.tasks if task.kind == "texts" and task.filters == ("none",)]
        if len(members) > 1:
            value = sum(tree["results"][name]["exact_match,none"] for name in members) / len(members)
            tree["group_subtasks"]["all_texts"] = members
            tree["results"]["all_texts"] = {"alias": "all_texts", "exact_match,none": value}
            tree["groups"] = {"all_texts": tree["results"]["all_texts"]}
    (folder / f"results_{time}.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def _average(metric: str, values: list[Any]) -> float:
    if metric == "word_perplexity":
        return 12.5
    return sum(values) / len(values)


def _draw_samples(task: DrawnTask, number: int, side: int, run: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    truth, own = random.Random(f"{number} {task.name}"), random.Random(f"{number} {task.name} {side} {run}")
    lines = []
    for doc in range(task.docs):
        right, is_equal = truth.random() < task.accuracy, truth.random() < task.equal
        is_lost, is_won = truth.random() < task.loss / max(task.accuracy, 0.05), truth.random() < -task.loss
        if side and not is_equal:
            right = (right and not is_lost) or is_won
        verdicts = [
            _flip(right, task.flips if not is_equal or task.answers > 1 else 0.0, own) for _ in range(task.answers)
        ]
        lines += _make_samples(task, doc, verdicts, side, is_equal=is_equal, own=own, settings=settings)
    return lines


def _flip(right: bool, flips: float, own: random.Random) -> bool:
    return right != (own.random() < flips / 2)


def _make_samples(
    task: DrawnTask, doc: int, verdicts: list[bool], side: int, *, is_equal: bool, own: random.Random,
    settings: dict[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    content: dict[str, Any] = {"question": f"{task.name}: question {doc}", "gold": str(doc)}
    prompt = content["question"]
    if task.passages:
        content["passage"] = f"Passage {doc // task.passages}. {_PASSAGE}"
        prompt = f"{content['passage']}\n{prompt}"
    if side and task.other_prompt and doc % 3 == 0:
        prompt = f"Think. {prompt}"
    luck, (empty, cut, unread) = own.random(), task.faults[side]
    is_empty, is_cut = luck < empty, empty <= luck < empty + cut
    is_unread = is_empty or is_cut or empty + cut <= luck < empty + cut + unread
    if is_unread:
        verdicts = [False] * len(verdicts)
    texts = [f"It is {doc if right else 'not known'}{'' if is_equal else f', says {side}'}." for right in verdicts]
    texts = ["" if is_empty else f"{text} And so on" * 40 if is_cut else text for text in texts]
    if side and is_equal and own.random() < task.regraded:
        verdicts = [not right for right in verdicts]
    shared = {
        "doc_id": doc, "doc": content, "target": content["gold"], "doc_hash": _hash(json.dumps(content)),
        "prompt_hash": _hash(prompt), "target_hash": _hash(content["gold"]),
    }  # fmt: skip
    if task.kind == "rolling":
        likelihood = -20.0 - doc % 7 - (0.3 + task.loss) * side
        return [
            shared | {
                "filter": "none", "metrics": ["word_perplexity"], "word_perplexity": [likelihood, 9 + doc % 4],
                "arguments": {"gen_args_0": {"arg_0": prompt}}, "resps": [[str(likelihood)]],
                "filtered_resps": [str(likelihood)],
            }
        ]  # fmt: skip
    if task.kind == "choices":
        chosen = 0 if verdicts[0] else 1
        pairs = [
            [str(-1.5 - 0.001 * doc - (0.25 if place != chosen else 0.0) - 0.01 * side), "False"] for place in range(2)
        ]
        requests = {f"gen_args_{place}": {"arg_0": prompt, "arg_1": f" {'AB'[place]}"} for place in range(2)}
        return [
            shared | {
                "filter": "none", "metrics": ["acc"], "acc": float(verdicts[0]), "arguments": requests,
                "resps": [[pair] for pair in pairs], "filtered_resps": pairs,
            }
        ]  # fmt: skip
    lines = []
    for place, name in enumerate(task.filters):
        # The second filter finds an answer where the first does not.
        seen = [right or (place == 1 and is_unread and not is_empty and doc % 2 == 0) for right in verdicts]
        nothing = is_unread and not (place == 1 and any(seen))
        line = shared | {
            "filter": name, "metrics": ["exact_match"], "exact_match": float(seen[0]),
            "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": settings}}, "resps": [texts],
            "filtered_resps": ["[invalid]" if nothing else f"{doc}"],
        }  # fmt: skip
        if len(texts) > 1:
            line["answer"] = {
                "each_answer": {"exact_match": list(map(float, seen))},
                "finish_reason": ["length" if is_cut else "stop"] * len(texts),
            }
            line["exact_match"] = float(seen[0])
        else:
            line["answer"] = {"finish_reason": "length" if is_cut else "stop"}
        lines.append(line)
    return lines


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
