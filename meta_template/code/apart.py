"""Run a program and its tests in two processes. Calls go to the program's process, and values come back as copies.

The program can therefore reach neither the tests nor the words that prove a pass. Tests compare values of Python's own
types only. An object of a class of the program, which could define its own ``__eq__``, never reaches them.

Some tests need an object that cannot be copied, such as a generator, or more of the program than its function. `test`
then reports it, and `together` runs both in the same process, as the benchmarks' own harnesses do. A program can fake a
pass there, for example by ``__eq__``, so such a pass is marked.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import importlib
import io
import operator
import os
import pickle
import re
import symtable
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

# A process reports to the supervisor in lines: the word of each test that passed. If a test did not pass, a line with
# one of these and a reason follows.
WHY, FAILURE, TOGETHER, ENDED = b"?", b"!", b"=", b"-"
MOST_BYTES = 64 << 20  # of a value

# Further types that tests compare by value, with the arguments that make a copy. pickle copies plain data itself.
_EXACT: dict[type, Callable[[Any], tuple]] = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    collections.Counter: lambda value: (dict(value),),
    collections.OrderedDict: lambda value: (list(value.items()),),
    collections.defaultdict: lambda value: (None, dict(value)),
    collections.deque: lambda value: (list(value), value.maxlen),
    decimal.Decimal: lambda value: (str(value),),
    fractions.Fraction: lambda value: (value.numerator, value.denominator),
    datetime.date: lambda value: (value.year, value.month, value.day),
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
}
_MADE: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in _EXACT}
# The order of a set depends on how it was made. These two ways give that of most literals and calls of set().
_MADE |= {
    f"{kind.__name__}{way}": made
    for kind in (set, frozenset)
    for way, made in enumerate((kind, lambda items, kind=kind: kind(set(items))))
}


class NotByValueError(Exception):
    """A value cannot be copied to the other process."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple | None:
        kind = type(value)
        if kind in _EXACT:
            return (kind.__name__, *_EXACT[kind](value))
        # Numbers and arrays of numbers. A value of numpy exists only if numpy is imported.
        if kind.__module__ == "numpy" and (
            kind.__name__ == "ndarray" or isinstance(value, sys.modules["numpy"].generic)
        ):
            if value.dtype.kind not in "biufc":
                raise NotByValueError
            return ("numpy", kind.__name__ == "ndarray", value.dtype.str, value.shape, value.tobytes())
        return None


class _ArgumentPickler(_Pickler):
    """Keep the order of sets too, on which a program may rely: ``tuple({12, 13, 14, 15, 16})`` begins with 16."""

    def persistent_id(self, value: Any) -> tuple | None:
        kind = type(value)
        if kind not in (set, frozenset):
            return super().persistent_id(value)
        items = list(value)
        for way in (f"{kind.__name__}0", f"{kind.__name__}1"):
            if all(map(operator.is_, _MADE[way](items), items)):
                return way, items
        raise NotByValueError


class _Unpickler(pickle.Unpickler):
    """Read plain data and the types above from a program. Nothing that the data name is looked up or called."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise NotByValueError(f"{module}.{name}")

    def persistent_load(self, made: tuple) -> Any:
        name, *parts = made
        if name == "numpy":
            import numpy

            array, kind, shape, data = parts
            if not re.fullmatch(r"[<>|=][biufc]\d{1,2}", kind):
                raise NotByValueError
            values = numpy.ndarray(shape, kind, data).copy()
            return values if array else values[()]
        return _MADE[name](*parts)


def _dumped(value: Any, pickler: type[_Pickler] = _Pickler) -> bytes:
    into = io.BytesIO()
    pickler(into, protocol=5).dump(value)
    return into.getvalue()


def _loaded(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


def _send(pipe: int, data: bytes) -> None:
    data = len(data).to_bytes(8, "big") + data
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int) -> bytes:
    """Read a message from the other process.

    Raises:
        EOFError: It ended, or sends more than `MOST_BYTES`.
    """

    def exactly(count: int) -> bytes:
        pieces = []
        while count:
            piece = os.read(pipe, min(count, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    size = int.from_bytes(exactly(8), "big")
    if size > MOST_BYTES:
        raise EOFError
    return exactly(size)


# The program's process


def serve(program: dict, asked: int, answers: int) -> None:
    """Run a program, then call its function each time the tests ask for it.

    Each reply is a pair of a word and a value:

    - ``ran``: the names that the program defined, each with whether it is the module of that name. Sent first.
    - ``value``: what the function returned.
    - ``raised``: the name of an exception of the program or its function.
    - ``object``: the function returned something that cannot be copied.
    """
    space = _module("program")
    name = program["entry_point"]
    run = exec
    try:
        run(compile(program["setup"], "<setup>", "exec", dont_inherit=True), space)
        before = dict(space)
        run(compile(program["code"], "<program>", "exec", dont_inherit=True), space)
    except BaseException as error:
        _send(answers, _dumped(("raised", _kind(error))))
        return
    given = {key: value for key, value in space.items() if key not in before or before[key] is not value}
    modules = {key: isinstance(value, types.ModuleType) and value.__name__ == key for key, value in given.items()}
    _send(answers, _dumped(("ran", modules)))
    while True:
        arguments, named = _loaded(_receive(asked))
        try:
            answer = ("value", space[name](*arguments, **named))
        except BaseException as error:
            answer = ("raised", _kind(error))
        try:
            data = _dumped(answer)
            if len(data) > MOST_BYTES:
                raise NotByValueError
        except BaseException:
            data = _dumped(("object", None))
        _send(answers, data)


# The tests' process


def test(program: dict, tests: dict, words: list[str], report: int, asked: int, answers: int) -> None:
    """Run the tests against the function of a program in another process, and report the result."""
    space = _module("tests")
    try:
        codes = [compile(text, "<tests>", "exec", dont_inherit=True) for text in tests["tests"]]
        exec(compile(program["setup"], "<setup>", "exec", dont_inherit=True), space)  # noqa: S102
        helpers: dict = {}
        exec(compile(tests["helpers"], "<setup>", "exec", dont_inherit=True), helpers)  # noqa: S102
    except BaseException as error:
        _tell(report, FAILURE, f"{_described(error, 'the set-up')} ({error})"[:300])
        return
    name = program["entry_point"]

    def ask(*arguments: Any, **named: Any) -> Any:
        try:
            asking = _dumped((arguments, named), _ArgumentPickler)
        except BaseException:
            _leave(report, TOGETHER)
        _send(asked, asking)
        return answer("value")

    def answer(expected: str) -> Any:
        try:
            word, value = _loaded(_receive(answers))
        except NotByValueError:
            word = "object"
        except BaseException:  # the process ended, or sends what no honest program would
            _leave(report, ENDED)
        if word == "object":
            _leave(report, TOGETHER)
        if word == "raised":
            kind = getattr(builtins, value, Exception) if isinstance(value, str) else Exception
            kind = kind if isinstance(kind, type) and issubclass(kind, BaseException) else Exception
            if expected == "ran":
                _leave(report, WHY, f"{kind.__name__} in the program")
            raise kind.__new__(kind)  # __init__ may require arguments
        if word != expected:
            _leave(report, ENDED)
        return value

    given = answer("ran")
    ask.__name__ = ask.__qualname__ = name
    for needed in _needed(tests["tests"]):
        if needed in given and needed == name:
            space[name] = ask
        elif needed in helpers and needed != name:
            space[needed] = helpers[needed]
        elif given.get(needed) is True and needed in sys.stdlib_module_names:
            space[needed] = importlib.import_module(needed)
        elif needed in given:
            _leave(report, TOGETHER)
    _run_tests(codes, space, words, report)


def _needed(tests: list[str]) -> set[str]:
    """Return the names that tests use and do not define."""
    used, made = set(), set()

    def look(table: symtable.SymbolTable) -> None:
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if top or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported():
                    made.add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
        for child in table.get_children():
            look(child)

    for text in tests:
        look(symtable.symtable(text, "<tests>", "exec"))
    return used - made


# Both in the same process


def together(program: dict, tests: dict, words: list[str], report: int) -> None:
    """Run the program, then its tests, in one name space, as the benchmarks do."""
    run = exec  # the program may replace exec
    # Compile before the program runs, because it may break the compiler.
    setup = compile(program["setup"], "<setup>", "exec", dont_inherit=True)
    codes = [compile(text, "<tests>", "exec", dont_inherit=True) for text in tests["tests"]]
    space = _module("program")
    try:
        run(setup, space)
        run(compile(program["code"], "<program>", "exec", dont_inherit=True), space)
    except BaseException as error:
        _tell(report, WHY, _described(error, "the program"))
        return
    _run_tests(codes, space, words, report)


def _run_tests(codes: list[types.CodeType], space: dict, words: list[str], report: int) -> None:
    run, write, tell, described = exec, os.write, _tell, _described
    try:
        for code, word in zip(codes, words, strict=True):
            run(code, space)
            write(report, word.encode() + b"\n")
    except BaseException as error:
        tell(report, WHY, described(error, "the tests"))


def _module(name: str) -> dict:
    """Make an importable module, which pickle and dataclasses need, and return its names.

    Its name is not __main__, so the part of a program for use as a script does not run.
    """
    sys.modules[name] = types.ModuleType(name)
    return sys.modules[name].__dict__


def _described(error: BaseException, stage: str) -> str:
    """Describe an exception and its place in words that are the same on every version of Python."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{_kind(error)} in {stage}" + (f", line {line}" if line and stage == "the tests" else "")


def _kind(error: BaseException) -> str:
    """Return the name of an exception's first built-in class. A program could give its own class any name."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _tell(report: int, kind: bytes, reason: str = "") -> None:
    os.write(report, kind + reason.replace("\n", " ").encode("ascii", "backslashreplace") + b"\n")


def _leave(report: int, kind: bytes, reason: str = "") -> NoReturn:
    _tell(report, kind, reason)
    os._exit(0)
