"""Make math-verify faster without a change of its verdicts. algebra.py calls `quicken` before it uses math-verify."""

from __future__ import annotations

import functools
import re

_NUMBER = re.compile(r"(-?)(?:(\d{1,300})|(\d+\.\d+)|\\frac\{(\d+)\}\{(\d+)\})")


def quicken() -> None:
    """Replace functions of math-verify and its parser by faster ones, which give the same verdicts.

    Nearly all of math-verify's time goes into ANTLR, so less is parsed:

    - A number is read without ANTLR and without sympy's parser.
    - A text is parsed once, and so is a sequence of token types.
    - ANTLR's SLL mode is tried first. It gives the tree of the full mode or a syntax error. Only an error needs the
      full mode (Parr, Harwell and Fisher 2014, "Adaptive LL(*) Parsing: The Power of Dynamic Analysis").
    - Two expressions are not simplified if their values differ at some point.

    A version of math-verify without these functions is only slower.
    """
    from latex2sympy2_extended import latex2sympy2
    from math_verify import grader, parser

    plain, symbolic = getattr(parser, "latex2sympy", None), getattr(grader, "sympy_symbolic_eq", None)
    converter = getattr(latex2sympy2, "_Latex2Sympy", None)
    if hasattr(converter, "create_parser"):
        converter.create_parser = _once_a_shape(converter.create_parser)
        plain = plain and _sll_first(plain)
    if hasattr(converter, "parse_number"):
        converter.parse_number = _read_digits(converter.parse_number)
    if plain:

        @functools.lru_cache(maxsize=4096)
        def read(text: str, **options: object):
            number = read_number(text)
            return plain(text, **options) if number is None else number

        parser.latex2sympy = read
    if symbolic:
        grader.sympy_symbolic_eq = lambda a, b: not differ(a, b) and symbolic(a, b)


_full_mode = [True]
MOST_SHAPES = 1024  # whose trees are kept


def _read_digits(parse):
    import sympy

    def parse_number(converter, text: str):
        return sympy.Integer(text) if re.fullmatch(r"[0-9]{1,300}", text) else parse(converter, text)

    return parse_number


def _once_a_shape(create):
    """Return a function that makes parsers, which reuse the tree of a text with the same token types.

    The new tokens are put into the tree. The grammar depends on token types only, because its predicates only test
    precedence. So all numbers with a unit, or all pairs of numbers, are parsed once. A failure is remembered too.
    """
    from antlr4.atn.PredictionMode import PredictionMode

    trees: dict = {}  # by mode and types: the tree and its tokens, or None if it does not parse

    def create_parser(converter, text: str):
        made = create(converter, text)
        full = _full_mode[0]
        made._interp.predictionMode = PredictionMode.LL if full else PredictionMode.SLL
        stream = made.getTokenStream()
        stream.fill()
        shape = (full, *(token.type for token in stream.tokens))
        if shape not in trees:
            return _Remembering(made, trees, shape)
        if trees[shape] is None:
            raise ValueError("texts of this shape do not parse")
        tree, tokens = trees[shape]
        for token, new in zip(tokens, stream.tokens, strict=True):
            for name in ("source", "start", "stop", "line", "column", "_text"):
                setattr(token, name, getattr(new, name))
        return _Known(tree)

    return create_parser


class _Remembering:
    """A parser that stores the tree of its ``math`` rule."""

    def __init__(self, parser, trees: dict, shape: tuple) -> None:
        self._parser, self._trees, self._shape = parser, trees, shape

    def math(self):
        if len(self._trees) >= MOST_SHAPES:
            self._trees.clear()
        try:
            tree = self._parser.math()
        except (MemoryError, RecursionError):
            raise
        except Exception:
            self._trees[self._shape] = None
            raise
        self._trees[self._shape] = tree, self._parser.getTokenStream().tokens
        return tree


class _Known:
    """A parser that returns a stored tree."""

    def __init__(self, tree) -> None:
        self._tree = tree

    def math(self):
        return self._tree


def _sll_first(plain):
    def read(text: str, **options: object):
        _full_mode[0] = False
        try:
            return plain(text, **options)
        except Exception:  # a syntax error, or an error that the full mode raises too
            _full_mode[0] = True
            return plain(text, **options)
        finally:
            _full_mode[0] = True

    return read


def read_number(text: str):
    """Return the value that math-verify's parser gives for a plain number, or None for other texts."""
    import sympy

    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    sign, whole, decimal, top, bottom = match.groups()
    if bottom is not None and not int(bottom):
        return None
    value = (
        sympy.Integer(whole)
        if whole is not None
        else sympy.Number(decimal.lstrip("0"))
        if decimal is not None
        else sympy.Rational(int(top), int(bottom))
    )
    return -value if sign else value


def differ(a, b) -> bool:
    """Return whether two expressions have different values at a point, so they cannot be equal.

    False also means that it is unknown. The coordinates of the point are positive, so roots and logarithms are defined.
    """
    import sympy

    if not isinstance(a, sympy.Expr) or not isinstance(b, sympy.Expr):
        return False
    try:
        difference = a - b
        names = sorted(difference.free_symbols, key=str)
        point = {name: sympy.Rational(1009 + 7919 * place, 997) for place, name in enumerate(names)}
        value = difference.xreplace(point).evalf(15)
        return bool(value.is_finite and value.is_number and abs(value) > 1e-6)
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError):
        return False
