"""The answering side of math_grader.py, a script: are two answers equal by computer algebra?"""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import sys
from pathlib import Path


def main(settings: dict) -> None:
    """Answer requests from stdin until it closes."""
    sys.path[:] = settings["path"]
    gc.disable()  # what is imported stays
    for unused in ("numpy", "scipy"):  # sympy loads them where it finds them, and nothing here needs them
        sys.modules[unused] = None
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not look like a reply
    _limit_memory(settings["memory_bytes"])
    try:
        methods = {"sympy": _when_asked(_sympy_method), "math_verify": _math_verify_method()}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # ImportError as a rule, but antlr4 has its own way to refuse a version
        replies.write(json.dumps({"missing": f"{type(error).__name__}: {error}"}) + "\n")
        return
    replies.write(json.dumps({"missing": None}) + "\n")
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # expressions are many objects and few cycles
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


def _when_asked(method):
    """A method that is made when it is first called, for most answers never ask it; at once where it may not work here.

    sympy's LaTeX parser takes a fifth of a second to load, and so far wants this version of the antlr4 runtime.
    """
    if not importlib.metadata.version("antlr4-python3-runtime").startswith("4.11."):
        return method()
    made = functools.cache(method)

    def equal(gold: str, answer: str) -> bool:
        return made()(gold, answer)

    return equal


def _beside(name: str):
    """A module of this folder: the script is isolated from it."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).resolve().with_name(name))
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # grading leaves nothing in a pack
    try:
        spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    finally:
        sys.dont_write_bytecode = wrote
    return module


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
    from math_verify import parse, verify

    _beside("sooner.py").quicken()

    @functools.lru_cache(maxsize=1024)
    def parsed(gold: str):
        return parse(rf"\boxed{{{gold}}}", parsing_timeout=None)

    def equal(gold: str, output: str) -> bool:
        return bool(verify(parsed(gold), parse(output, parsing_timeout=None), timeout_seconds=None))

    return equal


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
