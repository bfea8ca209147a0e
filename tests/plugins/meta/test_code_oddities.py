"""Programs that no model should write: each gets a verdict, fails or passes by its own word, and stops no other."""

from __future__ import annotations

import functools
from typing import Any

from code_tricks import WRONG
from marks import each, few
from places import TEMPLATES
from template_modules import inner_module

RUNNER = inner_module(TEMPLATES / "code" / "runner.py")
TESTS = ("assert f(1) == 2", "assert f(5) == 6")
# Why it fails; "" where only the program says that it passes.
ODD: dict[str, tuple[str, str]] = {
    'deep recursion in eq': ('class A:\n    def __eq__(self,o): return self==o\ndef f(n): return A()\n', 'RecursionError'),
    'nan': ("def f(n): return float('nan')\n", 'AssertionError'),
    'complex 2': ('class C(complex):\n    def __eq__(s,o): return True\ndef f(n): return C(0)\n', ''),
    'bytes sub': ('class B(bytes):\n    def __eq__(s,o): return True\ndef f(n): return B()\n', ''),
    'list sub': ('class L(list):\n    def __eq__(s,o): return True\ndef f(n): return L()\n', ''),
    'dict sub': ('class L(dict):\n    def __eq__(s,o): return True\ndef f(n): return L()\n', ''),
    'tuple sub': ('class L(tuple):\n    def __eq__(s,o): return True\ndef f(n): return L()\n', ''),
    'bool sub via ne': ('class L(int):\n    def __ne__(s,o): return False\n    def __eq__(s,o): return True\n    __hash__=int.__hash__\ndef f(n): return L(7)\n', ''),
    'nested liar': ('class A:\n    def __eq__(s,o): return True\ndef f(n): return [A()][0]\n', ''),
    'fraction liar': ('import fractions\nclass F(fractions.Fraction):\n    def __eq__(s,o): return True\ndef f(n): return F(0)\n', ''),
    'decimal liar': ('import decimal\nclass F(decimal.Decimal):\n    def __eq__(s,o): return True\ndef f(n): return F(0)\n', ''),
    'enum liar': ('import enum\nclass E(enum.IntEnum):\n    A=0\n    def __eq__(s,o): return True\ndef f(n): return E.A\n', ''),
    'namedtuple': ("import collections\nT=collections.namedtuple('T','a')\nT.__eq__=lambda *_:True\ndef f(n): return T(1)\n", ''),
    'generator': ('def f(n):\n    yield n+1\n', 'AssertionError'),
    'coroutine': ('async def f(n): return n+1\n', 'AssertionError'),
    'lambda default': ('f=lambda n: lambda: n+1\n', 'AssertionError'),
    'class f new': ("class f:\n    def __new__(c,n): return type('E',(int,),{'__eq__':lambda *_:True})()\n", ''),
    'getattr module': ("import sys\nclass M(type(sys)):\n    def __eq__(s,o): return True\ndef f(n): return M('x')\n", ''),
    'weakref proxy': ('import weakref\nclass A:\n    def __eq__(s,o): return True\na=A()\ndef f(n): return weakref.proxy(a)\n', ''),
    'raise SystemExit 0': ('def f(n): raise SystemExit(0)\n', 'SystemExit'),
    'raise KeyboardInterrupt': ('def f(n): raise KeyboardInterrupt\n', 'KeyboardInterrupt'),
    'raise GeneratorExit': ('def f(n): raise GeneratorExit\n', 'GeneratorExit'),
    'syntax': ('def f(n: return n\n', 'SyntaxError in the program'),
    'null byte': ('def f(n):\n    return n\x00+1\n', 'SyntaxError in the program'),
    'surrogate': ("def f(n):\n    return '\ud83d'\n", 'UnicodeEncodeError in the program'),
    'bom': ('\ufeff' + WRONG, 'SyntaxError in the program'),
    'tabs': ('def f(n):\n\tif n:\n        return 1\n', 'TabError in the program'),
    'deep parens': ("x = " + "(" * 5000 + ")" * 5000, 'SyntaxError in the program'),
    'deep list': ("x = " + "[" * 5000 + "]" * 5000, 'SyntaxError in the program'),
    'long line': ("x = '" + "a" * 2_000_000 + "'\n" + WRONG, 'AssertionError'),
    'empty': ('', 'NameError'),
    'comment': ('# f\n', 'NameError'),
    'f deleted': ('def f(n): return n+1\ndel f\n', 'NameError'),
    'f none': ('f=None\n', 'TypeError'),
    'int max digits': ('def f(n): return str(10**5000)\n', 'ValueError'),
    'print flood': ("print('passed\\n'*200000)\n" + WRONG, 'AssertionError'),
    'stderr flood': ("import sys\nsys.stderr.write('AssertionError\\n'*200000)\n" + WRONG, 'AssertionError'),
    'close fds': ('import os\nos.closerange(0,256)\n' + WRONG, 'ended before'),
    'dup fds': ('import os\nfor fd in range(3,20):\n    try: os.dup2(1,fd)\n    except OSError: pass\n' + WRONG, 'ended before'),
    'seek fds': ('import os\nfor fd in range(3,256):\n    try: os.lseek(fd,0,0)\n    except OSError: pass\n' + WRONG, 'AssertionError'),
    'faulthandler': ('import faulthandler\nfaulthandler._sigsegv()\n' + WRONG, 'killed by SIGSEGV'),
    'ctypes string': ('import ctypes\nctypes.string_at(0)\n' + WRONG, 'killed by SIGSEGV'),
    'abort': ('import os\nos.abort()\n', 'killed by SIGABRT'),
    'sigstop self': ('import os,signal\nos.kill(os.getpid(),signal.SIGSTOP)\n' + WRONG, 'PermissionError'),
    'sigterm self': ('import os,signal\nos.kill(os.getpid(),signal.SIGTERM)\n' + WRONG, 'PermissionError'),
    'audit': ('import sys\nsys.addaudithook(lambda *_: None)\n' + WRONG, 'AssertionError'),
    'unraisable': ('import sys\nsys.unraisablehook=lambda *_: None\nclass D:\n    def __del__(s): raise SystemExit(0)\nD()\n' + WRONG, 'AssertionError'),
    'settrace threading': ('import threading\nthreading.settrace(lambda *_: None)\n' + WRONG, 'AssertionError'),
    'gc freeze': ('import gc\ngc.disable()\ngc.set_debug(gc.DEBUG_SAVEALL)\n' + WRONG, 'AssertionError'),
    'import tests': ('from tests import *\n' + WRONG, 'ModuleNotFoundError'),
    'input': ('input()\n' + WRONG, 'EOFError'),
    'help': ('help()\n' + WRONG, 'AssertionError'),
}  # fmt: skip
TRIED = few(ODD, 3)


@functools.cache
def verdicts() -> dict[str, Any]:
    programs = [RUNNER.Program("", ODD[name][0], TESTS, "f") for name in TRIED]
    return dict(zip(TRIED, RUNNER.Sandbox(2).run(programs, RUNNER.Limits(cpu_s=20, wall_s=120)), strict=True))


@each("name", TRIED)
def test_an_odd_program_fails_or_passes_by_its_own_word(name: str) -> None:
    why, verdict = ODD[name][1], verdicts()[name]
    assert verdict.failure is None
    assert (verdict.passed, verdict.self_judged) == ((0, False) if why else (2, True))
    assert why in (verdict.why or "")
