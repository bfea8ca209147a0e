"""How few tokens tell a copy from its original, and how often a mistake of a set-up is named.

    python benchmarks/fidelity_power.py TABLES [HELD_OUT…]    # writes fidelity_power.svg, prints the tables

Each is a folder of tools/forced_tokens.py, of models that tools/taught_llama.py taught with other seeds: what the
thresholds of the diagnosis were chosen on comes first. Docs are drawn with replacement; for verdicts and diagnosis from
those that were probed, as many short and long ones as there are.

**Power**: the distance of the copy over the docs drawn, beside the 99.5th percentile of the original's from itself
(other attention kernels) over as many docs: half of 1 % false alarms, so that the drawing of the limit leaves no size
above 1 %. What is printed is the fewest docs, with their tokens, of which four draws in five tell.
**Accuracy**, of the same docs: the copy's greedy answer begins with the recorded answer's few
first tokens or does not; the docs of which a two-sided test at 1 % sees the drop four times out of five,
(z + z')^2 (f - d^2) / d^2 for a drop d and a share f of docs that flip (Miettinen 1968, Biometrics 24:339).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np

from meta_eval.judge.token_table import Forced, read_tokens
from meta_eval.plugins.tokens.causes import FAULTS, GROUPS
from meta_eval.plugins.tokens.comparison import compare_tables
from meta_eval.plugins.tokens.diagnosis import diagnose
from meta_eval.plugins.tokens.diagnosis_case import ProbePair
from meta_eval.plugins.tokens.perturbations import NO_BOS
from meta_eval.plugins.tokens.probe_table import Probed, Probes, read_probes
from meta_eval.plugins.tokens.table_pairing import Pair, PairingError, pair_tables
from meta_eval.plugins.tokens.token_columns import Columns, make_columns

Key = tuple[str, int]
Said = tuple[str, tuple[str, ...]]

DRAWS = 2000
LIMIT_DRAWS = 20_000  # of the original beside itself
ALARM_DRAWS, FEW_DRAWS = 1000, 100
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
ALARMS, POWER = 0.01, 0.8
BEGINNING = 4  # tokens of an answer that name its topic
MARGIN = 0.02  # nats per token
# Copies whose power is printed, and the faults that no signature was written for.
NAMES = {"float32": "float32"} | {fault.table: fault.label for fault in FAULTS if fault.groups}
UNNAMED = {fault.table: fault.label for fault in FAULTS if not fault.groups}
TRUTH = {fault.table: fault.cause for fault in FAULTS}
LABELS = {group.name: group.label for group in GROUPS}
WIDTH, LEFT, ROW, TOP = 720, 190, 20, 46


@dataclass(frozen=True)
class Copy:
    """By doc: the sum of absolute differences, tokens, and whether the answer begins as recorded, before and after."""

    name: str
    sums: np.ndarray
    tokens: np.ndarray
    before: np.ndarray
    after: np.ndarray


def begins(table: Columns) -> np.ndarray:
    """By doc, whether its first tokens are the likeliest ones."""
    misses, _ = table.sums(~table.first & (table.at < BEGINNING))
    return misses == 0


def read(folder: Path) -> dict[str, Copy]:
    reference = read_tokens(folder / "reference.parquet")
    result = {}
    for name in ("again", *(name for name in NAMES if (folder / f"{name}.parquet").exists())):
        both = pair_tables(reference, read_tokens(folder / f"{name}.parquet"))
        sums, tokens = both.baseline.sums(np.abs(both.difference))
        result[name] = Copy(name, sums, tokens, begins(both.baseline), begins(both.candidate))
    return result


def distances(copy: Copy, docs: int, rng: np.random.Generator, draws: int = DRAWS) -> np.ndarray:
    """The distance over each of many draws of so many docs."""
    drawn = rng.choice(len(copy.sums), (draws, docs))
    return copy.sums[drawn].sum(1) / copy.tokens[drawn].sum(1)


def limit_of(copy: Copy, docs: int) -> float:
    """What the original beside itself exceeds in half of the false alarms that are allowed."""
    return float(np.quantile(distances(copy, docs, np.random.default_rng(docs), LIMIT_DRAWS), 1 - ALARMS / 2))


def needed(copy: Copy, same: Copy) -> int | None:
    """The fewest docs of which four draws in five tell; None where the most do not."""
    for docs in SIZES:
        limit = limit_of(same, docs)
        if (distances(copy, docs, np.random.default_rng(10_000 + docs)) > limit).mean() >= POWER:
            return docs
    return None


def by_accuracy(copy: Copy) -> float | None:
    """The docs that accuracy needs; None where it does not drop."""
    drop = float(copy.before.mean() - copy.after.mean())
    flips = float((copy.before != copy.after).mean())
    normal = NormalDist()
    reach = normal.inv_cdf(1 - ALARMS / 2) + normal.inv_cdf(POWER)
    return None if drop <= 0 else max(1.0, reach**2 * (flips - drop**2) / drop**2)


def power(result: dict[str, Copy]) -> list[tuple[str, float, int | None, float | None, Copy]]:
    """Of each copy: name, distance, docs by fidelity, docs by accuracy."""
    rows = [
        (label, float(result[name].sums.sum() / result[name].tokens.sum()), needed(result[name], result["again"]),
         by_accuracy(result[name]), result[name])
        for name, label in NAMES.items()
        if name in result
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row[1])


def exceeded(copy: Copy, docs: int) -> float:
    """The share of fresh draws of the original beside itself that lie beyond the limit of as many docs."""
    fresh = distances(copy, docs, np.random.default_rng(20_000 + docs), LIMIT_DRAWS)
    return float((fresh > limit_of(copy, docs)).mean())


def at_most(count: int, draws: int = ALARM_DRAWS) -> float:
    """The one-sided upper limit of 95 % of a share of which so many draws were (Clopper and Pearson 1934)."""
    from scipy.stats import beta

    return float(beta.ppf(0.95, count + 1, draws - count))


def alarms(folder: Path, docs: int, draws: int = ALARM_DRAWS) -> int:
    """How many of so many draws, with replacement, call the original different from itself."""
    before, after = (list(read_tokens(folder / f"{name}.parquet")) for name in ("reference", "again"))
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(draws):
        some = rng.integers(len(before), size=docs)
        first, second = (make_columns([table[at] for at in some]) for table in (before, after))
        wrong += compare_tables(Pair(first, second, None, 0.0, 0, 0, 0), MARGIN).outcome == "different"
    return wrong


def drawn(folder: Path, name: str, *, probed: bool = True, draws: int = FEW_DRAWS) -> Counter[Said]:
    """Verdicts and what is named, over draws with replacement of the docs that were probed: the short and the long."""
    tables = [read_tokens(folder / f"{copy_name}.parquet") for copy_name in ("reference", name)]
    try:
        pair_tables(*tables)
    except PairingError:
        return Counter({("refused", ()): draws})
    sides = [({(row.task, row.doc): row for row in table}, read_probes(table.path)) for table in tables]
    keys = [sorted({key[:2] for key in sides[0][1] if (key[2] == NO_BOS) == short}) for short in (True, False)]
    rng, result = np.random.default_rng(7), Counter[Said]()
    for _ in range(draws):
        some = [of[at] for of in keys for at in rng.integers(len(of), size=len(of))]
        (first, ours), (second, theirs) = (sample(*side, some) for side in sides)
        both = Pair(first, second, None, 0.0, 0, 0, 0)
        judged = compare_tables(both, MARGIN)
        finding = diagnose(judged, both, ProbePair(both, ours, theirs) if probed else None)
        result[judged.outcome, finding.groups if finding else ()] += 1
    return result


def misnamed(name: str, seen: Counter[Said]) -> tuple[int, int, int]:
    """Of draws of a copy: how many are found, how many of these as one wrong cause, and as groups without the right."""
    by_name = {group.name: group.causes for group in GROUPS}
    result = wrong = missed = 0
    for (outcome, groups), count in seen.items():
        causes = [cause for group in groups for cause in by_name[group]]
        if causes and outcome != "refused":
            result += count
            right = TRUTH[name] in causes
            wrong += count * (len(causes) == 1 and not right)
            missed += count * (not right)
    return result, wrong, missed


def sample(answers: dict[Key, Forced], probes: Probes, keys: Sequence[Key]) -> tuple[Columns, Probes]:
    """Some docs with their probes, each under a number of its own."""
    by_doc: dict[Key, list[Probed]] = {}
    for probe in probes.values():
        by_doc.setdefault((probe.task, probe.doc), []).append(probe)
    table = make_columns([replace(answers[key], doc=number) for number, key in enumerate(keys)])
    return table, {
        (key[0], number, probe.probe): replace(probe, doc=number)
        for number, key in enumerate(keys)
        for probe in by_doc[key]
    }


def svg(rows: Sequence[tuple[str, float, int | None, float | None, Copy]]) -> str:
    """Docs that each way needs, on a logarithmic axis."""
    height = TOP + ROW * len(rows) + 34

    def x(docs: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 120) * min(np.log10(docs), 4) / 4, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fcfbf8"/>',
        f'<circle cx="{LEFT}" cy="16" r="5" fill="#0b6e99"/><text x="{LEFT + 10}" y="20">fidelity</text>'
        f'<circle cx="{LEFT + 80}" cy="16" r="5" fill="none" stroke="#b3541e" stroke-width="2"/>'
        f'<text x="{LEFT + 90}" y="20">accuracy: docs to tell it apart, 1 % false alarms, power 80 %</text>',
    ]
    for exponent in range(5):
        at = x(10**exponent)
        parts.append(f'<line x1="{at}" x2="{at}" y1="{TOP - 14}" y2="{height - 30}" stroke="#dcd8ce"/>')
        parts.append(f'<text x="{at}" y="{height - 12}" text-anchor="middle" fill="#605d56">{10**exponent:,}</text>')
    for number, (label, _, docs, accuracy, copy) in enumerate(rows):
        y = TOP + ROW * number
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{label}</text>')
        if docs is not None and accuracy is not None:
            parts.append(f'<line x1="{x(docs)}" x2="{x(accuracy)}" y1="{y}" y2="{y}" stroke="#a5a299"/>')
        if docs is not None:
            tokens = docs * copy.tokens.mean()
            parts.append(f'<circle cx="{x(docs)}" cy="{y}" r="5" fill="#0b6e99"/>')
            said = f"{tokens:,.0f} tokens"
        else:
            said = f"over {SIZES[-1]:,} docs"
        if accuracy is not None:
            parts.append(f'<circle cx="{x(accuracy)}" cy="{y}" r="5" fill="none" stroke="#b3541e" stroke-width="2"/>')
        else:
            said += ", no drop"
        parts.append(f'<text x="{WIDTH - 8}" y="{y + 4}" text-anchor="end" fill="#605d56">{said}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    """Print the tables and write the plot; 1 where the identical model is told apart too often."""
    folders = [Path(folder) for folder in sys.argv[1:]]
    content = read(folders[0])
    rows = power(content)
    docs, tokens = len(content["again"].sums), int(content["again"].tokens.sum())
    same = content["again"].sums.sum() / tokens
    print(f"{docs} docs, {tokens:,} tokens; the original beside itself: {same:.4f} nats a token\n")
    called = {f"called different, draws of {size} docs": alarms(folders[0], size) for size in (10, 24, 48)}
    for folder in folders:
        seen = drawn(folder, "again", draws=ALARM_DRAWS)
        called[f"{folder.name}, called different"] = sum(
            count for (outcome, _), count in seen.items() if outcome == "different"
        )
        called[f"{folder.name}, a cause is named"] = sum(count for (_, named), count in seen.items() if named)
    for what, count in called.items():
        print(f"the original again, {what}: {count} of {ALARM_DRAWS:,}, at most {100 * at_most(count):.2f} %")
    beyond = {size: exceeded(content["again"], size) for size in SIZES}
    worst = max(beyond, key=lambda size: beyond[size])
    error = (ALARMS * (1 - ALARMS / 2) / LIMIT_DRAWS) ** 0.5  # of the limit and of the draws
    print(
        f"beyond the limit of the plot, fresh draws: {100 * np.mean(list(beyond.values())):.2f} % in the mean of all "
        f"sizes, at the most {100 * beyond[worst]:.2f} % ({worst} docs); Monte-Carlo error of one {100 * error:.2f} %\n"
    )
    print("| copy | distance, nats | docs and tokens for fidelity | docs for accuracy | docs flipped, worse of these |")
    print("|---|--:|--:|--:|--:|")
    for label, distance, few, accuracy, copy in rows:
        told = "-" if few is None else f"{few:,}, {few * copy.tokens.mean():,.0f}"
        beside = "no drop" if accuracy is None else f"{accuracy:,.0f}"
        flips, worse = (copy.before != copy.after).sum(), (copy.before & ~copy.after).sum()
        print(f"| {label} | {distance:.4f} | {told} | {beside} | {flips}, {worse} |")
    Path(__file__).with_name("fidelity_power.svg").write_text(svg(rows), encoding="utf-8")
    wrong = sum(count > ALARMS * ALARM_DRAWS for count in called.values())
    for folder, probed in (*((folder, True) for folder in folders), (folders[0], False)):
        print(f"\n{folder.name}: {FEW_DRAWS} draws, margin {MARGIN:g}, {'with' if probed else 'without'} probes\n")
        print("| copy | same / different / not shown | what is named, percent of all draws |")
        print("|---|--:|---|")
        listed = {"again": "the original again", **NAMES, **UNNAMED, "other_tokenizer": "another tokenizer"}
        counts = {True: [0, 0, 0, 0], False: [0, 0, 0, 0]}
        for name, label in listed.items():
            if not (folder / f"{name}.parquet").exists():
                continue
            seen = drawn(folder, name, probed=probed)
            outcomes = Counter[str]()
            for (outcome, _), count in seen.items():
                outcomes[outcome] += count
            causes = Counter[tuple[str, ...]]()
            for (_, named), count in seen.items():
                causes[named] += count
            said = "; ".join(
                f"{', '.join(LABELS[group] for group in named) or 'nothing'} {count}"
                for named, count in causes.most_common()
            )
            shown = "refused" if outcomes["refused"] else " / ".join(
                str(outcomes[name]) for name in ("same", "different", "not shown"))  # fmt: skip
            print(f"| {label} | {shown} | {said} |")
            if name in TRUTH:
                counts[name in UNNAMED] = [
                    a + b for a, b in zip(counts[name in UNNAMED], (FEW_DRAWS, *misnamed(name, seen)), strict=True)
                ]
        for is_unnamed, (draws, told, single, missed) in counts.items():
            print(
                f"\n{'faults without a signature' if is_unnamed else 'named faults'}: of {draws:,} draws "
                f"{told:,} are told; one wrong cause is named in {single} (at most "
                f"{100 * at_most(single, draws):.2f} % of draws), groups without the right cause in {missed}"
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
