r"""Parse a LaTeX expression without sympy.

A tree is ("number", value), ("name", text), ("pi",), ("imaginary",), ("function", name, tree) or (operator, tree…).
Ambiguous and unknown expressions raise `UnreadableError`. Nothing is guessed, and Python's own parser is never used.

The text must have the form that normalise.py returns. It has spaces only after commands, and the arguments of fractions
and roots are in braces.
"""

import functools
import itertools
import re
from fractions import Fraction

LONGEST = 400  # characters; a final answer is never longer
DEEPEST = 40  # brackets and functions in each other
MOST_LEVELS = 120  # of a tree. What walks it needs two or three frames a level, of the 1,000 that Python has

Tree = tuple


class UnreadableError(ValueError):
    """The expression is not understood, or has no value."""


_TOKEN = re.compile(
    r"""(?P<number>\d+(?:\.\d*)?(?:\\overline\{\d+\})?|\.\d+(?:\\overline\{\d+\})?|\.\\overline\{\d+\})
    |(?P<command>\\[A-Za-z]+)
    |(?P<word>sqrt|pi(?![a-z])|arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log)(?=\(|pi|$|[-+*/^)}])
    |(?P<opaque>[fghpqFGHPQ]\([^()]*\))
    |(?P<name>[A-Za-z](?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]+\}))?'*)
    |(?P<sign>\*\*|[-+*/^(){}\[\]|!°:])
    |(?P<space>\ )""",
    re.VERBOSE,
)
_TIMES = frozenset((r"\cdot", r"\times", "*"))
_OVER = frozenset((r"\div", "/"))
_GREEK = frozenset(
    re.findall(
        r"\\[A-Za-z]+",
        r"\alpha\beta\gamma\delta\epsilon\varepsilon\zeta\eta\theta\vartheta\kappa\lambda\mu\nu\xi\rho\sigma\tau\phi"
        r"\varphi\chi\psi\omega\Gamma\Delta\Theta\Lambda\Sigma\Phi\Psi\Omega\ell",
    )
)
FUNCTIONS = frozenset(
    ["sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "log", "exp"]
)
_CLOSING = {"(": ")", "{": "}", "[": "]", "|": "|"}
_ENDS = frozenset((None, "+", "-", ")", "}", "]", "|", ":", "°", "!")) | _TIMES | _OVER


class _Reader:
    """A recursive descent parser."""

    def __init__(self, expression: str) -> None:
        if len(expression) > LONGEST:
            raise UnreadableError("too long")
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(expression):
            match = _TOKEN.match(expression, at)
            if match is None:
                raise UnreadableError(f"{expression[at]!r} is no part of a number")
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup or "", match[0]))
            at = match.end()
        self.at = 0
        self.depth = 0

    def all(self) -> Tree:
        tree = self.sum()
        if self.peek() == ":":  # a ratio
            self.at += 1
            tree = ("/", tree, self.sum())
        if self.at < len(self.tokens):
            raise UnreadableError(f"{self.peek()!r} is not expected")
        return tree

    def peek(self) -> str | None:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise UnreadableError(f"{wanted!r} is missing")
        self.at += 1

    def sum(self) -> Tree:
        sign = self._sign()
        tree = self.product()
        tree = ("neg", tree) if sign < 0 else tree
        while self.peek() in ("+", "-"):
            sign = self._sign()
            tree = ("+" if sign > 0 else "-", tree, self.product())
        return tree

    def _sign(self) -> int:
        sign = 1
        while self.peek() in ("+", "-"):
            sign = -sign if self.peek() == "-" else sign
            self.at += 1
        return sign

    def product(self) -> Tree:
        tree = self.factor()
        divided = False  # 1/2x is ambiguous
        while True:
            text = self.peek()
            if text in _TIMES or text in _OVER:
                self.at += 1
                sign = self._sign()
                factor = self.factor()
                factor = ("neg", factor) if sign < 0 else factor
                divided = text == "/"
                tree = ("/" if text in _OVER else "*", tree, factor)
            elif text in _ENDS:
                return tree
            elif divided:
                raise UnreadableError("what is divided by?")
            else:
                tree = self._beside(tree)

    def _beside(self, tree: Tree) -> Tree:
        r"""Join adjacent factors to a product, or ``1\frac{1}{2}`` to a sum. Two numbers are refused."""
        whole = tree[0] == "number" and self.tokens[self.at - 1][1].isdigit()
        kind, text = self.tokens[self.at]
        if kind == "number":
            raise UnreadableError("two numbers side by side")
        factor = self.factor()
        if whole and text == r"\frac" and factor[0] == "/" and factor[1][0] == factor[2][0] == "number":
            return ("+", tree, factor)
        return ("*", tree, factor)

    def factor(self) -> Tree:
        tree = self.atom()
        while True:
            text = self.peek()
            if text in ("^", "**"):
                self.at += 1
                tree = ("^", tree, self._exponent())
            elif text == "!":
                self.at += 1
                tree = ("!", tree)
            elif text == "°":
                self.at += 1
                tree = ("°", tree)
            else:
                return tree

    def _exponent(self) -> Tree:
        if self.peek() == "-":
            self.at += 1
            return ("neg", self.atom())
        return self.atom()

    def atom(self) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("too deep")
        tree = self._atom()
        self.depth -= 1
        return tree

    def _atom(self) -> Tree:
        if self.at >= len(self.tokens):
            raise UnreadableError("it ends too early")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return ("number", _decimal(text))
        if kind in ("name", "opaque") or text in _GREEK:
            return ("imaginary",) if text == "i" else ("name", text)
        if text in (r"\pi", "pi"):
            return ("pi",)
        if text in _CLOSING:
            tree = self.sum()
            self.take(_CLOSING[text])
            return ("abs", tree) if text == "|" else tree
        return self._command(text.removeprefix("\\"))

    def _command(self, name: str) -> Tree:
        if name == "frac":
            return ("/", self._braced(), self._braced())
        if name == "binom":
            return ("binom", self._braced(), self._braced())
        if name == "sqrt":
            if self.peek() == "(":
                return ("root", self.atom(), ("number", Fraction(2)))
            degree: Tree = ("number", Fraction(2))
            if self.peek() == "[":
                degree = self.atom()
            return ("root", self._braced(), degree)
        if name in ("lfloor", "lceil"):
            tree = self.sum()
            self.take(rf"\r{name[1:]}")
            return (name[1:], tree)
        if name in FUNCTIONS:
            return self._function(name)
        raise UnreadableError(f"{name} is not known")

    def _function(self, name: str) -> Tree:
        power: Tree | None = None
        if self.peek() == "^":
            self.at += 1
            power = self.atom()
            if power != ("number", Fraction(2)):
                raise UnreadableError("an inverse or a power?")
        if self.peek() in ("(", "{"):
            argument = self.factor()
        else:  # \sin 2x: the argument ends at the next sign or function
            argument = self.factor()
            while self.peek() not in _ENDS and self.tokens[self.at][0] in ("number", "name"):
                argument = self._beside(argument)
            if self.peek() not in ("+", "-", ")", "}", "]", None, *_TIMES) and not self._next_is_function():
                raise UnreadableError("where does the argument end?")
        if self.peek() == "°":
            raise UnreadableError("degrees of what?")
        tree: Tree = ("function", name, argument)
        return ("^", tree, power) if power else tree

    def _next_is_function(self) -> bool:
        return (self.peek() or "").removeprefix("\\") in FUNCTIONS

    def _braced(self) -> Tree:
        self.take("{")
        tree = self.sum()
        self.take("}")
        return tree


def _decimal(text: str) -> Fraction:
    r"""Return the exact value of a decimal. ``0.1\overline{6}`` is 1/6."""
    fixed, _, repeated = text.partition(r"\overline{")
    if not repeated:
        return Fraction(fixed.rstrip(".") or "0")
    digits = repeated.rstrip("}")
    whole, _, places = fixed.partition(".")
    if "." not in fixed:
        raise UnreadableError("a line over a whole number")
    return (Fraction(f"{whole}{places}{digits}" or "0") - Fraction(f"{whole}{places}" or "0")) / (
        10 ** len(places) * (10 ** len(digits) - 1)
    )


@functools.lru_cache(maxsize=8192)
def read(text: str) -> Tree | None:
    """Return the tree of an expression, or None if it is not understood."""
    try:
        tree = _Reader(text).all()
    except (UnreadableError, IndexError):
        return None
    return None if _is_deep(tree) else tree


def _is_deep(tree: Tree) -> bool:
    """Return whether a tree has more than `MOST_LEVELS` levels, as a sum of many terms has."""
    level: list = [tree]
    for _ in range(MOST_LEVELS):
        level = [part for node in level for part in node[1:] if isinstance(part, tuple)]
        if not level:
            return False
    return True


def names(tree: Tree) -> frozenset[str]:
    """Return the variables of a tree."""
    if tree[0] == "name":
        return frozenset((tree[1],))
    return frozenset(itertools.chain.from_iterable(names(part) for part in tree[1:] if isinstance(part, tuple)))
