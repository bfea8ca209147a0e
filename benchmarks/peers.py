"""The same pairs of runs through every rule that decides: pass, fail and undecided in percent.

    python benchmarks/peers.py                     500 pairs a cell, on two processes; about an hour
    python benchmarks/peers.py four best           some: four, many, other, best, files, seconds,
                                                   endpoints, copies
    python benchmarks/peers.py --runs 2000
    python benchmarks/peers.py --nel NEL/bin/python     with nemo-evaluator's columns, see `peers_nel.py`
    python benchmarks/peers.py --small             a few pairs of each: CI

Verdicts are drawn as for `verdicts.py`. Every rule sees the same docs of the same pair. The margin is 1 point.

| column | its rule | source |
|---|---|---|
| meta-eval | SHIP, DON'T SHIP, UNDECIDED | `meta_eval.judge.decide`; `files` compares it with ``meta-eval compare`` |
| nel gate | GO, NO-GO, INCONCLUSIVE at ``max_drop: 0.01`` | nemo-evaluator 0.3.0, its own code |
| nel compare | PASS, BLOCK, else, at ``--max-drop 0.01``; the worst task | nemo-evaluator 0.3.0, its own code |
| McNemar, pooled | fails if all docs together lose more than they win, exact one-sided p < 5 % | Kübler et al. 2026 |
| McNemar, combined | the same test of each task, p values combined by Fisher's method | the same |
| unpaired z | fails if two scores of a task differ, two-sided p < 5 % | lm-eval's ``scripts/model_comparator.py`` |
| any task > 1 | fails if any score fell by more than 1 point | - |
| vLLM's CI | fails if any score is below 92 % of the baseline's | ``test_lm_eval_correctness.py``, rtol 0.08 |
| SGLang's CI | fails if any score is more than 2 points below | ``test_nightly_math_eval.py`` |

Rules that are not Python packages are written anew from what their authors publish. Scores that are not 0 or 1 go
through McNemar's generalisation, signs that change places, by its normal limit.

What meta-eval's rates should be stands in the program; the exit code is 1 where one is not, by more than chance would
bring in one of a thousand.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import end_to_end
import numpy as np
from counting import OPTIONS, Table, flag, is_possible, main, simulate
from drawn_verdicts import MARGIN, Task, draw, instruct, task_drop
from measuring import measured, meta_eval
from peers_same import copies, endpoints
from scipy import stats
from verdicts import beside, uneven

from meta_eval.base.thresholds import ALPHA
from meta_eval.judge.decide import decide_outcome

OURS, GATE, COMPARE = "meta-eval", "nel gate", "nel compare"
PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"
WORDS = {
    "SHIP": PASS, "DON'T SHIP": FAIL, "UNDECIDED": UNDECIDED,
    "GO": PASS, "NO-GO": FAIL, "INCONCLUSIVE": UNDECIDED,
    "PASS": PASS, "BLOCK": FAIL, "WARN": UNDECIDED,
}  # fmt: skip
COSTED = 25
"""Pairs from which an experiment is more than a check of itself."""
RTOL, POINTS = 0.08, 0.02
"""What vLLM's and SGLang's CI tolerate: a share of the baseline's score, and points."""


@dataclass(frozen=True)
class Pair:
    """A task's docs in both runs."""

    task: Task
    before: np.ndarray
    after: np.ndarray
    labels: list[int] | None = None
    clusters: list[int] | None = None

    @property
    def losses(self) -> np.ndarray:
        return self.before - self.after

    @property
    def drop(self) -> float:
        return float(self.losses.mean())


Drawing = Callable[[np.random.Generator], list[Pair]]

# The rules


def mcnemar_p(losses: np.ndarray) -> float:
    """One-sided p of a loss: exact where docs are lost or won whole, by the normal limit where they change in part."""
    changed = losses[losses != 0]
    if not len(changed):
        return 1.0
    if (np.abs(changed) == 1).all():
        return float(stats.binom.sf((changed > 0).sum() - 1, len(changed), 0.5))
    return float(stats.norm.sf(changed.sum() / math.sqrt((changed**2).sum())))


def pooled(pairs: Sequence[Pair]) -> bool:
    return mcnemar_p(np.concatenate([pair.losses for pair in pairs])) >= ALPHA


def combined(pairs: Sequence[Pair]) -> bool:
    return float(stats.combine_pvalues([mcnemar_p(pair.losses) for pair in pairs]).pvalue) >= ALPHA


def unpaired(pairs: Sequence[Pair]) -> bool:
    errors = [math.hypot(*(stats.sem(run) for run in (pair.before, pair.after))) for pair in pairs]
    return all(2 * stats.norm.sf(abs(pair.drop) / error) > ALPHA for pair, error in zip(pairs, errors, strict=True))


def any_task(pairs: Sequence[Pair]) -> bool:
    return all(pair.drop <= MARGIN for pair in pairs)


def vllm(pairs: Sequence[Pair]) -> bool:
    return all(pair.after.mean() >= (1 - RTOL) * pair.before.mean() for pair in pairs)


def sglang(pairs: Sequence[Pair]) -> bool:
    return all(pair.drop <= POINTS for pair in pairs)


RULES: dict[str, Callable[[Sequence[Pair]], bool]] = {
    "McNemar, pooled": pooled, "McNemar, combined": combined, "unpaired z": unpaired, "any task > 1": any_task,
    "vLLM's CI": vllm, "SGLang's CI": sglang,
}  # fmt: skip


def ours(pairs: Sequence[Pair]) -> str:
    drops = [task_drop(pair.task, pair.before, pair.after, pair.labels, pair.clusters) for pair in pairs]
    return decide_outcome(drops, MARGIN).outcome


def nel(pairs: Sequence[Pair]) -> dict[str, str]:
    """nemo-evaluator's verdicts; none where its Python is not named."""
    if not OPTIONS["nel"]:
        return {}
    tasks = [
        [pair.task.name, pair.before.tolist(), pair.after.tolist(), pair.clusters and [f"c{c}" for c in pair.clusters]]
        for pair in pairs
    ]
    child = _nel()
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps({"tasks": tasks, "allowed": MARGIN}) + "\n")
    child.stdin.flush()
    verdicts: dict[str, str] = json.loads(child.stdout.readline())
    return verdicts


@cache
def _nel() -> subprocess.Popen[str]:
    """One of each process that draws; it ends with its stdin."""
    program = Path(__file__).with_name("peers_nel.py")
    return subprocess.Popen([OPTIONS["nel"], program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def decide(pairs: Sequence[Pair]) -> Counter[str]:
    """What each rule says of one pair of runs."""
    said = {OURS: WORDS[ours(pairs)]} | {name: WORDS[verdict] for name, verdict in nel(pairs).items()}
    said |= {name: PASS if rule(pairs) else FAIL for name, rule in RULES.items()}
    return Counter(f"{name}: {word}" for name, word in said.items())


# What is drawn


def plain(tasks: Sequence[Task]) -> list[Task]:
    """IFEval as 541 verdicts: not every rule can read its mean of four shares."""
    return [replace(task, ifeval=False) for task in tasks]


def four_tasks(flips: float) -> list[Task]:
    return plain(instruct(flips))


def many_tasks(flips: float) -> list[Task]:
    """meta_instruct and 18 tasks of 300 to 2,000 docs."""
    return [*four_tasks(flips), *(Task(f"t{index}", (300 + 100 * index,), 0.6, flips) for index in range(18))]


def drawing(tasks: Sequence[Task], drops: float | Sequence[float]) -> Drawing:
    """Pairs whose tasks lose so much, or win it where that is negative."""
    each = [drops] * len(tasks) if isinstance(drops, float) else drops

    def draw_pairs(rng: np.random.Generator) -> list[Pair]:
        result = []
        for task, drop in zip(tasks, each, strict=True):
            before, after, labels, clusters = draw(task, abs(drop), rng)
            result.append(Pair(task, *((before, after) if drop >= 0 else (after, before)), labels, clusters))
        return result

    return draw_pairs


SCORED = tuple(Task(f"scored_{docs}", (docs,), 0.5, 0.15) for docs in (300, 500, 800, 1200))
"""Tasks whose metric is a share, such as F1 or ROUGE. ``flips`` are the docs that get another answer."""


def scored(drop: float) -> Drawing:
    """Scores from 0 to 1, some of them 0 or 1; a loss halves the scores of some docs."""

    def draw_task(task: Task, rng: np.random.Generator) -> Pair:
        level = rng.normal(task.accuracy, 0.35, task.docs)
        anew = rng.random(task.docs) < task.flips
        before, after = (np.clip(level + anew * rng.normal(0, 0.25, task.docs), 0, 1) for _ in range(2))
        return Pair(task, before, np.where(rng.random(task.docs) < 4 * drop, after / 2, after))

    return lambda rng: [draw_task(task, rng) for task in SCORED]


def clustered_tasks(flips: float) -> list[Task]:
    """Tasks whose docs share questions, passages or problems."""
    return [
        Task("mgsm", (250,) * 11, 0.69, flips, "across", 0.6),
        Task("passages", (2000,), 0.7, flips, uneven(2000, 400), 0.6),
        Task("books", (1000,), 0.5, flips, uneven(1000, 200), 0.6),
        Task("gsm8k", (1319,), 0.84, flips),
    ]


@dataclass(frozen=True)
class Cell:
    """A truth, its draws, and what meta-eval's rates should be."""

    truth: str
    drawing: Drawing
    passes: tuple[float, float] = (0.0, 1.0)
    fails: tuple[float, float] = (0.0, 1.0)
    others: Mapping[str, tuple[str, float, float]] = field(default_factory=dict)
    """What the page says of other columns: pass or fail, and the least and the most of its share."""


SAME = {
    GATE: (PASS, 0.0, 0.2), COMPARE: (PASS, 0.0, 0.02), "McNemar, pooled": (FAIL, 0.01, 0.08),
    "any task > 1": (FAIL, 0.05, 1.0), "unpaired z": (PASS, 0.97, 1.0), "vLLM's CI": (PASS, 0.95, 1.0),
}  # fmt: skip
WORSE = {GATE: (FAIL, 0.9, 1.0), COMPARE: (FAIL, 0.97, 1.0), "McNemar, pooled": (FAIL, 0.97, 1.0),
         "any task > 1": (FAIL, 0.97, 1.0), "vLLM's CI": (PASS, 0.1, 1.0)}  # fmt: skip
HALF = {"McNemar, pooled": (FAIL, 0.7, 1.0), "any task > 1": (FAIL, 0.4, 1.0), "unpaired z": (PASS, 0.97, 1.0)}
MOST = {GATE: (PASS, 0.0, 0.05), "McNemar, pooled": (FAIL, 0.97, 1.0), "unpaired z": (PASS, 0.8, 1.0),
        "vLLM's CI": (PASS, 0.8, 1.0)}  # fmt: skip
HIDDEN = {GATE: (FAIL, 0.6, 1.0), COMPARE: (FAIL, 0.9, 1.0), "McNemar, pooled": (PASS, 0.5, 1.0),
          "any task > 1": (FAIL, 0.95, 1.0), "unpaired z": (PASS, 0.6, 1.0)}  # fmt: skip


def cells(tasks: Callable[[float], list[Task]], failed: float) -> list[Cell]:
    """``failed``: how often GPQA's loss of 5 points should be failed at least."""
    named = tasks(0.04)

    def lost(drop: float) -> Drawing:
        return drawing(named, [drop if task.name == "meta_gpqa_cot" else 0.0 for task in named])

    return [
        *(
            Cell(f"identical, {100 * flips:g} % flips", drawing(tasks(flips), 0.0), (least, 1.0), (0.0, 0.025), SAME)
            for flips, least in ((0.02, 0.95), (0.04, 0.95), (0.06, 0.92))
        ),
        Cell("all lose 0.5, half the margin", drawing(named, MARGIN / 2), (0.6, 1.0), (0.0, 0.05), HALF),
        Cell("all lose 1, the margin", drawing(named, MARGIN), (0.0, 0.05), (0.0, 0.05), MOST),
        Cell("all lose 2", drawing(named, 2 * MARGIN), (0.0, 0.025), (0.9, 1.0), WORSE),
        Cell("GPQA loses 3", lost(0.03)),
        Cell("GPQA loses 5", lost(0.05), (0.0, 0.035), (failed, 1.0), HIDDEN),
        Cell("all gain 1", drawing(named, -MARGIN), (0.95, 1.0), (0.0, 0.025)),
    ]


def columns() -> list[str]:
    return [OURS, *([GATE, COMPARE] if OPTIONS["nel"] else []), *RULES]


def show(what: str, rows: Sequence[Cell], runs: int) -> None:
    table = Table(f"{what}: pass / fail / undecided in percent of {runs:,} pairs", "truth", *columns())
    for cell in rows:
        counts = simulate(lambda rng, cell=cell: decide(cell.drawing(rng)), f"{what} {cell.truth}", runs)
        shares = {
            name: " / ".join(f"{100 * counts[f'{name}: {word}'] / runs:.0f}" for word in (PASS, FAIL, UNDECIDED))
            for name in columns()
        }
        right = is_possible(counts[f"{OURS}: {PASS}"], runs, *cell.passes)
        shares[OURS] = flag(shares[OURS], right and is_possible(counts[f"{OURS}: {FAIL}"], runs, *cell.fails))
        for name, (word, least, most) in cell.others.items():
            if name in shares:
                shares[name] = flag(shares[name], is_possible(counts[f"{name}: {word}"], runs, least, most))
        table.row(cell.truth, *shares.values())


def four(runs: int) -> None:
    show("4 tasks, 4 % flips", cells(four_tasks, 0.7), runs)


def many(runs: int) -> None:
    show("22 tasks, 4 % flips", cells(many_tasks, 0.45), runs)


def other(runs: int) -> None:
    rows = [
        Cell("identical", scored(0.0), (0.3, 1.0), (0.0, 0.025)),
        Cell("all lose 1, the margin", scored(MARGIN), (0.0, 0.05), (0.0, 0.05)),
        Cell("all lose 2", scored(2 * MARGIN), (0.0, 0.025), others={"unpaired z": (PASS, 0.7, 1.0)}),
    ]
    show("4 tasks with a metric between 0 and 1", rows, runs)
    tasks = clustered_tasks(0.06)
    rows = [
        Cell("identical", drawing(tasks, 0.0), (0.1, 1.0), (0.0, 0.025), {"McNemar, pooled": (FAIL, 0.1, 1.0)}),
        Cell("all lose 1, the margin", drawing(tasks, MARGIN), (0.0, 0.05), (0.0, 0.05)),
        Cell("all lose 2", drawing(tasks, 2 * MARGIN), (0.0, 0.025)),
    ]
    show("4 tasks whose docs come in clusters, 6 % flips", rows, runs)


# What the best test of a task can do


@dataclass(frozen=True)
class Counts:
    """Every number of docs lost, and of flips that show how noisy the task is, with its probability.

    The flips are the docs won; with ``pair`` also those between two runs of the baseline over the same docs.
    """

    docs: int
    lost: np.ndarray
    flips: np.ndarray
    pair: bool

    @classmethod
    def up_to(cls, docs: int, share: float, pair: bool) -> Counts:
        """All that is likely where at most this share is lost, and flips one way."""
        most, flips = (
            int(mean + 7 * math.sqrt(mean) + 7) for mean in (docs * share, docs * share * (3 if pair else 1))
        )
        return cls(docs, np.arange(most + 1)[:, None], np.arange(flips + 1)[None, :], pair)

    def chances(self, flips: float, loss: float) -> np.ndarray:
        """If half the flips are wins, and a share ``loss`` of the docs is lost beside the other half."""
        won = np.arange(self.lost.size)
        wins = stats.binom.pmf(won, self.docs, flips / 2)
        lost = stats.binom.pmf(self.lost, self.docs - won, (flips / 2 + loss) / (1 - flips / 2)) * wins
        if not self.pair:
            return np.asarray(lost)
        again = np.append(stats.binom.pmf(np.arange(self.flips.size), self.docs, flips), 0.0)
        return np.asarray(lost @ again[np.where(self.flips >= won[:, None], self.flips - won[:, None], -1)])

    def scores(self, margin: float) -> np.ndarray:
        """The score statistic of a drop of the margin: without a pair Tango's (Statistics in Medicine 17, 1998, 891).

        With one the same idea: flips are estimated where the drop is the margin, by maximum likelihood.
        """
        n, lost, flips = self.docs, self.lost, self.flips
        if not self.pair:
            b = margin * (2 * n + flips - lost) - lost - flips
            wins = (np.sqrt(b * b + 8 * n * flips * margin * (1 - margin)) - b) / (4 * n)
            return np.asarray((lost - flips - n * margin) / np.sqrt(n * (2 * wins + margin * (1 - margin))))
        b = 2 * n * margin - (lost + flips) / 2
        rate = (np.sqrt(b * b + 4 * n * flips * margin) - b) / (2 * n)
        return np.asarray((lost - flips / 3 - n * margin) / np.sqrt(n * (rate * 2 / 3 + margin)))


MOST_FLIPS = 0.12
"""An exact test of unknown flips keeps its level at each share up to this."""


@cache
def _critical(docs: int, level: float, pair: bool) -> tuple[Counts, np.ndarray]:
    """The numbers of docs at which the exact score test fails a task."""
    counts = Counts.up_to(docs, MOST_FLIPS / 2 + MARGIN, pair)
    order = np.argsort(-counts.scores(MARGIN), axis=None, kind="stable")
    shares = np.linspace(0.0, MOST_FLIPS, 25)
    sizes = np.max([np.cumsum(counts.chances(share, MARGIN).ravel()[order]) for share in shares], axis=0)
    return counts, order[: int((sizes <= level).sum())]


def score_test(docs: int, flips: float, loss: float, level: float, pair: bool = False) -> float:
    """How often the exact score test of a drop over the margin fails a task of unknown flips."""
    counts, critical = _critical(docs, level, pair)
    return float(counts.chances(flips, loss).ravel()[critical].sum())


def known_test(docs: int, flips: float, loss: float, level: float) -> float:
    """How often the best of all tests does, to which flips and loss are known (Neyman and Pearson's lemma)."""
    counts = Counts.up_to(docs, flips / 2 + loss, pair=False)
    null, truth = (counts.chances(flips, drop).ravel() for drop in (MARGIN, loss))
    order = np.argsort(-truth / np.maximum(null, 1e-300), kind="stable")
    return float(truth[order][np.cumsum(null[order]) <= level].sum())


def intervals(pairs: Sequence[Pair]) -> bool:
    """Whether some task's own interval of 95 % is over the margin, as in ``nel gate``; nothing is corrected."""
    z = stats.norm.isf(ALPHA / 2)
    return any(pair.drop - z * stats.sem(pair.losses) > MARGIN for pair in pairs)


# Docs of a task, what it loses, and among how many tasks.
LOST = ((448, 0.05, 4), (448, 0.05, 22), (3000, 0.02, 22), (448, 0.03, 4), (448, 0.03, 22))


def best(runs: int) -> None:
    table = Table(
        f"One task beyond the margin, 4 % flips: failed in percent of {runs:,} pairs", "docs", "loses", "tasks",
        OURS, "interval of each task, uncorrected", "exact test, flips unknown", "exact test, with an A/A pair",
        "best test, flips known",
    )  # fmt: skip
    for docs, loss, count in LOST:
        tasks = beside("it", docs, count)
        counts = _both(drawing(tasks, [loss, *(0.0 for _ in tasks[1:])]), f"best {docs} {loss} {count}", runs)
        truth = (docs, 0.04, loss, ALPHA / count)
        exact = score_test(*truth), score_test(*truth, pair=True), known_test(*truth)
        share = flag(f"{100 * counts['ours'] / runs:.0f}", is_possible(counts["ours"], runs, exact[0] - 0.06, 1))
        table.row(
            f"{docs:,}", f"{100 * loss:g}", str(count), share, f"{100 * counts['intervals'] / runs:.0f}",
            *(f"{100 * chance:.0f}" for chance in exact),
        )  # fmt: skip
    table = Table(
        f"What it costs: failed in percent of {runs:,} pairs", "truth", "tasks", OURS,
        "interval of each task, uncorrected",
    )  # fmt: skip
    for truth, drop, most in (("every task at the margin", MARGIN, 0.05), ("identical", 0.0, 0.025)):
        for count in (4, 22):
            counts = _both(drawing(beside("it", 448, count), drop), f"cost {truth} {count}", runs)
            share = flag(f"{100 * counts['ours'] / runs:.1f}", is_possible(counts["ours"], runs, 0, most))
            table.row(truth, str(count), share, f"{100 * counts['intervals'] / runs:.1f}")


def _both(drawing: Drawing, name: str, runs: int) -> Counter[str]:
    def work(rng: np.random.Generator) -> Counter[str]:
        pairs = drawing(rng)
        return Counter({"ours": ours(pairs) == "DON'T SHIP", "intervals": intervals(pairs)})

    return simulate(work, name, runs)


# Through the commands


def files(runs: int) -> None:
    """The decisions above beside those of the commands, which read files; MMLU-Pro has a tenth of its docs here."""
    runs = max(1, min(20, runs // 25))
    table = Table(f"The same decision from files, of {runs} pairs", "command", "the same")
    *some, mmlu_pro = four_tasks(0.04)
    tasks = [*some, replace(mmlu_pro, subtasks=tuple(docs // 10 for docs in mmlu_pro.subtasks))]
    counts: Counter[str] = Counter()
    for number in range(runs):
        drops = [0.0, 0.05 * (number % 2), 0.0, 0.0] if number % 3 else [0.005 * (number % 5)] * 4
        pairs = drawing(tasks, drops)(np.random.default_rng(number))
        from_files = end_to_end.compare([(pair.task, pair.before, pair.after, pair.labels) for pair in pairs])
        counts["meta-eval compare"] += from_files[ours(pairs)]
        if drawn := nel(pairs):
            for name, verdict in _nel_of_files(pairs).items():
                counts[name] += WORDS[drawn[name]] == verdict
    names = ["meta-eval compare", *([GATE, COMPARE] if OPTIONS["nel"] else [])]
    for name in names:
        table.row(name, flag(f"{counts[name]} of {runs}", counts[name] == runs))


def seconds(runs: int) -> None:
    """What a decision costs once the answers are there: files of 4 tasks and 14,345 docs a side."""
    if runs < COSTED:
        return
    table = Table("A decision from files, 14,345 docs a side", "command", "seconds", "CPU seconds")
    pairs = drawing(four_tasks(0.04), 0.0)(np.random.default_rng(1))
    with tempfile.TemporaryDirectory() as here:
        before = end_to_end.write_run(Path(here, "a"), [(pair.task, pair.before, pair.labels) for pair in pairs])
        after = end_to_end.write_run(Path(here, "b"), [(pair.task, pair.after, pair.labels) for pair in pairs])
        costs = {"meta-eval compare": meta_eval("compare", str(before), str(after), codes=(0, 1, 3))}
        if OPTIONS["nel"]:
            for name, command in _write_for_nel(pairs, Path(here, "nel")).items():
                costs[name] = measured(*command, codes=(0, 1, 2))
    for name, cost in costs.items():
        table.row(name, f"{cost.seconds:.1f}", f"{cost.cpu:.1f}")


def write_bundle(folder: Path, name: str, rewards: Sequence[float]) -> None:
    """Results of a task, as ``nel eval`` writes them: a bundle, and a line per doc."""
    folder.mkdir(parents=True)
    score = {"mean_reward": {"value": float(np.mean(rewards))}}
    bundle = {"run_id": folder.parent.name, "config": {}, "benchmark": {"name": name, "scores": score}}
    (folder / f"eval-{name}.json").write_text(json.dumps(bundle), encoding="utf-8")
    lines = [json.dumps({"problem_idx": doc, "repeat": 0, "reward": reward}) for doc, reward in enumerate(rewards)]
    (folder / "results.jsonl").write_text("\n".join(lines), encoding="utf-8")


def _write_for_nel(pairs: Sequence[Pair], folder: Path) -> dict[str, list[str]]:
    """Both runs as files of nemo-evaluator, and the commands that read them."""
    sides = [folder / "before", folder / "after"]
    for pair in pairs:
        for side, values in zip(sides, (pair.before, pair.after), strict=True):
            write_bundle(side / pair.task.name, pair.task.name, values.tolist())
    policy = folder / "policy.yaml"
    policy.write_text(f"version: 1\ndefaults: {{max_drop: {MARGIN}, metric: mean_reward}}\n", encoding="utf-8")
    program, (before, after) = str(Path(OPTIONS["nel"]).with_name("nel")), map(str, sides)
    return {
        GATE: [program, "gate", before, after, "--policy", str(policy), "--no-report"],
        COMPARE: [program, "compare", before, after, "--max-drop", str(MARGIN), "--no-report", "--compact"],
    }


def _nel_of_files(pairs: Sequence[Pair]) -> dict[str, str]:
    """What the commands of nemo-evaluator say of its own files, by exit code."""
    codes = {0: PASS, 1: FAIL, 2: UNDECIDED}
    with tempfile.TemporaryDirectory() as here:
        return {
            name: codes[subprocess.run(command, capture_output=True, check=False).returncode]
            for name, command in _write_for_nel(pairs, Path(here)).items()
        }


EXPERIMENTS = {
    "four": four, "many": many, "other": other, "best": best, "files": files,
    "seconds": seconds, "endpoints": endpoints, "copies": copies,
}  # fmt: skip


if __name__ == "__main__":
    help_text = "the Python of an environment with nemo-evaluator; without it, its columns are left out"
    sys.exit(main(__doc__, EXPERIMENTS, options={"nel": help_text}, runs=500))
