r"""Check exact_match and math_verify on rewritten and falsified golds of MATH.

Each gold of MATH's 5,000 test problems is rewritten to equal values, such as other fractions, units, bases, brackets of
matrices or moved equations. It is also changed to other values, such as an extra digit, another bracket or letters in
another order. The right verdict is known by construction, so it is known which metric errs if they differ.

The golds are from a test file that several repositories contain. The numbers are from

    git clone https://github.com/ZubinGou/math-evaluation-harness    # db77bc6, data/math/test.jsonl
    python tools/grader_validation/math_rewrites.py --data math-evaluation-harness

The table of classes goes to stderr and the entry of the catalog to stdout.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import template_graders as frame

MOST = 150  # cases of each class
SEED = 8

FRACTION = re.compile(r"-?\\[dt]?frac\{(\d+)\}\{(\d+)\}")
WHOLE = re.compile(r"-?\d+")
BASED = re.compile(r"(-?[0-9A-Z.]+)_\{?(\d+)\}?")
MATRIX = re.compile(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", re.DOTALL)
PAIR = re.compile(r"(?:\\left)?\s*([(\[])([^()\[\]]*?,[^()\[\]]*?)\s*(?:\\right)?\s*([)\]])")
WORD = re.compile(r"\\text\{([A-Za-z]{3,})\}")
EQUATION = re.compile(r"([^=]*[-+][^=]*)=\s*(-?\d+)")
LINEAR = re.compile(r"(-?\d*)([a-z])\s*([-+])\s*(\d+)")

Rewrite = Callable[[str], str | None]


def when(pattern: re.Pattern[str], make: Callable[[re.Match[str]], str | None]) -> Rewrite:
    """Make a rewrite of golds that match the whole pattern."""

    def rewrite(gold: str) -> str | None:
        match = pattern.fullmatch(gold.strip())
        return make(match) if match else None

    return rewrite


def replace(old: str, new: str) -> Rewrite:
    return lambda gold: gold.replace(old, new) if old in gold else None


def _decimal(match: re.Match[str]) -> str | None:
    value = Fraction(int(match[1]), int(match[2]))
    places = next((n for n in range(1, 7) if (value * 10**n).denominator == 1), None)
    sign = "-" if match[0].startswith("-") else ""
    return None if places is None else f"{sign}{float(value):.{places}f}"


def _list(gold: str) -> list[str] | None:
    if re.fullmatch(r"\d{1,3},\d{3}", gold):
        return None  # a number or two
    parts = [part.strip() for part in gold.split(",")]
    return parts if len(parts) > 1 and all(re.fullmatch(r"-?\d+", part) for part in parts) else None


def _cells(match: re.Match[str]) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("&")] for row in match[1].split(r"\\")]


def _matrix(rows: list[list[str]], kind: str = "pmatrix") -> str:
    return rf"\begin{{{kind}}} " + r" \\ ".join(" & ".join(row) for row in rows) + rf" \end{{{kind}}}"


def _transposed(match: re.Match[str]) -> str | None:
    rows = _cells(match)
    turned = [list(column) for column in zip(*rows, strict=True)]
    return None if turned == rows else _matrix(turned)


def _reversed_list(gold: str) -> str | None:
    parts = _list(gold)
    return ", ".join(reversed(parts)) if parts else None


def _shorter_list(gold: str) -> str | None:
    parts = _list(gold)
    return ",".join(parts[1:]) if parts and len(parts) > 2 else None


def _turned_pair(match: re.Match[str]) -> str | None:
    parts = [part.strip() for part in match[2].split(",")]
    return None if parts == parts[::-1] else f"{match[1]}{','.join(reversed(parts))}{match[3]}"


def _base_in_words(match: re.Match[str]) -> str | None:
    word = {"3": "three", "5": "five", "7": "seven", "8": "eight"}.get(match[2])
    return rf"{match[1]}_{{\text{{{word}}}}}" if word else None


def _degrees(instead: str) -> Rewrite:
    return when(re.compile(r"(-?\d+)\^\{?\\circ\}?"), lambda result: f"{result[1]}{instead}")


def _named(gold: str) -> str | None:
    return None if re.search(r"[=<]|\\text|\\mbox|\\in\b", gold) else f"x = {gold}"


def _spaced(gold: str) -> str | None:
    if re.search(r"text|\d,\d{3}|,\\!", gold) or not re.search(r"[,+]", gold):
        return None
    return re.sub(r"(?<=[,+])", r"\\, ", gold)


def _unit(text: str) -> Rewrite:
    return when(WHOLE, lambda result: f"{result[0]}{text}")


UNITS = (
    r"\text{ cm}", r"\text{ square feet}", r"\text{ apples}", r"\text{ miles per hour}", r"\,\mathrm{cm}",
    r"~\mathrm{cm}^2", " cm", " cm^3", " square units", " marbles", " dollars per week",
)  # fmt: skip
RIGHT: dict[str, Rewrite] = {
    "\\dfrac": lambda gold: re.sub(r"\\frac(?=\{)", r"\\dfrac", gold) if r"\frac{" in gold else None,
    "\\tfrac in a tuple": lambda gold: (
        re.sub(r"\\[d]?frac(?=\{)", r"\\tfrac", gold) if PAIR.fullmatch(gold) and r"frac{" in gold else None
    ),
    "a/b": when(FRACTION, lambda result: f"{'-' if result[0][0] == '-' else ''}{result[1]}/{result[2]}"),
    "decimal": when(FRACTION, _decimal),
    "sign in the numerator": when(
        FRACTION, lambda f: rf"\frac{{-{f[1]}}}{{{f[2]}}}" if f[0][0] == "-" else None
    ),
    "not in lowest terms": when(
        FRACTION, lambda f: rf"{'-' if f[0][0] == '-' else ''}\frac{{{3 * int(f[1])}}}{{{3 * int(f[2])}}}"
    ),
    "base in braces": when(BASED, lambda result: f"{result[1]}_{{{result[2]}}}"),
    "base without braces": when(BASED, lambda result: f"{result[1]}_{result[2]}" if len(result[2]) == 1 else None),
    "base in words": when(BASED, _base_in_words),
    "base dropped": when(BASED, lambda result: result[1]),
    "bmatrix": when(MATRIX, lambda result: _matrix(_cells(result), "bmatrix")),
    "array in brackets": when(
        MATRIX,
        lambda f: r"\left[\begin{array}{" + "c" * len(_cells(f)[0]) + "}" + f[1] + r"\end{array}\right]",
    ),
    "matrix with \\frac": when(
        MATRIX,
        lambda f: (
            f[0].replace(f[1], re.sub(r"(\d+)/(\d+)", r"\\frac{\1}{\2}", f[1])) if "/" in f[1] else None
        ),
    ),
    "% dropped": replace(r"\%", ""),
    "% not escaped": replace(r"\%", "%"),
    "percent in words": replace(r"\%", r"\text{ percent}"),
    "+\\infty": lambda gold: re.sub(r"(?<!-)\\infty", r"+\\infty", gold) if re.search(r"(?<!-)\\infty", gold) else None,
    **{text.removeprefix(r"\,").lstrip("~ "): _unit(text) for text in UNITS},
    "degrees dropped": _degrees(""),
    "degrees in words": _degrees(r"\text{ degrees}"),
    "dollars dropped": replace(r"\$", ""),
    "x=": _named,
    "in dollar signs": lambda gold: f"${gold}$" if "$" not in gold else None,
    "\\left \\right": when(PAIR, lambda result: rf"\left{result[1]} {result[2]} \right{result[3]}"),
    "spaces": _spaced,
    "thousands": when(WHOLE, lambda f: f"{int(f[0]):,}" if abs(int(f[0])) > 999 else None),
    "thousands, TeX": when(WHOLE, lambda f: f"{int(f[0]):,}".replace(",", "{,}") if abs(int(f[0])) > 999 else None),
    "order of a list": _reversed_list,
    "word in lower case": when(WORD, lambda result: result[1].lower()),
    "word in \\mathrm": when(WORD, lambda result: rf"\mathrm{{{result[1]}}}"),
    "equation moved": when(EQUATION, lambda result: f"{result[1]} - ({result[2]}) = 0"),
    "equation doubled": when(EQUATION, lambda result: f"2({result[1]}) = {2 * int(result[2])}"),
    "equation turned": when(EQUATION, lambda result: f"{result[2]} = {result[1]}"),
    "terms turned": when(
        LINEAR, lambda f: f"{f[4]}+{f[1]}{f[2]}" if f[3] == "+" and not f[1].startswith("-") else None
    ),
}  # fmt: skip

WRONG: dict[str, Rewrite] = {
    "next number": when(WHOLE, lambda result: str(int(result[0]) + 1)),
    "a digit more": when(WHOLE, lambda result: f"{result[0]}7"),
    "a decimal more": when(WHOLE, lambda result: f"{result[0]}.3"),
    "other sign": when(WHOLE, lambda result: str(-int(result[0])) if int(result[0]) else None),
    "repeating decimal": when(
        re.compile(r"-?\d*\.\d*[1-9]|-?\d+"), lambda f: rf"{f[0]}{'' if '.' in f[0] else '.'}\overline{{3}}"
    ),
    "upside down": when(FRACTION, lambda f: rf"\frac{{{f[2]}}}{{{f[1]}}}" if f[1] != f[2] else None),
    "other sign of a fraction": when(FRACTION, lambda f: f[0][1:] if f[0][0] == "-" else f"-{f[0]}"),
    "three digits of a fraction": when(
        FRACTION,
        lambda f: f"{int(f[1]) / int(f[2]):.3f}" if (1000 * Fraction(int(f[1]), int(f[2]))).denominator > 1 else None,
    ),
    "other bracket": when(PAIR, lambda f: f"{'[' if f[1] == '(' else '('}{f[2]}{f[3]}"),
    "pair turned": when(PAIR, _turned_pair),
    "list too short": _shorter_list,
    "letters turned": when(WORD, lambda result: rf"\text{{{result[1][1:] + result[1][0]}}}"),
    "letters turned, plain": when(WORD, lambda result: result[1][1:] + result[1][0]),
    "other base": when(BASED, lambda result: f"{result[1]}_{{{int(result[2]) + 1}}}"),
    "other digits in the base": when(BASED, lambda result: f"1{result[1].removeprefix('-')}_{{{result[2]}}}"),
    "equation's right side": when(EQUATION, lambda result: result[2]),
    "other equation": when(EQUATION, lambda result: f"{result[1]} + 3x = {result[2]}"),
    "sum as a value": lambda gold: f"x + {gold} = 0" if WHOLE.fullmatch(gold) and gold == "0" else None,
    "matrix transposed": when(MATRIX, _transposed),
    "other matrix": when(MATRIX, lambda f: _matrix([[f"{cell}+1" for cell in row] for row in _cells(f)])),
    "other constant term": when(LINEAR, lambda f: f"{f[1]}{f[2]}{f[3]}{int(f[4]) + 1}"),
    "other infinity": replace(r"-\infty", r"\infty"),
    "root gone": lambda gold: (
        re.sub(r"\\sqrt\{(\d+)\}", r"\1", gold) if re.fullmatch(r"-?\d*\\sqrt\{\d+\}", gold) else None
    ),
    "\\pi gone": lambda gold: gold.replace(r"\pi", "").strip() if re.fullmatch(r"\d+\s*\\pi", gold) else None,
}  # fmt: skip


def cases(golds: list[str]) -> Iterator[tuple[str, bool, str, str]]:
    """Yield class, whether it is equal, gold and answer: at most `MOST` of each class by a fixed seed."""
    for equal, classes in ((True, RIGHT), (False, WRONG)):
        for name, rewrite in classes.items():
            made = [(gold, answer) for gold in golds if (answer := rewrite(gold)) is not None and answer != gold]
            made = list(dict.fromkeys(made))
            for gold, answer in random.Random(f"{SEED} {name}").sample(made, min(MOST, len(made))):
                yield name, equal, gold, answer


def main() -> None:
    folder = frame.checkout(__doc__, "ZubinGou/math-evaluation-harness", "db77bc6")
    template = frame.template_module("math_hard/utils.py")
    problems = frame.lines(folder / "data" / "math" / "test.jsonl")
    golds = [template.last_boxed(problem["solution"]) for problem in problems]
    table: dict[tuple[bool, str], Counter[str]] = {}
    total: Counter[str] = Counter()
    rest: Counter[str] = Counter()
    for name, equal, gold, answer in cases(golds):
        doc = {"gold": gold, "answers": [gold], "subtask_name": None, "input_question_hash": f"{gold} / {answer}"}
        scores = template.process_results(doc, [rf"The final answer is $\boxed{{{answer}}}$."])
        exact, verified = bool(scores["exact_match"]), bool(scores["math_verify"])
        counted = table.setdefault((equal, name), Counter())
        counted.update(cases=1, exact=exact, verified=verified, ungraded=bool(scores["ungraded"]))
        total.update(cases=1, agreed=exact == verified, exact=exact == equal, verified=verified == equal)
        if exact != verified:
            who = "math_verify" if exact == equal else "exact_match"
            rest[f"{who} {'refuses equal values' if equal else 'takes other values'}"] += 1
    print(f"{'':38} cases  exact_match  math_verify  ungraded", file=sys.stderr)
    for (equal, name), count in table.items():
        cells = f"{count['cases']:5} {count['exact']:12} {count['verified']:12} {count['ungraded']:9}"
        print(f"{'equal' if equal else 'other'} {name:32} {cells}", file=sys.stderr)
    note = (
        f"Right by construction: {total['exact']} verdicts of exact_match, {total['verified']} of math_verify. "
        f"exact_match was corrected on these very cases, so that its count says what is covered, not what is left."
    )
    counts = {"answers": total["cases"], "agreed": total["agreed"], "rest": frame.reasons(rest), "note": note}
    frame.show({"math_rewrites": counts})


if __name__ == "__main__":
    main()
