"""How often decisions are right from files to exit code: runs are drawn, written as lm_eval writes them, and compared.

    python benchmarks/end_to_end.py               50 runs of each row, on two processes
    python benchmarks/end_to_end.py one four      some: one (a task among 4), four (meta_instruct), all (22 tasks)
    python benchmarks/end_to_end.py --runs 20
    python benchmarks/end_to_end.py --small       a few runs of each: CI

Verdicts are drawn as for verdicts.py. Samples and results files of both runs are written to a temporary folder;
``meta-eval compare A B --max-drop 1 --json`` reads them, called in this process with its command line, and its exit
code is what is counted. IFEval is drawn as 541 plain verdicts. Each rate stands beside what it should be; the exit
code is 1 where one is not, by more than chance would bring in one of a thousand.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from counting import Table, main, rate, simulate
from drawn_verdicts import Task, draw, instruct
from typer.testing import CliRunner

from meta_eval.base.thresholds import MARGIN
from meta_eval.cli import app
from meta_eval.judge.decide import EXIT_CODES

TIME = "2026-01-02T03-04-05.000000"
FLIPS = 0.04
OUTCOMES = {code: outcome for outcome, code in EXIT_CODES.items()}

# What is compared: of each task the verdicts of both runs, and the subtask of each doc.
Verdicts = tuple[Task, np.ndarray, np.ndarray, Sequence[int] | None]


def write_run(folder: Path, tasks: Sequence[tuple[Task, np.ndarray, Sequence[int] | None]]) -> Path:
    """Samples and results of one run, as lm_eval 0.4.13 writes them."""
    folder.mkdir()
    tree: dict[str, dict[str, object]] = {"results": {}, "configs": {}, "n-samples": {}}
    for task, verdicts, labels in tasks:
        metric = "em" if labels is None else "em_macro"
        with (folder / f"samples_{task.name}_{TIME}.jsonl").open("w", encoding="utf-8") as file:
            for number, verdict in enumerate(verdicts.tolist()):
                subtask = f', "subtask_name": "s{labels[number]}"' if labels else ""
                logged = f'["s{labels[number]}", {verdict}]' if labels else verdict
                file.write(
                    f'{{"doc_id": {number}, "doc": {{"n": {number}{subtask}}}, "target": "1", "arguments": '
                    f'[["{task.name}: {number}", {{"until": []}}]], "resps": [["{verdict:g}"]], '
                    f'"filtered_resps": ["{verdict:g}"], '
                    f'"filter": "none", "metrics": ["{metric}"], "{metric}": {logged}}}\n'
                )
        shares = [verdicts.mean()]
        if labels:
            shares = [verdicts[np.array(labels) == label].mean() for label in sorted(set(labels))]
        tree["results"][task.name] = {f"{metric},none": float(np.mean(shares)), f"{metric}_stderr,none": 0.01}
        tree["configs"][task.name] = {"task": task.name}
        tree["n-samples"][task.name] = {"original": task.docs, "effective": task.docs}
    tree["config"] = {"model": "vllm", "model_args": {"pretrained": "org/model"}, "limit": None, "gen_kwargs": {}}
    (folder / f"results_{TIME}.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def compare(drawn: Sequence[Verdicts]) -> Counter[str]:
    """What ``meta-eval compare`` decides of two runs, by its exit code."""
    with tempfile.TemporaryDirectory() as here:
        a = write_run(Path(here, "a"), [(task, before, labels) for task, before, _, labels in drawn])
        b = write_run(Path(here, "b"), [(task, after, labels) for task, _, after, labels in drawn])
        ended = CliRunner().invoke(app, ["compare", str(a), str(b), "--max-drop", f"{100 * MARGIN:g}", "--json"])
    outcome = json.loads(ended.stdout)["decision"]["outcome"]
    if OUTCOMES.get(ended.exit_code) != outcome:
        raise RuntimeError(f"{outcome} ended with exit code {ended.exit_code}")
    return Counter({outcome: 1})


def draw_tasks(tasks: Sequence[Task], drops: Sequence[float], rng: np.random.Generator) -> list[Verdicts]:
    drawn = []
    for task, drop in zip(tasks, drops, strict=True):
        before, after, labels, _ = draw(task, drop, rng)
        drawn.append((task, before, after, labels))
    return drawn


def lose_subject(subject: int, loss: float, rng: np.random.Generator) -> list[Verdicts]:
    """meta_instruct, of which one subject of MMLU-Pro loses answers."""
    *others, (task, before, after, labels) = draw_tasks(four(), [0.0] * 4, rng)
    docs = (np.array(labels) == subject) & (after > 0)
    lost = docs & (rng.random(task.docs) < loss * task.subtasks[subject] / max(1, docs.sum()))
    return [*others, (task, before, np.where(lost, 0.0, after), labels)]


def four() -> list[Task]:
    return [replace(task, ifeval=False) for task in instruct(FLIPS)]


def twenty_two() -> list[Task]:
    """meta_instruct and 18 tasks of 300 to 2,000 docs."""
    return [*four(), *(Task(f"t{index}", (300 + 100 * index,), 0.6, FLIPS) for index in range(18))]


def _lost_by(tasks: Sequence[Task], name: str, drop: float) -> list[float]:
    return [drop if task.name == name else 0.0 for task in tasks]


def _row(
    table: Table, what: str, runs: int, drawing: Callable[[np.random.Generator], Sequence[Verdicts]], *,
    least: float = 0.0, most: float = 1.0, wrong: float = 1.0,
) -> None:  # fmt: skip
    """One row: SHIP in ``least`` to ``most`` of the runs, DON'T SHIP in at most ``wrong``."""
    counts = simulate(lambda rng: compare(drawing(rng)), what, runs)
    bounds = f"at least {100 * least:g}" if least else f"at most {100 * most:g}" if most < 1 else "-"
    table.row(
        what, rate(counts["SHIP"], runs, least, most), bounds, rate(counts["DON'T SHIP"], runs, most=wrong),
        f"at most {100 * wrong:g}" if wrong < 1 else "-", rate(counts["UNDECIDED"], runs),
    )  # fmt: skip


def _table(tasks: str, runs: int) -> Table:
    return Table(
        f"From files to exit code, {tasks}, 4 % of docs flip, margin 1: percent of {runs:,} runs",
        "truth", "SHIP", "wanted", "DON'T SHIP", "wanted", "UNDECIDED",
    )  # fmt: skip


def one_task(runs: int) -> None:
    table = _table("GPQA Diamond among 4 tasks", runs)
    diamond = [Task("gpqa_diamond", (198,), 0.4, FLIPS), *(task for task in four() if task.name != "meta_gpqa_cot")]
    _row(table, "it loses 5 points", runs, lambda rng: draw_tasks(diamond, [0.05, 0, 0, 0], rng), most=0.12)


def four_tasks(runs: int) -> None:
    table = _table("4 tasks of meta_instruct", runs)
    tasks = four()
    _row(table, "identical", runs, lambda rng: draw_tasks(tasks, [0.0] * 4, rng), least=0.95, wrong=0.025)
    _row(
        table,
        "every task drops by the margin",
        runs,
        lambda rng: draw_tasks(tasks, [MARGIN] * 4, rng),
        most=0.05,
        wrong=0.05,
    )
    for loss, most in ((0.05, 0.25), (0.10, 0.01)):
        what = f"a subject of MMLU-Pro with 1,351 docs loses {100 * loss:g} points"
        _row(table, what, runs, lambda rng, loss=loss: lose_subject(0, loss, rng), most=most)


def all_tasks(runs: int) -> None:
    table = _table("22 tasks", runs)
    tasks = twenty_two()
    every = len(tasks)
    _row(table, "identical", runs, lambda rng: draw_tasks(tasks, [0.0] * every, rng), least=0.95, wrong=0.025)
    _row(
        table,
        "every task drops by half the margin",
        runs,
        lambda rng: draw_tasks(tasks, [MARGIN / 2] * every, rng),
        least=0.70,
    )
    # 3 points in 541 docs pass even the best test in 15 %: `plans.passes_best_test`.
    for name, loss, most in (("meta_gpqa_cot", 0.05, 0.03), ("meta_ifeval", 0.05, 0.03), ("meta_ifeval", 0.03, 1.0)):
        drops = _lost_by(tasks, name, loss)
        what = f"{name} loses {100 * loss:g} points"
        _row(table, what, runs, lambda rng, drops=drops: draw_tasks(tasks, drops, rng), most=most)


EXPERIMENTS = {"one": one_task, "four": four_tasks, "all": all_tasks}


if __name__ == "__main__":
    sys.exit(main(__doc__, EXPERIMENTS))
