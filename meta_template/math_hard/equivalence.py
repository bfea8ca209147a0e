r"""Compare an answer with the gold: first by structure, then by numerical values, and only if needed by sympy.

An answer is split into its parts: list, equation, union, tuple, interval, set, matrix, relation, number with a base,
word. Then parts are compared with parts. Parts with the same text are equal. Parts with different values are not equal.
A grader (sympy) decides about the rest.

These rules decide what is equal:

- The order counts in a tuple, but not in a list or set.
- ``x=5`` is the value 5. Equations are equal up to a factor: ``2x+2y=6`` is ``x+y-3=0``. Neither is ``0`` or ``6``.
- Brackets count for intervals, but not for matrices.
- A base may be missing on a side.
- Words are compared without case.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import recorded, values
from .normalise import SYMBOL, normalise

MOST_PARTS = 40  # of a list, set or matrix; each may need the grader


class Verdict(NamedTuple):
    """``failure`` says why a grader failed, or is None. ``equal`` is False if a grader failed."""

    equal: bool
    failure: str | None = None


Ask = Callable[[str, str], tuple[bool, str | None]]
"""Compares two expressions by computer algebra. Returns the verdict, and why there is none or None."""

_OPENING = {"(": ")", "[": "]", r"\{": r"\}", r"\langle": r"\rangle"}
_DEPTH = {"(": 1, "[": 1, "{": 1, r"\{": 1, r"\langle": 1, r"\begin": 1} | dict.fromkeys(
    (")", "]", "}", r"\}", r"\rangle", r"\end"), -1
)
_RELATIONS = frozenset(("<", ">", r"\le", r"\ge", r"\ne", r"\in", r"\approx", r"\equiv"))
_MIRRORED = {">": "<", r"\ge": r"\le"}
_MATRIX = re.compile(
    r"[\[(]?\\begin\{(?P<kind>[pbB]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?(?P<rows>.*)\\end\{(?P=kind)\}[\])]?",
    re.DOTALL,
)
_BASED = re.compile(
    r"(?P<digits>-?[0-9A-Z]+(?:\.[0-9A-Z]+)?)_(?:\{(?:text)?\(?(?:base)?(?P<long>[a-z]+|\d+)\)?\}|(?P<short>\d))"
)
_DIGITS = re.compile(r"-?[0-9][0-9A-Z]*(?:\.[0-9A-Z]+)?")
_BASES = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
    "sixteen": "16",
}
_DEGREES = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)°")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|mbox|mathrm|operatorname)\s*\{[^{}]*[A-Za-z]{2}[^{}]*\}\W*")
_CLOCK = re.compile(r"\d{1,2}(?::\d\d)?[ap]\.?m\.?", re.IGNORECASE)
_CALCULATED = re.compile(r"[-+*/^!]|\\(?:frac|cdot|times|div|sqrt|pm)(?![A-Za-z])|(?<![_\w{])\d")


def equal(gold: str, answer: str, ask: Ask, rounded: bool = False) -> Verdict:
    """Return whether an answer equals the gold.

    Args:
        gold: The content of the reference's box.
        answer: The content of the model's box.
        ask: The grader for parts that need algebra.
        rounded: Whether three significant digits are enough for fractions of the gold.
    """
    return _Comparison(ask, rounded).run(gold, answer)


def value_side(text: str) -> str:
    """Return the part of an answer that Meta uses: the right side of its last ``=``, normalised, without a base."""
    side = split(normalise(text), "=")[-1]
    based = _BASED.fullmatch(side)
    return based["digits"] if based else side


class _Comparison:
    """A comparison of gold and answer, with the first failure of the grader."""

    def __init__(self, ask: Ask, rounded: bool) -> None:
        self._ask = ask
        self._rounded = rounded
        self._failure: str | None = None

    def run(self, gold: str, answer: str) -> Verdict:
        a, b = normalise(gold), normalise(answer)
        if a == b:
            return Verdict(True)
        if _is_text(gold, a, b) or _is_text(answer, b, a):
            a, b = (_value(split(side, "=")) or side for side in (a, b))
            right = _word(a) == _word(b) or self._same_letters(a, b)
        else:
            right = self._lists(a, b)
        return Verdict(right, None if right else self._failure)

    def _same_letters(self, a: str, b: str) -> bool:
        """Return whether two lists of labels are equal: ``\\text{B, E}`` and ``E, B``."""
        left, right = split(a, ","), split(b, ",")
        return len(left) > 1 and sorted(map(_word, left)) == sorted(map(_word, right))

    def _lists(self, a: str, b: str) -> bool:
        left, right = _listed(a), _listed(b)
        if len(left) == len(right) == 1:
            return self._sided(left[0], right[0])
        return self._unordered(left, right, self._sided)

    def _unordered(self, left: Sequence[str], right: Sequence[str], same: Callable[[str, str], bool]) -> bool:
        """Return whether parts match in any order. Parts with the same text are paired first, without the grader."""
        if len(left) != len(right) or len(left) > MOST_PARTS:
            return False
        rest = list(right)
        waiting = []
        for part in left:
            if part in rest:
                rest.remove(part)
            else:
                waiting.append(part)
        for part in waiting:
            partner = next((other for other in rest if same(part, other)), None)
            if partner is None or self._failure:
                return False
            rest.remove(partner)
        return True

    def _ordered(self, left: Sequence[str], right: Sequence[str]) -> bool:
        return (
            len(left) == len(right) <= MOST_PARTS
            # numerical values first: a difference makes the grader unnecessary
            and (self._rounded or not any(values.same(a, b) is False for a, b in zip(left, right, strict=True)))
            and all(self._part(a, b) for a, b in zip(left, right, strict=True))
        )

    # Equations

    def _sided(self, a: str, b: str) -> bool:
        left, right = split(a, "="), split(b, "=")
        if len(left) == len(right) == 1:
            return self._part(a, b)
        if len(left) == len(right) == 2 and self._part(left[0], right[0]) and self._part(left[1], right[1]):
            return True
        if len(left) == len(right) == 2 and (_is_equation(left) or _is_equation(right)):
            differences = [f"({member})-({other})" for member, other in (left, right)]
            return values.proportional(*differences) is True
        value, other = _value(left), _value(right, lenient=len(left) == 1)
        return value is not None and other is not None and self._part(value, other)

    # Parts

    def _part(self, a: str, b: str) -> bool:
        if a == b:
            return True
        a, b = _bare(a), _bare(b)
        if a == b:
            return True
        for shape in (self._bases, self._unions, self._matrices, self._brackets, self._relations):
            verdict = shape(a, b)
            if verdict is not None:
                return verdict
        same = values.same(a, b)
        if same is not None:
            return same or (self._rounded and recorded.rounds_to(a, b))
        if re.search(r"[,;]|\\begin|^-?\\infty$", f"{a}\n{b}", re.MULTILINE):  # no parser reads these as an expression
            return False
        return self._asked(a, b)

    def _asked(self, a: str, b: str) -> bool:
        if self._failure:
            return False
        verdict, self._failure = self._ask(*(_DEGREES.sub(r"\\frac{\1\\pi}{180}", side) for side in (a, b)))
        return verdict

    def _bases(self, a: str, b: str) -> bool | None:
        first, second = _BASED.fullmatch(a), _BASED.fullmatch(b)
        if first and second:
            return first["digits"] == second["digits"] and _base(first) == _base(second)
        if first and _DIGITS.fullmatch(b):
            return first["digits"] == b
        if second and _DIGITS.fullmatch(a):
            return second["digits"] == a
        return None

    def _unions(self, a: str, b: str) -> bool | None:
        left, right = split(a, r"\cup"), split(b, r"\cup")
        if len(left) == len(right) == 1:
            return None
        return self._unordered(left, right, self._part)

    def _matrices(self, a: str, b: str) -> bool | None:
        first, second = _rows(a), _rows(b)
        if first is None and second is None:
            return None
        if first is None or second is None or list(map(len, first)) != list(map(len, second)):
            return False
        return self._ordered([cell for row in first for cell in row], [cell for row in second for cell in row])

    def _brackets(self, a: str, b: str) -> bool | None:
        first, second = _enclosed(a), _enclosed(b)
        if first is None and second is None:
            return None
        if first is None or second is None:
            return False
        if first[0] != second[0]:
            return False
        if first[0] == (r"\{", r"\}"):
            return self._unordered(_items(first[1]), _items(second[1]), self._part)
        return self._ordered(split(first[1], ","), split(second[1], ","))

    def _relations(self, a: str, b: str) -> bool | None:
        first, second = _relation(a), _relation(b)
        if first is None and second is None:
            return None
        if first is None or second is None or first[1] != second[1]:
            return False
        return self._ordered(first[0], second[0])


# Taking apart


@functools.lru_cache(maxsize=8192)
def split(text: str, at: str) -> tuple[str, ...]:
    r"""Split a text at a symbol outside all brackets. The brackets of an interval may differ: ``[0,1)``."""
    return tuple(_split(text, frozenset((at,)))[0])


def _split(text: str, at: frozenset[str]) -> tuple[list[str], list[str]]:
    parts, symbols = [""], []
    depth = 0
    before = ""
    for symbol in SYMBOL.findall(text):
        depth = max(0, depth + _DEPTH.get(symbol, 0))
        if symbol in at and depth == 0 and not (symbol == "=" and before in ("<", ">", "!", ":")):
            parts.append("")
            symbols.append(symbol)
        else:
            parts[-1] += symbol
        before = symbol
    return [part.strip() for part in parts], symbols


def _items(text: str) -> list[str]:
    r"""Return the parts of a list, with two parts for ``a\pm b``."""
    parts = split(text, ",")
    out = []
    for part in parts:
        if part.count(r"\pm") == 1 and r"\mp" not in part:
            out += [re.sub(r"\\pm\s?", sign, part).removeprefix("+") for sign in "+-"]
        elif part:
            out.append(part)
    return out


def _listed(text: str) -> list[str]:
    """Return the parts of a list. A set with several elements is a list too, also after a name: ``A={1,2}``."""
    sides = split(text, "=")
    enclosed = _enclosed(sides[-1] if is_name(sides[0]) else text)
    inner = _items(enclosed[1]) if enclosed and enclosed[0] == (r"\{", r"\}") else []
    return inner if len(inner) > 1 else _items(text)


def _bare(text: str) -> str:
    r"""Remove the brackets around a single part, ``(B)``, ``(x+1)``, and the variable of ``x\in[0,1]``."""
    sides = split(text, r"\in")
    text = sides[1] if len(sides) == 2 and is_name(sides[0]) else text
    while True:
        inside = _inside(text, "(") or _inside(text, "{")
        if inside is None or len(split(inside, ",")) > 1:
            return text
        text = inside


def _inside(text: str, opening: str) -> str | None:
    closing = {"(": ")", "{": "}"}[opening]
    if not text.startswith(opening) or not text.endswith(closing):
        return None
    depth = 0
    symbols = SYMBOL.findall(text)
    for number, symbol in enumerate(symbols):
        depth += _DEPTH.get(symbol, 0)
        if depth == 0:
            return text[1:-1].strip() or None if number == len(symbols) - 1 else None
    return None


def _enclosed(text: str) -> tuple[tuple[str, str], str] | None:
    r"""Return the brackets of a tuple, interval or set, and their content, or None. A set may have a single element."""
    symbols = SYMBOL.findall(text)
    if len(symbols) < 2 or symbols[0] not in _OPENING or symbols[-1] not in _OPENING.values():
        return None
    inner = "".join(symbols[1:-1])
    depth = 0
    for symbol in symbols[1:-1]:
        depth += _DEPTH.get(symbol, 0)
        if depth < 0:
            return None
    if depth != 0 or (len(split(inner, ",")) == 1 and symbols[0] == "("):
        return None
    return (symbols[0], symbols[-1]), inner


def _rows(text: str) -> list[list[str]] | None:
    match = _MATRIX.fullmatch(text)
    if match is None:
        return None
    rows = [row for row in re.split(r"\\\\|\\cr(?![A-Za-z])", match["rows"].replace(r"\hline", "")) if row.strip()]
    return [[cell.strip() for cell in row.split("&")] for row in rows]


def _relation(text: str) -> tuple[list[str], list[str]] | None:
    """Return the sides of a chain of relations and their signs, with the smaller side first, or None."""
    parts, signs = _split(text, _RELATIONS)
    if not signs:
        return None
    if all(sign in _MIRRORED for sign in signs):
        return parts[::-1], [_MIRRORED[sign] for sign in signs[::-1]]
    return parts, signs


def _base(match: re.Match[str]) -> str:
    base = match["long"] or match["short"]
    return _BASES.get(base, base)


# Words and names


def _is_text(raw: str, normal: str, other: str) -> bool:
    r"""Return whether an answer is text: ``\text{east}``, a time, or letters that are not a product of variables."""
    if re.search(r"[A-Za-z]{2}", normal) and _TEXT.fullmatch(raw.strip().strip("$")) and not _CALCULATED.search(normal):
        return True
    if _CLOCK.fullmatch(normal):
        return True
    alphabetic = (normal.isalpha(), other.isalpha(), normal.isascii(), other.isascii(), len(normal) > 2)
    return all(alphabetic) and not any("".join(sorted(text)) == text for text in (normal, other))


def _word(text: str) -> str:
    """Normalise words: ignore case, blanks, full stops, hyphens, apostrophes, round brackets, and ``:00``."""
    return re.sub(r"^(\d+):00(?=[ap]m)", r"\1", re.sub(r"[\s.()'-]", "", text).casefold())


def is_name(text: str) -> bool:
    """Return whether a side of ``=`` is only a name: ``x``, ``f(x)``, ``AB``, ``Area``, ``(x,y)``, ``P(A)``."""
    return re.search(r"[A-Za-z]", text) is not None and not _CALCULATED.search(re.sub(r"[(\[{][^()]*[)\]}]", "", text))


def _is_constant(text: str) -> bool:
    tree = values.read(text)
    return tree is not None and not values.names(tree)


def _is_equation(sides: Sequence[str]) -> bool:
    """Return whether two sides make an equation, so that neither side only names or computes the other."""
    if len(sides) != 2:
        return False
    left, right = sides
    return not is_name(left) and not (_is_constant(left) and (_is_constant(right) or is_name(right)))


def _value(sides: Sequence[str], lenient: bool = False) -> str | None:
    r"""Return the value of ``x=5``, ``5=x`` or ``2+3=5``, or None for an equation.

    If ``lenient``, ``a+b=7`` gives 7 as in the recipe. It is set if the gold is a value. But ``a+b=0`` does not
    give 0, because equations often end with it.
    """
    if len(sides) == 2 and is_name(sides[1]) and _is_constant(sides[0]):
        return sides[0]
    if _is_equation(sides) and not (lenient and sides[1] != "0"):
        return None
    return sides[-1]
