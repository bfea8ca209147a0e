"""A script that compares answers by computer algebra. math_grader.py starts it and sends requests."""

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
    gc.disable()  # imported objects stay, so collecting them is useless
    for unused in ("numpy", "scipy"):  # sympy loads them if they are installed, but nothing here needs them
        sys.modules[unused] = None
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library's output must not look like a reply
    _limit_memory(settings["memory_bytes"])
    try:
        methods = {"sympy": _when_asked(_sympy_method), "math_verify": _math_verify_method()}
    except (MemoryError, OSError):
        raise
    except Exception as error:  # usually ImportError, but antlr4 refuses a version by another error
        replies.write(json.dumps({"missing": f"{type(error).__name__}: {error}"}) + "\n")
        return
    replies.write(json.dumps({"missing": None}) + "\n")
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # expressions are many objects and few cycles
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        # The first limit counts CPU time, so a verdict is the same on a busy machine. The second ends this process if
        # the asking process was killed.
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
    """Return a method that is set up at its first call, because most answers never need it.

    sympy's LaTeX parser takes 0.2 s to load. So far it requires version 4.11 of the antlr4 runtime. With any other
    version the method is set up immediately, so an error is reported at the start.
    """
    if not importlib.metadata.version("antlr4-python3-runtime").startswith("4.11."):
        return method()
    made = functools.cache(method)

    def equal(gold: str, answer: str) -> bool:
        return made()(gold, answer)

    return equal


def _beside(name: str):
    """Import a module of this folder, which is not on the path of this script."""
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
    except (OSError, ValueError):  # macOS refuses; the time limit still applies
        return


def _sympy_method():
    """Return a method that tests by sympy, as the recipe, whether the difference of two expressions simplifies to 0."""
    import sympy
    from sympy.parsing.latex import parse_latex

    # sympy reads a mixed number as a product: 1\frac{1}{2} would equal \frac{1}{2}.
    mixed_number = re.compile(r"(-?)(\d+)(\\[dt]?frac\{\d+\}\{\d+\})")
    constants = {sympy.Symbol("i"): sympy.I, sympy.Symbol("pi"): sympy.pi}

    def spelled_out(answer: str) -> str:
        mixed = mixed_number.fullmatch(answer)
        return rf"{mixed[1]}({mixed[2]}+{mixed[3]})" if mixed else answer

    def parsed(answer: str):
        # strict, because otherwise the parser stops at the first text that it does not understand, and returns the part
        # before: "1}^{2020}" would equal 1.
        return parse_latex(spelled_out(answer), strict=True).subs(constants)

    def equal(gold: str, answer: str) -> bool:
        try:
            left, right = parsed(gold), parsed(answer)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # sympy cannot read it: words, tuples, matrices
            return False
        if left == right:
            return True
        if divides_by_zero(left) or divides_by_zero(right):
            return False  # not a number; sympy's comparison with 0 would depend on the order
        try:
            difference = left - right
            if difference.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
                return False  # infinity equals only itself
            zero = vanishes(difference, left)
            return bool(sympy.simplify(difference) == 0) if zero is None else zero
        except (TypeError, ValueError, AttributeError, NotImplementedError):  # not comparable: x < 3 and a number
            return False

    def divides_by_zero(expression) -> bool:
        return any(power.exp.is_negative and power.base.is_zero for power in expression.atoms(sympy.Pow))

    def vanishes(difference, part) -> bool | None:
        """Return whether a number is 0 by its first 30 digits, or None if they do not decide.

        sympy may fail to prove it, or take seconds.
        """
        if not difference.is_number or difference.is_rational:
            return None
        value = difference.evalf(30, maxn=200)
        scale = abs(part.evalf(15)) + 1
        if not value.is_number or not scale.is_number:
            return None
        if abs(value) > scale * sympy.Float("1e-25"):
            return False
        return True if abs(value) <= scale * sympy.Float("1e-28") else None

    parsed(r"\frac{1}{2}")  # raises ImportError if the parser refuses the version of the antlr4 runtime
    return equal


def _math_verify_method():
    """Return a method that calls math-verify on the whole output.

    math-verify's own time limits are off, because users saw it run past them.
    """
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
