"""How time and memory of prepare, verify, grade and report grow with the rows: 1, 4 and 16 times as many, as a plot.

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
import math
import tempfile
from pathlib import Path

import answers
import report_many_samples
import verify_full_size
from measuring import meta_eval

VERBS = ("prepare", "verify", "grade", "report")
COLOURS = {"prepare": "#0b6e99", "verify": "#b3541e", "grade": "#7a4fa3", "report": "#4a7c3a"}
WIDTH, HEIGHT, LEFT, BOTTOM = 380, 260, 52, 40

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


def panel(title: str, points: dict[str, list[tuple[int, float]]], left: int) -> list[str]:
    """One plot with logarithmic axes; the thin lines have slope 1, which is linear growth."""
    rows = [x for line in points.values() for x, _ in line]
    values = [y for line in points.values() for _, y in line]
    low_x, high_x = min(rows) / 1.3, max(rows) * 1.3
    low_y, high_y = min(values) / 1.6, max(values) * 1.6

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(y / low_y) / math.log(high_y / low_y)
        return left + LEFT + across * (WIDTH - LEFT - 16), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - 30)

    out = [f'<text x="{left + LEFT}" y="18" font-weight="bold">{title}</text>']
    for x in sorted(set(rows)):
        across = place(x, low_y)[0]
        out.append(f'<text x="{across:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:,}</text>')
        out.append(f'<path d="M{across:.0f} 30V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
    for y in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20):
        if low_y < y < high_y:
            up = place(low_x, y)[1]
            out.append(f'<text x="{left + LEFT - 6}" y="{up + 4:.0f}" text-anchor="end">{y:g}</text>')
            out.append(f'<path d="M{left + LEFT} {up:.0f}H{left + WIDTH - 16}" stroke="#eee"/>')
    for name, line in points.items():
        first, last = line[0], line[-1]
        (x1, y1), top = place(*first), first[1] * last[0] / first[0]
        end = place(last[0] if top < high_y else first[0] * high_y / first[1], min(top, high_y))
        out.append(f'<path d="M{x1:.1f} {y1:.1f}L{end[0]:.1f} {end[1]:.1f}" stroke="#bbb" stroke-dasharray="3 3"/>')
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*one) for one in line))
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        out += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLOURS[name]}"/>'
            for x, y in (place(*one) for one in line)
        ]
    return out


def plot(found: dict[str, list[Point]]) -> str:
    """Seconds and memory side by side."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT + 24}" font-family="sans-serif" '
        'font-size="12" fill="#222">',
        f'<rect width="{2 * WIDTH}" height="{HEIGHT + 24}" fill="#fff" stroke="none"/>',
        *panel("CPU seconds", {verb: [(p[0], p[1]) for p in line] for verb, line in found.items()}, 0),
        *panel("peak GB", {verb: [(p[0], p[2]) for p in line] for verb, line in found.items()}, WIDTH),
    ]
    for number, verb in enumerate(found):
        x = LEFT + number * 72
        parts.append(f'<circle cx="{x}" cy="{HEIGHT + 10}" r="4" fill="{COLOURS[verb]}"/>')
        parts.append(f'<text x="{x + 9}" y="{HEIGHT + 14}">{verb}</text>')
    parts.append(f'<text x="{LEFT + 310}" y="{HEIGHT + 14}">over rows; dashed: linear growth</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=752)
    rows = parser.parse_args().rows
    sizes = [at(rows * times) for times in (1, 4, 16)]
    found = {verb: [size[verb] for size in sizes] for verb in VERBS}
    for verb, line in found.items():
        cells = "  ".join(f"{count:>7,} rows {seconds:6.2f} s {memory:5.2f} GB" for count, seconds, memory in line)
        print(f"{verb:<8} {cells}")
    Path(__file__).with_name("growth.svg").write_text(plot(found), encoding="utf-8")


if __name__ == "__main__":
    main()
