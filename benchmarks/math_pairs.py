"""How often three graders of MATH answers err on pairs that we wrote and judged ourselves (tests/data/math_pairs.yaml).

    python benchmarks/math_pairs.py          the table of README.md
    python benchmarks/math_pairs.py --show   and every wrong verdict

``exact_match`` and ``math_verify`` are the template's, asked as lm-eval asks them; the recipe's scorer is rebuilt from
its description (see math_grading.py). Refused: an answer that says what the gold says. Taken: one that does not.
"""

from __future__ import annotations

import argparse
import sys

import math_grading
import yaml

PAIRS = math_grading.ROOT / "tests" / "data" / "math_pairs.yaml"


def read() -> list[tuple[str, tuple[bool, str, str, str]]]:
    """Each pair: its kind, and whether it is right, the gold, the answer, and an output that boxes it."""
    return [
        (kind, (right, gold["gold"], answer, f"Therefore, the final answer is: $\\boxed{{{answer}}}$."))
        for kind, golds in yaml.safe_load(PAIRS.read_text(encoding="utf-8")).items()
        for gold in golds
        for right in (True, False)
        for answer in gold["right" if right else "wrong"]
    ]


# Of exact_match none is wrong; of math-verify, and of the recipe's scorer, about so many are.
MOST = {"exact_match": 0.0, "math_verify": 0.08, "recipe": 0.3}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="name every wrong verdict")
    show = parser.parse_args().show
    pairs = read()
    made = [pair for _, pair in pairs]
    verdicts = {**math_grading.ours(made, processes=2), **math_grading.recipe(made)}
    verdicts.pop("ungraded")
    print(f"| kind | pairs | {' | '.join(f'{name}: refused, taken' for name in verdicts)} |")
    print("|---|---:|" + "---:|" * len(verdicts))
    kinds = list(dict.fromkeys(kind for kind, _ in pairs))
    for kind in [*kinds, "all"]:
        chosen = [n for n, (its, _) in enumerate(pairs) if kind in (its, "all")]
        cells = [
            f"{sum(made[n][0] and not right[n] for n in chosen)}, {sum(right[n] and not made[n][0] for n in chosen)}"
            for right in verdicts.values()
        ]
        print(f"| {kind} | {len(chosen)} | {' | '.join(cells)} |")
    share = [sum(a != b[0] for a, b in zip(verdict, made, strict=True)) / len(made) for verdict in verdicts.values()]
    print(f"| share wrong | | {' | '.join(f'{100 * fraction:.1f} %' for fraction in share)} |")
    for name, result in verdicts.items() if show else ():
        for verdict, (right, gold, answer, _) in zip(result, made, strict=True):
            if verdict != right:
                print(f"{name} {'refuses' if right else 'takes'}: {gold}  |  {answer}", file=sys.stderr)
    return int(any(fraction > MOST[name] for name, fraction in zip(verdicts, share, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
