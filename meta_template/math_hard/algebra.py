"""The answering side of math_grader.py, a script: are two answers equal by computer algebra?"""

from __future__ import annotations

import json
import os
import re
import signal
import sys


def main(settings: dict) -> None:
    """Answer requests from stdin until it closes."""
    sys.path[:] = settings["path"]
    for unused in ("numpy", "scipy"):  # sympy loads them where it finds them, and nothing here needs them
        sys.modules[unused] = None
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not look like a reply
    _limit_memory(settings["memory_bytes"])
    try:
        methods = {"sympy": _sympy_method(), "math_verify": _math_verify_method()}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # ImportError as a rule, but antlr4 has its own way to refuse a version
        replies.write(json.dumps({"missing": f"{type(error).__name__}: {error}"}) + "\n")
        return
    replies.write(json.dumps({"missing": None}) + "\n")
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        # The limit is of this process's own work, so that a verdict is the same on a machine that has much to do. If
        # the asking process was killed nobody ends this one: then the alarm does.
        signal.setitimer(signal.ITIMER_PROF, settings["limit_s"])
        signal.setitimer(signal.ITIMER_REAL, settings["orphan_s"])
        method, gold, answer = json.loads(line)
        equal, failure = False, None
        try:
            equal = methods[method](gold, answer)
        except Exception as error:
            failure = f"{type(error).__name__}: {str(error)[:200]}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(json.dumps({"equal": equal, "failure": failure}) + "\n")


def _limit_memory(memory_bytes: int) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    except (OSError, ValueError):  # macOS refuses; the time limit still stands
        return


def _sympy_method():
    """Are two expressions equal to sympy? The recipe's question: does their difference simplify to 0."""
    import sympy
    from sympy.parsing.latex import parse_latex

    # sympy reads a mixed number as a product: 1\frac{1}{2} would equal \frac{1}{2}.
    mixed_number = re.compile(r"(-?)(\d+)(\\[dt]?frac\{\d+\}\{\d+\})")
    constants = {sympy.Symbol("i"): sympy.I, sympy.Symbol("pi"): sympy.pi}

    def spelled_out(answer: str) -> str:
        mixed = mixed_number.fullmatch(answer)
        return rf"{mixed[1]}({mixed[2]}+{mixed[3]})" if mixed else answer

    def parsed(answer: str):
        # strict, for otherwise the parser stops at the first thing that it does not understand and returns what it
        # has: "1}^{2020}" would equal 1.
        return parse_latex(spelled_out(answer), strict=True).subs(constants)

    def equal(gold: str, answer: str) -> bool:
        try:
            left, right = parsed(gold), parsed(answer)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # not an expression to sympy: words, tuples, matrices
            return False
        if left == right:
            return True
        if divides_by_zero(left) or divides_by_zero(right):
            return False  # no number; sympy finds it equal to 0 from one side and not from the other
        try:
            difference = left - right
            if difference.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
                return False  # infinity is itself alone
            zero = vanishes(difference, left)
            return bool(sympy.simplify(difference) == 0) if zero is None else zero
        except (TypeError, ValueError, AttributeError, NotImplementedError):  # not comparable: x < 3 and a number
            return False

    def divides_by_zero(expression) -> bool:
        return any(power.exp.is_negative and power.base.is_zero for power in expression.atoms(sympy.Pow))

    def vanishes(difference, part) -> bool | None:
        """By thirty digits, as sympy may fail to prove a number 0, or take seconds; None where they do not tell."""
        if not difference.is_number or difference.is_rational:
            return None
        value = difference.evalf(30, maxn=200)
        scale = abs(part.evalf(15)) + 1
        if not value.is_number or not scale.is_number:
            return None
        if abs(value) > scale * sympy.Float("1e-25"):
            return False
        return True if abs(value) <= scale * sympy.Float("1e-28") else None

    parsed(r"\frac{1}{2}")  # raises ImportError when the antlr4 runtime has a version that the parser refuses
    return equal


def _math_verify_method():
    """math-verify on the whole output, with its own time limits off: users saw it hang past them."""
    import functools

    from math_verify import parse, verify

    quicken_math_verify()

    @functools.lru_cache(maxsize=1024)
    def parsed(gold: str):
        return parse(rf"\boxed{{{gold}}}", parsing_timeout=None)

    def equal(gold: str, output: str) -> bool:
        return bool(verify(parsed(gold), parse(output, parsing_timeout=None), timeout_seconds=None))

    return equal


# math-verify's verdicts, sooner

_NUMBER = re.compile(r"(-?)(?:(\d{1,300})|(\d+\.\d+)|\\frac\{(\d+)\}\{(\d+)\})")


def quicken_math_verify() -> None:
    """Have math-verify come to the same verdicts in a fifth of the time: nearly all of it goes into ANTLR.

    A number is read without ANTLR, and a text only once. Other texts are parsed in ANTLR's SLL mode first: it gives the
    tree of the full mode, or a syntax error, and only then the full mode is needed (Parr, Harwell and Fisher 2014,
    "Adaptive LL(*) Parsing: The Power of Dynamic Analysis"). Two expressions that have other values somewhere are not
    simplified in search of their equality. Where a version of math-verify has none of these names, it is only slower.
    """
    import functools

    from latex2sympy2_extended import latex2sympy2
    from math_verify import grader, parser

    plain, symbolic = getattr(parser, "latex2sympy", None), getattr(grader, "sympy_symbolic_eq", None)
    converter = getattr(latex2sympy2, "_Latex2Sympy", None)
    if hasattr(converter, "create_parser"):
        converter.create_parser = _two_stages(converter.create_parser)
        plain = plain and _sll_first(plain)
    if plain:

        @functools.lru_cache(maxsize=4096)
        def read(text: str, **options: object):
            number = read_number(text)
            return plain(text, **options) if number is None else number

        parser.latex2sympy = read
    if symbolic:
        grader.sympy_symbolic_eq = lambda a, b: not differ(a, b) and symbolic(a, b)


_full_mode = [True]


def _two_stages(create):
    from antlr4.atn.PredictionMode import PredictionMode

    def create_parser(converter, text: str):
        made = create(converter, text)
        made._interp.predictionMode = PredictionMode.LL if _full_mode[0] else PredictionMode.SLL
        return made

    return create_parser


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

    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    sign, whole, decimal, top, bottom = found.groups()
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


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
