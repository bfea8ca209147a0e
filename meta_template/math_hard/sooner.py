"""math-verify's own verdicts, sooner: what algebra.py changes in math-verify and its parser before it asks them."""

from __future__ import annotations

import functools
import re

_NUMBER = re.compile(r"(-?)(?:(\d{1,300})|(\d+\.\d+)|\\frac\{(\d+)\}\{(\d+)\})")


def quicken() -> None:
    """Have math-verify come to the same verdicts in less time: nearly all of it goes into ANTLR.

    A number is read without ANTLR and without sympy's parser, a text only once, and a tree is built once a shape of
    text, in ANTLR's SLL mode first: it gives the tree of the full mode, or a syntax error, and only then the full mode
    is needed (Parr, Harwell and Fisher 2014, "Adaptive LL(*) Parsing: The Power of Dynamic Analysis"). Two expressions
    that have other values somewhere are not simplified in search of their equality. Where a version of math-verify has
    none of these names, it is only slower.
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
MOST_SHAPES = 1024  # of texts whose trees are kept


def _read_digits(parse):
    import sympy

    def parse_number(converter, text: str):
        return sympy.Integer(text) if re.fullmatch(r"[0-9]{1,300}", text) else parse(converter, text)

    return parse_number


def _once_a_shape(create):
    """Parsers for math-verify: what has the types of tokens of an earlier text has its tree, with these tokens in it.

    The grammar looks at nothing but the types (its predicates ask for precedence alone), so that all numbers with a
    unit, all pairs of numbers are parsed once; what does not parse is not tried again.
    """
    from antlr4.atn.PredictionMode import PredictionMode

    trees: dict = {}  # by mode and types: the tree and its tokens; None where there is none

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
    """A parser that remembers what its ``math`` finds."""

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
    """A parser that is done."""

    def __init__(self, tree) -> None:
        self._tree = tree

    def math(self):
        return self._tree


def _sll_first(plain):
    def read(text: str, **options: object):
        _full_mode[0] = False
        try:
            return plain(text, **options)
        except Exception:  # a syntax error, or what the full mode will raise too
            _full_mode[0] = True
            return plain(text, **options)
        finally:
            _full_mode[0] = True

    return read


def read_number(text: str):
    """What math-verify's parser makes of a number that stands alone; None of all else."""
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
    """Whether two expressions have other values where their variables are put: then they are not equal.

    False where that cannot be told. The points are positive, so that roots and logarithms have a value there.
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
