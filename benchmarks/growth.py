"""How time and memory of prepare, verify, grade and report grow with the rows: 1, 4 and 16 times as many, as a plot.

    pip install matplotlib
    python benchmarks/growth.py                    prints the table and writes growth.svg beside this file
    python benchmarks/growth.py --rows 752         rows of the smallest size

Rows and samples are those of verify_full_size.py (MMLU-Pro, 9 KB prompts, two filters) and report_many_samples.py
(20 KB a sample). CPU seconds are those of the process and its children: the clock depends on what else the machine
does.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

import answers
import report_many_samples
import verify_full_size
from measuring import meta_eval

VERBS = ("prepare", "verify", "grade", "report")
COLOURS = {"prepare": "#0b6e99", "verify": "#b3541e", "grade": "#7a4fa3", "report": "#4a7c3a"}

Point = tuple[int, float, float]  # rows, CPU seconds, peak GB


def at(rows: int) -> dict[str, Point]:
    """What each verb takes over so many rows."""
    size = dataclasses.replace(verify_full_size.SIZES["mmlu_pro"], rows=rows)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = folder / "eval_config.yaml"
        config.write_text(json.dumps(verify_full_size.generate(folder, size, 1.0)), encoding="utf-8")
        pack, requests, given = folder / "pack", folder / "requests.jsonl", folder / "answers.jsonl"
        results = folder / "results"
        results.mkdir()
        report_many_samples.generate(results, rows, 20_000)
        prepared, verified = meta_eval("prepare", "-c", str(config)), meta_eval("verify", "-c", str(config))
        meta_eval("export", str(pack), "--output", str(requests))
        answers.answer(pack, requests, given)
        graded = meta_eval("grade", str(given), "--pack", str(pack))
        return {
            "prepare": (rows, *prepared[1:3]),
            "verify": (rows, *verified[1:3]),
            "grade": (rows, *graded[1:3]),
            "report": (rows, *meta_eval("report", str(results))[1:3]),
        }


def plot(result: dict[str, list[Point]], file: Path) -> None:
    """Seconds and memory side by side, on logarithmic axes; the dashed lines have slope 1, which is linear growth."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": file.name}
    figure = Figure((8.4, 3.3), layout="constrained")
    for axes, (place, title) in zip(figure.subplots(1, 2), ((1, "CPU seconds"), (2, "peak GB")), strict=True):
        for verb, line in result.items():
            rows, values = [point[0] for point in line], [point[place] for point in line]
            axes.loglog(rows, values, "o-", color=COLOURS[verb], label=verb)
            linear = [count * values[0] / rows[0] for count in rows]
            axes.plot(rows, linear, color="#bbb", linestyle="--", linewidth=1, zorder=0, scaley=False)
        axes.set(title=title, xlabel="rows; dashed: linear growth", xticks=rows, xticklabels=[f"{n:,}" for n in rows])
        axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}")
        axes.minorticks_off()
        axes.grid(color="#eee")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(result), frameon=False)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=752)
    parser.add_argument("--small", action="store_true", help="a few rows, and no plot: CI")
    arguments = parser.parse_args()
    rows = 4 if arguments.small else arguments.rows
    sizes = [at(rows * times) for times in (1, 4, 16)]
    result = {verb: [size[verb] for size in sizes] for verb in VERBS}
    for verb, line in result.items():
        cells = "  ".join(f"{count:>7,} rows {seconds:6.2f} s {memory:5.2f} GB" for count, seconds, memory in line)
        print(f"{verb:<8} {cells}")
    if not arguments.small:
        plot(result, Path(__file__).with_name("growth.svg"))


if __name__ == "__main__":
    main()
