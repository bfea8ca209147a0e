"""Stopping when decided: how often that is wrong, and how many docs it saves. Simulated through ``stats.sequential``.

    python benchmarks/stopping.py                   all, 1,000 runs each, on two processes: an hour; writes stopping.svg
    python benchmarks/stopping.py wrong found       some: wrong, lost, found, saved, curve
    python benchmarks/stopping.py --runs 200
    python benchmarks/stopping.py --small           ten runs of each: CI

Verdicts are drawn as for verdicts.py. A look is taken after each round of about 32 docs. A run that is not decided by
its last doc gets the verdict of a whole run, through ``judging.decide``; "in the end" counts that. Each rate stands
with its Monte-Carlo standard error and what it should be; the exit code is 1 where one is not, by more than chance.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from counting import Table, flag, is_possible, main, rate, simulate
from drawn_verdicts import INSTRUCTIONS, MMLU_PRO, Drawn, Task, docs_of, draw, instruct, metric_of, with_verdicts

from meta_eval import stats
from meta_eval.ask.early_stop import list_task_docs
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.sequential import PairableDocs, Plan, Sequential, plan_rounds

WIDTH, HEIGHT, LEFT, BOTTOM = 560, 300, 60, 44
# Runs for CI: of ten, ten above a median are not by chance.
SMALL = 10
# By margin the least share of docs, in percent, that a copy without a drop saves on average, and with half the margin.
LEAST_SAVED = {0.01: (40, 4), 0.02: (75, 30), 0.03: (85, 55)}
# By margin and true drop the most docs that half of the runs may take.
MOST_ASKED = {(0.01, -0.01): 3000, (0.01, 0.1): 400, (0.02, 0.0): 2000, (0.02, 0.1): 500, (0.03, 0.0): 1200,
              (0.03, 0.1): 700}  # fmt: skip
COLOURS = ("#0b6e99", "#b3541e", "#4a7c3a")


def mmlu_pro(flips: float) -> list[Task]:
    return [Task("meta_mmlu_pro_instruct", MMLU_PRO, 0.48, flips)]


def planned(tasks: Sequence[Task]) -> Plan:
    """Its order is as good as any: what is drawn for a doc does not hang on its number."""
    return plan_rounds([_docs(task) for task in tasks])


def _docs(task: Task) -> PairableDocs:
    """As `meta-eval run` makes them, of docs whose clusters the reader of samples finds."""
    if task.ifeval:
        right = [(True,) * count for count, n in enumerate(INSTRUCTIONS, 1) for _ in range(n)]
        reach = stats.mean_of_four_shares([(value, value) for value in right])
        return PairableDocs(task.name, range(task.docs), reach=reach)
    docs = with_verdicts(docs_of(task), [1.0] * task.docs)
    recorded = compute_scores(docs, metric_of(task))
    assert recorded is not None
    return list_task_docs(task.name, docs, recorded, frozenset())


@dataclass(frozen=True)
class Followed:
    """One run, looked at after each round.

    ``asked`` docs until it stopped, ``below`` docs until any task was worse (0: never seen), ``stopped`` the
    verdict when it stopped, or none, ``whole`` that of all docs, ``under`` whether their drop is under the margin.
    """

    asked: int
    below: int
    stopped: str | None
    whole: str
    under: bool

    @property
    def end(self) -> str:
        return self.stopped or self.whole


def follow(
    tasks: Sequence[Task],
    order: Plan,
    drops: Sequence[float],
    margin: float,
    rng: np.random.Generator,
    whole: bool = True,
    watch: bool = True,
) -> Followed:
    everything = {task.name: drawn(task, drop, rng) for task, drop in zip(tasks, drops, strict=True)}
    values = {name: (before.tolist(), after.tolist()) for name, (before, after, _, _) in everything.items()}
    followed, below, asked = Sequential(order, margin), 0, 0
    for end in order.ends:
        for name, doc in order.order[asked:end]:
            before, after = values[name]
            followed.add_doc(name, doc, before[doc], after[doc])
        asked = end
        if watch:
            state = followed.read_state()
            below = below or end * any(task.outcome == "worse" for task in state.tasks)
            if state.outcome:
                break
    state = followed.read_state()
    if not whole:
        return Followed(state.docs, below, state.outcome, "", False)
    judged = decide_outcome(
        [TaskPair(name, stats.paired_drop(*all_of_it)) for name, all_of_it in everything.items()], margin
    )
    assert judged.mean is not None
    return Followed(state.docs, below, state.outcome, judged.outcome, judged.mean.value < margin)


@dataclass(frozen=True)
class Uneven(Task):
    """A task that loses in every other subtask alone, twice as much there as on average (by the macro average)."""


@dataclass(frozen=True)
class Exact(Task):
    """A task of these docs and no others: so many are lost and won, and chance is the order alone."""


@dataclass(frozen=True)
class Gained(Task):
    """A task that wins instead of losing."""


@dataclass(frozen=True)
class Repeated(Task):
    """A task whose baseline is the mean of three runs."""


def drawn(task: Task, drop: float, rng: np.random.Generator) -> Drawn:
    if isinstance(task, Repeated):
        after, before, labels, clusters = draw(task, -drop, rng, runs=3)
        return before, after, labels, clusters
    if isinstance(task, Gained):
        after, before, labels, clusters = draw(task, drop, rng)
        return before, after, labels, clusters
    if isinstance(task, Exact):
        lost, won = round(task.docs * (task.flips / 2 + drop)), round(task.docs * task.flips / 2)
        changes = rng.permutation(np.repeat([-1.0, 1.0, 0.0], [lost, won, task.docs - lost - won]))
        return np.maximum(-changes, 0.0), np.maximum(changes, 0.0), None, None
    if isinstance(task, Uneven):
        parts = [
            draw(Task("", (n,), task.accuracy, task.flips), 2 * drop * (index % 2), rng)
            for index, n in enumerate(task.subtasks)
        ]
        labels = [index for index, n in enumerate(task.subtasks) for _ in range(n)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), labels, None
    return draw(task, drop, rng)


SHAPES = (
    *((f"MMLU-Pro, {100 * flips:g} % of docs flip", mmlu_pro(flips)) for flips in (0.0, 0.02, 0.06)),
    ("MMLU-Pro, lost in every other subtask alone, 6 %", [Uneven("mmlu_pro", MMLU_PRO, 0.48, 0.06)]),
    ("MMLU-Pro, a baseline of three runs, 6 %", [Repeated("mmlu_pro", MMLU_PRO, 0.48, 0.06)]),
    ("GPQA, 6 %", [Task("meta_gpqa_cot", (448,), 0.31, 0.06)]),
    ("IFEval, 6 %", [instruct(0.06)[0]]),
    ("MGSM, 250 questions in 7 languages, correlation 0.6, 6 %",
     [Task("mgsm", (250,) * 7, 0.69, 0.06, "across", 0.6)]),
    ("4,800 docs of 800 uneven passages, correlation 0.6, 6 %",
     [Task("squad", (4800,), 0.7, 0.06, tuple(range(1, 12)) * 72 + (6,) * 8, 0.6)]),
    ("64 copies of 30 problems, correlation 0.6, 6 %", [Task("aime", (1920,), 0.5, 0.06, (64,) * 30, 0.6)]),
    ("meta_instruct, four tasks, 6 %", instruct(0.06)),
)  # fmt: skip
AT_MARGIN = (
    *((name, tasks, 0.01) for name, tasks in SHAPES),
    ("12,032 docs that themselves drop by just the margin, 2 %", [Exact("exact", (12_032,), 0.48, 0.02)], 0.01),
    ("448 docs that themselves drop by just the margin, 6 %", [Exact("exact", (448,), 0.48, 0.06)], 0.0290178571),
    *((name, tasks, 0.03) for name, tasks in SHAPES if name.startswith(("MMLU-Pro, 6", "MGSM", "4,800", "64"))),
)


def wrong(runs: int) -> None:
    table = Table(
        f"Every task truly drops by the margin: percent of {runs:,} runs",
        "tasks", "margin, points", "stopped with SHIP (at most 2.5)", "stopped with DON'T SHIP (at most 5)",
        "SHIP in the end (at most 5)", "DON'T SHIP in the end", "SHIP of whole runs", "DON'T SHIP of whole runs",
        "the drop on these docs is under the margin",
    )  # fmt: skip
    for name, tasks, margin in AT_MARGIN:
        order = planned(tasks)

        def work(
            rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order, margin: float = margin
        ) -> Counter[str]:
            stopped = follow(tasks, order, [margin] * len(tasks), margin, rng, watch=False)
            return Counter(
                [f"stopped {stopped.stopped}", f"end {stopped.end}", f"whole {stopped.whole}", f"under {stopped.under}"]
            )

        counts = simulate(work, f"wrong {name} {margin}", runs)
        table.row(
            name, f"{100 * margin:.3g}", rate(counts["stopped SHIP"], runs, most=0.025),
            rate(counts["stopped DON'T SHIP"], runs, most=0.05), rate(counts["end SHIP"], runs, most=0.05),
            rate(counts["end DON'T SHIP"], runs), rate(counts["whole SHIP"], runs),
            rate(counts["whole DON'T SHIP"], runs), rate(counts["under True"], runs),
        )  # fmt: skip


def lost(runs: int) -> None:
    table = Table(
        f"No task truly drops, margin 1 point: percent of {runs:,} runs",
        "tasks", "any task worse at any look (at most 5)", "stopped with DON'T SHIP (at most 2.5)",
        "stopped with SHIP", "SHIP in the end", "SHIP of whole runs",
    )  # fmt: skip
    for name, tasks in SHAPES:
        order = planned(tasks)

        def work(rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order) -> Counter[str]:
            stopped = follow(tasks, order, [0.0] * len(tasks), 0.01, rng)
            return Counter(
                [
                    f"stopped {stopped.stopped}",
                    f"end {stopped.end}",
                    f"whole {stopped.whole}",
                    f"below {stopped.below > 0}",
                ]
            )

        counts = simulate(work, f"lost {name}", runs)
        table.row(
            name, rate(counts["below True"], runs, most=0.05), rate(counts["stopped DON'T SHIP"], runs, most=0.025),
            rate(counts["stopped SHIP"], runs), rate(counts["end SHIP"], runs), rate(counts["whole SHIP"], runs),
        )  # fmt: skip


def spread(result: Counter[str], name: str) -> np.ndarray:
    """The docs that ``name`` was counted with, in order."""
    return np.sort(
        [int(key.split()[1]) for key, count in result.items() if key.split()[0] == name for _ in range(count)]
    )


def docs(counts: np.ndarray, share: float, most: float = np.inf) -> str:
    """A quantile, at most ``most``, with the 95 % interval that the order of the runs gives it (binomial)."""
    n = len(counts)
    reach = 1.96 * (n * share * (1 - share)) ** 0.5
    low, at, high = (counts[min(n - 1, max(0, round(n * share + by)))] for by in (-reach, 0, reach))
    return flag(f"{at:,} ({low:,} to {high:,})", is_possible(int(np.sum(counts > most)), n, 0.0, 1 - share))


def found(runs: int) -> None:
    table = Table(
        f"Every task truly drops by ten points, margin 1: docs asked, of {runs:,} runs",
        "tasks", "docs that flip besides", "any task worse: median (at most 300)", "95th percentile (at most 700)",
        "within 300 docs, percent (at least 70)", "stopped with DON'T SHIP: median (at most 400)",
        "95th percentile (at most 1,000)", "stopped with SHIP (none)",
    )  # fmt: skip
    for name, make in (("MMLU-Pro", mmlu_pro), ("meta_instruct", instruct)):
        for flips in (0.02, 0.04, 0.06, 0.1):
            tasks = make(flips)
            order = planned(tasks)

            def work(rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order) -> Counter[str]:
                stopped = follow(tasks, order, [0.1] * len(tasks), 0.01, rng, whole=False)
                return Counter([f"below {stopped.below or 10**6}", f"asked {stopped.asked}", stopped.stopped or "not"])

            seen = simulate(work, f"found {name} {flips}", runs)
            below, asked = spread(seen, "below"), spread(seen, "asked")
            table.row(
                name, f"{100 * flips:g} %",
                # Of several tasks the mean stops the run before any task by itself is worse.
                *((docs(below, 0.5, 300), docs(below, 0.95, 700), rate(sum(below <= 300), runs, 0.7))
                  if len(tasks) == 1 else "---"),
                docs(asked, 0.5, 400), docs(asked, 0.95, 1000), rate(seen["SHIP"], runs, most=0.0),
            )  # fmt: skip


def saved(runs: int) -> None:
    table = Table(
        f"A copy that holds: docs asked, of {runs:,} runs",
        "tasks", "true drop", "margin, points", "docs that flip", "docs asked: median", "95th percentile",
        "docs saved on average, percent (least)", "stopped with SHIP", "SHIP in the end (no drop: at least 90)",
        "SHIP of whole runs",
    )  # fmt: skip
    for name, make in (("MMLU-Pro", mmlu_pro), ("meta_instruct", instruct)):
        for half in (False, True) if make is mmlu_pro else (False,):
            for margin in (0.01, 0.02, 0.03):
                for flips in (0.02, 0.04, 0.06):
                    tasks = make(flips)
                    order = planned(tasks)
                    drop = margin / 2 if half else 0.0

                    def work(
                        rng: np.random.Generator,
                        tasks: Sequence[Task] = tasks,
                        order: Plan = order,
                        margin: float = margin,
                        drop: float = drop,
                    ) -> Counter[str]:
                        stopped = follow(tasks, order, [drop] * len(tasks), margin, rng)
                        return Counter([f"asked {stopped.asked}", f"stopped {stopped.stopped}", f"end {stopped.end}",
                                        f"whole {stopped.whole}"])  # fmt: skip

                    seen = simulate(work, f"saved {name} {margin} {flips} {half}", runs)
                    asked = spread(seen, "asked")
                    shares = 100 * (1 - asked / order.ends[-1])
                    least, error = LEAST_SAVED[margin][half], shares.std() / runs**0.5
                    saved_text = f"{shares.mean():.1f} ± {error:.1f} ({least})"
                    table.row(
                        name, "half the margin" if half else "none", f"{100 * margin:g}", f"{100 * flips:g} %",
                        docs(asked, 0.5), docs(asked, 0.95),
                        flag(saved_text, shares.mean() + 4 * error >= least), rate(seen["stopped SHIP"], runs),
                        rate(seen["end SHIP"], runs, 0.0 if half else 0.9), rate(seen["whole SHIP"], runs),
                    )  # fmt: skip


def curve(runs: int) -> None:
    """Median docs by true drop, for three margins; the picture if there are enough runs."""
    runs = max(SMALL, runs // 5)
    drops = (-0.01, 0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
    table = Table(
        f"Docs asked of MMLU-Pro by true drop, 4 % of docs flip besides: median of {runs:,} runs",
        "margin, points", *(f"{100 * drop:g}" for drop in drops),
    )  # fmt: skip
    tasks = mmlu_pro(0.04)
    order = planned(tasks)
    lines = []
    for margin in (0.01, 0.02, 0.03):
        line: list[tuple[float, int]] = []
        cells = []
        for drop in drops:

            def work(rng: np.random.Generator, margin: float = margin, drop: float = drop) -> Counter[str]:
                # A gain is a drop from the other side.
                sides = tasks if drop >= 0 else [Gained(tasks[0].name, MMLU_PRO, 0.48, 0.04)]
                return Counter([f"asked {follow(sides, order, [abs(drop)], margin, rng, whole=False).asked}"])

            asked = spread(simulate(work, f"curve {margin} {drop}", runs), "asked")
            above = int(np.sum(asked > MOST_ASKED.get((margin, drop), np.inf)))
            line.append((100 * drop, int(asked[len(asked) // 2])))
            cells.append(flag(f"{line[-1][1]:,}", is_possible(above, runs, 0.0, 0.5)))
        table.row(f"{100 * margin:g}", *cells)
        lines.append(line)
    if runs > SMALL:
        Path(__file__).with_name("stopping.svg").write_text(plot(lines, order.ends[-1]), encoding="utf-8")


def plot(lines: Sequence[Sequence[tuple[float, int]]], total: int) -> str:
    low, high, top = lines[0][0][0], lines[0][-1][0], 1.05 * total

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - low) / (high - low) * (WIDTH - LEFT - 20)
        return across, HEIGHT - BOTTOM - y / top * (HEIGHT - BOTTOM - 30)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 24}" font-family="sans-serif" '
        'font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT + 24}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">Docs asked of {total:,}, median</text>',
        f'<text x="{(LEFT + WIDTH) // 2}" y="{HEIGHT - 8}" text-anchor="middle">true drop, points</text>',
    ]
    for x in range(round(low), round(high) + 1):
        across, down = place(x, 0)
        out.append(f'<path d="M{across:.0f} 30V{down:.0f}" stroke="#eee"/>')
        out.append(f'<text x="{across:.0f}" y="{down + 18:.0f}" text-anchor="middle">{x}</text>')
    for y in range(0, total + 1, 2000):
        across, down = place(low, y)
        out.append(f'<path d="M{across:.0f} {down:.0f}H{WIDTH - 20}" stroke="#eee"/>')
        out.append(f'<text x="{across - 6:.0f}" y="{down + 4:.0f}" text-anchor="end">{y:,}</text>')
    for number, (line, colour) in enumerate(zip(lines, COLOURS, strict=True)):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in line))
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        across = LEFT + 150 * number
        out.append(f'<circle cx="{across}" cy="{HEIGHT + 10}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{across + 9}" y="{HEIGHT + 14}">margin {number + 1} point{"s" * (number > 0)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


EXPERIMENTS = {"wrong": wrong, "lost": lost, "found": found, "saved": saved, "curve": curve}


if __name__ == "__main__":
    sys.exit(main(__doc__, EXPERIMENTS, SMALL))
