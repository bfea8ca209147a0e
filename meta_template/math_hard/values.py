r"""Evaluate LaTeX expressions as numbers without sympy, which is much slower.

Rational expressions are evaluated exactly as fractions. Others use floating point, with complex numbers if needed.
"""

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from .expressions import Tree, UnreadableError, names, read

MOST_BITS = 1 << 16  # of an exact number
TOLERANCE = 1e-9  # relative; floating point keeps about 15 digits


Number = Fraction | float | complex

_FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "cot": lambda z: 1 / cmath.tan(z),
    "sec": lambda z: 1 / cmath.cos(z),
    "csc": lambda z: 1 / cmath.sin(z),
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "ln": cmath.log,
    "log": cmath.log,  # natural, as sympy reads \log
    "exp": cmath.exp,
}


# Evaluating


def evaluate(tree: Tree, at: Mapping[str, Fraction]) -> Number:
    """Return the value of a tree for these values of its variables.

    Raises:
        UnreadableError: It has no value: a division by zero, a factorial of a half, a number that is too large.
    """
    try:
        value = _value(tree, at)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise UnreadableError(str(error)) from None
    if not isinstance(value, Fraction):
        value = complex(value)
        if not cmath.isfinite(value):
            raise UnreadableError("not finite")
        if abs(value.imag) <= 1e-12 * max(1.0, abs(value.real)):
            return value.real
    return value


def _value(tree: Tree, at: Mapping[str, Fraction]) -> Number:
    kind = tree[0]
    if kind in _LEAVES:
        return _LEAVES[kind]
    if kind in ("number", "name"):
        return tree[1] if kind == "number" else at[tree[1]]
    if kind == "function":
        return _FUNCTIONS[tree[1]](complex(_radians(tree[2], at)))
    return _bounded(_OPERATIONS[kind](*(_value(part, at) for part in tree[1:])))


def _radians(tree: Tree, at: Mapping[str, Fraction]) -> Number:
    value = _value(tree, at)
    return value * math.pi / 180 if _in_degrees(tree) else value


def _in_degrees(tree: Tree) -> bool:
    return tree[0] == "°" or any(_in_degrees(part) for part in tree[1:] if isinstance(part, tuple))


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction) and value.numerator.bit_length() + value.denominator.bit_length() > MOST_BITS:
        raise UnreadableError("too large")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if size * abs(exponent.numerator) > MOST_BITS:
            raise UnreadableError("too large")
        return base**exponent.numerator
    if base == 0:
        raise UnreadableError("a power of zero")
    return complex(base) ** complex(exponent)


def _root(radicand: Number, degree: Number) -> Number:
    if not isinstance(degree, Fraction) or degree.denominator != 1 or degree < 2:
        raise UnreadableError("no root")
    n = degree.numerator
    if radicand == 0:
        return Fraction(0)
    if isinstance(radicand, Fraction) and radicand > 0:
        top, bottom = (_whole_root(part, n) for part in (radicand.numerator, radicand.denominator))
        if top and bottom:
            return Fraction(top, bottom)
    if n > 2 and isinstance(radicand, Fraction | float) and radicand < 0:
        raise UnreadableError("which root?")  # readers mean the real root, sympy another
    return complex(radicand) ** (1 / n)


def _whole_root(number: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(number)
    elif number.bit_length() < 900:
        root = round(float(number) ** (1 / degree))
    else:
        return None
    return root if root**degree == number else None


def _whole(value: Number, most: int) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= most:
        raise UnreadableError("no whole number, or too large a one")
    return value.numerator


def _real(value: Number) -> Fraction | float:
    if isinstance(value, complex):
        raise UnreadableError("no real number")
    return value


_LEAVES: dict[str, Number] = {"pi": math.pi, "imaginary": 1j}
_OPERATIONS: dict[str, Callable[..., Number]] = {
    "°": lambda a: a,  # a unit; a function converts its argument to radians before
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
    "^": _power,
    "root": _root,
    "!": lambda a: Fraction(math.factorial(_whole(a, 3000))),
    "binom": lambda a, b: Fraction(math.comb(_whole(a, 5000), _whole(b, 5000))),
    "abs": abs,
    "floor": lambda a: Fraction(math.floor(_real(a))),
    "ceil": lambda a: Fraction(math.ceil(_real(a))),
}


# Comparing

# Values of variables: fractions without a common pattern. They are positive, so roots and logarithms are defined.
_POINTS = tuple(
    tuple(Fraction(sign * (1009 * k + 7919 * (place + 1) ** 2) % 4001 + 503, 997) for place in range(12))
    for k, sign in ((3, 1), (17, 1), (101, 1))
)


def _at(variables: list[str], point: tuple[Fraction, ...]) -> dict[str, Fraction]:
    if len(variables) > len(point):
        raise UnreadableError("too many variables")
    return dict(zip(variables, point, strict=False))


def close(a: Number, b: Number) -> bool:
    """Return whether numbers are equal: exactly if both are exact, else up to `TOLERANCE`."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    a, b = complex(a), complex(b)
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))


def _near(a: Number, b: Number) -> bool:
    exact = isinstance(a, Fraction) and isinstance(b, Fraction)
    return not exact and abs(complex(a) - complex(b)) <= 1e-6


def same(gold: str, answer: str) -> bool | None:
    """Return whether two expressions are equal, if this can be decided without algebra.

    They are equal if exact values agree: of two fractions, or of two rational functions at three points. The points
    are four-digit fractions, at which different functions of an answer's size differ. They are not equal if their
    values differ.

    Returns:
        None if it is undecided: an expression is not understood, or values only agree in floating point.
    """
    trees = [read(gold), read(answer)]
    if None in trees:
        return None
    variables = sorted(names(trees[0]) | names(trees[1]))  # type: ignore[arg-type]
    exact = True
    compared = False
    for point in _POINTS[: 3 if variables else 1]:
        try:
            left, right = (evaluate(tree, _at(variables, point)) for tree in trees)  # type: ignore[arg-type]
        except (UnreadableError, KeyError):
            exact = False
            continue
        compared = True
        try:
            if not close(left, right):
                # f(x+1) and f(1+x) are different names here, and a difference of large numbers loses digits
                unsure = any("(" in name for name in variables) or _near(left, right)
                return None if unsure else False
        except OverflowError:  # an exact number is too large for floating point
            return None
        exact = exact and isinstance(left, Fraction) and isinstance(right, Fraction)
    return True if exact and compared else None


def proportional(left: str, right: str) -> bool | None:
    """Return whether an expression is a non-zero multiple of the other, or None if it is undecided."""
    trees = [read(left), read(right)]
    if None in trees:
        return None
    variables = sorted(names(trees[0]) | names(trees[1]))  # type: ignore[arg-type]
    factors = []
    for point in _POINTS:
        try:
            a, b = (evaluate(tree, _at(variables, point)) for tree in trees)  # type: ignore[arg-type]
            factors.append(complex(a / b))
        except (UnreadableError, KeyError, ZeroDivisionError, OverflowError):
            return None
    if any("(" in name for name in variables):
        return None
    return all(close(factors[0], factor) and factor != 0 for factor in factors[1:])


def constant(text: str) -> Number | None:
    """Return the value of an expression, or None. With variables, it needs the same value at two points."""
    tree = read(text)
    if tree is None:
        return None
    variables = sorted(names(tree))
    try:
        values = [evaluate(tree, _at(variables, point)) for point in _POINTS[: 2 if variables else 1]]
        return values[0] if all(close(values[0], other) for other in values) else None
    except (UnreadableError, OverflowError):
        return None
